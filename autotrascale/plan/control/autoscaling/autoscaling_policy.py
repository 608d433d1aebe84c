"""AuTraScale's policy for a running job: the paper's Analyse and Plan (§IV), one observation at a time.

    the rate outgrew the planned rate       size for the rate ahead: Algorithm 2 from the nearest readings   `rate-up`
    target missed at the planned rate       size again with the new readings: Algorithm 1              `target-missed`
    rate or need is much lower              the same, if the saving pays                  `rate-down`, `over-allocated`
    nothing known yet                       the throughput floor first                                   `floor-first`
    otherwise                               no change                                                        `in-band`

A rescale costs a standstill. Therefore a job is sized for the largest rate of its next hour, as the trend says, and is
left alone within a band below it. The scaling manager wraps this policy and decides when to act, within which bounds.
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

AUTOSCALE = "autoscale"  # the policy's name
RISING_RATIO = 1.03  # rate ahead over present need; above, the rate rises
MAX_TREND_RATIO = 1.6  # rate ahead over present need; a trend is not extrapolated further
MAX_INEFFECTIVE_SCALE_UPS = 3  # in a row for a missed target; then something else is wrong
MIN_HORIZON_SECONDS = 300.0  # a rising rate is sized for at least so long
MAX_GROWTH_PER_STEP = 1.5  # of an operator's instances, unless the rate needs more
MAX_RATE_RAISES = 4  # times that a missed target is sized for a higher rate


@dataclass(frozen=True)
class AutoscalingPolicy:
    """The policy for one observation.

    Args:
        settings: target and constants of the job.
        planning: the planning part of the `autoscale:` section.
        memory: the memory after this observation.
        now: seconds on the loop's clock.
        measured: the snapshot as measured. The manager may adjust it before it is shown to the policy.
        models: of other sessions.
        price: of a rescale; None: `band` and `worth` decide, and nothing is weighed.
    """

    settings: AutoscalingSettings
    planning: PlanningSettings
    memory: AutoscalingMemory
    now: float
    measured: Snapshot
    models: Sequence[BenefitModel] = ()
    price: RescalePrice | None = None
    name: str = AUTOSCALE

    def decide(self, snapshot: Snapshot) -> AutoscalingPlan:
        """Return the plan for `snapshot` as the manager shows it."""
        sized = size(snapshot, self.settings.target, capacity=self.memory.capacity)
        if isinstance(sized, Unsized):
            return self._hold(hold_for_gaps(AUTOSCALE, snapshot, sized))
        if snapshot.target_rate <= 0:
            text = "On hold: no input arrives, so nothing can be sized."
            return self._hold(hold(AUTOSCALE, snapshot, [Reason("hold-no-input", text)]))
        if self.memory.rates.jumped:
            text = "On hold: the rate jumped within this window. The next window shows the new rate."
            return self._hold(hold(AUTOSCALE, snapshot, [Reason("hold-jump", text, {"rate": snapshot.target_rate})]))
        return _Planning(self, snapshot).plan()

    def predict(self, k: Point) -> LatencyPrediction | None:
        """Return the prediction for `k` at the present rate, for comparison with the latency measured later."""
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
    """The planning for one observation. `plan` shows the order of the rules."""

    def __init__(self, policy: AutoscalingPolicy, snapshot: Snapshot) -> None:
        self.policy, self.planning, self.memory = policy, policy.planning, policy.memory
        self.snapshot = snapshot
        self.running = tuple(snapshot.parallelism.values())
        self.capacity = _limit_capacity(policy, snapshot)
        # While the target is missed, capacity at other parallelisms matters; else latency readings say more.
        self.loss = self.memory.loss if self._is_missed() else {}
        rates, now = self.memory.rates, policy.now
        newest = rates.windows[-1].rate if rates.windows else snapshot.target_rate
        self.extra = max(0.0, snapshot.target_rate - newest)  # added by adjustments, or a rise within the window
        self.need = rates.need(now, self.planning.headroom) + self.extra
        self.price, self.growth, self.horizon = policy.price, rates.growth, self.planning.horizon_seconds
        self.price_down = None
        if self.price is not None:
            self.price_down = self.price.for_scale_down(self.memory.mean_late_seconds)
            self.horizon = self.price.horizon(self.growth, MIN_HORIZON_SECONDS, self.planning.horizon_seconds)
        self.ahead = rates.ahead(now, self.horizon, self.planning.headroom, MAX_TREND_RATIO) + self.extra
        self.price_reason: list[Reason] = []
        self.new_predictions: list[LatencyPrediction] = []

    def plan(self) -> AutoscalingPlan:
        if plan := self._reach_floor():
            return plan
        if self.memory.tried is not None and self._is_missed() and not self._is_outgrown():
            return self._go_back(self.memory.tried)
        if self._is_outgrown():
            return self._scale_up()
        if self._is_missed():
            return self._answer_miss()
        return self._scale_down() or self._stay()

    # -- is a change needed? ------------------------------------------------------------------------------------------

    def _is_missed(self) -> bool:
        return self.memory.missed >= CONFIRMING_OBSERVATIONS

    def _is_outgrown(self) -> bool:
        """Return whether half of the headroom is used up."""
        if self.memory.sized_for is None:
            return False
        used_up = (1 + self.planning.headroom / 2) / (1 + self.planning.headroom)
        return self.need * used_up > self.memory.sized_for * (1 + 1e-9)

    # -- the rules ----------------------------------------------------------------------------------------------------

    def _reach_floor(self) -> AutoscalingPlan | None:
        """Return a plan up to the floor for a job below it, if there is no model. It needs no latency reading."""
        if any(cell.runs for cell in self.memory.readings.cells) or self.policy.models:
            return None
        sized = self._size(round_rate_up(self.ahead, RATE_GRID_STEP))
        if all(k >= low for k, low in zip(self.running, sized.floor, strict=True)):
            return None
        wanted = tuple(max(k, low) for k, low in zip(self.running, sized.floor, strict=True))
        self._remember_placeholder(sized.rate, wanted, "the throughput floor, no latency known")
        text = f"Scale up to the throughput floor for {format_amount(sized.rate)}/s: no latency is known yet."
        reason = Reason("floor-first", text, {"rate": sized.rate})
        return self._make_plan("floor", wanted, reason, *_explain_bounds(sized))

    def _go_back(self, tried: BeforeScaleDown) -> AutoscalingPlan:
        text = "Undo the last scale-down: it missed the target."
        self._remember_placeholder(tried.sized_for or self.need, tried.k, "ran before")
        return self._make_plan("back", tried.k, Reason("go-back", text))

    def _scale_up(self) -> AutoscalingPlan:
        predicted, sized = self._predict(self._rate_to_plan())
        wanted = tuple(map(max, predicted.k, sized.floor))
        if sum(wanted) <= sum(self.running) and (plan := self._stay_if_enough(predicted, sized)):
            return plan
        before, planned = self.memory.sized_for or 0.0, predicted.rate
        numbers = {"needed_rate": self.need, "sized_for": before, "planned_rate": planned}
        text = (
            f"Scale up for {format_amount(planned)}/s: {format_amount(self.need)}/s are needed, "
            f"and the job was sized for {format_amount(before)}/s."
        )
        if self.price is not None:
            self.price_reason = [self.price.explain_horizon(self.horizon, sum(self.running))]
        reasons = (*self.price_reason, self._explain_prediction(predicted), *_explain_bounds(sized))
        return self._make_plan("rate", wanted, Reason("rate-up", text, numbers), *reasons)

    def _stay_if_enough(self, predicted: LatencyPrediction, sized: Sizing) -> AutoscalingPlan | None:
        """Return a plan to stay if the running parallelism is good for a higher rate than it was planned for."""
        if any(k < low for k, low in zip(self.running, sized.floor, strict=True)):
            return None
        policy = self.policy
        own = predict_at(policy.settings, self.memory.readings, policy.models, sized, self.running)
        if own.met < policy.settings.confidence:
            return None
        self.memory = replace(self.memory, sized_for=predicted.rate)
        text = f"No change: the running parallelism is enough for {format_amount(predicted.rate)}/s, too."
        reason = Reason("enough", text, {"planned_rate": predicted.rate})
        return self._make_plan("none", self.running, reason, self._explain_prediction(own))

    def _rate_to_plan(self) -> float:
        """Return the rate ahead. While the rate rises, plan at least as far as a rescale is worth."""
        if self.price is not None or self.ahead <= self.need * RISING_RATIO or self.memory.missed:
            return self.ahead
        step = 1 + self.planning.worth * self.memory.largest / sum(self.running)
        return max(self.ahead, self.need * min(step, MAX_TREND_RATIO))

    def _answer_miss(self) -> AutoscalingPlan:
        """Run Algorithm 1 at the planned rate. If the model asks for no more, ask it for higher rates.

        A model that finds the running parallelism right is refuted by the miss.
        """
        missed, ineffective = self.memory.missed, self.memory.ineffective_scale_ups
        rate = max(self.ahead, self.memory.sized_for or 0.0)
        for _ in range(MAX_RATE_RAISES if ineffective < MAX_INEFFECTIVE_SCALE_UPS else 0):
            predicted, sized = self._predict(rate)
            most = (
                max(low, math.ceil(MAX_GROWTH_PER_STEP * own))
                for low, own in zip(sized.floor, self.running, strict=True)
            )
            wanted = tuple(map(max, map(min, predicted.k, most), sized.floor, self.running))
            if wanted != self.running:
                text = (
                    f"Scale up: above the target for {missed} observations. "
                    f"Sized for {format_amount(predicted.rate)}/s."
                )
                reason = Reason("target-missed", text, {"looks": missed, "planned_rate": predicted.rate})
                self.new_predictions.append(replace(predicted, k=wanted))
                reasons = (self._explain_prediction(predicted), *_explain_bounds(sized))
                return self._make_plan("missed", wanted, reason, *reasons)
            rate *= RATE_GRID_STEP**2
        text = "Above the target: no parallelism within the bounds is expected to change that."
        if ineffective >= MAX_INEFFECTIVE_SCALE_UPS:
            text = (
                f"Above the target: {MAX_INEFFECTIVE_SCALE_UPS} scale-ups did not change that. "
                "No further scale-up at this rate."
            )
        return self._make_plan("none", self.running, Reason("out-of-reach", text, {"looks": missed}))

    def _scale_down(self) -> AutoscalingPlan | None:
        """Return a plan with fewer instances if it is worth a rescale, by its price or by `band` and `worth`."""
        planning, rates, now = self.planning, self.memory.rates, self.policy.now
        recent = rates.recent_need(now, planning.recall_seconds, planning.headroom)
        rate = round_rate_up(max(self.ahead, recent), RATE_GRID_STEP)
        sized_for, reviewed = self.memory.sized_for, self.memory.reviewed_at
        is_lower = sized_for is not None and rate * planning.band <= sized_for and self._may_pay(rate / sized_for, rate)
        is_due = reviewed is None or now - reviewed >= planning.review_seconds
        if not (is_lower or is_due) or self.memory.good < CONFIRMING_OBSERVATIONS:
            return None
        predicted, wanted = self._predict_clipped(rate)
        given = [own - k for own, k in zip(self.running, wanted, strict=True)]
        share, saving = sum(given) / self.memory.largest, self._weigh(wanted, rate)
        if saving is not None and sum(given) > 0:
            self.price_reason = [saving.explain(given)]
        if share < planning.worth or not (saving is None or saving.pays(given)):
            return None
        numbers: dict[str, Number] = {"saved": share, "instances": sum(wanted), "planned_rate": predicted.rate}
        text = (
            f"Scale down {sum(self.running)} → {sum(wanted)} instances: {format_amount(predicted.rate)}/s is enough "
            f"to be sized for. This saves {format_percent(share)} of the largest allocation."
        )
        reason = Reason("rate-down" if is_lower else "over-allocated", text, numbers)
        reasons = (*self.price_reason, self._explain_prediction(predicted))
        return replace(self._make_plan("saving", wanted, reason, *reasons), saving=saving)

    def _may_pay(self, share: float, rate: float) -> bool:
        """Return whether a scale-down to `share` of all instances would pay. A cheap test before the prediction."""
        if self.price_down is None:
            return True
        n = sum(self.running)
        left = math.ceil(n * share)
        return Saving.estimate(self.price_down, (n,), (left,), rate, self._seconds_enough).pays((n - left,))

    def _weigh(self, wanted: Point, rate: float) -> Saving | None:
        """Return price and saving of a scale-down. The instances that stay work off the input of the standstill."""
        if self.price_down is None:
            return None
        sized = self._size(self.memory.rates.line.at(self.policy.now))
        price = self.price_down.at(sized.busy(wanted)) if sized.measured else self.price_down
        return Saving.estimate(price, self.running, wanted, rate, self._seconds_enough)

    def _seconds_enough(self, rate: float) -> float:
        """Return for how long `rate` is expected to be enough: as long as it has been, unless it rises."""
        spare = self.policy.now - (self.memory.spare_at or 0.0)
        below = self.memory.rates.seconds_below(rate, self.policy.now, self.planning.headroom)
        seconds = max(0.0, spare if below is None else min(below, spare))
        return min(seconds, self.horizon) if self.growth > 0 else seconds

    def _predict_clipped(self, rate: float) -> tuple[LatencyPrediction, Point]:
        predicted, sized = self._predict(rate)
        each = zip(predicted.k, sized.floor, sized.upper, strict=True)
        return predicted, tuple(min(max(k, low), high) for k, low, high in each)

    def _stay(self) -> AutoscalingPlan:
        sized_for = self.memory.sized_for
        if self.new_predictions:
            self.memory = replace(self.memory, reviewed_at=self.policy.now)
        if sized_for is None:
            text = "No change: the rate that this parallelism can carry is unknown yet."
            return self._make_plan("none", self.running, Reason("first-look", text))
        target = "The target is met" if self.memory.good else "The latency is not confirmed yet"
        text = (
            f"No change: {format_amount(self.need)}/s are needed, and the job is sized for "
            f"{format_amount(sized_for)}/s. {target}."
        )
        reason = Reason("in-band", text, {"needed_rate": self.need, "sized_for": sized_for})
        return self._make_plan("none", self.running, reason, *self.price_reason)

    # -- planning -----------------------------------------------------------------------------------------------------

    def _predict(self, rate: float) -> tuple[LatencyPrediction, Sizing]:
        """Return the least parallelism at the next rate of the grid. It is computed once until something is learned."""
        rate = round_rate_up(rate, RATE_GRID_STEP)
        sized = self._size(rate)
        known = next((each for each in self.memory.predictions if each.rate == rate), None)
        if known is None:
            known = predict_least(self.policy.settings, self.memory.readings, self.policy.models, sized)
            self.new_predictions.append(known)
        return known, sized

    def _size(self, rate: float) -> Sizing:
        target = self.policy.settings.target
        sized = size(self.snapshot, target, rate=rate, capacity=self.capacity, scaling=self.loss)
        assert isinstance(sized, Sizing)  # `decide` sized the same snapshot at another rate
        return sized

    def _remember_placeholder(self, rate: float, k: Point, basis: str) -> None:
        """Remember a parallelism for `rate` that is wanted for another reason than its latency."""
        self.new_predictions.append(LatencyPrediction(rate, k, 0.0, 1.0, 0.5, basis))

    def _make_plan(self, cause: Cause, k: Point, *reasons: Reason) -> AutoscalingPlan:
        running, wanted = self.snapshot.parallelism, dict(zip(self.snapshot.operators, k, strict=True))
        by_rate = {each.rate: each for each in (*self.memory.predictions, *self.new_predictions)}
        memory = replace(
            self.memory,
            predictions=tuple(by_rate.values())[-MAX_PREDICTIONS:],
            horizon_seconds=self.horizon if cause == "rate" and self.growth > 0 else 0.0,
        )
        return AutoscalingPlan(AUTOSCALE, wanted, wanted != running, reasons, cause=cause, memory=memory)

    def _explain_prediction(self, predicted: LatencyPrediction) -> Reason:
        target = self.policy.settings.target.latency_seconds
        mean, sd = predicted.latency(target), predicted.spread(target)
        text = (
            f"Expected latency {format_seconds(mean)} ± {format_seconds(sd)} (target {format_seconds(target)}) "
            f"at {format_amount(predicted.rate)}/s, from {predicted.basis}."
        )
        numbers = {"latency_seconds": mean, "sd_seconds": sd, "rate": predicted.rate, "met": predicted.met}
        return Reason("predicted", text, numbers)


def _explain_bounds(sized: Sizing) -> list[Reason]:
    if sized.reach >= 1:
        return []
    text = f"The bounds carry {format_percent(sized.reach)} of {format_amount(sized.rate)}/s."
    return [Reason("out-of-reach", text, {"reach": sized.reach})]


def _limit_capacity(policy: AutoscalingPolicy, shown: Snapshot) -> dict[str, float]:
    """Return the remembered capacities, limited by the manager's correction and by a lasting backlog."""
    memory, measured = policy.memory, policy.measured
    share = dict(memory.capacity_share)
    for name in memory.capacity if shown.operators is not measured.operators else ():
        corrected = compute_true_rates(shown.operators[name]).processing
        original = compute_true_rates(measured.operators[name]).processing
        share[name] = min(share.get(name, 1.0), corrected / original if corrected and original else 1.0)
    return {name: value * share.get(name, 1.0) for name, value in memory.capacity.items()}
