"""A trial that is run, and its event log read afterwards: one definition of every figure, so the same answers."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from log_reading import batches as read_batches
from log_reading import measure, read_lines

from autotrascale.analyze import metrics
from autotrascale.analyze.facts import BatchFact
from autotrascale.analyze.joiner import Joiner
from autotrascale.analyze.metrics import WindowFacts
from autotrascale.analyze.stability import StabilityRules
from autotrascale.domain.snapshot import Snapshot
from autotrascale.execute.spark.common.spark_settings import SparkSettings, SparkTimeouts
from autotrascale.execute.spark.controller.trial_engine import SparkEngine
from autotrascale.monitor.eventlog.decoding import decode_line
from autotrascale.monitor.eventlog.events import QueryProgress


def trial(folder: Path) -> tuple[Snapshot, WindowFacts]:
    settings = SparkSettings(
        job="autotrascale.execute.spark.jobs.wordcount:WordCount",
        master="local[4]",
        prime_batches=1,
        window=StabilityRules(window_seconds=3.0, min_batches=4, tolerance=0.25, max_seconds=20.0),
        patience=SparkTimeouts(start=90.0, command=60.0, first_batch=60.0, finish_batch=20.0),
        conf={"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"},
        work_dir=str(folder),
        keep_event_log=True,
    )
    with SparkEngine(settings) as engine:
        told = engine.run(engine.topology.named((2, 3, 2, 1)), {"source": 200.0})
        assert told.snapshot is not None, told.detail
        assert engine.window is not None
        # The engine's own folder goes with it.
        (log,) = folder.glob("autotrascale-*/events")
        shutil.copytree(log, folder / "kept")
        return told.snapshot, engine.window


def window_of(batches: list[BatchFact], facts: WindowFacts) -> list[BatchFact]:
    """Return the consecutive batches that the trial was measured by."""
    for first in range(len(batches) - facts.batches + 1):
        taken = batches[first : first + facts.batches]
        records = sum(batch.input_records or 0 for batch in taken)
        if len({batch.run for batch in taken}) == 1 and (metrics.measure_window_seconds(taken), records) == (
            pytest.approx(facts.seconds),
            facts.records,
        ):
            return taken
    raise AssertionError(f"no window of {facts.batches} batches with {facts.records} records in {batches}")


@pytest.mark.spark
def test_the_log_of_a_trial_gives_the_snapshot_of_the_trial(tmp_path: Path) -> None:
    expected, facts = trial(tmp_path)
    log = tmp_path / "kept"
    batches = [batch for batch in read_batches(read_lines(log), Joiner(every_stage=True)) if batch.stages]
    taken = window_of(batches, facts)
    lines = [line for line in read_lines(log) if b"QueryProgressEvent" not in line or is_one_of(taken, line)]
    (tmp_path / "window").write_bytes(b"".join(lines))
    (one,) = measure(tmp_path / "window", tmp_path / "measured").snapshots()
    assert plain(one.snapshot) == plain(expected)


def is_one_of(taken: list[BatchFact], line: bytes) -> bool:
    event = decode_line(line)
    assert isinstance(event, QueryProgress)
    batch = event.progress.runId, event.progress.batchId
    return batch in {(each.run, each.batch) for each in taken}


def plain(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot without values that only the engine knows.

    These are the offered rate and its results, the bounds of operators, and critical paths, which an archive leaves to
    `autotrascale critical`.
    """
    operators = {
        name: replace(operator, backlog_records=None, minimum=1, maximum=None)
        for name, operator in snapshot.operators.items()
    }
    return replace(
        snapshot,
        job="any",
        p_max=99,
        operators=operators,
        source_rates={"source": 0.0},
        backlog_records=None,
        critical=None,
    )
