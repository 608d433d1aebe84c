from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from threadpoolctl import threadpool_limits

from autotrascale import BenefitModel
from autotrascale.app.console import OutputFormat
from autotrascale.app.warm_start import WarmStart
from autotrascale.cli import main
from autotrascale.cli.tuning_output import create_listener
from autotrascale.domain.errors import EngineError
from autotrascale.domain.job import Job
from autotrascale.domain.target import Target
from autotrascale.domain.topology import Topology
from autotrascale.domain.trial import Sink, Trial, Verdict
from autotrascale.execute.simulator.engine import SimulatorEngine
from autotrascale.tuning import TuningSettings
from autotrascale.views.sink_text import describe_sink


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Ten by ten matrices on as many threads as there are cores wait for each other, and long on a busy machine."""
    with threadpool_limits(1):
        yield


ROOT = Path(__file__).parents[2]
CONFIGS = sorted((ROOT / "configs").glob("*-simulated.yaml"))
KEYS = ["job", "run_id", "rate", "simulated", "floor", "best", "met_target", "evaluations", "stop_reason"]

SMALL: dict[str, Any] = {
    "job": "small",
    "p_max": 9,
    "source_rates": {"source": 100.0},
    "operators": {"source": {}, "work": {"upstream": ["source"]}},
    "target": {"latency_seconds": 0.2},
    "tuning": {"total_trials": 6},
    "simulator": {"operators": {"source": {"service_seconds": 0.005}, "work": {"service_seconds": 0.015}}},
}


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main.main(["tune", "--store", "none", *map(str, arguments)])
    return int(ended.value.code or 0)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return job_file(tmp_path)


def job_file(folder: Path, **changes: Any) -> Path:
    path = folder / "small.yaml"
    path.write_text(yaml.safe_dump({**SMALL, **changes}, sort_keys=False))
    return path


def answer(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> dict[str, Any]:
    capsys.readouterr()
    assert run("--format", "json", *arguments) == code
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
def test_our_simulated_jobs_are_tuned_and_say_so(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, config, "--seed", 1)
    assert [key for key in found if key in KEYS] == KEYS
    assert list(found["best"]) == ["parallelism", "latency_seconds", "throughput", "score"]
    file = yaml.safe_load(config.read_text())
    assert found["job"] == file["job"]
    assert found["rate"] == sum(file["source_rates"].values())
    assert found["simulated"] is True
    assert found["run_id"] is None  # no store, no run
    assert list(found["floor"]) == list(found["best"]["parallelism"]) == list(file["operators"])
    assert all(file["p_max"] >= k >= found["floor"][name] for name, k in found["best"]["parallelism"].items())
    assert found["met_target"] is True
    assert found["best"]["latency_seconds"] <= file["target"]["latency_seconds"]
    assert found["stop_reason"] == "target-met"
    assert 0 < found["evaluations"] <= file["tuning"].get("total_trials", TuningSettings().total_trials)


def test_json_stands_alone_on_stdout_in_a_process_of_its_own(small: Path) -> None:
    command = [sys.executable, "-m", "autotrascale.cli.main", "tune", str(small), "--store", "none", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert json.loads(done.stdout)["job"] == "small"
    lines = done.stderr.splitlines()
    assert lines
    assert all(line.split()[0] in ("floor", "search", "confirm") for line in lines)


def test_the_table_explains_every_operator_and_says_simulated(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(small) == 0
    out, err = capsys.readouterr()
    assert err.startswith("tuning small, simulated: ")
    assert "small (simulated) holds 200 ms at 100 records/s with source " in out
    explained = [line.split() for line in out.splitlines() if line.startswith("  ") and "the floor is " in line]
    assert [words[0] for words in explained] == ["source", "work"]


def test_the_same_seed_gives_the_same_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    noisy = job_file(tmp_path, simulator={**SMALL["simulator"], "noise": 0.1}, target={"latency_seconds": 0.045})
    once, again = (answer(capsys, noisy, "--seed", 3) for _ in range(2))
    assert once == again
    latencies = {answer(capsys, noisy, "--seed", seed)["best"]["latency_seconds"] for seed in (3, 4, 5)}
    assert len(latencies) == 3


def test_the_rate_may_be_given(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, small, "--rate", 300)
    assert found["rate"] == 300.0
    assert found["floor"] == {"source": 2, "work": 5}


def test_the_trials_may_be_given_and_too_few_are_exit_code_3(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, small, "--total-trials", 1, code=3)
    assert (found["evaluations"], found["met_target"], found["stop_reason"]) == (1, False, "budget")
    assert found["best"]["score"] is None


def test_a_target_out_of_reach_is_exit_code_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hard = job_file(tmp_path, target={"latency_seconds": 1e-4})
    found = answer(capsys, hard, "--total-trials", 4, code=3)
    assert (found["met_target"], found["stop_reason"], found["evaluations"]) == (False, "budget", 4)
    assert run(hard, "--total-trials", 3) == 3
    assert "small (simulated) does not hold 0.1 ms at 100 records/s" in capsys.readouterr().out


def test_a_rate_out_of_reach_is_exit_code_3(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, small, "--rate", 1e6, code=3)
    assert found["stop_reason"] == "rate-out-of-reach"
    assert found["best"]["latency_seconds"] is None


def broken(monkeypatch: pytest.MonkeyPatch, *numbers: int) -> None:
    """Trials of these numbers fail as they do when a host breaks."""
    ran = SimulatorEngine.run

    def breaks(self: SimulatorEngine, k: Mapping[str, int], rates: Mapping[str, float]) -> Trial:
        trial = ran(self, k, rates)
        if self.runs not in numbers:
            return trial
        return Trial(dict(k), Verdict.FAILED, detail="the host is gone; its log is /tmp/driver.log")

    monkeypatch.setattr(SimulatorEngine, "run", breaks)


@pytest.mark.parametrize("numbers", [(1, 2), (3, 4, 5)], ids=["floor", "search"])
@pytest.mark.parametrize("form", ["table", "json"])
def test_a_job_that_breaks_is_one_line_and_exit_code_1(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    numbers: tuple[int, ...],
    form: str,
) -> None:
    broken(monkeypatch, *numbers)
    assert run("--format", form, job_file(tmp_path, target={"latency_seconds": 0.03})) == 1
    out, err = capsys.readouterr()
    assert out == ""  # no table that recommends
    lines = [line for line in err.splitlines() if line.startswith("autotrascale: ")]
    said = f"{len(numbers)} trials in a row failed; the last: the host is gone; its log is /tmp/driver.log"
    assert lines == [f"autotrascale: {said}"]
    assert "Traceback" not in err


def test_one_failing_trial_among_good_ones_is_a_verdict(
    small: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch, 1)
    assert answer(capsys, small)["met_target"] is True


def test_a_miss_recommends_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(job_file(tmp_path, target={"latency_seconds": 1e-4}), "--total-trials", 4) == 3
    out = capsys.readouterr().out
    assert "nearest miss" in out
    assert "chosen" not in out
    assert " holds 0" not in out


def test_the_help_says_what_is_done_and_what_the_exit_codes_mean(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "docs/reference/glossary.md" in out
    assert "3 the target is not met" in out


def test_a_model_is_saved_and_started_from(small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "model.json"
    answer(capsys, small, "--save-model", model)
    saved = BenefitModel.from_json(model.read_text())
    assert saved.rate == 100.0
    assert list(tmp_path.glob("*.part")) == []
    warm = answer(capsys, small, "--rate", 150, "--warm-start", model, "--save-model", model)
    assert warm["met_target"] is True
    assert [ancestor.rate for ancestor in BenefitModel.from_json(model.read_text()).ancestors] == [100.0]


def test_without_a_model_to_save_no_file_is_written(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer(capsys, small, "--rate", 1e6, "--save-model", tmp_path / "model.json", code=3)
    assert not (tmp_path / "model.json").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--rate", "0"], "rate: "),
        (["--rate", "-5"], "rate: "),
        (["--rate", "nan"], "rate: "),
        (["--total-trials", "0"], "total_trials: "),
        (["--seed", "-1"], "seed: "),
        (["--engine", "spark"], "spark: "),
        (["--warm-start", "/nowhere/model.json"], "/nowhere/model.json: "),
        (["--sink", "real"], "--sink: applies to Spark jobs, not to the simulator (seen: 'real')"),
        (["--save-model", "/nowhere/model.json"], "--save-model: "),
    ],
)
def test_what_the_user_can_mend_is_one_line_and_exit_code_1(
    small: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert run("--format", "json", *arguments, small) == 1
    out, err = capsys.readouterr()
    assert err.startswith(f"autotrascale: {says}")
    assert (out, err.count("\n")) == ("", 1)


@pytest.mark.parametrize("sink", get_args(Sink))
def test_the_first_line_of_a_real_run_says_where_output_goes(sink: Sink, capsys: pytest.CaptureFixture[str]) -> None:
    job = Job("orders", Topology.chain("source", "work"), 8, {"source": 100.0}, Target(0.5))
    create_listener(OutputFormat.table).on_start(job, sink, WarmStart((), ()))
    first = capsys.readouterr().err.splitlines()[0]
    assert first == f"tuning orders, on Spark; 100 records/s, latency target 500 ms; {describe_sink(sink)}"


@pytest.mark.parametrize("text", ["", "{", '{"kind": 3}', "null"])
def test_a_model_file_that_is_none_is_one_line(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    model = tmp_path / "model.json"
    model.write_text(text)
    assert run("--format", "json", "--warm-start", model, small) == 1
    out, err = capsys.readouterr()
    assert err.startswith(f"autotrascale: {model}")
    assert (out, err.count("\n")) == ("", 1)


def test_a_job_file_that_is_none_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path / "none.yaml") == 1
    assert "none.yaml: cannot be read" in capsys.readouterr().err
    broken = job_file(tmp_path, operators={"source": {}, "work": {"upstream": ["sauce"]}})
    assert run(broken) == 1
    assert f"{broken}: operators.work.upstream: names an operator that does not exist" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--engine", "flink", "job.yaml"],
        ["--rate", "fast", "job.yaml"],
        ["--trials", "3", "job.yaml"],
        ["--format", "xml", "job.yaml"],
        ["one.yaml", "two.yaml"],
    ],
)
def test_bad_usage_is_exit_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "Error: " in err


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt(), 130), (EngineError("the host is gone"), 1)])
def test_the_engine_is_closed_however_it_ends(
    small: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int
) -> None:
    closed: list[SimulatorEngine] = []
    runs: list[object] = []

    def breaks(self: SimulatorEngine, *arguments: object) -> Trial:
        runs.append(self)
        if len(runs) == 2:
            raise error
        return ran(self, *arguments)  # type: ignore[arg-type]

    ran = SimulatorEngine.run
    monkeypatch.setattr(SimulatorEngine, "run", breaks)
    monkeypatch.setattr(SimulatorEngine, "close", lambda self: closed.append(self))
    assert run("--format", "json", small) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert closed
    assert "Traceback" not in err
    assert ("the host is gone" in err) == (code == 1)


def test_a_table_on_a_pipe_overwrites_nothing(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(small) == 0
    assert "\r" not in capsys.readouterr().err
