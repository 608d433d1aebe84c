"""The law of versions: written fields are read exactly, fields that a version does not write are unknown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from log_reading import archived_batches, batches, measure, measure_text
from making import VERSIONS, Batch, Log, Stage, Task, Version

from autotrascale.analyze.archive.windows import OperatorsSeen
from autotrascale.analyze.facts import BatchFact, StateFact
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.topology import Topology

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


def read(version: Version) -> list[BatchFact]:
    return archived_batches(log_of(version).lines)


def seen(version: Version, folder: Path) -> Snapshot:
    (one,) = measure_text(log_of(version).text(), folder, 8).values()
    return one.snapshot


def operators_of(batches: list[BatchFact]) -> Topology:
    seen = OperatorsSeen()
    for batch in batches:
        seen.add(batch)
    return seen.topology()


@every_version
def test_no_line_is_taken_for_damage(version: Version, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(log_of(version).text())
    archive = measure(tmp_path / "log", tmp_path / "measured")
    assert archive.damages == ()
    assert archive.jobs == ["shop"]
    batches = read(version)
    assert [(len(batch.stages), len(batch.tasks)) for batch in batches] == [(2, 4), (2, 4)]


@every_version
def test_times_of_tasks_are_exact_in_every_version(version: Version) -> None:
    tasks = read(version)[0].tasks
    found = [(task.useful_ms, task.deserialise_ms, task.wait_ms, task.gc_ms) for task in tasks]
    assert found == [(112, 10, 0, 3), (310, 10, 0, 5), (200, 4, 5, 7), (89, 4, 15, 1)]


@every_version
def test_records_are_exact_since_they_are_counted_and_unknown_before(version: Version) -> None:
    """Until 1.6 a task had no block of metrics for work that it did not do: a zero in every version."""
    found = [(task.read, task.sent, task.written) for task in read(version)[0].tasks]
    if version >= (1, 3):
        assert found == [(40, 80, 0), (60, 120, 0), (150, 0, 8), (50, 0, 2)]
    else:
        assert found == [(None, None, 0), (None, None, 0), (None, 0, None), (None, 0, None)]


def test_without_counts_there_is_no_rate_and_so_no_snapshot(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(log_of((1, 2)).text())
    archive = measure(tmp_path / "log", tmp_path / "measured")
    assert archive.unmeasured == {"shop": 1}
    assert list(archive.snapshots()) == archive.newest() == []
    archive.write(str(tmp_path / "out"))
    (row,) = ds.dataset(tmp_path / "out" / "snapshots", partitioning="hive").to_table().to_pylist()
    assert (row["job"], row["snapshot"]) == ("shop", None)


@every_version
def test_operators_are_as_good_as_the_version_names_them(version: Version) -> None:
    batches = read(version)
    operators = [(name, each.upstream, each.stateful) for name, each in operators_of(batches).operators.items()]
    if version >= (3, 0):
        expected: list[Any] = [("source", (), False), ("count", ("source",), True)]
    elif version >= (1, 4):
        second = "keep state"
        expected = [("read a stream", (), False), (second, ("read a stream",) if version >= (1, 5) else (), True)]
    else:
        expected = [("step0", (), False), ("step1", (), True)]
    assert operators == expected
    assert [batch.marked for batch in batches] == [version >= (3, 0)] * 2


@pytest.mark.parametrize("version", VERSIONS[1:], ids=IDS[1:])
def test_a_snapshot_has_the_known_values_of_its_version(version: Version, tmp_path: Path) -> None:
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


@every_version
def test_a_stream_has_its_batches_since_jobs_say_which(version: Version) -> None:
    batches = read(version)
    assert {batch.run == "r" for batch in batches} == {version >= (2, 2)}
    assert [batch.input_records for batch in batches] == [100 if version >= (2, 2) else None] * 2


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
