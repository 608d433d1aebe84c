"""What parallelism a running job should have, look by look: the paper's Analyse and Plan (§IV), as a policy.

    rate beyond what it was sized for   size for the rate ahead: Algorithm 2 from the nearest readings      `rate-up`
    target missed, rate as expected     ask again with what was seen: Algorithm 1                    `target-missed`
    rate, or what it takes, much lower  the same, when it saves enough                  `rate-down`, `over-allocated`
    nothing known yet                   the throughput floor first                                     `floor-first`
    otherwise                           stay                                                               `in-band`

One rescale costs a standstill, so a job is sized for the highest rate of its next hour, as far as its trend says, and
left alone within the band below. When to act, and within which bounds, is the manager's affair; it wraps this policy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from autotrascale.domain import checks
from autotrascale.domain.decision import Decision, Number, Reason
from autotrascale.domain.errors import InputError
from autotrascale.domain.snapshot import Snapshot
from autotrascale.plan.control.prediction import (
    GRID,
    Prediction,
    ReadingsByRate,
    Settings,
    grid_rate,
    predict_at,
    predict_least,
)
from autotrascale.plan.control.rates import Rates, sizing_rate
from autotrascale.plan.policies.base import hold, hold_for_gaps
from autotrascale.plan.search.benefit_model import BenefitModel
from autotrascale.plan.search.lattice import Point
from autotrascale.plan.sizing.sizing import Sizing, Unsized, size
from autotrascale.plan.words import amount, percent

NAME = "autoscale"
MISSES = 2  # looks in a row above the target before it is no noise …
FAR = 1.3  # … or one that is this far above
CALM_CHANGE = 0.1  # a window whose rate lies further from the line speaks of no rate in particular
SMOOTH = 0.3  # weight of the newest capacity
PLANS = 16
PART = 0.7  # of what a scale-down would save: with less it waits
RISING = 1.03  # ahead over now, from which on the rate is said to rise
FARTHEST = 1.6  # times what is needed now: a trend is not believed beyond
FORGET = 2 * 86_400.0  # seconds in which the largest allocation fades
MOST_USELESS = 3  # scale-ups in a row that did not bring the job within its target: something else is wrong
LEAP = 1.5  # times the instances of an operator, at most, where the rate does not ask for more


@dataclass(frozen=True)
class PlanningSettings:
    """How a job is kept within its target: the `autoscale:` section's planning part."""

    headroom: float = 0.04  # carry this much more than the rate that is expected
    band: float = 1.2  # leave it alone while what it was sized for is no more than this many times what is needed
    horizon_seconds: float = 3600.0  # size for the highest rate so far ahead, as the trend says
    worth: float = 0.18  # what a rescale must move, as a share of the most instances of the last days
    recall_seconds: float = 600.0  # a rate that was carried so lately may come again: it is not scaled down below
    review_seconds: float = 3600.0  # how often a job in its band is asked whether less would do

    def __post_init__(self) -> None:
        for name in ("headroom", "worth"):
            checks.non_negative(name, getattr(self, name))
        for name in ("horizon_seconds", "recall_seconds", "review_seconds"):
            checks.positive(name, getattr(self, name))
        checks.positive("band", self.band)
        if self.band < 1:
            raise InputError("band", "is below 1: it would scale down what is needed", seen=self.band,
                             remedy="1.2 is a good start")  # fmt: skip


@dataclass(frozen=True)
class Tried:
    """What ran before a scale-down, to go back to while that is not known to be good."""

    k: Point
    sized_for: float | None


@dataclass(frozen=True)
class Memory:
    """What one look leaves for the next."""

    rates: Rates = field(default_factory=Rates)
    readings: ReadingsByRate = field(default_factory=ReadingsByRate)
    running: Point = ()
    capacity: Mapping[str, float] = field(default_factory=dict)  # of one instance, smoothed, at this parallelism
    sized_for: float | None = None  # the highest rate that what runs was planned for
    missed: int = 0  # looks in a row above the target
    good: int = 0  # … and within it, since the last change
    useless_scale_ups: int = 0  # scale-ups for a missed target since it was last met
    tried: Tried | None = None
    largest: float = 0.0  # the most instances of the last days, slowly forgotten
    plans: tuple[Prediction, ...] = ()  # made from what is known now
    reviewed_at: float | None = None  # when it was last asked what the least would be


