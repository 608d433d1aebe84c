"""What the last rescale brought, compared with the last look before it, and what follows for the next decisions.

Each lesson is tied to the rate that the job did carry when it was learned. Once the world offers no more than that, the
lesson is forgotten: at such a rate nothing had gone wrong.
"""

from __future__ import annotations

from autotrascale.domain.decision import Number, Reason
from autotrascale.domain.snapshot import Snapshot
from autotrascale.plan.control.guards import corrected
from autotrascale.plan.control.situation import Rejection, Situation
from autotrascale.plan.sizing.demand import measure_demand
from autotrascale.plan.sizing.sizing import Unsized, size
from autotrascale.plan.words import amount, moves, percent

# Overheads make capacity optimistic by some part of it. When a tenth of it is all that comes through, something else is
# wrong, and more instances are not the answer.
_LEAST_CORRECTION = 0.1


def learn(situation: Situation) -> tuple[Situation, list[Reason]]:
    """Forget what no longer holds, judge a rescale that was not judged yet, then look at the capacity correction."""
    situation = _forget(situation)
    reasons: list[Reason] = []
    if situation.state.unjudged is not None:
        situation, reasons = _judge(situation, situation.state.unjudged)
    if not situation.state.going_back:
        situation = _correct(situation)
    return situation, reasons


def _forget(situation: Situation) -> Situation:
    state, offered, achieved = situation.state, situation.snapshot.target_rate, situation.snapshot.throughput
    better = achieved is not None and achieved > state.stalled_at * (1 + situation.knobs.small_gain)
    uncorrected = offered <= state.corrected_at
    return situation.after(
        rejected=tuple(rejection for rejection in state.rejected if offered > rejection.carried),
        small_gains=0 if better or offered <= state.stalled_at else state.small_gains,
        correction=1.0 if uncorrected else state.correction,
        corrected_at=0.0 if uncorrected else state.corrected_at,
        ineffective={name: k for name, k in state.ineffective.items() if situation.running.get(name, 0) >= k},
    )


def _judge(situation: Situation, before: Snapshot) -> tuple[Situation, list[Reason]]:
    situation = situation.after(unjudged=None)
    if before.throughput is None or situation.snapshot.throughput is None:
        situation, reasons = _judge_capacity(situation, before)
        return situation, reasons + _not_judged(situation)
    if reason := _worse(situation, before, before.throughput, situation.snapshot.throughput):
        bad = Rejection(situation.running, situation.snapshot.throughput)
        return situation.after(
            rejected=(*situation.state.rejected, bad), requested=before.parallelism, going_back=True
        ), [reason]
    return _judge_capacity(_count_gain(situation, before, before.throughput, situation.snapshot.throughput), before)


def _not_judged(situation: Situation) -> list[Reason]:
    if situation.knobs.rollback_loss is None and situation.knobs.max_small_gains is None:
        return []
    return [Reason("not-judged", "the throughput is not known, so nobody can say what the last rescale brought")]


def _worse(situation: Situation, before: Snapshot, was: float, now: float) -> Reason | None:
    """Less throughput than before, and less than the world offers now: a lower rate alone is no loss."""
    loss = situation.knobs.rollback_loss
    if loss is None or now >= (1 - loss) * min(was, situation.snapshot.target_rate):
        return None
    change = moves(before.parallelism, situation.running)
    text = f"{change} took the throughput from {amount(was)} to {amount(now)}/s: going back"
    return Reason("rollback", text, {"before": was, "after": now, "loss": 1 - now / was, "limit": loss})


def _count_gain(situation: Situation, before: Snapshot, was: float, now: float) -> Situation:
    grew = sum(situation.running.values()) > sum(before.parallelism.values())
    if not grew or now >= situation.snapshot.target_rate:
        return situation
    if now >= was * (1 + situation.knobs.small_gain):
        return situation.after(small_gains=0)
    return situation.after(small_gains=situation.state.small_gains + 1, stalled_at=now)


def _judge_capacity(situation: Situation, before: Snapshot) -> tuple[Situation, list[Reason]]:
    """Ineffective scaling: capacity added over capacity expected, for each operator that grew."""
    least = situation.knobs.min_effectiveness
    if least is None:
        return situation, []
    ineffective, reasons = dict(situation.state.ineffective), []
    was = measure_demand(before).capacity
    for name, k in situation.running.items():
        one_before, one_now, k_before = was[name], situation.demand.capacity[name], before.parallelism[name]
        if k <= k_before or one_before is None or one_now is None:
            continue
        expected, added = (k - k_before) * one_before, k * one_now - k_before * one_before
        ineffective.pop(name, None)
        if added < least * expected:
            ineffective[name] = k
            text = (
                f"{name}: {k_before} → {k} added {amount(added)}/s of capacity, "
                f"{percent(max(0.0, added / expected))} of the {amount(expected)}/s expected"
            )
            numbers: dict[str, Number] = {"operator": name, "added": added, "expected": expected, "least": least}
            reasons.append(Reason("ineffective-scaling", text, numbers))
    return situation.after(ineffective=ineffective), reasons


def _correct(situation: Situation) -> Situation:
    """Target rate ratio: enough instances by every measurement, and yet the rate is not reached. Then the measured
    capacity is optimistic by achieved/target, and is divided by it until the world offers no more than was achieved."""
    limit, achieved, offered = (
        situation.knobs.target_rate_ratio,
        situation.snapshot.throughput,
        situation.snapshot.target_rate,
    )
    if limit is None or not achieved or achieved >= limit * offered:
        return situation
    shown, _ = corrected(situation, situation.snapshot)
    sized = size(shown)
    if isinstance(sized, Unsized) or not sized.reachable:
        return situation
    if any(k > situation.running[name] for name, k in sized.named_floor.items()):
        return situation
    factor = max(_LEAST_CORRECTION, situation.state.correction * achieved / offered)
    return situation.after(correction=factor, corrected_at=achieved)
