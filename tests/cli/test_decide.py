from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import typer

import autotrascale
from autotrascale.cli import decide, main
from autotrascale.domain.decision import Decision
from autotrascale.domain.job import Job
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.target import Statistic, Target
from autotrascale.domain.topology import Topology
from autotrascale.knowledge.model_card import ModelCard
from autotrascale.knowledge.model_files import write_model
from autotrascale.plan.search.ask_tell import AskTellStudy

BAD = json.loads((Path(__file__).parents[1] / "bad_input" / "snapshots.json").read_text())

WORD_COUNT: dict[str, Any] = {
    "version": 1,
    "job": "wordcount",
    "execution": "pipelined",
    "window_seconds": 60,
    "p_max": 36,
    "source_rates": {"source": 100.0},
    "operators": {
        "source": {"upstream": [], "parallelism": 1},
        "flatmap": {
            "upstream": ["source"],
            "parallelism": 1,
            "instances": [{"records_in": 3000, "records_out": 24000, "useful_seconds": 60}],
        },
    },
    "throughput": 90.0,
    "latency_seconds": {"mean": 0.31, "p95": 0.6},
    "backlog_records": 0,
}


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main.main(arguments)
    return int(ended.value.code or 0)


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    path = tmp_path / "snapshot.json"
    path.write_text(json.dumps(WORD_COUNT))
    return path


