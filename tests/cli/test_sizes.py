"""`autotrascale sizes`: of a log, what is short or too much and what to set; of a name, all that was ever done."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autotrascale.analyze.executor_usage import ExecutorUsage
from autotrascale.app.command_context import CommandContext
from autotrascale.app.console import OutputFormat
from autotrascale.app.executor_sizing import LiveSizing, SizingSettings
from autotrascale.app.metric_recording import MetricRecorder
from autotrascale.cli import main
from autotrascale.knowledge.decision_journal.journal import DecisionJournal
from autotrascale.knowledge.decision_journal.size_action_log import read_actions
from autotrascale.monitor.eventlog.decoding import decode_line
from autotrascale.monitor.stores.metric_store import MetricQuery
from autotrascale.monitor.stores.points import END_OF_TIME, SECOND, MetricPoint
from autotrascale.monitor.stores.store_settings import SqliteSettings, open_store
from autotrascale.plan.executor_size.clamp_to_cluster import ClusterLimits
from tests.support.executor_log import BEGAN, ExecutorLog

CONF = {"spark.executor.memory": "1g", "spark.executor.memoryOverhead": "512m"}


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main.main(arguments)
    return int(ended.value.code or 0)


def a_log(conf: dict[str, str], gc: int, begin: int = 0, name: str = "orders", seconds: int = 60) -> ExecutorLog:
    """A second of work in each second, `gc` milliseconds of it collections, in a heap that is full."""
    log = ExecutorLog(name, conf=conf)
    heap = float(conf["spark.executor.memory"].rstrip("m")) if conf["spark.executor.memory"].endswith("m") else 1024.0
    log.came(begin)
    for second in range(seconds):
        at = begin + 1000 * (second + 1)
        log.task(
            at, run=800, gc=gc, cpu=400, heap=0.9 * heap, not_heap=60, jvm=0.9 * heap + 60, python=300, young=second
        )
        log.batch(second, at - 1000, 900, 100)
    return log


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a store of its own, as a user's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AUTOTRASCALE_STORE", f"sqlite:///{tmp_path}/mlruns/mlflow.db")
    return tmp_path


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    capsys.readouterr()
    assert run("sizes", *arguments, "--format", "json") == 0
    out, _ = capsys.readouterr()
    found: dict[str, Any] = json.loads(out)
    return found


def test_a_log_is_judged_the_action_is_kept_and_the_next_log_judges_it(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = str(a_log(CONF, gc=200).write(home / "logs", "app-1"))
    told = answer(capsys, first, "--window", "10")
    assert told["in_flight"]["policy"] == "P1"
    assert told["settings"] == {"spark.executor.memory": "1315m", "spark.executor.memoryOverhead": "512m"}
    assert answer(capsys, first, "--window", "10") == told  # read again, nothing is written twice
    after = a_log({**CONF, "spark.executor.memory": "1315m"}, gc=5, begin=3_600_000)
    after.write(home / "logs", "app-2")
    told = answer(capsys, str(home / "logs"), "--window", "10")
    assert [entry["what"] for entry in told["history"]] == ["asked", "seen", "kept"]
    assert told["in_flight"] is None
    assert told["fault"] == "none"
    assert told["sizes"] == {"heap_mb": 1315, "overhead_mb": 512, "cores": 1, "executors": 1}
    assert answer(capsys, "orders") == {"application": "orders", "history": told["history"]}
    with open_store(SqliteSettings()) as store:
        query = MetricQuery("autotrascale_executors", "gc_share", 0, END_OF_TIME - 1, {"job": "orders"})
        (sample,) = store.windows(query, "count")
    assert sample.value == 12


def test_people_read_what_to_paste(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("sizes", str(a_log(CONF, gc=200).write(home)), "--window", "10") == 0
    out, err = capsys.readouterr()
    assert "orders: 1 executor of 1 core, heap 1,024 MB" in out
    assert "P1: " in out
    assert "    spark.executor.memory=1315m\n" in out
    assert err == ""
    assert run("sizes", "orders") == 0
    assert "1 executor of 1 core, heap 1,315 MB" in capsys.readouterr().out


def test_memory_that_is_given_back_of_both_kinds_is_shown_as_one_change(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = ExecutorLog("orders", conf=CONF)
    log.came(0)
    for second in range(120):
        log.task(1000 * (second + 1), run=800, gc=8, cpu=400, heap=300, not_heap=60, jvm=360, python=60, young=second)
        log.batch(second, 1000 * second, 900, 100)
    path = str(log.write(home))
    assert run("sizes", path, "--window", "10", "--evidence", "0.02") == 0
    out = capsys.readouterr().out
    assert "P6+P7: " in out
    assert "    spark.executor.memory=512m\n    spark.executor.memoryOverhead=384m\n" in out
    (done,) = answer(capsys, "orders")["history"]
    assert done["before"] == {"heap_mb": 1024, "overhead_mb": 512, "cores": 1, "executors": 1}
    assert done["after"] == {"heap_mb": 512, "overhead_mb": 384, "cores": 1, "executors": 1}
    assert run("sizes", "orders") == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "heap 1,024 → 512" in told
    assert "512 → 384" in told


def test_limits_are_kept(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = str(a_log(CONF, gc=200).write(home))
    told = answer(capsys, log, "--window", "10", "--host-memory", "1600m")
    assert told["settings"] == {"spark.executor.memory": "1088m", "spark.executor.memoryOverhead": "512m"}


def test_without_a_store_it_tells_all_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = answer(capsys, str(a_log(CONF, gc=200).write(tmp_path)), "--window", "10")
    assert told["in_flight"]["policy"] == "P1"
    assert not (Path.cwd() / "mlruns" / "decisions.db").exists()


def test_what_must_be_switched_on_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = ExecutorLog(conf=CONF)
    log.came(0)
    for second in range(1, 31):
        log.task(1000 * second)
    assert run("sizes", str(log.write(tmp_path)), "--window", "10") == 0
    err = capsys.readouterr().err
    assert "orders: spark.executor.processTreeMetrics.enabled=true is not set: " in err
    assert err.count("is not set: ") == 3


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["no-such-log"], "LOG: does not exist (seen: 'no-such-log')"),
        (["."], ".: "),
        (["LOG", "--window", "600"], "holds no window of 600 s"),
        (["LOG", "--host-memory", "much"], "--host-memory: is not a size (seen: 'much')"),
        (["LOG", "--host-memory", "100m"], "--host-memory: "),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    if "LOG" in arguments:
        arguments = [str(a_log(CONF, 0).write(tmp_path)) if each == "LOG" else each for each in arguments]
    assert run("sizes", *arguments) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert line in err


def test_a_name_that_nobody_knows(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("sizes", "orders") == 1
    err = capsys.readouterr().err
    assert err.startswith("autotrascale: LOG: ")
    assert "(seen: 'orders')" in err
    assert not (home / "mlruns").exists()


def test_a_backlog_that_follows_a_service_of_the_job_file_is_not_answered(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, slow = ExecutorLog(conf=CONF), range(80, 120)
    log.came(0)
    for second in range(120):
        log.task(1000 * (second + 1), run=990, cpu=5, heap=500, not_heap=60, jvm=600, python=100)
        log.batch(second, 1000 * second, 900, 100 if second not in slow else 100 * (second - 78))
    with open_store(SqliteSettings()) as store:
        begin = BEGAN * 1_000_000
        store.write(
            MetricPoint("calls", {"service": "prices"}, {"ms": 90.0 if at in slow else 10.0}, begin + at * SECOND)
            for at in range(121)
        )
        store.flush()
    job = home / "orders.yaml"
    job.write_text(
        "version: 1\njob: orders\nprogram: {executors: {maximum: 4}}\nservices:\n"
        "  prices: {metric: {measurement: calls, field: ms, tags: {service: prices}}, unit: 0.001}\n"
    )
    arguments = (str(log.write(home / "logs")), "--window", "10", "--store", "none")
    named = answer(capsys, *arguments, "--job", str(job), "--metrics", str(metrics_file(home)))
    assert (named["fault"], named["in_flight"]) == ("service", None)
    assert "prices" in named["reason"]["text"]
    assert run("sizes", *arguments, "--job", str(job), "--metrics", str(metrics_file(home))) == 0
    drawn = capsys.readouterr().out
    assert "latency of services" in drawn
    assert "The backlog follows prices, " in drawn
    unnamed = answer(capsys, *arguments)
    assert unnamed["in_flight"]["policy"] == "P4"


def metrics_file(home: Path) -> Path:
    path = home / "metrics.yaml"
    path.write_text("store: {kind: sqlite}\n")
    return path


def test_a_program_that_runs_is_told_of_as_its_log_is(tmp_path: Path) -> None:
    said: list[str] = []
    meter = MetricRecorder(None)
    around = CommandContext(None, DecisionJournal(tmp_path / "decisions.db"), meter, OutputFormat.table, advise=True)
    how = SizingSettings(limits=ClusterLimits(host_memory_mb=4096))
    running, use = LiveSizing(around, {}, said.append, how), ExecutorUsage()
    for line in a_log(CONF, gc=200, seconds=400).lines:
        event = decode_line(line.encode())
        assert event is not None
        use.take(event)
        running.observe(use)
    assert said[0].startswith("sizes, P1: asked: ")
    assert said[1] == (
        "  at its next start, from the same checkpoint: spark.executor.memory=1315m spark.executor.memoryOverhead=512m"
    )
    assert len(said) == 2  # one action in flight
    assert around.decisions is not None
    assert [each.what for each in read_actions(around.decisions, "orders")] == ["asked"]
    around.decisions.close()