@dataclass(frozen=True)
class AutoscalingPolicy:
    """A policy for one look. `calm`: the job has settled since its last change, so what it shows is what it is."""

    settings: Settings
    planning: PlanningSettings
    memory: Memory
    now: float
    models: Sequence[BenefitModel] = ()
    may_go_down: bool = True
    name: str = NAME
    planned: list[Prediction] = field(default_factory=list)  # new plans of this look, for the memory

    def decide(self, snapshot: Snapshot) -> Decision:
        sized = size(snapshot, self.settings.target, capacity=self.memory.capacity)
        if isinstance(sized, Unsized):
            return hold_for_gaps(NAME, snapshot, sized)
        if snapshot.target_rate <= 0:
            return hold(NAME, snapshot, [Reason("hold-no-input", "nothing arrives: nothing can be sized")])
        if self.memory.rates.straddles:
            text = "the rate jumped within this window: looked at once more, to see how far"
            return hold(NAME, snapshot, [Reason("hold-jump", text, {"rate": snapshot.target_rate})])
        return _Look(self, snapshot).decide()


class _Look:
    """One decision; the order of the rules is the order of `decide`."""

    def __init__(self, pilot: AutoscalingPolicy, snapshot: Snapshot) -> None:
        self.pilot, self.planning, self.memory = pilot, pilot.planning, pilot.memory
        self.snapshot = snapshot
        self.running = tuple(snapshot.parallelism.values())
        rates, now = self.memory.rates, pilot.now
        newest = rates.windows[-1].rate if rates.windows else snapshot.target_rate
        self.extra = max(0.0, snapshot.target_rate - newest)  # what the manager's adjustments added
        self.need = rates.need(now, self.planning.headroom) + self.extra
        self.ahead = rates.ahead(now, self.planning.horizon_seconds, self.planning.headroom, FARTHEST) + self.extra

    def decide(self) -> Decision:
        if short := self._below_floor():
            return short
        if self.memory.tried is not None and self._is_missed() and not self._outgrown():
            return self._go_back(self.memory.tried)
        if self._outgrown():
            return self._up()
        if self._is_missed():
            return self._more()
        return self._down() or self._stay()

    # -- is a change needed? ------------------------------------------------------------------------------------------

    def _is_missed(self) -> bool:
        return self.memory.missed >= MISSES

    def _outgrown(self) -> bool:
        """Half of the headroom is eaten up."""
        if self.memory.sized_for is None:
            return False
        eaten = (1 + self.planning.headroom / 2) / (1 + self.planning.headroom)
        return self.need * eaten > self.memory.sized_for * (1 + 1e-9)

    # -- the rules ----------------------------------------------------------------------------------------------------

    def _below_floor(self) -> Decision | None:
        """No model and too little to carry the rate: the floor, which needs no latency to be known."""
        if any(cell.runs for cell in self.memory.readings.cells) or self.pilot.models:
            return None
        sized = self._sized(sizing_rate(self.ahead, GRID))
        if all(k >= low for k, low in zip(self.running, sized.floor, strict=True)):
            return None
        wanted = tuple(max(k, low) for k, low in zip(self.running, sized.floor, strict=True))
        self.pilot.planned.append(
            Prediction(sized.rate, wanted, 0.0, 1.0, 0.5, "the throughput floor, no latency known")
        )
        text = f"nothing is known of this job yet: the floor for {amount(sized.rate)}/s first"
        return self._wish(wanted, Reason("floor-first", text, {"rate": sized.rate}), *self._out_of_reach(sized))

    def _go_back(self, tried: Tried) -> Decision:
        text = "the last scale-down missed the target: back to what ran before"
        self.pilot.planned.append(Prediction(tried.sized_for or self.need, tried.k, 0.0, 1.0, 0.5, "ran before"))
        return self._wish(tried.k, Reason("go-back", text))

    def _up(self) -> Decision:
        predicted, sized = self._plan(self._far_enough())
        wanted = tuple(map(max, predicted.k, sized.floor))
        if sum(wanted) <= sum(self.running) and (enough := self._enough(predicted, sized)):
            return enough
        before = self.memory.sized_for or 0.0
        numbers = {"needed_rate": self.need, "sized_for": before, "planned_rate": predicted.rate}
        text = f"needs {amount(self.need)}/s and was sized for {amount(before)}/s: sized for {amount(predicted.rate)}/s"
        return self._wish(
            wanted, Reason("rate-up", text, numbers), self._predicted(predicted), *self._out_of_reach(sized)
        )

    def _enough(self, predicted: Prediction, sized: Sizing) -> Decision | None:
        """What runs may be good for more than it was planned for."""
        if any(k < low for k, low in zip(self.running, sized.floor, strict=True)):
            return None
        pilot = self.pilot
        seen = predict_at(pilot.settings, self.memory.readings, pilot.models, sized, self.running)
        if seen.met < pilot.settings.confidence:
            return None
        text = f"what runs is good for {amount(predicted.rate)}/s too: it stays"
        return self._wish(self.running, Reason("enough", text, {"planned_rate": predicted.rate}), self._predicted(seen))

    def _far_enough(self) -> float:
        """While the rate rises: so far that the next rescale is worth one too, for the rate will get there."""
        if self.ahead <= self.need * RISING or self.memory.missed:
            return self.ahead
        step = 1 + self.planning.worth * self.memory.largest / sum(self.running)
        return max(self.ahead, self.need * min(step, FARTHEST))

    def _more(self) -> Decision:
        """Algorithm 1 at the rate it was sized for. Where the model thinks that what runs is right, or less would do,
        it is asked for a higher rate: what was just seen says that it is wrong."""
        rate = max(self.ahead, self.memory.sized_for or 0.0)
        for _ in range(4 if self.memory.useless_scale_ups < MOST_USELESS else 0):
            predicted, sized = self._plan(rate)
            most = (max(low, math.ceil(LEAP * own)) for low, own in zip(sized.floor, self.running, strict=True))
            wanted = tuple(map(max, map(min, predicted.k, most), self.running))
            if wanted != self.running:
                text = f"above the target for {self.memory.missed} looks: more, sized for {amount(predicted.rate)}/s"
                reason = Reason("target-missed", text, {"looks": self.memory.missed, "planned_rate": predicted.rate})
                self.pilot.planned.append(replace(predicted, k=wanted))
                return self._wish(wanted, reason, self._predicted(predicted), *self._out_of_reach(sized))
            rate *= GRID**2
        text = "above the target, and no parallelism within the bounds is expected to change that"
        if self.memory.useless_scale_ups >= MOST_USELESS:
            text = f"above the target, and {MOST_USELESS} scale-ups did not change that: no more of them at this rate"
        return self._wish(self.running, Reason("out-of-reach", text, {"looks": self.memory.missed}))

    def _down(self) -> Decision | None:
        sized_for, planning, rates = self.memory.sized_for, self.planning, self.memory.rates
        rate = max(self.ahead, rates.lately(self.pilot.now, planning.recall_seconds, planning.headroom))
        lower = sized_for is not None and sizing_rate(rate, GRID) * planning.band <= sized_for
        reviewed = self.memory.reviewed_at
        review = reviewed is None or self.pilot.now - reviewed >= planning.review_seconds
        if not (lower or review) or self.memory.good < MISSES:
            return None
        predicted, sized = self._plan(rate)
        wanted = tuple(
            min(max(k, low), high) for k, low, high in zip(predicted.k, sized.floor, sized.upper, strict=True)
        )
        saved = (sum(self.running) - sum(wanted)) / self.memory.largest
        if saved < planning.worth:
            return None
        numbers: dict[str, Number] = {"saved": saved, "instances": sum(wanted), "planned_rate": predicted.rate}
        if not self.pilot.may_go_down:
            text = f"{percent(saved)} could be saved, but the rescales of today are used up: kept for scale-ups"
            return self._wish(self.running, Reason("budget", text, numbers))
        code = "rate-down" if lower else "over-allocated"
        text = f"{amount(predicted.rate)}/s is enough to be sized for: saves {percent(saved)} of what it takes at most"
        return self._wish(wanted, Reason(code, text, numbers), self._predicted(predicted))

    def _stay(self) -> Decision:
        sized = self.memory.sized_for
        if sized is None:
            return self._wish(self.running, Reason("first-look", "not known yet what this parallelism is good for"))
        met = "target met" if self.memory.good else "not seen settled yet"
        text = f"needs {amount(self.need)}/s, sized for {amount(sized)}/s, {met}: it stays"
        return self._wish(self.running, Reason("in-band", text, {"needed_rate": self.need, "sized_for": sized}))

    # -- planning -----------------------------------------------------------------------------------------------------

    def _plan(self, rate: float) -> tuple[Prediction, Sizing]:
        """For the next rate of the grid, once for as long as nothing new is known."""
        rate = sizing_rate(rate, GRID)
        sized = self._sized(rate)
        known = next((each for each in self.memory.plans if each.rate == rate), None)
        if known is None:
            known = predict_least(self.pilot.settings, self.memory.readings, self.pilot.models, sized)
            self.pilot.planned.append(known)
        return known, sized

    def _sized(self, rate: float) -> Sizing:
        sized = size(self.snapshot, self.pilot.settings.target, rate=rate, capacity=self.memory.capacity)
        assert isinstance(sized, Sizing)  # asked before, at another rate
        return sized

    def _wish(self, k: Point, *reasons: Reason) -> Decision:
        wanted = dict(zip(self.snapshot.operators, k, strict=True))
        return Decision.between(NAME, self.snapshot.parallelism, wanted, *reasons)

    def _predicted(self, plan: Prediction) -> Reason:
        target = self.pilot.settings.target.latency_seconds
        mean, sd = plan.latency(target), plan.spread(target)
        text = f"expected at {amount(plan.rate)}/s: {amount(mean)} ± {amount(sd)} s; from {plan.basis}"
        return Reason(
            "predicted", text, {"latency_seconds": mean, "sd_seconds": sd, "rate": plan.rate, "met": plan.met}
        )

    def _out_of_reach(self, sized: Sizing) -> list[Reason]:
        if sized.reach >= 1:
            return []
        text = f"the bounds carry {percent(sized.reach)} of {amount(sized.rate)}/s"
        return [Reason("out-of-reach", text, {"reach": sized.reach})]


