"""The contract suite of live jobs. Inherit the class and name a job that it can run:

    class TestMyLiveJob(LiveContract):
        calm = {"source": 2, "count": 4}
        other = {"source": 2, "count": 5}
        settle_seconds = 30.0

        def open(self, home: Path) -> LiveJob: ...

`open` with the same `home` returns the same job, as a later process finds it. Each test gets its own home. Override the
`live` fixture with a wider scope if the job is slow to start: the tests that use the fixture leave the job running.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

import pytest

from autotrascale.domain.errors import InputError
from autotrascale.domain.snapshot import Snapshot
from autotrascale.execute.live_job import LiveJob


class LiveContract:
    """Tests that every live job must pass."""

    calm: ClassVar[Mapping[str, int]]  # keeps up easily
    other: ClassVar[Mapping[str, int]]  # another parallelism that keeps up
    settle_seconds: ClassVar[float]  # until the first snapshot

    def open(self, home: Path) -> LiveJob:
        raise NotImplementedError("the inheriting class opens the job")

    @pytest.fixture
    def live(self, tmp_path: Path) -> Iterator[LiveJob]:
        with self.open(tmp_path) as live:
            live.start(self.calm)
            yield live

    def test_it_names_its_operators_and_its_bounds(self, live: LiveJob) -> None:
        assert set(live.topology) == set(self.calm)
        assert live.p_max >= max(*self.calm.values(), *self.other.values())
        assert live.name
        assert isinstance(live.simulated, bool)

    def test_a_job_that_runs_is_left_as_it_is_by_another_start(self, live: LiveJob) -> None:
        before = running_parallelism(live.observe().running)
        assert running_parallelism(live.start(self.other if before == dict(self.calm) else self.calm).running) == before

    def test_its_clock_goes_on(self, live: LiveJob) -> None:
        before = live.observe().at
        live.wait(self.settle_seconds)
        assert live.observe().at >= before + 0.9 * self.settle_seconds

    def test_after_a_while_it_can_be_measured(self, live: LiveJob) -> None:
        snapshot = wait_for_snapshot(live, self.settle_seconds)
        assert snapshot.parallelism == running_parallelism(live.observe().running)
        assert set(snapshot.source_rates) == set(live.topology.sources)
        assert snapshot.target_rate > 0
        assert snapshot.throughput is not None
        for name, operator in snapshot.operators.items():
            assert operator.total.records_in is not None, name
            assert operator.total.useful_seconds is not None, name

    def test_its_metrics_are_not_from_the_future(self, live: LiveJob) -> None:
        live.wait(self.settle_seconds)
        seen = live.observe()
        assert seen.measured_at is None or seen.measured_at <= seen.at

    def test_an_observation_without_a_snapshot_has_a_reason(self, live: LiveJob) -> None:
        wait_for_snapshot(live, self.settle_seconds)
        again = live.observe()  # at once: hardly anything can have been measured since
        assert again.snapshot is not None or again.detail

    def test_a_rescale_changes_the_parallelism_and_reports_its_standstill(self, live: LiveJob) -> None:
        wanted = self.other if running_parallelism(live.observe().running) == dict(self.calm) else self.calm
        before = live.observe().at
        rescaled = live.rescale(wanted)
        assert rescaled.done, rescaled.detail
        assert running_parallelism(rescaled.running) == dict(wanted)
        assert rescaled.standstill_seconds > 0
        assert rescaled.at >= before
        assert running_parallelism(live.observe().running) == dict(wanted)
        assert wait_for_snapshot(live, self.settle_seconds).parallelism == dict(wanted)

    def test_a_rescale_to_the_running_parallelism_stops_nothing(self, live: LiveJob) -> None:
        rescaled = live.rescale(running_parallelism(live.observe().running))
        assert rescaled.done
        assert rescaled.standstill_seconds == 0

    @pytest.mark.parametrize("instances", [0, -1, True, 1.0, 10**9])
    def test_an_impossible_number_of_instances_is_refused(self, live: LiveJob, instances: int) -> None:
        running = running_parallelism(live.observe().running)
        name = next(iter(running))
        with pytest.raises(InputError) as caught:
            live.rescale({**running, name: instances})
        assert "\n" not in str(caught.value)
        assert running_parallelism(live.observe().running) == running

    def test_a_parallelism_for_other_operators_is_refused(self, live: LiveJob) -> None:
        running = running_parallelism(live.observe().running)
        _, *others = running
        for wrong in (dict.fromkeys(others, 1), {**running, "no-such-operator": 1}):
            with pytest.raises(InputError):
                live.rescale(wrong)
        assert running_parallelism(live.observe().running) == running

    def test_it_is_started_as_asked_closed_for_good_and_found_by_a_later_process_as_it_was_left(
        self, tmp_path: Path
    ) -> None:
        """A single test, since a job may be slow to start."""
        live = self.open(tmp_path)
        assert running_parallelism(live.start(self.calm).running) == dict(self.calm)
        wait_for_snapshot(live, self.settle_seconds)
        assert live.rescale(self.other).done
        before = live.observe().at
        live.close()
        live.close()
        assert live.observe().running is None
        with self.open(tmp_path) as later:
            seen = later.start(self.calm)
            assert running_parallelism(seen.running) == dict(self.other)
            assert seen.at >= before


def running_parallelism(running: Mapping[str, int] | None) -> dict[str, int]:
    assert running is not None
    return dict(running)


def wait_for_snapshot(live: LiveJob, settle_seconds: float) -> Snapshot:
    """Return the next snapshot. The first one may take longer than the later ones."""
    for _ in range(3):
        live.wait(settle_seconds)
        seen = live.observe()
        if seen.snapshot is not None:
            return seen.snapshot
    raise AssertionError(seen.detail)
