"""`autotrascale critical`: what it refuses before anything is started, and what it tells of recorded logs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from autotrascale.analyze.critical.archive import blocks_of, groups_below, parts_of_block
from autotrascale.analyze.critical.parts import participations
from autotrascale.analyze.critical.staging import Files, stage_log
from autotrascale.domain.participation import mean
from autotrascale.execute.spark.local_session import local_session
from autotrascale.monitor.eventlog.files import find_files
from autotrascale.monitor.stores.participation_points import PART, WINDOW
from autotrascale.monitor.stores.settings import SqliteSettings, open_store
from autotrascale.monitor.stores.store import Query
from autotrascale.service import cli
from autotrascale.views.critical import explanation

LOGS = Path(__file__).parents[1] / "analyze" / "logs"
PLAIN = str(next(LOGS.glob("plain/*.zstd")))


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    return int(ended.value.code or 0)


def complaint(capsys: pytest.CaptureFixture[str]) -> str:
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["/no/such/log"], "/no/such/log: does not exist; give an event log's file"),
        (["nobody"], "LOG|JOB: is no file, no folder and no program that is kept (seen: 'nobody'); give the path of"),
        ([PLAIN, "--output", "file/below"], "--output: is no folder"),
        ([PLAIN, "--driver-memory", "2x"], "--driver-memory: is no amount of memory (seen: '2x')"),
        ([PLAIN, "--metrics", "none.yaml"], "none.yaml: "),
    ],
)
@pytest.mark.usefixtures("nowhere")
def test_what_cannot_be_done_is_said_in_one_line(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("critical", *arguments) == 1
    assert complaint(capsys).startswith(f"autotrascale: {says}")


@pytest.mark.parametrize("window", ["0", "-3", "inf", "nan", "1e9", "0.0001"])
def test_a_window_that_is_no_length(window: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("critical", PLAIN, "--window", window) == 2
    assert "is no number of seconds from 0.001 to 10,000,000" in capsys.readouterr().err


def test_what_the_guide_shows_is_what_it_says_of_that_log(tmp_path: Path) -> None:
    """Without Spark, by the functions that Spark calls."""
    files, _ = find_files([str(LOGS / "marked")])
    with Files(str(tmp_path / "application=app"), 0) as written:
        stage_log(files, written, [])
    ((of, groups),) = groups_below(str(tmp_path)).items()
    rows = [row for block in blocks_of(*of, groups, 10**7) for row in parts_of_block(block, 10**7).to_pylist()]
    guide = (Path(__file__).parents[2] / "docs" / "critical.md").read_text(encoding="utf-8")
    assert "".join(f"    {line}\n" for line in explanation(mean(list(participations(rows))))) in guide


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with local_session(cores="2") as session:
        yield session


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_of_a_recorded_query(nowhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In words with plots, as Parquet and in a metric store at once; and then as JSON, window by window."""
    (nowhere / "metrics.yaml").write_text("store:\n  kind: sqlite\n  path: kept.db\n")
    said = ("critical", PLAIN, "--window", "5", "--plots", "--output", "out", "--metrics", "metrics.yaml")
    assert run(*said) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("Latency is made of ")
    assert "More parallelism takes off " in out
    assert "What the critical paths are made of" in out
    assert "Which instances are on the critical paths" in out
    assert [path.name for path in (nowhere / "out").glob("application=*/query=*/day=*")] == ["day=2026-11-18"]

    assert run("critical", PLAIN, "--window", "5", "--all", "--format", "json") == 0
    windows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["started_ms"] for one in windows] == sorted({one["started_ms"] for one in windows})
    assert all(abs(sum(part["participation"] for part in one["kinds"]) - 1) < 1e-9 for one in windows)
    assert windows[-1]["explanation"][0].startswith("Latency is made of ")

    with open_store(SqliteSettings(path=str(nowhere / "kept.db"))) as store:
        kept = store.windows(Query(WINDOW, "waiting", 0, 2**62, {"job": "plain"}), "count")
        assert [sample.value for sample in kept] == [len(windows)]
        assert store.windows(Query(PART, "participation", 0, 2**62, {"summary": "instances"}, ("instance",)), "mean")


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_query_that_is_in_no_log_and_a_log_without_batches(nowhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("critical", PLAIN, "--query", "nobody") == 1
    assert "--query: is in none of the logs (seen: 'nobody'); use one of plain" in complaint(capsys)
    (nowhere / "hello").write_text("hello\n")
    assert run("critical", str(nowhere / "hello")) == 1
    err = capsys.readouterr().err.splitlines()
    assert err[0].endswith("hello: 1 line is no whole event and left out, the first is line 1")
    assert "holds no micro-batch that was committed; give the log of a streaming query" in err[1]
    assert len(err) == 2
