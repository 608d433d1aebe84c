"""What a trial does to the world outside, and what the world outside does to a trial."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest
from conftest import Bench, settings

from autotrascale.analyze.starvation import MOST_WAITING
from autotrascale.domain.trial import Verdict
from autotrascale.execute.spark.connection.processes import session_members
from autotrascale.execute.spark.live import LiveSpark


@pytest.mark.spark
def test_a_trial_calls_no_foreach_batch_and_counts_what_it_drops(bench: Bench, tmp_path: Path) -> None:
    left = tmp_path / "left"
    before = bench.engine.output_records or 0
    trial = bench.run((1, 2, 2, 1), rate=200.0, writes=str(left))
    assert trial.verdict is Verdict.STABLE, trial.detail
    assert not left.exists()
    assert bench.engine.output_records is not None
    assert bench.engine.output_records > before


@pytest.mark.spark
def test_tasks_that_compute_on_one_core_are_starved(bench: Bench) -> None:
    """Eight tasks that want a core each, and one core between them."""
    cores = os.sched_getaffinity(0)
    leader = bench.engine._ready().process.pid
    try:
        _pin(leader, {min(cores)})
        trial = bench.run((1, 8, 1, 1), rate=200.0, burns=0.2)
    finally:
        _pin(leader, cores)
    assert trial.shortage is not None
    assert trial.shortage.waiting is not None
    assert trial.shortage.waiting > MOST_WAITING


def _pin(leader: int, cores: set[int]) -> None:
    """Every thread of the session: those that are there keep their cores when only a process' first one is moved."""
    for process in session_members(leader):
        for thread in process.threads():
            with suppress(ProcessLookupError):
                os.sched_setaffinity(thread.id, cores)


def test_the_control_loops_job_writes_to_its_own_sink(tmp_path: Path) -> None:
    with LiveSpark(settings(tmp_path, sink="discard"), {"source": 100.0}, tmp_path / "home") as live:
        assert live.settings.sink == "real"
        assert live._hosting.settings.sink == "real"
