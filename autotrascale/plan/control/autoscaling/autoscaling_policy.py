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
from collections.abc import Sequence
from dataclasses import dataclass, replace

from autotrascale.domain.decision import Decision, Number, Reason
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.true_rates import compute_true_rates
from autotrascale.plan.control.autoscaling.autoscaling_memory import (
    CONFIRMING_OBSERVATIONS,
    MAX_PREDICTIONS,
    AutoscalingMemory,
    BeforeScaleDown,
)
from autotrascale.plan.control.autoscaling.autoscaling_plan import AutoscalingPlan, Cause, PlanningSettings
from autotrascale.plan.control.autoscaling.prediction import (
    AutoscalingSettings,
    LatencyPrediction,
    predict_at,
    predict_least,
)
from autotrascale.plan.control.autoscaling.rate_history import round_rate_up
from autotrascale.plan.control.autoscaling.readings_by_rate import RATE_GRID_STEP, round_rate
from autotrascale.plan.control.autoscaling.rescale_price import RescalePrice, Saving
from autotrascale.plan.formatting import format_amount, format_percent, format_seconds
from autotrascale.plan.policies.base import hold, hold_for_gaps
from autotrascale.plan.search.benefit_model import BenefitModel
from autotrascale.plan.search.lattice import Point
from autotrascale.plan.sizing.sizing import Sizing, Unsized, size

AUTOSCALE = "autoscale"
RISING_RATIO = 1.03  # ahead over now, from which on the rate is said to rise
MAX_TREND_RATIO = 1.6  # times what is needed now: a trend is not believed beyond
MAX_INEFFECTIVE_SCALE_UPS = (
    3  # scale-ups in a row that did not bring the job within its target: something else is wrong
)
MIN_HORIZON_SECONDS = 300.0  # seconds ahead that are always sized for, where the rate rises
MAX_GROWTH_PER_STEP = 1.5  # times the instances of an operator, at most, where the rate does not ask for more


@dataclass(frozen=True)
class AutoscalingPolicy:
    """The policy for one look. `measured` is the look itself, which the manager's adjustments may change before the
    policy is shown it."""

    settings: AutoscalingSettings
    planning: PlanningSettings
    memory: AutoscalingMemory
    now: float
    measured: Snapshot
    models: Sequence[BenefitModel] = ()
    price: RescalePrice | None = None  # of a rescale; None: nothing is weighed, band and worth say when to
    name: str = AUTOSCALE

    def decide(self, snapshot: Snapshot) -> AutoscalingPlan:
        """`snapshot` as the manager shows it: with a backlog as demand, a utilisation target, a corrected capacity."""
        sized = size(snapshot, self.settings.target, capacity=self.memory.capacity)
        if isinstance(sized, Unsized):
            return self._hold(hold_for_gaps(AUTOSCALE, snapshot, sized))
        if snapshot.target_rate <= 0:
            text = "nothing arrives: nothing can be sized"
            return self._hold(hold(AUTOSCALE, snapshot, [Reason("hold-no-input", text)]))
        if self.memory.rates.jumped:
            text = "the rate jumped within this window: looked at once more, to see how far"
            return self._hold(hold(AUTOSCALE, snapshot, [Reason("hold-jump", text, {"rate": snapshot.target_rate})]))
        return _Planning(self, snapshot).plan()

    def expects(self, k: Point) -> LatencyPrediction | None:
        """What a parallelism shall show at the rate of now; later compared with what it does."""
        if self.measured.target_rate <= 0:
            return None
        rate = round_rate(self.measured.target_rate)
        sized = size(self.measured, self.settings.target, rate=rate, capacity=self.memory.capacity)
        if isinstance(sized, Unsized):
            return None
        return predict_at(self.settings, self.memory.readings, self.models, sized, k)

    def _hold(self, held: Decision) -> AutoscalingPlan:
        return AutoscalingPlan(held.policy, held.parallelism, held.changed, held.reasons, hold=True, memory=self.memory)


