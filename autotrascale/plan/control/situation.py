"""What the manager's guards look at: the knobs, what earlier steps left behind, and the snapshot of now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from autotrascale.domain.snapshot import Snapshot
from autotrascale.plan.control.knobs import Knobs
from autotrascale.plan.sizing.demand import Demand, measure_demand
from autotrascale.plan.sizing.floor import busy_share


@dataclass(frozen=True)
class Rejection:
    """A parallelism that made things worse, and the rate that it did carry: up to that one it may be tried again."""

    parallelism: Mapping[str, int]
    carried: float


@dataclass(frozen=True)
class State:
    """What one step of the manager leaves for the next. Planned, requested and observed are kept apart."""

    seen: Snapshot | None = None  # the last snapshot: what was observed to run
    requested: Mapping[str, int] | None = None  # the last change that was asked for
    going_back: bool = False  # … and it was a rollback, which is not judged
    asked_at: float | None = None
    rescaled_at: float | None = None
    intervals_to_ignore: int = 0
    unjudged: Snapshot | None = None  # the last look before a rescale of ours that nobody has judged yet
    votes: tuple[Mapping[str, int], ...] = ()  # what the policy said at the last intervals
    wishes: tuple[tuple[float, Mapping[str, int]], ...] = ()  # … and within the scale-down delay, with the time
    correction: float = 1.0  # measured capacity times this is the real one
    corrected_at: float = 0.0  # the throughput that was reached when it was learned
    rejected: tuple[Rejection, ...] = ()
    small_gains: int = 0
    stalled_at: float = 0.0  # the throughput at the last small gain
    ineffective: Mapping[str, int] = field(default_factory=dict)  # operator → parallelism that added no capacity


@dataclass(frozen=True)
class Situation:
    """One step's view. `snapshot` is as measured; `now` is in seconds on any steady clock."""

    knobs: Knobs
    state: State
    snapshot: Snapshot
    now: float

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
        if self.snapshot.execution == "pipelined" or self.demand.gaps:
            return {name: load / self.running[name] for name, load in self.demand.load.items() if load is not None}
        loads = [load or 0.0 for load in self.demand.load.values()]
        shot = self.snapshot
        busy = busy_share(shot.execution, shot.overhead_share or 0.0, loads, list(self.running.values()))
        return dict.fromkeys(self.running, busy)

    @cached_property
    def catching_up(self) -> bool | None:
        """Whether there is a backlog worth the name; None when nobody says how large it is."""
        backlog = self.snapshot.backlog_records
        return None if backlog is None else backlog > self.knobs.backlog_seconds * self.snapshot.target_rate

    def bounds(self, name: str) -> tuple[int, int]:
        """Least and most instances: the job's own bounds and the knobs', whichever is tighter."""
        metrics = self.snapshot.operators[name]
        most = min(metrics.maximum or self.snapshot.p_max, self.snapshot.p_max)
        return max(metrics.minimum, self.knobs.minimum.get(name, 1)), min(most, self.knobs.maximum.get(name, most))

    def after(self, **changes: object) -> Situation:
        """The same situation with a changed state."""
        return replace(self, state=replace(self.state, **changes))  # type: ignore[arg-type]
