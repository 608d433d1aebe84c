"""Step 1 of a tuning run: find the floor, the least parallelism that holds the rate.

The job is run and sized anew, until the rate is held and no less would do. If no run holds the rate, the search either
continues from the run that carried most, because more instances may help, or reports it as the nearest miss.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
from autotrascale.tuning.trial_records import Evaluation, JournalledTrial
from autotrascale.tuning.trial_runner import TrialRunner

MAX_CORRECTIONS = 2  # of capacities that were measured too high
MAX_FAILURES_AT_FLOOR = 2  # in a row; the floor search has nothing else to run


@dataclass(frozen=True)
class FoundFloor:
    """The result of the floor search.

    Args:
        parallelism: k'.
        sizing: the last sizing of the job, if measurements allowed one.
        holds: whether it was seen or computed to hold the rate.
        ended: a stop reason if a search above the floor is useless, else None.
    """

    parallelism: Mapping[str, int]
    sizing: Sizing | None
    holds: bool = True
    ended: str | None = None


class FloorSearch:
    """The search for the floor of one run. Models of other rates shorten it."""

    def __init__(self, trials: TrialRunner, sources: Sequence[BenefitModel]) -> None:
        self.trials, self.job, self.settings = trials, trials.job, trials.settings
        self.sizing: Sizing | None = None
        self._ran: list[Evaluation] = []
        self._descent: list[DescentRun] = []
        is_usable = not self.settings.initial and not self.settings.faithful
        self._models = [m for m in sources if is_usable and len(m.floor) == len(self.job.topology)]

    def find(self) -> FoundFloor:
        """Go down while the rate is held with far too many instances, and up while it is not held.

        With models of other rates, one run that holds the rate is enough; a lower floor is computed from it.
        """
        search, held, spent = self._open_search(self._choose_start()), None, None
        while not search.finished and (spent := self.trials.spent) is None:
            done = self._run(search.ask())
            self._ran.append(done.evaluation)
            if done.evaluation.verdict is Verdict.FAILED:  # its measurements say nothing, so it is run again
                continue
            search.tell(done.trial.snapshot, keeps_up=done.evaluation.verdict is Verdict.STABLE)
            self.sizing = search.sizing or self.sizing
            if (lower := self._propose_lower(search, done.trial.snapshot)) is not None:
                if self._models:
                    known = search.result.parallelism
                    return FoundFloor({name: min(k, known[name]) for name, k in lower.items()}, self.sizing)
                held, search = search.result, self._open_search(lower)
        if search.finished and search.result.met:
            held = search.result
        if held is not None:
            return FoundFloor(dict(held.parallelism), self.sizing)
        return self._continue_or_end(search.result) if search.finished else self._end_at_nearest(spent or "budget")

    def _run(self, parallelism: Mapping[str, int]) -> JournalledTrial:
        past = self.trials.past
        if past and past[0].evaluation.phase == "floor":
            return self.trials.recall()
        return self.trials.run("floor", parallelism, MAX_FAILURES_AT_FLOOR)

    def _continue_or_end(self, result: FloorSearchResult) -> FoundFloor:
        """Return the floor of a search that did not hold the rate."""
        if result.stop_reason is StopReason.FAILED:
            return self._end_at_nearest("no-metrics")
        ended = None if self._may_more_help(result) else "rate-out-of-reach"
        return FoundFloor(dict(result.parallelism), self.sizing, holds=False, ended=ended)

    def _may_more_help(self, result: FloorSearchResult) -> bool:
        """Return whether the rate is within the stop rule's allowance, and no run with more instances refutes it."""
        carried = max((step.throughput or 0.0 for step in result.steps), default=0.0)
        is_near = carried * (1 + self.settings.over_allocation) >= self.job.rate
        is_reachable = self.sizing is not None and self.sizing.reachable
        is_below_maximum = self.job.topology.vector(result.parallelism) != self.job.upper
        return is_near and is_reachable and is_below_maximum and not result.more_is_useless

    def _end_at_nearest(self, ended: str) -> FoundFloor:
        """Return the run that carried most as the floor, with a stop reason."""
        steps = [FloorStep(each.parallelism, each.throughput) for each in self._ran]
        return FoundFloor(dict(choose_best_step(steps).parallelism), self.sizing, holds=False, ended=ended)

    def _choose_start(self) -> Mapping[str, int] | None:
        """Return the configured start, else the floor that the nearest model predicts, else None for all minima."""
        if self.settings.initial:
            return choose_starting_point(self.job, self.settings.initial)
        return estimate_floor(self.job, self._models) if self._models else None

    def _open_search(self, start: Mapping[str, int] | None) -> ThroughputSearch:
        return ThroughputSearch(
            self.job.topology,
            self.job.source_rates,
            self.job.p_max,
            target=self.job.target,
            start=start,
            tolerance=self.job.target.throughput_tolerance,
            corrections=0 if self.settings.faithful else MAX_CORRECTIONS,
        )

    def _propose_lower(self, search: ThroughputSearch, snapshot: Snapshot | None) -> dict[str, int] | None:
        """Return a lower start, as long as every run so far held the rate. A search never goes below its start."""
        if snapshot is None or not search.finished or not search.result.met:
            return None
        wanted = search.recommend(snapshot)
        if wanted is None or len(self._descent) + 1 < len(self._ran):
            return None
        self._descent.append((snapshot.parallelism, wanted))
        least = {name: operator.minimum for name, operator in self.job.topology.operators.items()}
        return propose_lower(self._descent, least)


def choose_starting_point(job: Job, initial: Mapping[str, int]) -> dict[str, int]:
    """Return `initial` with the minimum for all other operators. Raise `InputError` if it leaves the job's bounds."""
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
    """Return the floor of the source nearest in rate, scaled to the job's rate. A run will correct it."""
    nearest = min(sources, key=lambda model: abs(math.log(model.rate / job.rate)))
    share = job.rate / nearest.rate
    bounds = zip(job.topology.operators.values(), job.upper, nearest.floor, strict=True)
    return job.topology.named(
        tuple(min(max(math.ceil(k * share), operator.minimum), most) for operator, most, k in bounds)
    )