# --- what a look leaves behind ----------------------------------------------------------------------------------------


def observed(
    settings: Settings,
    planning: PlanningSettings,
    memory: Memory,
    snapshot: Snapshot,
    now: float,
    *,
    calm: bool,
    behind: bool,
) -> Memory:
    """`calm`: settled and without backlog, so its latency is that of this parallelism at this rate; `behind`: it falls
    behind."""
    k = tuple(snapshot.parallelism.values())
    if k != memory.running:
        memory = _changed(memory, k)
    faded = memory.largest * max(0.0, 1 - snapshot.window_seconds / FORGET)
    memory = replace(memory, largest=max(float(sum(k)), faded))
    memory = replace(memory, rates=memory.rates.hear(now, snapshot.window_seconds, snapshot.target_rate))
    sized = size(snapshot, settings.target)
    if isinstance(sized, Unsized) or snapshot.target_rate <= 0:
        return memory
    memory = replace(memory, capacity=_smooth(memory.capacity, sized))
    latency = snapshot.latency_seconds.of(settings.target.statistic)
    missed = behind or (latency is not None and latency > settings.target.latency_seconds)
    if not (calm or behind) or memory.rates.straddles:
        return memory
    far = latency is not None and latency > FAR * settings.target.latency_seconds
    looks = memory.missed + (MISSES if far or behind else 1) if missed else 0
    memory = replace(memory, missed=looks, good=0 if missed else memory.good + 1)
    if memory.good >= MISSES:
        good_for = memory.rates.need(now, planning.headroom) if memory.sized_for is None else memory.sized_for
        memory = replace(memory, tried=None, useless_scale_ups=0, sized_for=good_for)
    return _told(settings, memory, snapshot, k, None if behind else latency)


