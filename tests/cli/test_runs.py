"""`autotrascale tune` with its journal, `runs ls|show|resume|cancel`."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from autotrascale.app import job_file_changes
from autotrascale.cli import main
from autotrascale.domain.trial import Trial, Verdict
from autotrascale.execute.simulator.engine import SimulatorEngine
from autotrascale.knowledge import run_history, tags
from autotrascale.knowledge.mlflow_store import MlflowStore
from tests.knowledge.mlflow_stores import CONTENT, engine, job, job_file, opening, tuned


def run(*arguments: str | Path) -> int:
    with pytest.raises(SystemExit) as ended:
        main.main([str(argument) for argument in arguments])
    return int(ended.value.code or 0)


def answer(capsys: pytest.CaptureFixture[str], *arguments: str | Path, code: int = 0) -> dict[str, Any]:
    capsys.readouterr()
    assert run(*arguments, "--format", "json") == code
    data: dict[str, Any] = json.loads(capsys.readouterr().out)
    return data


def interrupted(monkeypatch: pytest.MonkeyPatch, path: Path, number: int, how: str = "ctrl-c") -> int:
    """A run that is interrupted in its trial of this number."""
    trial = SimulatorEngine.run

    def stopping(self: SimulatorEngine, k: Mapping[str, int], rates: Mapping[str, float]) -> Trial:
        if self.runs == number - 1:
            if how == "ctrl-c":
                raise KeyboardInterrupt
            os.kill(os.getpid(), signal.SIGTERM)
        return trial(self, k, rates)

    with monkeypatch.context() as patch:
        patch.setattr(SimulatorEngine, "run", stopping)
        return run("tune", path)


@pytest.mark.usefixtures("store")
def test_a_run_is_journalled_and_its_model_kept(
    name: str, store: MlflowStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = job_file(tmp_path, name)
    first = answer(capsys, "tune", path)
    assert first["warm_start"] == [f"cold start: {name} has no model yet"]
    assert first["model"] == f"models:/autotrascale.{name}/1"
    assert first["cold_run"] is None
    shown = answer(capsys, "runs", "show", first["run_id"])
    assert (shown["job"], shown["state"], shown["simulated"]) == (name, "finished", True)
    assert shown["floor"] == first["floor"]
    assert shown["trials"][0]["phase"] == "floor"
    assert shown["evaluations"] == first["evaluations"] == len(shown["trials"])

    of_mlflow = store.client.get_run(first["run_id"])
    assert f"{name} (simulated) holds" in of_mlflow.data.tags["mlflow.note.content"]
    assert "report.html" in {each.path for each in store.client.list_artifacts(first["run_id"])}
    assert len(store.client.get_metric_history(first["run_id"], "trial/instances")) == first["evaluations"]
    (came_out,) = of_mlflow.outputs.model_outputs

    assert run("tune", path, "--rate", "280000") == 0
    out, err = capsys.readouterr()
    (second, _) = store.client.search_runs([store.experiment(name)], f"tags.`{tags.KIND}` = '{tags.TUNING}'")
    went_in = store.client.get_run(second.info.run_id).inputs.model_inputs
    assert [each.model_id for each in went_in] == [came_out.model_id]
    assert f"warm start from models:/autotrascale.{name}/1, made at 300000 records/s\n" in err
    assert f"model models:/autotrascale.{name}/2" in err
    assert f"; a cold start at 300000 records/s took {first['evaluations']} (models:/autotrascale.{name}/1)\n" in out
    assert "run " not in out
    assert [each["rate"] for each in answer(capsys, "runs", "ls", "--job", name)["runs"]] == [280_000.0, 300_000.0]
    assert run("runs", "ls", "--job", name, "--limit", "1") == 0
    out, err = capsys.readouterr()
    assert f"{name} (simulated)" in out
    assert err == "listed the newest 1 runs; --limit lists more\n"
    assert run("runs", "show", name) == 0
    assert "warm start from models" in capsys.readouterr().out


def test_without_a_store_nothing_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "tune", job_file(tmp_path))
    assert (found["run_id"], found["model"]) == (None, None)
    assert found["warm_start"] == ["cold start: no store of models is in use"]
    assert answer(capsys, "tune", job_file(tmp_path), "--warm-start", "none")["warm_start"] == [
        "cold start, as requested"
    ]
    assert run("runs", "ls") == 1
    assert "--store: is none" in capsys.readouterr().err


@pytest.mark.parametrize(("how", "code"), [("ctrl-c", 130), ("sigterm", 143)])
def test_a_run_that_is_stopped_ends_cleanly_and_goes_on(
    store: MlflowStore,
    name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    how: str,
    code: int,
) -> None:
    path = job_file(tmp_path, name)
    before = signal.getsignal(signal.SIGTERM)
    assert interrupted(monkeypatch, path, 4, how) == code
    assert signal.getsignal(signal.SIGTERM) is before
    (summary,) = run_history.list_runs(store, name)
    assert (summary.state, summary.evaluations) == ("interrupted", 3)
    assert f"autotrascale runs resume {summary.run_id}\n" in capsys.readouterr().err
    resumed = answer(capsys, "runs", "resume", name)
    undisturbed = tuned(job(name))
    assert resumed["run_id"] == summary.run_id
    assert resumed["best"]["parallelism"] == undisturbed.best.parallelism
    assert resumed["best"]["latency_seconds"] == undisturbed.best.latency_seconds
    assert resumed["evaluations"] == len(undisturbed.evaluations)
    assert resumed["model"] == f"models:/autotrascale.{name}/1"
    assert run("runs", "resume", name) == 1
    assert "is finished (target-met)" in capsys.readouterr().err


@pytest.mark.usefixtures("store")
def test_a_changed_job_file_is_not_resumed_and_the_change_is_shown(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = job_file(tmp_path, name)
    interrupted(monkeypatch, path, 2)
    capsys.readouterr()
    job_file(tmp_path, name, target={"latency_seconds": 0.2}, p_max=30)
    assert run("runs", "resume", name) == 1
    complaint = capsys.readouterr().err
    assert f"{path}: has changed since the run began: p_max: 24 → 30; target.latency_seconds: 0.07 → 0.2;" in complaint
    path.write_text("p_max: [")
    assert run("runs", "resume", name) == 1
    assert "cannot be compared" in capsys.readouterr().err
    path.write_text("# a comment changes nothing\n" + job_file(tmp_path, name).read_text())
    assert run("runs", "resume", name) == 0


def test_a_job_file_that_is_gone_is_in_the_journal(
    store: MlflowStore, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = job_file(tmp_path, name)
    interrupted(monkeypatch, path, 2)
    path.unlink()
    assert run("runs", "resume", "last") == 0
    assert run_history.list_runs(store, name)[0].state == "finished"


@pytest.mark.usefixtures("store")
def test_a_job_whose_code_declares_other_operators_is_not_resumed(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from autotrascale.app.job_file import JobFile

    interrupted(monkeypatch, job_file(tmp_path, name), 2)
    monkeypatch.setattr(JobFile, "open_engine", lambda *_: (job(name, latency=0.3), engine()))
    assert run("runs", "resume", name) == 1
    assert f"job {name}: " in capsys.readouterr().err


@pytest.mark.usefixtures("store")
def test_a_budget_can_be_widened(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = job_file(tmp_path, name)
    short = answer(capsys, "tune", path, "--total-trials", "1", code=3)
    assert (short["evaluations"], short["met_target"], short["model"]) == (1, False, None)
    assert run("runs", "resume", short["run_id"]) == 1
    assert "give it more with --total-trials" in capsys.readouterr().err
    longer = answer(capsys, "runs", "resume", short["run_id"], "--total-trials", "20")
    assert (longer["stop_reason"], longer["run_id"]) == ("target-met", short["run_id"])


def test_a_job_is_tuned_by_one_process_at_a_time(
    store: MlflowStore, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from autotrascale.knowledge.run_journal import RunJournal

    with RunJournal.start(store, opening(job(name))) as journal:
        assert run("tune", job_file(tmp_path, name)) == 1
        err = capsys.readouterr().err
        assert f"job {name}: is being tuned already, as run {journal.run_id}" in err
        assert f"autotrascale runs cancel {journal.run_id}" in err
        assert answer(capsys, "runs", "cancel", journal.run_id) == {"run_id": journal.run_id, "ended": False}
    assert run("runs", "cancel", journal.run_id) == 1
    assert "is not running" in capsys.readouterr().err


def test_a_crashed_run_can_be_cancelled(store: MlflowStore, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    from autotrascale.knowledge.run_journal import RunJournal

    RunJournal.start(store, opening(job(name))).owner.mark_inactive()
    assert run("runs", "ls", "--job", name) == 0
    assert "crashed" in capsys.readouterr().out
    assert run("runs", "show", name) == 0
    assert "autotrascale runs resume" in capsys.readouterr().out
    assert run("runs", "cancel", name) == 0
    assert "has ended" in capsys.readouterr().out


@pytest.mark.usefixtures("store")
def test_unknown_runs_and_stores_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for verb in (("runs", "show"), ("runs", "resume"), ("runs", "cancel"), ("explain",)):
        assert run(*verb, "no-such-run") == 1
        assert capsys.readouterr().err.startswith("autotrascale: run: is not in the store")
    assert run("runs", "ls", "--store", "http://127.0.0.1:1") == 1
    assert "http://127.0.0.1:1" in capsys.readouterr().err
    assert answer(capsys, "runs", "ls", "--job", "nobody") == {"runs": []}
    assert run("runs", "ls", "--job", "nobody") == 0
    assert "no runs yet" in capsys.readouterr().out


def test_the_environment_names_the_store(
    common_store: MlflowStore, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from autotrascale.app.stores import choose_store_uri

    monkeypatch.setenv("AUTOTRASCALE_STORE", "")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", common_store.uri)
    assert "runs" in answer(capsys, "runs", "ls", "--limit", "1")
    assert choose_store_uri("http://said:1") == "http://said:1"
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    assert choose_store_uri(None) == "sqlite:///mlruns/mlflow.db"


def test_differences_are_said_place_by_place() -> None:
    before = {**CONTENT, "gone": 1}
    now = {**CONTENT, "new": 2, "operators": dict(reversed(CONTENT["operators"].items()))}
    assert list(job_file_changes.list_differences(before, now)) == [
        "operators come in another order",
        "gone is gone (was 1)",
        "new is new (2)",
    ]
    assert list(job_file_changes.list_differences(CONTENT, CONTENT)) == []


def test_a_run_that_broke_is_failed_and_goes_on(
    store: MlflowStore, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not finished, not a verdict: the job or its host broke, and the run is there to be resumed."""
    path, trial = job_file(tmp_path, name), SimulatorEngine.run

    def breaking(self: SimulatorEngine, k: Mapping[str, int], rates: Mapping[str, float]) -> Trial:
        measured = trial(self, k, rates)
        return measured if self.runs < 2 else Trial(dict(k), Verdict.FAILED, detail="the host is gone")

    with monkeypatch.context() as patch:
        patch.setattr(SimulatorEngine, "run", breaking)
        assert run("tune", path) == 1
    out, err = capsys.readouterr()
    found = run_history.find_run(store, name)
    assert out == ""
    assert f"autotrascale runs resume {found.info.run_id}" in err
    assert err.rstrip().endswith("the host is gone")
    assert found.info.status == "FAILED"
    summary = run_history.summarise_run(store, found)
    assert (summary.state, summary.met_target, summary.parallelism) == ("failed", None, None)
    assert run("explain", name) == 0  # what was measured before it broke
    assert "does not hold" in capsys.readouterr().out
    assert run("runs", "resume", name) == 0
    assert run_history.find_run(store, name).info.status == "FINISHED"
