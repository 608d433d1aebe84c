"""`autotrascale critical` of recorded logs. A small log starts no Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autotrascale.cli import main
from autotrascale.monitor.stores.metric_store import MetricQuery
from autotrascale.monitor.stores.participation_points import PART_MEASUREMENT, WINDOW_MEASUREMENT
from autotrascale.monitor.stores.store_settings import SqliteSettings, open_store

PLAIN = str(next((Path(__file__).parents[1] / "analyze" / "logs").glob("plain/*.zstd")))


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main.main(arguments)
    return int(ended.value.code or 0)


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_of_a_recorded_query(nowhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In words with plots, as Parquet and in a metric store at once; and then as JSON, window by window."""
    (nowhere / "metrics.yaml").write_text("store:\n  kind: sqlite\n  path: kept.db\n")
    said = ("critical", PLAIN, "--window", "5", "--plots", "--output", "out", "--metrics", "metrics.yaml")
    assert run(*said) == 0
    out, err = capsys.readouterr()
    assert err == ""
    shares, by_operator, at_best, parallelism = out.splitlines()[:4]
    assert "28%" in shares
    assert "29% count by expression" in by_operator
    assert "20%" in at_best
    assert "33%" in parallelism
    assert "count by expression 3   " in out, "the plot of instances"
    assert "09:12:55" in out, "the axis of a plot"
    assert [path.name for path in (nowhere / "out").glob("application=*/query=*/day=*")] == ["day=2026-11-18"]

    assert run("critical", PLAIN, "--window", "5", "--all", "--format", "json") == 0
    windows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["started_ms"] for one in windows] == sorted({one["started_ms"] for one in windows})
    assert all(abs(sum(part["participation"] for part in one["kinds"]) - 1) < 1e-9 for one in windows)
    assert "%" in windows[-1]["explanation"][0]

    with open_store(SqliteSettings(path=str(nowhere / "kept.db"))) as store:
        kept = store.windows(MetricQuery(WINDOW_MEASUREMENT, "waiting", 0, 2**62, {"job": "plain"}), "count")
        assert [sample.value for sample in kept] == [len(windows)]
        assert store.windows(
            MetricQuery(PART_MEASUREMENT, "participation", 0, 2**62, {"summary": "instances"}, ("instance",)), "mean"
        )


def test_a_query_that_is_in_no_log_and_a_log_without_batches(nowhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("critical", PLAIN, "--query", "nobody") == 1
    assert "--query: is in none of the logs (seen: 'nobody'); use one of plain" in capsys.readouterr().err
    (nowhere / "hello").write_text("hello\n")
    assert run("critical", str(nowhere / "hello")) == 1
    err = capsys.readouterr().err.splitlines()
    assert "hello: 1 line" in err[0]
    assert "micro-batch" in err[1]
    assert len(err) == 2