def _told(settings: Settings, memory: Memory, snapshot: Snapshot, k: Point, latency: float | None) -> Memory:
    rate = grid_rate(snapshot.target_rate)
    cell = memory.readings.at(rate)
    sized = cell.sizing if cell is not None else size(snapshot, settings.target, rate=rate, capacity=memory.capacity)
    if isinstance(sized, Unsized) or (latency is None and not memory.missed):
        return memory
    fresh = memory.missed == MISSES or cell is None or all(run.parallelism != k for run in cell.runs)
    told = memory.readings.told(sized, k, latency)
    return replace(memory, readings=told, plans=() if fresh else memory.plans)


def half_way(decision: Decision, running: Mapping[str, int]) -> Reason | None:
    """A scale-down of which the guards left only a part is not worth a standstill yet."""
    wanted = next((r.numbers["instances"] for r in decision.reasons if r.code in ("rate-down", "over-allocated")), None)
    if not decision.changed or not isinstance(wanted, int):
        return None
    whole, part = sum(running.values()) - wanted, sum(running.values()) - sum(decision.parallelism.values())
    if part >= PART * whole:
        return None
    text = f"only {part} of the {whole} instances may be given back yet: waits until more may"
    return Reason("half-way", text, {"instances": part, "planned": whole})


def rescaled(memory: Memory, k: Point, now: float) -> Memory:
    """A rescale to `k` was asked for: remember what it was planned for, and what ran before if it is a step down."""
    fits = [plan.rate for plan in memory.plans if all(low <= own for low, own in zip(plan.k, k, strict=True))]
    down = bool(memory.running) and sum(k) < sum(memory.running)
    tried = Tried(memory.running, memory.sized_for) if down else None
    return replace(memory, sized_for=max(fits, default=memory.sized_for), tried=tried, missed=0, good=0,
                   reviewed_at=now)  # fmt: skip


