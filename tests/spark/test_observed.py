"""The reported parallelism is the observed one: a source such as Kafka sets its own number of partitions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from autotrascale.analyze import metrics
from autotrascale.analyze.facts import BatchFact, MarkFact, StageFact, TaskFact
from autotrascale.analyze.live.measurer import RATES_UNKNOWN, JobMeasurer, describe_difference
from autotrascale.analyze.stability import StabilityRules
from autotrascale.domain.topology import Topology
from autotrascale.execute.spark.common.spark_settings import SparkSettings
from autotrascale.execute.spark.controller.live_own_job import LiveOwnJob

CHAIN = Topology.chain("source", "count")
ASKED, RAN = {"source": 2, "count": 3}, {"source": 4, "count": 3}


def batch(number: int, arrivals: bool = True) -> BatchFact:
    at = 1_000_000 + 1000 * number
    times = (at / 1000 - 1, at / 1000 - 0.5, at / 1000) if arrivals else (None, None, None)
    stages = (
        StageFact(2 * number, "source", 4, at, at + 300),
        StageFact(2 * number + 1, "count", 3, at + 300, at + 800),
    )
    tasks = tuple(TaskFact(stage.stage, i, 100, read=25, sent=25) for stage in stages for i in range(stage.tasks))
    marks = {"source": MarkFact(100, *times), "count": MarkFact(100)}
    return BatchFact(number, "r", at, 1.0, 100 if arrivals else None, marks=marks, stages=stages, tasks=tasks)


class Watched:
    """A watch with a fixed list of batches."""

    def __init__(self, batches: list[BatchFact]) -> None:
        self.batches = batches

    def since(self, at_ms: float) -> list[BatchFact]:
        return [one for one in self.batches if one.started_ms >= at_ms]

    def forget(self, before_ms: float) -> None:
        pass

    def in_flight(self, now_ms: float) -> None:
        pass


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveOwnJob]:
    """Yield a live job whose driver is replaced by fixed facts."""
    settings = SparkSettings(job="some:Job", master="local[4]", work_dir=str(tmp_path / "work"), p_max=8)
    job = LiveOwnJob(settings, {"source": 100.0}, tmp_path / "home")
    watch = Watched([batch(number) for number in range(6)])
    connection: Any = SimpleNamespace(
        watch=watch,
        topology=CHAIN,
        ready=SimpleNamespace(job="shop", slots=8),
        poll=lambda: None,
        is_lost=lambda: False,
        last_commit_ms=lambda: watch.batches[-1].committed_ms,
        close=lambda: None,
        kill=lambda: None,
    )
    query: Any = SimpleNamespace(
        running=True, parallelism=ASKED, rates={"source": 100.0}, generated=(), window_from_ms=0.0
    )
    job._launcher.connection, job._query = connection, query
    yield job
    query.running = False
    job.close()


def test_a_look_says_what_ran_and_not_what_was_asked_for(live: LiveOwnJob) -> None:
    look = live.observe()
    assert look.snapshot is not None
    assert look.running == look.snapshot.parallelism == RAN
    again = live.observe()
    assert again.snapshot is None
    assert again.running == RAN


@pytest.mark.parametrize("wanted", [ASKED, RAN])
def test_a_rescale_to_what_runs_or_was_asked_for_changes_nothing(live: LiveOwnJob, wanted: dict[str, int]) -> None:
    rescaled = live.rescale(wanted)
    assert (rescaled.done, rescaled.running, rescaled.standstill_seconds) == (True, RAN, 0.0)


def test_a_trial_says_where_it_ran_otherwise_than_asked() -> None:
    assert "source ran on 4 instances" in describe_difference(ASKED, RAN)
    assert describe_difference(ASKED, ASKED) == describe_difference(ASKED, {}) == ""


def test_a_trial_is_measured_when_it_can_be_judged() -> None:
    ends = [batch(number) for number in range(20)]
    watch: Any = Watched([])
    clock = [0.0]

    def poll() -> None:
        watch.batches.append(ends[len(watch.batches)])
        clock[0] = watch.batches[-1].committed_ms

    waits: list[int] = []
    measured = JobMeasurer("shop", CHAIN, 8).trial(
        watch, StabilityRules(3.0, 4), 999_000.0, poll=poll, now_ms=lambda: clock[0], wait=lambda: waits.append(1)
    )
    assert measured.steady
    assert measured.snapshot == metrics.take_snapshot("shop", CHAIN, 8, {"source": 100.0}, watch.batches[-4:])
    assert len(waits) == len(watch.batches) - 1
    assert measured.window is not None
    assert measured.window.batches == 4


def test_of_a_source_of_which_nobody_says_the_rate_there_is_no_snapshot(live: LiveOwnJob) -> None:
    silent = [batch(number, arrivals=False) for number in range(3)]
    live._launcher.connection.watch.batches = [_uncounted(one) for one in silent]  # type: ignore[union-attr]
    look = live.observe()
    assert look.snapshot is None
    assert look.detail == RATES_UNKNOWN
    assert look.running == RAN
    ours = JobMeasurer("shop", CHAIN, 8, lambda _begin, _end: {"source": 50.0}).snapshot([_uncounted(silent[0])])
    assert ours is not None
    assert ours.source_rates == {"source": 50.0}


def _uncounted(told: BatchFact) -> BatchFact:
    return BatchFact(told.batch, told.run, told.started_ms, told.seconds, None, stages=told.stages, tasks=told.tasks)
