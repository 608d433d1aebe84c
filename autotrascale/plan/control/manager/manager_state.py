"""What the manager's guards look at: the knobs, what earlier steps left behind, and the snapshot of now."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from autotrascale.domain.decision import Reason
from autotrascale.domain.snapshot import Snapshot
from autotrascale.plan.control.manager.knobs import Knobs
from autotrascale.plan.sizing.demand import Demand, measure_demand
from autotrascale.plan.sizing.sizing import Unsized, size

SMALL_BACKLOG_SECONDS, LARGE_BACKLOG_SECONDS = (
    0.1,
    1.0,
)  # seconds of input: a smaller backlog grows and shrinks by chance; a larger one counts


@dataclass(frozen=True)
class MeasuredRun:
    """What one look showed, as far as the next rescale is judged by it."""

    parallelism: Mapping[str, int]
    throughput: float | None = None
    backlog: float | None = None
    capacity: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True)
class RejectedParallelism:
    """A parallelism that made things worse, and the rate that it did carry: up to that one it may be tried again."""

    parallelism: Mapping[str, int]
    carried: float
    at: float = 0.0


@dataclass(frozen=True)
class IneffectiveScaleUp:
    """A parallelism of one operator that added no capacity."""

    k: int
    at: float = 0.0


@dataclass(frozen=True)
class CapacityCorrection:
    """Measured capacity times `factor` is the real one. One bad window teaches nothing, and what was learned is tried
    without again after `patience` good ones; where that goes wrong, it takes twice as many the next time."""

    factor: float = 1.0
    carried: float = 0.0  # the throughput that was reached when it was learned
    bad: float | None = None  # achieved over offered in the last window, where that was too little
    good: int = 0  # windows in a row that reached the rate
    patience: int = 20


@dataclass(frozen=True)
class ManagerState:
    """What one step of the manager leaves for the next."""

    last: MeasuredRun | None = None  # the last look
    requested: Mapping[str, int] | None = None  # the last change that was asked for, until it is seen to run
    going_back: bool = False  # … and it was a rollback, which is not compared
    asked_at: float | None = None
    rescaled_at: float | None = None
    intervals_to_ignore: int = 0
    before_rescale: MeasuredRun | None = None  # the last look before a rescale of ours that is not compared yet
    doubtful: bool = False  # … of which one window said that it made things worse
    votes: tuple[Mapping[str, int], ...] = ()  # what the policy said at the last intervals
    recommended: tuple[tuple[float, Mapping[str, int]], ...] = ()  # … and within the scale-down delay, with the time
    correction: CapacityCorrection = field(default_factory=CapacityCorrection)
    rejected: tuple[RejectedParallelism, ...] = ()
    small_gains: int = 0
    stalled_at: float = 0.0  # the throughput at the last small gain
    ineffective: Mapping[str, IneffectiveScaleUp] = field(default_factory=dict)
    standstills: tuple[float, ...] = ()  # seconds that the last rescales stopped the job

    @property
    def stands_still(self) -> bool:
        """Whether a rescale stops the job, as far as was seen: executors come and go while it runs."""
        return not self.standstills or statistics.median(self.standstills) > 0


@dataclass(frozen=True)
class ManagerContext:
    """One step's view. `snapshot` is as measured; `now` is in seconds on any steady clock."""

    knobs: Knobs
    state: ManagerState
    snapshot: Snapshot
    now: float
    before: MeasuredRun | None = None  # the look before this one
    not_down: Reason | None = None  # why nothing may be given back now

    @cached_property
    def running(self) -> dict[str, int]:
        return self.snapshot.parallelism

    @cached_property
    def demand(self) -> Demand:
        """As measured, without what the adjustments add."""
        return measure_demand(self.snapshot)

    @cached_property
    def busy(self) -> dict[str, float]:
        """Utilisation of every operator whose load is known, at the parallelism that runs. Stages and workers share."""
        sized = size(self.snapshot)
        if self.snapshot.execution == "pipelined" or isinstance(sized, Unsized):
            return {name: load / self.running[name] for name, load in self.demand.load.items() if load is not None}
        return dict.fromkeys(self.running, sized.busy(tuple(self.running.values())))

    @cached_property
    def catching_up(self) -> bool | None:
        """Whether there is a backlog worth the name; None when nobody says how large it is."""
        backlog = self.snapshot.backlog_records
        return None if backlog is None else backlog > self.knobs.backlog_seconds * self.snapshot.target_rate

    @cached_property
    def behind(self) -> bool:
        """A backlog that is large, or grows: nothing that leaves small changes alone may hide it."""
        backlog, rate = self.snapshot.backlog_records or 0.0, self.snapshot.target_rate
        before = self.before.backlog if self.before else None
        growing = before is not None and backlog > before and backlog > SMALL_BACKLOG_SECONDS * rate
        return growing or backlog > max(self.knobs.backlog_seconds, LARGE_BACKLOG_SECONDS) * rate

    @property
    def restart_seconds(self) -> float:
        """How long a rescale stops the job: the median of those seen, the knob being the first guess."""
        guess = (self.knobs.restart_seconds,) if self.knobs.restart_seconds else ()
        return statistics.median(known) if (known := (*guess, *self.state.standstills)) else 0.0

    def bounds(self, name: str) -> tuple[int, int]:
        """Least and most instances: the job's own bounds and the knobs', whichever is tighter."""
        metrics = self.snapshot.operators[name]
        most = min(metrics.maximum or self.snapshot.p_max, self.snapshot.p_max)
        return max(metrics.minimum, self.knobs.minimum.get(name, 1)), min(most, self.knobs.maximum.get(name, most))

    def after(self, **changes: object) -> ManagerContext:
        """The same situation with a changed state."""
        return replace(self, state=replace(self.state, **changes))  # type: ignore[arg-type]
