"""Effects of a trial on the outside world, and of the machine on a trial."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Bench, settings

from autotrascale.analyze.starvation import MOST_WAITING
from autotrascale.domain.trial import Verdict
from autotrascale.execute.spark.controller.live_own_job import LiveOwnJob


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
    """Eight workers compute on a single core."""
    trial = bench.run((1, 8, 1, 1), rate=100.0, burns=0.05)
    assert trial.shortage is not None, trial.detail
    assert trial.shortage.waiting is not None
    assert trial.shortage.waiting > MOST_WAITING


def test_the_control_loops_job_writes_to_its_own_sink(tmp_path: Path) -> None:
    with LiveOwnJob(settings(tmp_path, sink="discard"), {"source": 100.0}, tmp_path / "home") as live:
        assert live.settings.sink == "real"
        assert live._launcher.settings.sink == "real"