def kept(memory: Memory, pilot: AutoscalingPolicy, decision: Decision) -> Memory:
    """The plans of this look stay until something new is known."""
    plans = {plan.rate: plan for plan in (*memory.plans, *pilot.planned)}
    memory = replace(memory, plans=tuple(plans.values())[-PLANS:])
    codes = {reason.code for reason in decision.reasons}
    if decision.changed:
        return replace(memory, useless_scale_ups=memory.useless_scale_ups + 1 if "target-missed" in codes else 0)
    good_for = next((r.numbers["planned_rate"] for r in decision.reasons if r.code == "enough"), None)
    if isinstance(good_for, float):
        memory = replace(memory, sized_for=good_for)
    return replace(memory, reviewed_at=pilot.now) if "in-band" in codes and pilot.planned else memory


def expected(pilot: AutoscalingPolicy, snapshot: Snapshot, k: Point) -> Prediction | None:
    """What a parallelism shall show at the rate of now; later compared with what it does."""
    if snapshot.target_rate <= 0:
        return None
    rate = grid_rate(snapshot.target_rate)
    sized = size(snapshot, pilot.settings.target, rate=rate, capacity=pilot.memory.capacity)
    if isinstance(sized, Unsized):
        return None
    return predict_at(pilot.settings, pilot.memory.readings, pilot.models, sized, k)


def _smooth(before: Mapping[str, float], sized: Sizing) -> dict[str, float]:
    known = {name: value for name, value in zip(sized.operators, sized.capacity, strict=True) if value}
    return {name: before[name] + SMOOTH * (value - before[name]) if name in before else value
            for name, value in known.items()}  # fmt: skip


def _changed(memory: Memory, k: Point) -> Memory:
    """Another parallelism runs, whoever asked for it."""
    return replace(memory, running=k, capacity={}, missed=0, good=0, plans=())
