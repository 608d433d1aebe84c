"""The state of the scaling manager, and the context that its gates, adjustments and guards look at."""

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

SMALL_BACKLOG_SECONDS = 0.1  # of input; a smaller backlog grows and shrinks by chance
LARGE_BACKLOG_SECONDS = 1.0  # of input; a larger backlog means that the job is behind


@dataclass(frozen=True)
class MeasuredRun:
    """The part of an observation that the next rescale is judged by."""

    parallelism: Mapping[str, int]
    throughput: float | None = None  # records/s
    backlog: float | None = None  # records
    capacity: Mapping[str, float | None] = field(default_factory=dict)  # records/s of one instance


@dataclass(frozen=True)
class RejectedParallelism:
    """A parallelism that made things worse. Up to the rate that it carried, it may be tried again."""

    parallelism: Mapping[str, int]
    carried: float  # records/s
    at: float = 0.0


@dataclass(frozen=True)
class IneffectiveScaleUp:
    """A parallelism of one operator that added no capacity."""

    k: int
    at: float = 0.0


@dataclass(frozen=True)
class CapacityCorrection:
    """The factor between real and measured capacity.

    One bad window teaches nothing. After `patience` good windows a part of the correction is dropped. If the next
    window is bad again, `patience` doubles.
    """

    factor: float = 1.0
    carried: float = 0.0  # records/s at which it was learned
    bad: float | None = None  # carried over offered rate in the last window, if too low
    good: int = 0  # windows in a row that reached the rate
    patience: int = 20


@dataclass(frozen=True)
class ManagerState:
    """The state of the scaling manager between two steps. Times are seconds on any steady clock."""

    last: MeasuredRun | None = None  # the last observation
    requested: Mapping[str, int] | None = None  # the last requested change, until it is seen to run
    going_back: bool = False  # `requested` is a rollback, whose effect is not judged
    asked_at: float | None = None  # when the policy was asked last
    rescaled_at: float | None = None
    intervals_to_ignore: int = 0
    before_rescale: MeasuredRun | None = None  # the last run before our rescale; None: that rescale was judged
    doubtful: bool = False  # one window says that the rescale made things worse
    votes: tuple[Mapping[str, int], ...] = ()  # the policy's answers of the last intervals
    recommended: tuple[tuple[float, Mapping[str, int]], ...] = ()  # … and within the scale-down delay, with their time
    correction: CapacityCorrection = field(default_factory=CapacityCorrection)
    rejected: tuple[RejectedParallelism, ...] = ()
    small_gains: int = 0
    stalled_at: float = 0.0  # records/s at the last small gain
    ineffective: Mapping[str, IneffectiveScaleUp] = field(default_factory=dict)
    standstills: tuple[float, ...] = ()  # seconds, of the last rescales

    @property
    def rescales_stop_job(self) -> bool:
        """True if rescales stop the job, by the median so far. Executors come and go without a standstill."""
        return not self.standstills or statistics.median(self.standstills) > 0


@dataclass(frozen=True)
class ManagerContext:
    """Everything that one step of the scaling manager looks at. `snapshot` is as measured."""

    knobs: Knobs
    state: ManagerState
    snapshot: Snapshot
    now: float
    before: MeasuredRun | None = None  # the previous observation
    no_scale_down: Reason | None = None  # why nothing may be given back now

    @cached_property
    def running(self) -> dict[str, int]:
        return self.snapshot.parallelism

    @cached_property
    def demand(self) -> Demand:
        """The demand as measured, without adjustments."""
        return measure_demand(self.snapshot)

    @cached_property
    def utilisation(self) -> dict[str, float]:
        """The utilisation of each operator whose load is known. Stages of a batch, and workers, share one value."""
        sized = size(self.snapshot)
        if self.snapshot.execution == "pipelined" or isinstance(sized, Unsized):
            return {name: load / self.running[name] for name, load in self.demand.load.items() if load is not None}
        return dict.fromkeys(self.running, sized.busy(tuple(self.running.values())))

    @cached_property
    def has_backlog(self) -> bool | None:
        """True if the backlog is larger than the `backlog_seconds` knob allows; None if it is unknown."""
        backlog = self.snapshot.backlog_records
        return None if backlog is None else backlog > self.knobs.backlog_seconds * self.snapshot.target_rate

    @cached_property
    def is_behind(self) -> bool:
        """True if the backlog is large, or grows. Then even a small scale-up is carried out."""
        backlog, rate = self.snapshot.backlog_records or 0.0, self.snapshot.target_rate
        before = self.before.backlog if self.before else None
        is_growing = before is not None and backlog > before and backlog > SMALL_BACKLOG_SECONDS * rate
        return is_growing or backlog > max(self.knobs.backlog_seconds, LARGE_BACKLOG_SECONDS) * rate

    @property
    def standstill_seconds(self) -> float:
        """The expected standstill of a rescale: the median of those seen and of the `restart_seconds` knob."""
        guess = (self.knobs.restart_seconds,) if self.knobs.restart_seconds else ()
        return statistics.median(known) if (known := (*guess, *self.state.standstills)) else 0.0

    def get_bounds(self, name: str) -> tuple[int, int]:
        """Return the minimum and maximum of an operator, by the job and the knobs."""
        metrics = self.snapshot.operators[name]
        most = min(metrics.maximum or self.snapshot.p_max, self.snapshot.p_max)
        return max(metrics.minimum, self.knobs.minimum.get(name, 1)), min(most, self.knobs.maximum.get(name, most))

    def with_state(self, **changes: object) -> ManagerContext:
        """Return the context with a changed state."""
        return replace(self, state=replace(self.state, **changes))  # type: ignore[arg-type]
