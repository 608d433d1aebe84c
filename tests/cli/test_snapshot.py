from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.cli.command import complaint, run

LOGS = Path(__file__).parents[1] / "analyze" / "logs"


def test_a_path_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("snapshot", "--event-log", "/no/such/log") == 1
    assert complaint(capsys).startswith("autotrascale: /no/such/log: ")


@pytest.mark.parametrize("window", ["0", "-3", "a minute", "inf", "nan"])
def test_a_window_that_is_no_length(window: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("snapshot", "--event-log", str(LOGS), "--window", window) == 2
    assert "--window" in capsys.readouterr().err


def test_a_machine_without_java(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr("autotrascale.app.event_logs.needs_spark", lambda *_, **__: True)
    assert run("snapshot", "--event-log", str(LOGS)) == 1
    assert "Java" in complaint(capsys)


def test_what_it_prints_is_what_decide_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("snapshot", "--event-log", str(LOGS), "--job", "counting", "--window", "run", "--p-max", "32")
    assert run(*arguments, "--format", "json") == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.count("\n") == 1
    answer = json.loads(out)
    assert (answer["job"], answer["p_max"], answer["execution"]) == ("counting", 32, "micro-batch")
    file = tmp_path / "snapshot.json"
    file.write_text(out)
    assert run("decide", "--policy", "ds2", "--format", "json", str(file)) == 0
    decision = json.loads(capsys.readouterr().out)
    assert decision["parallelism"].keys() == answer["operators"].keys()
    assert not [reason for reason in decision["reasons"] if reason["code"].startswith("hold")]


def test_the_newest_window_of_each_job_as_a_table_and_all_of_them_as_parquet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("snapshot", "--event-log", str(LOGS), "--window", "2", "--output", str(tmp_path)) == 0
    out = capsys.readouterr().out
    jobs = [line.split(":")[0] for line in out.splitlines() if " UTC, " in line]
    assert jobs == ["counting", "plain", "queries", "filtered"]
    assert "true rate/s" in out
    assert {path.name for path in tmp_path.glob("operators/job=*")} == {f"job={job}" for job in jobs}


def test_a_job_that_is_in_no_log_and_a_log_without_jobs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("snapshot", "--event-log", str(LOGS), "--job", "nobody") == 1
    assert "(seen: 'nobody'); use one of counting, filtered, plain, queries" in complaint(capsys)
    (tmp_path / "hello").write_text("hello\n")
    assert run("snapshot", "--event-log", str(tmp_path)) == 1
    err = capsys.readouterr().err.splitlines()
    assert "hello: 1 line" in err[0]
    assert f"{tmp_path}: " in err[1]
    assert len(err) == 2


def test_progress_records_alone_are_not_enough(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = {"id": "q", "runId": "r", "batchId": 0, "timestamp": "2026-11-18T09:12:07.466Z", "sources": []}
    (tmp_path / "progress.jsonl").write_text(json.dumps(record, separators=(",", ":")) + "\n")
    assert run("snapshot", "--event-log", str(tmp_path)) == 1
    assert f"{tmp_path}: " in (said := complaint(capsys))
    assert "progress records" in said


@pytest.mark.parametrize(
    ("output", "says"),
    [("file/below", "is not a folder"), ("file", "is not a folder"), ("/proc/nowhere", "cannot be written")],
)
def test_an_output_that_cannot_be_written_is_refused_at_once(
    output: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert run("snapshot", "--event-log", str(LOGS), "--output", str(tmp_path / output)) == 1
    assert f"--output: {says}" in complaint(capsys)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_size_that_java_does_not_know(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("snapshot", "--event-log", str(LOGS), "--driver-memory", "2x") == 1
    assert complaint(capsys).startswith("autotrascale: --driver-memory: ")