class _Planning:
    """One look's planning; the order of the rules is the order of `plan`."""

    def __init__(self, policy: AutoscalingPolicy, snapshot: Snapshot) -> None:
        self.policy, self.planning, self.memory = policy, policy.planning, policy.memory
        self.snapshot = snapshot
        self.running = tuple(snapshot.parallelism.values())
        self.capacity = _capacity(policy, snapshot)
        # While the target is met, readings of latency say more than a capacity at another parallelism.
        self.loss = self.memory.loss if self._is_missed() else {}
        rates, now = self.memory.rates, policy.now
        newest = rates.windows[-1].rate if rates.windows else snapshot.target_rate
        self.extra = max(0.0, snapshot.target_rate - newest)  # what the adjustments added, and a rise within the window
        self.need = rates.need(now, self.planning.headroom) + self.extra
        self.price, self.growth, self.horizon = policy.price, rates.growth, self.planning.horizon_seconds
        self.less = None if self.price is None else self.price.of_less(self.memory.late_after)
        if self.price is not None:
            self.horizon = self.price.horizon(self.growth, MIN_HORIZON_SECONDS, self.planning.horizon_seconds)
        self.ahead = rates.ahead(now, self.horizon, self.planning.headroom, MAX_TREND_RATIO) + self.extra
        self.weighed: Reason | None = None  # what a change costs, and what it would save
        self.new: list[LatencyPrediction] = []

    def plan(self) -> AutoscalingPlan:
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
        return self.memory.missed >= CONFIRMING_OBSERVATIONS

    def _outgrown(self) -> bool:
        """Half of the headroom is eaten up."""
        if self.memory.sized_for is None:
            return False
        eaten = (1 + self.planning.headroom / 2) / (1 + self.planning.headroom)
        return self.need * eaten > self.memory.sized_for * (1 + 1e-9)

    # -- the rules ----------------------------------------------------------------------------------------------------

    def _below_floor(self) -> AutoscalingPlan | None:
        """No model and too little to carry the rate: the floor, which needs no latency to be known."""
        if any(cell.runs for cell in self.memory.readings.cells) or self.policy.models:
            return None
        sized = self._sized(round_rate_up(self.ahead, RATE_GRID_STEP))
        if all(k >= low for k, low in zip(self.running, sized.floor, strict=True)):
            return None
        wanted = tuple(max(k, low) for k, low in zip(self.running, sized.floor, strict=True))
        floor = self._unpredicted(sized.rate, wanted, "the throughput floor, no latency known")
        text = f"nothing is known of this job yet: the floor for {format_amount(sized.rate)}/s first"
        reason = Reason("floor-first", text, {"rate": sized.rate})
        return self._plan("floor", wanted, floor, reason, *self._out_of_reach(sized))

    def _go_back(self, tried: BeforeScaleDown) -> AutoscalingPlan:
        text = "the last scale-down missed the target: back to what ran before"
        before = self._unpredicted(tried.sized_for or self.need, tried.k, "ran before")
        return self._plan("back", tried.k, before, Reason("go-back", text))

    def _up(self) -> AutoscalingPlan:
        predicted, sized = self._predict(self._far_enough())
        wanted = tuple(map(max, predicted.k, sized.floor))
        if sum(wanted) <= sum(self.running) and (enough := self._enough(predicted, sized)):
            return enough
        before = self.memory.sized_for or 0.0
        numbers = {"needed_rate": self.need, "sized_for": before, "planned_rate": predicted.rate}
        text = f"needs {format_amount(self.need)}/s and was sized for {format_amount(before)}/s: sized for {format_amount(predicted.rate)}/s"
        reason = Reason("rate-up", text, numbers)
        if self.price is not None:
            self.weighed = self.price.ahead(self.horizon, sum(self.running))
        return self._plan(
            "rate", wanted, predicted, reason, *self._prices(), self._said(predicted), *self._out_of_reach(sized)
        )

    def _enough(self, predicted: LatencyPrediction, sized: Sizing) -> AutoscalingPlan | None:
        """What runs may be good for more than it was planned for."""
        if any(k < low for k, low in zip(self.running, sized.floor, strict=True)):
            return None
        policy = self.policy
        seen = predict_at(policy.settings, self.memory.readings, policy.models, sized, self.running)
        if seen.met < policy.settings.confidence:
            return None
        self.memory = replace(self.memory, sized_for=predicted.rate)
        text = f"what runs is good for {format_amount(predicted.rate)}/s too: it stays"
        reason = Reason("enough", text, {"planned_rate": predicted.rate})
        return self._plan("none", self.running, seen, reason, self._said(seen))

    def _far_enough(self) -> float:
        """While the rate rises: so far that the next rescale is worth one too, for the rate will get there."""
        if self.price is not None or self.ahead <= self.need * RISING_RATIO or self.memory.missed:
            return self.ahead
        step = 1 + self.planning.worth * self.memory.largest / sum(self.running)
        return max(self.ahead, self.need * min(step, MAX_TREND_RATIO))

    def _more(self) -> AutoscalingPlan:
        """Algorithm 1 at the rate it was sized for. Where the model thinks that what runs is right, or less would do,
        it is asked for a higher rate: what was just seen says that it is wrong."""
        rate = max(self.ahead, self.memory.sized_for or 0.0)
        for _ in range(4 if self.memory.ineffective_scale_ups < MAX_INEFFECTIVE_SCALE_UPS else 0):
            predicted, sized = self._predict(rate)
            most = (
                max(low, math.ceil(MAX_GROWTH_PER_STEP * own))
                for low, own in zip(sized.floor, self.running, strict=True)
            )
            wanted = tuple(map(max, map(min, predicted.k, most), sized.floor, self.running))
            if wanted != self.running:
                text = f"above the target for {self.memory.missed} looks: more, sized for {format_amount(predicted.rate)}/s"
                reason = Reason("target-missed", text, {"looks": self.memory.missed, "planned_rate": predicted.rate})
                within = replace(predicted, k=wanted)
                self.new.append(within)
                return self._plan("missed", wanted, within, reason, self._said(predicted), *self._out_of_reach(sized))
            rate *= RATE_GRID_STEP**2
        text = "above the target, and no parallelism within the bounds is expected to change that"
        if self.memory.ineffective_scale_ups >= MAX_INEFFECTIVE_SCALE_UPS:
            text = f"above the target, and {MAX_INEFFECTIVE_SCALE_UPS} scale-ups did not change that: no more of them at this rate"
        return self._plan("none", self.running, None, Reason("out-of-reach", text, {"looks": self.memory.missed}))

    def _down(self) -> AutoscalingPlan | None:
        """Less, where that is worth a rescale: by what it costs and saves, or by the band and the least step alone."""
        planning, rates, now = self.planning, self.memory.rates, self.policy.now
        rate = round_rate_up(
            max(self.ahead, rates.lately(now, planning.recall_seconds, planning.headroom)), RATE_GRID_STEP
        )
        sized_for, reviewed = self.memory.sized_for, self.memory.reviewed_at
        lower = sized_for is not None and rate * planning.band <= sized_for and self._may_pay(rate / sized_for, rate)
        review = reviewed is None or now - reviewed >= planning.review_seconds
        if not (lower or review) or self.memory.good < CONFIRMING_OBSERVATIONS:
            return None
        predicted, wanted = self._least(rate)
        given = [own - k for own, k in zip(self.running, wanted, strict=True)]
        share, saving = sum(given) / self.memory.largest, self._saving(wanted, rate)
        if saving is not None and sum(given) > 0:
            self.weighed = saving.weighed(given)
        if share < planning.worth or not (saving is None or saving.pays(given)):
            return None
        numbers: dict[str, Number] = {"saved": share, "instances": sum(wanted), "planned_rate": predicted.rate}
        code = "rate-down" if lower else "over-allocated"
        text = f"{format_amount(predicted.rate)}/s is enough to be sized for: saves {format_percent(share)} of what it takes at most"
        reason = Reason(code, text, numbers)
        plan = self._plan("saving", wanted, predicted, reason, *self._prices(), self._said(predicted))
        return replace(plan, saving=saving)

    def _may_pay(self, share: float, rate: float) -> bool:
        """Whether it can be worth asking: as if such a share of all instances were enough."""
        n = sum(self.running)
        left = math.ceil(n * share)
        return self.less is None or Saving.of(self.less, (n,), (left,), rate, self._lasts).pays((n - left,))

    def _saving(self, wanted: Point, rate: float) -> Saving | None:
        """What is left has to work off what comes in during the standstill."""
        if self.less is None:
            return None
        sized = self._sized(self.memory.rates.line.at(self.policy.now))
        price = self.less.at(sized.busy(wanted)) if sized.measured else self.less
        return Saving.of(price, self.running, wanted, rate, self._lasts)

    def _lasts(self, rate: float) -> float:
        """How long this rate will be enough: as long as it has been, but no longer than a rising one says."""
        spare = self.policy.now - (self.memory.spare_at or 0.0)
        below = self.memory.rates.stayed_below(rate, self.policy.now, self.planning.headroom)
        lasts = max(0.0, spare if below is None else min(below, spare))
        return min(lasts, self.horizon) if self.growth > 0 else lasts

    def _least(self, rate: float) -> tuple[LatencyPrediction, Point]:
        predicted, sized = self._predict(rate)
        each = zip(predicted.k, sized.floor, sized.upper, strict=True)
        return predicted, tuple(min(max(k, low), high) for k, low, high in each)

    def _stay(self) -> AutoscalingPlan:
        sized = self.memory.sized_for
        if self.new:
            self.memory = replace(self.memory, reviewed_at=self.policy.now)
        if sized is None:
            text = "not known yet what this parallelism is good for"
            return self._plan("none", self.running, None, Reason("first-look", text))
        met = "target met" if self.memory.good else "not seen settled and measured yet"
        text = f"needs {format_amount(self.need)}/s, sized for {format_amount(sized)}/s, {met}: it stays"
        numbers = {"needed_rate": self.need, "sized_for": sized}
        return self._plan("none", self.running, None, Reason("in-band", text, numbers), *self._prices())

    # -- planning -----------------------------------------------------------------------------------------------------

    def _predict(self, rate: float) -> tuple[LatencyPrediction, Sizing]:
        """For the next rate of the grid, once for as long as nothing new is known."""
        rate = round_rate_up(rate, RATE_GRID_STEP)
        sized = self._sized(rate)
        known = next((each for each in self.memory.predictions if each.rate == rate), None)
        if known is None:
            known = predict_least(self.policy.settings, self.memory.readings, self.policy.models, sized)
            self.new.append(known)
        return known, sized

    def _sized(self, rate: float) -> Sizing:
        target = self.policy.settings.target
        sized = size(self.snapshot, target, rate=rate, capacity=self.capacity, scaling=self.loss)
        assert isinstance(sized, Sizing)  # asked before, at another rate
        return sized

    def _unpredicted(self, rate: float, k: Point, basis: str) -> LatencyPrediction:
        """Wanted for another reason than its latency."""
        self.new.append(known := LatencyPrediction(rate, k, 0.0, 1.0, 0.5, basis))
        return known

    def _plan(self, cause: Cause, k: Point, prediction: LatencyPrediction | None, *reasons: Reason) -> AutoscalingPlan:
        running, wanted = self.snapshot.parallelism, dict(zip(self.snapshot.operators, k, strict=True))
        by_rate = {each.rate: each for each in (*self.memory.predictions, *self.new)}
        ahead = self.horizon if cause == "rate" and self.growth > 0 else 0.0
        memory = replace(self.memory, predictions=tuple(by_rate.values())[-MAX_PREDICTIONS:], ahead=ahead)
        return AutoscalingPlan(
            AUTOSCALE, wanted, wanted != running, reasons, cause=cause, prediction=prediction, memory=memory
        )

    def _said(self, predicted: LatencyPrediction) -> Reason:
        target = self.policy.settings.target.latency_seconds
        mean, sd = predicted.latency(target), predicted.spread(target)
        text = f"expected at {format_amount(predicted.rate)}/s: {format_seconds(mean)} ± {format_seconds(sd)}; from {predicted.basis}"
        numbers = {"latency_seconds": mean, "sd_seconds": sd, "rate": predicted.rate, "met": predicted.met}
        return Reason("predicted", text, numbers)

    def _prices(self) -> list[Reason]:
        return [self.weighed] if self.weighed is not None else []

    def _out_of_reach(self, sized: Sizing) -> list[Reason]:
        if sized.reach >= 1:
            return []
        text = f"the bounds carry {format_percent(sized.reach)} of {format_amount(sized.rate)}/s"
        return [Reason("out-of-reach", text, {"reach": sized.reach})]


def _capacity(policy: AutoscalingPolicy, shown: Snapshot) -> dict[str, float]:
    """As remembered, but no more than the manager corrected it to, or than a lasting backlog showed it to be."""
    memory, measured = policy.memory, policy.measured
    share = dict(memory.short)
    for name in memory.capacity if shown.operators is not measured.operators else ():
        now, was = (
            compute_true_rates(shown.operators[name]).processing,
            compute_true_rates(measured.operators[name]).processing,
        )
        share[name] = min(share.get(name, 1.0), now / was if now and was else 1.0)
    return {name: value * share.get(name, 1.0) for name, value in memory.capacity.items()}
