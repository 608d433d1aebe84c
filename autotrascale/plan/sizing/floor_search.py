"""The search for the throughput floor: recommend, run, measure, until it holds the rate (AuTraScale §III-C, §V-B).

One measurement sizes every operator. Capacity is not linear in the parallelism, so the next measurement corrects it.

    search = ThroughputSearch(topology, source_rates={"source": 350_000}, p_max=40)
    while not search.finished:
        search.tell(run(search.ask()))     # a Snapshot, or None when the run failed
    search.result                          # the floor k', whether it holds the rate, the stop reason
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from autotrascale.domain import checks
from autotrascale.domain.errors import InputError, StudyError
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.target import Target
from autotrascale.domain.topology import Topology, check_source_rates
from autotrascale.plan.sizing.sizing import Sizing, Unsized, size

_ALL_BUSY = 0.95  # share of its time from which an instance counts as saturated
_MOST_CORRECTION = 2.0  # largest target rate ratio


class StopReason(StrEnum):
    """The reason why the search stopped."""

    TARGET_MET = "target-met"
    REPEATED = "repeated"  # the last run recommends itself
    CYCLE = "cycle"  # an earlier run is recommended again
    STEP_LIMIT = "step-limit"
    FAILED = "failed"  # a run failed twice, or twice lacked measurements


@dataclass(frozen=True)
class FloorStep:
    """One run of the search.

    Args:
        parallelism: observed instances by operator.
        throughput: records per second; None when the run failed or the throughput is not known.
        keeps_up: False when the run was judged to fall behind, at any throughput.
        sizing: sizing of the run's snapshot; None when measurements were missing.
    """

    parallelism: Mapping[str, int]
    throughput: float | None
    keeps_up: bool = True
    sizing: Sizing | None = None

    @property
    def instances(self) -> int:
        """Instances of all operators."""
        return sum(self.parallelism.values())


@dataclass(frozen=True)
class FloorSearchResult:
    """The result of the search.

    Args:
        parallelism: floor k' by operator.
        met: the floor holds the rate.
        stop_reason: why the search stopped.
        steps: the runs, in order.
        more_is_useless: more instances of every saturated operator carried no more, so something else limits the job.
    """

    parallelism: Mapping[str, int]
    met: bool
    stop_reason: StopReason
    steps: tuple[FloorStep, ...]
    more_is_useless: bool = False


class ThroughputSearch:
    """The search for the floor of one job at one rate.

    A search that starts above the floor stops where it starts. For a running job, start from a recommendation.

    Args:
        topology: operators and streams.
        source_rates: offered rate of each source in records per second.
        p_max: most instances of any operator.
        target: latency target, which limits batch times. Default: no limit.
        start: parallelism of the first run. Default: the minimum of every operator, as in the paper.
        tolerance: a throughput within this share of the offered rate holds it, default 0.02.
        noise: relative error of a throughput, default 0.02.
        max_steps: most runs, default 10.
        corrections: times that a recommendation which repeats itself without holding the rate is explained by a
            capacity measured too high (DS2 §4.2.1, target rate ratio), default 0. differs: the paper stops at once.
    """

    def __init__(
        self,
        topology: Topology,
        source_rates: Mapping[str, float],
        p_max: int,
        *,
        target: Target | None = None,
        start: Mapping[str, int] | None = None,
        tolerance: float = 0.02,
        noise: float = 0.02,
        max_steps: int = 10,
        corrections: int = 0,
    ) -> None:
        checks.count("p_max", p_max)
        checks.count("corrections", corrections, least=0)
        checks.count("max_steps", max_steps)
        checks.share("tolerance", tolerance)
        checks.share("noise", noise)
        check_source_rates(topology, source_rates)
        self.topology, self.source_rates, self.p_max = topology, dict(source_rates), p_max
        self.target, self.tolerance, self.noise, self.max_steps = target, tolerance, noise, max_steps
        self.sizing: Sizing | None = None  # of the newest run with all measurements
        self._next = self._check_start(start)
        self._steps: list[FloorStep] = []
        self._corrections_left = corrections
        self._runs_without_sizing = 0  # in a row
        self._result: FloorSearchResult | None = None

    @property
    def offered(self) -> float:
        """Offered rate of all sources. An overloaded job receives less."""
        return sum(self.source_rates.values())

    @property
    def finished(self) -> bool:
        """True when the search has a result."""
        return self._result is not None

    @property
    def result(self) -> FloorSearchResult:
        """The result; raises `StudyError` before the search is finished."""
        if self._result is None:
            raise StudyError("the search for the throughput floor is not finished: ask, run, tell")
        return self._result

    def ask(self) -> dict[str, int]:
        """Return the parallelism to run next; the same until its run is told."""
        if self._result is not None:
            raise StudyError(f"the search for the throughput floor is finished ({self._result.stop_reason})")
        return dict(self._next)

    def tell(self, snapshot: Snapshot | None, *, keeps_up: bool = True) -> None:
        """Add the result of a run, whose observed parallelism counts.

        Args:
            snapshot: measurements of the run; None when it failed.
            keeps_up: False when the run was judged to fall behind. A run that keeps up must still carry the rate.
        """
        if self._result is not None:
            raise StudyError(f"the search for the throughput floor is finished ({self._result.stop_reason})")
        ran = self._next if snapshot is None else self._check_snapshot(snapshot)
        sized = None if snapshot is None else self._size(snapshot)
        sizing = sized if isinstance(sized, Sizing) else None
        self.sizing = sizing or self.sizing
        self._steps.append(FloorStep(ran, None if snapshot is None else snapshot.throughput, keeps_up, sizing))
        if self._holds_rate(self._steps[-1]):
            self._stop(StopReason.TARGET_MET, self._steps[-1], met=True)  # stop (a)
            return
        recommended = None if snapshot is None else self.recommend(snapshot)
        if snapshot is not None and recommended == ran and self._corrections_left:
            self._corrections_left -= 1
            recommended = self._correct(snapshot) or recommended
        if stop := self._find_stop_reason(recommended):
            self._stop(stop, choose_best_step(self._steps, self.noise), met=False)
        elif recommended is not None:
            self._runs_without_sizing, self._next = 0, recommended
        else:
            self._runs_without_sizing += 1  # the same parallelism is run once more

    def recommend(self, snapshot: Snapshot, factor: float = 1.0) -> dict[str, int] | None:
        """Return the floor at `factor` times the offered rates; None when measurements are missing."""
        sized = self._size(snapshot, factor)
        return None if isinstance(sized, Unsized) else sized.named_floor

    def _size(self, snapshot: Snapshot, factor: float = 1.0) -> Sizing | Unsized:
        rates = {name: rate * factor for name, rate in self.source_rates.items()}
        return size(replace(snapshot, source_rates=rates, p_max=self.p_max), self.target)

    def _correct(self, snapshot: Snapshot) -> dict[str, int] | None:
        """Divide capacity by the target rate ratio until another floor follows; None beyond `_MOST_CORRECTION`."""
        step = self._steps[-1]
        if not step.throughput:
            return None
        ratio = max(self.offered / step.throughput, 1.02)
        factor = ratio
        while factor <= _MOST_CORRECTION:
            wanted = self.recommend(snapshot, factor)
            if wanted != step.parallelism:
                return wanted
            factor *= ratio
        return None

    def _check_start(self, start: Mapping[str, int] | None) -> dict[str, int]:
        if start is None:
            start = {name: operator.minimum for name, operator in self.topology.operators.items()}
        if set(start) != set(self.topology):
            raise InputError(
                "start", "does not name the job's operators", seen=dict(start), remedy="name each operator once"
            )
        for name in self.topology:
            checks.count(f"start.{name}", start[name])
            if start[name] > self.p_max:
                raise InputError(f"start.{name}", f"is above p_max = {self.p_max}", seen=start[name])
        return {name: start[name] for name in self.topology}

    def _check_snapshot(self, snapshot: Snapshot) -> dict[str, int]:
        if list(snapshot.operators) != list(self.topology):
            raise InputError("snapshot", "is of another job: its operators differ", seen=list(snapshot.operators))
        return snapshot.parallelism

    def _holds_rate(self, step: FloorStep) -> bool:
        carried = step.throughput is not None and step.throughput >= self.offered * (1 - self.tolerance)
        return carried and step.keeps_up

    def _find_stop_reason(self, recommended: Mapping[str, int] | None) -> StopReason | None:
        if recommended is None and self._runs_without_sizing:
            return StopReason.FAILED
        if recommended == self._steps[-1].parallelism:
            return StopReason.REPEATED  # stop (b)
        if any(recommended == step.parallelism for step in self._steps):
            return StopReason.CYCLE  # stop (b)
        return StopReason.STEP_LIMIT if len(self._steps) >= self.max_steps else None  # stop (c)

    def _stop(self, reason: StopReason, step: FloorStep, *, met: bool) -> None:
        is_useless = any(is_no_better(other, step, self.noise) for other in self._steps)
        self._result = FloorSearchResult(dict(step.parallelism), met, reason, tuple(self._steps), is_useless)


def choose_best_step(steps: Sequence[FloorStep], noise: float = 0.02) -> FloorStep:
    """Return the step with the fewest instances among those with the highest throughput within noise (§V-B)."""
    measured = [step for step in steps if step.throughput is not None]
    if not measured:
        return steps[-1]
    best = max(step.throughput or 0.0 for step in measured)
    alike = [step for step in measured if (step.throughput or 0.0) >= best * (1 - noise)]
    return min(alike, key=lambda step: step.instances)


def is_no_better(more: FloorStep, less: FloorStep, noise: float = 0.02) -> bool:
    """Return whether `more` has more instances than `less`, fewer of no operator, and the same throughput within noise.

    False when an operator with the same instances is saturated: it may be the bottleneck.
    """
    if more.throughput is None or less.throughput is None or more.sizing is None or more.instances <= less.instances:
        return False
    if more.throughput > less.throughput * (1 + noise):
        return False
    changes = zip(more.parallelism.values(), less.parallelism.values(), more.sizing.hottest, strict=True)
    return all(k > before or (k == before and hottest < k * _ALL_BUSY) for k, before, hottest in changes)