def test_json_stands_alone_on_stdout(snapshot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("decide", "--policy", "ds2", "--format", "json", str(snapshot)) == 0
    out, err = capsys.readouterr()
    answer = json.loads(out)
    assert list(answer) == ["policy", "parallelism", "changed", "reasons"]
    assert (answer["policy"], answer["parallelism"], answer["changed"]) == ("ds2", {"source": 1, "flatmap": 2}, True)
    reason = answer["reasons"][1]
    assert "flatmap" in reason.pop("text")
    assert reason == {
        "code": "demand",
        "operator": "flatmap",
        "running": 1,
        "wanted": 2,
        "demand": 100.0,
        "load": 2.0,
        "capacity": 50.0,
    }
    assert out.count("\n") == 1
    assert err == ""


def test_the_table_shows_running_beside_recommended_and_why(snapshot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("decide", "--policy", "ds2", str(snapshot)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "ds2: change (wordcount)"
    assert ["flatmap", "1", "2", "+1"] in [line.split() for line in lines]
    assert any(line.startswith("  demand: flatmap: ") for line in lines)


def test_a_latency_target_reaches_the_policy(snapshot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--policy", "queueing", "--latency-target", "0.5", "--statistic", "p95", "--format", "json"]
    assert run("decide", *options, str(snapshot)) == 0
    reasons = json.loads(capsys.readouterr().out)["reasons"]
    assert [reason.get("target_seconds") for reason in reasons[:2]] == [None, 0.5]  # the kept source, then flatmap
    assert reasons[-1]["code"] == "mean-only"


def test_the_target_that_limits_a_batch_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The overhead of 0.3 s is 25 % of a batch of 1.2 s, and more than a batch of 0.2 s is long."""
    batches = {**WORD_COUNT, "execution": "micro-batch", "overhead_share": 0.1, "batch_seconds": 3.0}
    path = tmp_path / "batches.json"
    path.write_text(json.dumps(batches))
    for target, field, shown in (("1.2", "batch_limit_seconds", "1.20 s"), ("0.2", "target_seconds", "200 ms")):
        assert run("decide", "--policy", "ds2", "--latency-target", target, "--format", "json", str(path)) == 0
        (batch,) = [reason for reason in json.loads(capsys.readouterr().out)["reasons"] if reason["code"] == "batch"]
        assert batch[field] == pytest.approx(float(target))
        assert shown in batch["text"]
        assert batch["overhead_share"] == pytest.approx(0.25 if target == "1.2" else 0.1)


def test_a_hold_is_no_change_and_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blind = {
        **WORD_COUNT,
        "operators": {**WORD_COUNT["operators"], "flatmap": {"upstream": ["source"], "parallelism": 1}},
    }
    path = tmp_path / "blind.json"
    path.write_text(json.dumps(blind))
    assert run("decide", "--policy", "ds2", str(path)) == 0
    assert "no change: not enough data" in capsys.readouterr().out


def test_yaml_is_read_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "snapshot.yaml"
    path.write_text(json.dumps(WORD_COUNT))
    assert run("decide", "--policy", "ds2", str(path)) == 0
    assert "wordcount" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--policy", "magic"], "policy: is not known (seen: 'magic'); use one of autrascale, ds2, "),
        (["--policy", "drs-true"], "policy drs-true: needs a latency target"),
        (["--policy", "ds2", "--latency-target", "0"], "--latency-target: must be above zero"),
        (["--policy", "ds2", "--model", "/nowhere.json"], "/nowhere.json: cannot be read"),
    ],
)
def test_what_the_user_can_mend_is_one_line_and_exit_code_1(
    snapshot: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert run("decide", *arguments, str(snapshot)) == 1
    out, err = capsys.readouterr()
    assert err.startswith(f"autotrascale: {said}")
    assert (out, err.count("\n")) == ("", 1)


@pytest.mark.parametrize("case", BAD, ids=lambda case: case["name"])
def test_bad_snapshots_are_refused_in_one_line(
    case: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "snapshot.json"
    path.write_text(case.get("text", json.dumps(spoilt(case))))
    assert run("decide", "--policy", "ds2", str(path)) == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("autotrascale: ")
    for fragment in ("snapshot.json", *case["says"]):
        assert fragment in err


def spoilt(case: dict[str, Any]) -> dict[str, Any]:
    snapshot = {name: value for name, value in WORD_COUNT.items() if name not in case.get("without", [])}
    flatmap = {**WORD_COUNT["operators"]["flatmap"], **case.get("operator", {})}
    operators = {**WORD_COUNT["operators"], "flatmap": flatmap}
    return {**snapshot, "operators": operators, **case.get("with", {})}


def test_a_model_that_cannot_be_read_or_used(
    snapshot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "model.json"
    model.write_text("{")
    assert run("decide", "--model", str(model), str(snapshot)) == 1
    err = capsys.readouterr().err
    assert err.startswith(f"autotrascale: {model}: ")
    assert err.count("\n") == 1


def test_a_file_that_is_not_there_or_not_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("decide", "--policy", "ds2", str(tmp_path / "none.json")) == 1
    assert "none.json: cannot be read (seen: 'No such file or directory')" in capsys.readouterr().err
    binary = tmp_path / "binary.json"
    binary.write_bytes(b"\xff\xfe\x00")
    assert run("decide", "--policy", "ds2", str(binary)) == 1
    assert "binary.json: is not UTF-8 text" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["decide"],
        ["decide", "--format", "xml", "snapshot.json"],
        ["decide", "--latency-target", "soon", "snapshot.json"],
        ["decide", "--statistic", "p95", "snapshot.json"],
        ["decide", "--statistic", "p42", "--latency-target", "1", "snapshot.json"],
        ["decide", "--knob", "3", "snapshot.json"],
        ["undecide"],
        ["--wrong"],
    ],
)
def test_bad_usage_is_exit_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "Error: " in err


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    assert capsys.readouterr().out == f"autotrascale {autotrascale.__version__}\n"
    assert run("--help") == 0
    assert "decide" in capsys.readouterr().out


def test_the_default_policy_is_our_own() -> None:
    assert typer.main.get_command(main.app).commands["decide"].params[1].default == "autrascale"  # type: ignore[attr-defined]


def test_the_statistics_are_those_of_the_domain() -> None:
    assert tuple(decide.StatisticName) == Statistic.__args__  # type: ignore[attr-defined]


def raising(error: BaseException) -> Any:
    class Raises:
        name = "raises"

        def decide(self, _: Snapshot) -> Decision:
            raise error

    return lambda *_: Raises()


def test_ctrl_c_ends_quietly_with_130(
    snapshot: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autotrascale.plan.policies.registry.create", raising(KeyboardInterrupt()))
    assert run("decide", str(snapshot)) == 130
    assert capsys.readouterr() == ("", "")


def opened_by_its_reader(fifo: Path) -> int:
    """The writing end, once somebody waits at the other: before, it cannot be opened."""
    for _ in range(6000):
        with suppress(OSError):
            return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        time.sleep(0.01)
    raise AssertionError("nobody reads it")


def test_ctrl_c_in_a_process_of_its_own(tmp_path: Path) -> None:
    fifo = tmp_path / "never.json"
    os.mkfifo(fifo)
    # A shell that runs the tests in the background has them ignore Ctrl-C, and so all that they start.
    command = [
        "env",
        "--default-signal=INT",
        sys.executable,
        "-m",
        "autotrascale.cli.main",
        "decide",
        "--policy",
        "ds2",
        str(fifo),
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        writer = opened_by_its_reader(fifo)
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):  # one that comes just before a blocking read waits for the next
                process.wait(5.0)
        assert process.stderr is not None
        assert process.stderr.read() == ""
        os.close(writer)
    assert process.returncode == 130


def test_a_reader_that_leaves_is_no_error(snapshot: Path) -> None:
    command = (
        f"{sys.executable} -m autotrascale.cli.main decide --policy ds2 {snapshot} | true; echo ${{PIPESTATUS[0]}}"
    )
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; sys.argv = ['autotrascale', '--help']\n"
        "from autotrascale.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'scipy', 'sklearn', 'skopt', 'pydantic', 'mlflow', 'pyspark', 'rich', 'yaml', 'fastapi'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"


def test_an_exported_model_is_read_like_a_bare_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    topology = Topology.chain("source", "flatmap")
    job = Job("wordcount", topology, 36, {"source": 100.0}, Target(0.2))
    study = AskTellStudy(floor=(1, 2), p_max=36, latency_target=0.2)
    study.tell((1, 3), latency=0.19)
    model = study.model(rate=100.0)
    exported = write_model(tmp_path, model, ModelCard.for_model(model, job, simulated=True))
    bare = tmp_path / "bare.json"
    bare.write_text(model.to_json())
    snapshot = str(Path(__file__).parents[2] / "examples" / "snapshot.json")
    answers = []
    for path in (exported, bare):
        assert run("decide", "--latency-target", "0.2", "--model", str(path), "--format", "json", snapshot) == 0
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1]
