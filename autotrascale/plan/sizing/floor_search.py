"""The search for the throughput floor: recommend, run, measure, until it holds the rate (AuTraScale §III-C, §V-B).

One measurement sizes every operator, but capacity is not linear in the parallelism, so the next one says it better.

    search = ThroughputSearch(topology, source_rates={"source": 350_000}, p_max=40)
    while not search.finished:
        search.tell(run(search.ask()))     # a Snapshot, or None when the run failed
    search.result                          # the floor k', whether it holds the rate, why it stopped
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

_ALL_BUSY = 0.95  # of its time: an instance so busy has none left, as well as can be measured
_MOST_CORRECTION = 2.0  # beyond this it is not the measurement that is wrong


class StopReason(StrEnum):
    TARGET_MET = "target-met"
    REPEATED = "repeated"  # what was just run is recommended again
    CYCLE = "cycle"  # something run earlier is recommended again
    STEP_LIMIT = "step-limit"
    FAILED = "failed"  # the same run failed twice, or twice had nothing to size the job by


@dataclass(frozen=True)
class FloorStep:
    """One run. `throughput` is None when it failed or did not say. A run that was judged to fall behind does not keep
    up, whatever it took in meanwhile."""

    parallelism: Mapping[str, int]
    throughput: float | None
    keeps_up: bool = True
    sizing: Sizing | None = None

    @property
    def instances(self) -> int:
        return sum(self.parallelism.values())


@dataclass(frozen=True)
class FloorSearchResult:
    """`parallelism` is the floor vector k' by operator. `steps` are the runs, in order. `more_is_useless`: more
    instances of every operator that is busy all the time carried no more, so something else limits the job."""

    parallelism: Mapping[str, int]
    met: bool
    stop_reason: StopReason
    steps: tuple[FloorStep, ...]
    more_is_useless: bool = False


class ThroughputSearch:
    """Starts at `start`, by default every operator at its minimum, as the paper does. When a job is running already,
    start from what one look at it recommends: a search that starts above the floor is content with where it starts."""

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
        """`target`: the latency to hold, which limits how long a batch may be.

        `corrections`: how often a recommendation that repeats itself without holding the rate is taken for a
        capacity that was measured too high (DS2 §4.2.1, target rate ratio). differs: the paper stops at the first."""
        checks.count("p_max", p_max)
        checks.count("corrections", corrections, least=0)
        checks.count("max_steps", max_steps)
        checks.share("tolerance", tolerance)
        checks.share("noise", noise)
        check_source_rates(topology, source_rates)
        self.topology, self.source_rates, self.p_max = topology, dict(source_rates), p_max
        self.target, self.tolerance, self.noise, self.max_steps = target, tolerance, noise, max_steps
        self.sizing: Sizing | None = None  # of the newest run that had something to size the job by
        self._next = self._first(start)
        self._steps: list[FloorStep] = []
        self._corrections = corrections  # left
        self._blind = 0  # runs in a row after which nothing could be recommended
        self._result: FloorSearchResult | None = None

    @property
    def offered(self) -> float:
        """What the world offers. An overloaded job takes in less, so its own source rate is not the target."""
        return sum(self.source_rates.values())

    @property
    def finished(self) -> bool:
        return self._result is not None

    @property
    def result(self) -> FloorSearchResult:
        if self._result is None:
            raise StudyError("the search for the throughput floor is not finished: ask, run, tell")
        return self._result

    def ask(self) -> dict[str, int]:
        """The parallelism to run next; the same one until it is told."""
        if self._result is not None:
            raise StudyError(f"the search for the throughput floor is finished ({self._result.stop_reason})")
        return dict(self._next)

    def tell(self, snapshot: Snapshot | None, *, keeps_up: bool = True) -> None:
        """What the run showed. What counts as run is the parallelism that was observed. `keeps_up`: False for a run
        that was judged to fall behind; one that was not must still carry the rate."""
        if self._result is not None:
            raise StudyError(f"the search for the throughput floor is finished ({self._result.stop_reason})")
        ran = self._next if snapshot is None else self._observed(snapshot)
        sized = None if snapshot is None else self._sized(snapshot)
        sizing = sized if isinstance(sized, Sizing) else None
        self.sizing = sizing or self.sizing
        self._steps.append(FloorStep(ran, None if snapshot is None else snapshot.throughput, keeps_up, sizing))
        if self._meets(self._steps[-1]):
            self._stop(StopReason.TARGET_MET, self._steps[-1], met=True)  # stop (a)
            return
        recommended = None if snapshot is None else self.recommend(snapshot)
        if snapshot is not None and recommended == ran and self._corrections:
            self._corrections -= 1
            recommended = self._corrected(snapshot) or recommended
        if stop := self._why_stop(recommended):
            self._stop(stop, choose_best_step(self._steps, self.noise), met=False)
        elif recommended is not None:
            self._blind, self._next = 0, recommended
        else:
            self._blind += 1  # `_next` stays: the same again, once

    def recommend(self, snapshot: Snapshot, factor: float = 1.0) -> dict[str, int] | None:
        """The floor by this snapshot's capacities at `factor` times the offered rates; None when they are not known."""
        sized = self._sized(snapshot, factor)
        return None if isinstance(sized, Unsized) else sized.named_floor

    def _sized(self, snapshot: Snapshot, factor: float = 1.0) -> Sizing | Unsized:
        rates = {name: rate * factor for name, rate in self.source_rates.items()}
        return size(replace(snapshot, source_rates=rates, p_max=self.p_max), self.target)

    def _corrected(self, snapshot: Snapshot) -> dict[str, int] | None:
        """The first other floor as capacity is divided by target/achieved again and again; None: there is none near."""
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

    def _first(self, start: Mapping[str, int] | None) -> dict[str, int]:
        if start is None:
            start = {name: operator.minimum for name, operator in self.topology.operators.items()}
        if set(start) != set(self.topology):
            raise InputError("start", "does not name the job's operators", seen=dict(start), remedy="name each once")
        for name in self.topology:
            checks.count(f"start.{name}", start[name])
            if start[name] > self.p_max:
                raise InputError(f"start.{name}", f"is above p_max = {self.p_max}", seen=start[name])
        return {name: start[name] for name in self.topology}

    def _observed(self, snapshot: Snapshot) -> dict[str, int]:
        if list(snapshot.operators) != list(self.topology):
            raise InputError("snapshot", "is of another job: its operators differ", seen=list(snapshot.operators))
        return snapshot.parallelism

    def _meets(self, step: FloorStep) -> bool:
        carried = step.throughput is not None and step.throughput >= self.offered * (1 - self.tolerance)
        return carried and step.keeps_up

    def _why_stop(self, recommended: Mapping[str, int] | None) -> StopReason | None:
        if recommended is None and self._blind:
            return StopReason.FAILED
        if recommended == self._steps[-1].parallelism:
            return StopReason.REPEATED  # stop (b)
        if any(recommended == step.parallelism for step in self._steps):
            return StopReason.CYCLE  # stop (b)
        return StopReason.STEP_LIMIT if len(self._steps) >= self.max_steps else None  # stop (c)

    def _stop(self, reason: StopReason, step: FloorStep, *, met: bool) -> None:
        useless = any(is_no_better(other, step, self.noise) for other in self._steps)
        self._result = FloorSearchResult(dict(step.parallelism), met, reason, tuple(self._steps), useless)


def choose_best_step(steps: Sequence[FloorStep], noise: float = 0.02) -> FloorStep:
    """The highest throughput; of those that noise cannot tell from it, the fewest instances (§V-B: p2 over p4)."""
    measured = [step for step in steps if step.throughput is not None]
    if not measured:
        return steps[-1]
    best = max(step.throughput or 0.0 for step in measured)
    alike = [step for step in measured if (step.throughput or 0.0) >= best * (1 - noise)]
    return min(alike, key=lambda step: step.instances)


def is_no_better(more: FloorStep, less: FloorStep, noise: float = 0.02) -> bool:
    """More instances somewhere, fewer nowhere, and no more carried than noise would make of it. An operator whose
    hottest instance has no time left, and which got no more, may still be what holds the job up."""
    if more.throughput is None or less.throughput is None or more.sizing is None or more.instances <= less.instances:
        return False
    if more.throughput > less.throughput * (1 + noise):
        return False
    changes = zip(more.parallelism.values(), less.parallelism.values(), more.sizing.hottest, strict=True)
    return all(k > before or (k == before and hottest < k * _ALL_BUSY) for k, before, hottest in changes)
