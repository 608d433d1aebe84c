"""Step 1 of a tuning run: the floor, the least parallelism that holds the rate, found by running and sizing anew.

Where the search ends without holding the rate, the look-back's configuration is gone on from if more instances may
still help, and is the nearest miss to report if they cannot.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from autotrascale.domain import checks
from autotrascale.domain.errors import InputError
from autotrascale.domain.job import Job
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.trial import Verdict
from autotrascale.plan.search.benefit_model import BenefitModel
from autotrascale.plan.sizing.descent import DescentRun, propose_lower
from autotrascale.plan.sizing.floor_search import (
    FloorSearchResult,
    FloorStep,
    StopReason,
    ThroughputSearch,
    choose_best_step,
)
from autotrascale.plan.sizing.sizing import Sizing
from autotrascale.tuning.trial_records import Evaluation, JournalledTrial, TuningSettings

MAX_CORRECTIONS = 2  # of capacities that were measured too high

Run = Callable[[Mapping[str, int]], JournalledTrial]
Spent = Callable[[], str | None]


@dataclass(frozen=True)
class FoundFloor:
    """`parallelism` is k'. `holds`: it was seen or computed to hold the rate. `ended` says why there is nothing to
    search above it, when there is not."""

    parallelism: Mapping[str, int]
    sizing: Sizing | None
    holds: bool = True
    ended: str | None = None


class FloorSearch:
    def __init__(self, job: Job, settings: TuningSettings, sources: Sequence[BenefitModel]) -> None:
        self.job, self.settings = job, settings
        self.sizing: Sizing | None = None
        self._ran: list[Evaluation] = []
        self._descent: list[DescentRun] = []
        usable = not settings.initial and not settings.faithful
        self._known = [m for m in sources if usable and len(m.floor) == len(job.topology)]

    def find(self, run: Run, spent: Spent) -> FoundFloor:
        """Down, from run to run, for as long as the rate is held with far too much; up where it is not. With models of
        other rates, a first run that holds the rate is enough: what less would do is computed."""
        search, held, over = self._search(self._start()), None, None
        while not search.finished and (over := spent()) is None:
            done = run(search.ask())
            self._ran.append(done.evaluation)
            if done.evaluation.verdict is Verdict.FAILED:  # it says nothing, whatever it took in meanwhile: once more
                continue
            search.tell(done.trial.snapshot, keeps_up=done.evaluation.verdict is Verdict.STABLE)
            self.sizing = search.sizing or self.sizing
            if (less := self._less(search, done.trial.snapshot)) is not None:
                if self._known:
                    return FoundFloor(_lower(less, search.result.parallelism), self.sizing)
                held, search = search.result, self._search(less)
        if search.finished and search.result.met:
            held = search.result
        if held is not None:
            return FoundFloor(dict(held.parallelism), self.sizing)
        return self._not_held(search.result) if search.finished else self._nearest(over or "budget")

    def _not_held(self, found: FloorSearchResult) -> FoundFloor:
        if found.stop_reason is StopReason.FAILED:
            return self._nearest("no-metrics")
        ended = None if self._more_may_help(found) else "rate-out-of-reach"
        return FoundFloor(dict(found.parallelism), self.sizing, holds=False, ended=ended)

    def _more_may_help(self, found: FloorSearchResult) -> bool:
        """Within what the stop rule may add, by what was measured, and not refuted by a run with more instances."""
        carried = max((step.throughput or 0.0 for step in found.steps), default=0.0)
        near = carried * (1 + self.settings.over_allocation) >= self.job.rate
        reachable = self.sizing is not None and self.sizing.reachable
        room = self.job.topology.vector(found.parallelism) != self.job.upper
        return near and reachable and room and not found.more_is_useless

    def _nearest(self, ended: str) -> FoundFloor:
        """What carried most so far."""
        steps = [FloorStep(each.parallelism, each.throughput) for each in self._ran]
        return FoundFloor(dict(choose_best_step(steps).parallelism), self.sizing, holds=False, ended=ended)

    def _start(self) -> Mapping[str, int] | None:
        """As asked for; else what the nearest model leads to expect; else all minima."""
        if self.settings.initial:
            return choose_starting_point(self.job, self.settings.initial)
        return estimate_floor(self.job, self._known) if self._known else None

    def _search(self, start: Mapping[str, int] | None) -> ThroughputSearch:
        return ThroughputSearch(
            self.job.topology,
            self.job.source_rates,
            self.job.p_max,
            target=self.job.target,
            start=start,
            tolerance=self.job.target.throughput_tolerance,
            corrections=0 if self.settings.faithful else MAX_CORRECTIONS,
        )

    def _less(self, search: ThroughputSearch, seen: Snapshot | None) -> dict[str, int] | None:
        """What may do with less, while every run so far held the rate: a search is content with where it starts."""
        if seen is None or not search.finished or not search.result.met:
            return None
        wanted = search.recommend(seen)
        if wanted is None or len(self._descent) + 1 < len(self._ran):
            return None
        self._descent.append((seen.parallelism, wanted))
        least = {name: operator.minimum for name, operator in self.job.topology.operators.items()}
        return propose_lower(self._descent, least)


def choose_starting_point(job: Job, initial: Mapping[str, int]) -> dict[str, int]:
    most = job.topology.named(job.upper)
    for name, k in initial.items():
        place = f"tuning.initial.{name}"
        if name not in job.topology.operators:
            raise InputError(
                place, "names an operator that does not exist", remedy=f"use one of {', '.join(job.topology)}"
            )
        checks.count(place, k)
        least = job.topology.operators[name].minimum
        if not least <= k <= most[name]:
            raise InputError(place, f"lies outside [{least}, {most[name]}]", seen=k, remedy="start within the bounds")
    return {name: initial.get(name, operator.minimum) for name, operator in job.topology.operators.items()}


def estimate_floor(job: Job, sources: Sequence[BenefitModel]) -> dict[str, int]:
    """The floor of the source nearest in rate, in proportion to the rate. A run will tell: it only has to be near."""
    nearest = min(sources, key=lambda model: abs(math.log(model.rate / job.rate)))
    share = job.rate / nearest.rate
    bounds = zip(job.topology.operators.values(), job.upper, nearest.floor, strict=True)
    return job.topology.named(
        tuple(min(max(math.ceil(k * share), operator.minimum), most) for operator, most, k in bounds)
    )


def _lower(these: Mapping[str, int], those: Mapping[str, int]) -> dict[str, int]:
    """Operator by operator: what held the rate with so many needs no more."""
    return {name: min(k, those[name]) for name, k in these.items()}
