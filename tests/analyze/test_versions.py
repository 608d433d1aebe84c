"""The law of versions: what a version of Spark writes is read exactly, what it does not write is not known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gathering import Row, batches, staged, windows
from making import VERSIONS, Batch, Log, Stage, Task, Version
from pyspark.sql import SparkSession

from autotrascale.analyze.archive.measuring import snapshot_of
from autotrascale.analyze.archive.pipeline import read
from autotrascale.analyze.archive.snapshots import measured, unmeasured
from autotrascale.analyze.facts import BatchFact, StateFact
from autotrascale.domain.snapshot import Snapshot
from autotrascale.monitor.eventlog.versions import DIFFERENCES

SOURCE = (Task(0, 100, 10, 2, gc=3, cpu=70_000_000, taken=40, sent=80), Task(1, 300, 10, 0, gc=5, taken=60, sent=120))
COUNT = (
    Task(0, 200, 4, 1, wait=5, gc=7, cpu=90_000_000, shuffled=150, written=8),
    Task(1, 100, 4, 0, wait=15, gc=1, shuffled=50, written=2),
)
KAFKA = ('{"shop":{"0":100}}', '{"shop":{"0":130}}')
IDS = [f"{major}.{minor}" for major, minor in VERSIONS]
every_version = pytest.mark.parametrize("version", VERSIONS, ids=IDS)


def log_of(version: Version) -> Log:
    """Two batches where there are streams, two runs of one query before."""
    log = Log(version)
    for number in range(2):
        at = 10_000 + 1000 * number
        stages = (Stage("source", SOURCE, at, at + 350), Stage("count", COUNT, at + 360, at + 600, (0,), stateful=True))
        times = ((at - 1000) * 1000, (at - 500) * 1000, at * 1000)
        marks = {"source": (100, *times), "count": (10,)}
        ended, newest = KAFKA
        told = Batch("r", number, at, 0.75, stages, marks, (100,), (100.0,), newest, ended, state=9, name="shop")
        log.batch(told)
    return log


def window_of(version: Version, folder: Path) -> Row:
    (window,) = windows(log_of(version).text(), folder).values()
    return window


def seen(version: Version, folder: Path) -> Snapshot:
    snapshot = snapshot_of(window_of(version, folder), 8)
    assert snapshot is not None
    return snapshot


@every_version
def test_no_line_is_taken_for_damage(version: Version, tmp_path: Path) -> None:
    tables, report = staged(log_of(version).text(), tmp_path)
    assert report.bad == 0
    assert [row["said"] for row in tables["applications"]] == ["shop"]
    assert (len(tables["completed"]), len(tables["jobs"]), len(tables["tasks"])) == (4, 2, 8)


@every_version
def test_times_of_tasks_are_exact_in_every_version(version: Version, tmp_path: Path) -> None:
    tables, _ = staged(log_of(version).text(), tmp_path)
    found = [
        tuple(row[name] for name in ("useful_ms", "deserialise_ms", "wait_ms", "gc_ms")) for row in tables["tasks"]
    ]
    assert found[:4] == [(112, 10, 0, 3), (310, 10, 0, 5), (200, 4, 5, 7), (89, 4, 15, 1)]


@every_version
def test_records_are_exact_since_they_are_counted_and_unknown_before(version: Version, tmp_path: Path) -> None:
    """Until 1.6 a task had no block for what it did not do, which is a zero in every version."""
    tables, _ = staged(log_of(version).text(), tmp_path)
    found = [tuple(row[name] for name in ("read", "sent", "written")) for row in tables["tasks"]][:4]
    if version >= (1, 3):
        assert found == [(40, 80, 0), (60, 120, 0), (150, 0, 8), (50, 0, 2)]
    else:
        assert found == [(None, None, 0), (None, None, 0), (None, 0, None), (None, 0, None)]


def test_without_counts_there_is_no_rate_and_so_no_snapshot(tmp_path: Path) -> None:
    assert snapshot_of(window_of((1, 2), tmp_path)) is None


@every_version
def test_operators_are_as_good_as_the_version_names_them(version: Version, tmp_path: Path) -> None:
    window = window_of(version, tmp_path)
    operators = [(each["name"], each["upstream"], each["stateful"]) for each in window["operators"]]
    if version >= (3, 0):
        expected: list[Any] = [("source", [], False), ("count", ["source"], True)]
    elif version >= (1, 4):
        second = "keep state"
        expected = [("read a stream", [], False), (second, ["read a stream"] if version >= (1, 5) else [], True)]
    else:
        expected = [("step0", [], False), ("step1", [], True)]
    assert operators == expected
    assert window["marked"] == (version >= (3, 0))


@pytest.mark.parametrize("version", VERSIONS[1:], ids=IDS[1:])
def test_a_snapshot_has_what_is_known_and_nothing_else(version: Version, tmp_path: Path) -> None:
    snapshot = seen(version, tmp_path)
    source, count = snapshot.operators.values()
    stream = version >= (2, 2)
    assert count.total.useful_seconds == pytest.approx(0.578)
    assert count.total.records_in == (400.0 if version < (3, 0) else 200.0)  # tasks' own counts, or the marks'
    assert source.parallelism == count.parallelism == 2
    assert (snapshot.latency_seconds.mean is None) == (version < (3, 0))
    assert (snapshot.backlog_records is None) == (version < (3, 1))
    assert count.backlog_records == (0.0 if stream else None)
    if version >= (3, 1):
        assert snapshot.backlog_records == 30 + 100.0 * 0.75
    if version < (1, 5):  # each operator stands alone, and is offered what it read
        assert snapshot.topology.sources == tuple(snapshot.operators)
        assert snapshot.source_rates == {"read a stream" if version == (1, 4) else "step0": 200 / 1.6} | {
            "keep state" if version == (1, 4) else "step1": 400 / 1.6
        }


@pytest.mark.parametrize("version", VERSIONS, ids=IDS)
def test_a_stream_has_its_batches_since_jobs_say_which(version: Version, tmp_path: Path) -> None:
    window = window_of(version, tmp_path)
    assert (window["run"] == "r") == (version >= (2, 2))
    expected = 100 if version >= (2, 2) else None
    assert [batch["input_records"] for batch in window["batches"]] == [expected] * 2


def live(version: Version) -> list[BatchFact]:
    return batches(log_of(version).lines)


@pytest.mark.parametrize("version", [version for version in VERSIONS if version >= (2, 4)], ids=str)
def test_state_and_cpu_of_a_live_job(version: Version) -> None:
    first, _ = live(version)
    size, took = 100, 0.007 if version >= (3, 2) else None
    assert first.states == (StateFact(9, size, took),)
    if version >= (3, 0):
        assert [task.cpu_ns for task in first.tasks] == [77_000_000, 0, 99_000_000, 0]
        assert [task.slot_ms for task in first.tasks] == [112, 310, 205, 104]


def test_every_difference_is_told_of_in_the_documentation() -> None:
    text = (Path(__file__).parents[2] / "docs" / "event-logs.md").read_text()
    for difference in DIFFERENCES:
        major, minor = difference.since
        assert f"| {major}.{minor} | {difference.event} | {difference.field} | {difference.without} |" in text
    assert list(DIFFERENCES) == sorted(DIFFERENCES, key=lambda each: each.since)


@pytest.mark.spark
def test_logs_of_all_versions_together_through_spark(spark: SparkSession, tmp_path: Path) -> None:
    """One archive of them all gives what each gives alone, and says how many windows have no snapshot."""
    logs, expected = tmp_path / "logs", {}
    logs.mkdir()
    for version, name in zip(VERSIONS, IDS, strict=True):
        text = log_of(version).text().replace('"shop"', f'"shop-{name}"')
        text = text.replace('"runId":"r"', f'"runId":"r-{name}"').replace('Group.id":"r"', f'Group.id":"r-{name}"')
        text = text.replace("runId = r<", f"runId = r-{name}<")
        (logs / f"app-{name}").write_text(text)
        (tmp_path / name).mkdir()
        (window,) = windows(text, tmp_path / name).values()
        expected[f"shop-{name}"] = snapshot_of({**window, "job": f"shop-{name}"}, 8)
    archive = read(spark, [str(logs)], str(tmp_path / "work"))
    table = archive.windows(None, p_max=8)
    assert archive.damages == ()
    assert unmeasured(table) == {"shop-1.2": 1}
    assert {one.snapshot.job: one.snapshot for one in measured(table)} | {"shop-1.2": None} == expected
    archive.write(table, str(tmp_path / "out"))
    kept = spark.read.parquet(f"{tmp_path}/out/snapshots").where("snapshot is null").collect()
    assert [row["job"] for row in kept] == ["shop-1.2"]
