"""What the last rescale brought, compared with the last look before it, and what follows for the next decisions.

Each lesson is tied to the rate that the job did carry when it was learned. Once the world offers no more than that, the
lesson is forgotten: at such a rate nothing had gone wrong. After some hours it is forgotten anyway.
"""

from __future__ import annotations

from dataclasses import replace

from autotrascale.domain.decision import Number, Reason
from autotrascale.plan.control.manager.adjustments import correct_capacity
from autotrascale.plan.control.manager.manager_state import (
    CapacityCorrection,
    IneffectiveScaleUp,
    ManagerContext,
    MeasuredRun,
    RejectedParallelism,
)
from autotrascale.plan.formatting import format_amount, format_changes, format_percent
from autotrascale.plan.sizing.sizing import Unsized, size

# Overheads make capacity optimistic by some part of it. When a tenth of it is all that comes through, something else is
# wrong, and more instances are not the answer.
_LEAST_CORRECTION = 0.1
_NEARLY, _MOST_PATIENCE = 0.97, 1000
FORGET_SECONDS = 6 * 3600.0  # seconds after which a parallelism that was rejected may be tried again


def learn_from_rescale(situation: ManagerContext) -> tuple[ManagerContext, list[Reason]]:
    """Forget what no longer holds, judge a rescale that was not compared yet, then look at the capacity correction."""
    situation = _forget(situation)
    reasons: list[Reason] = []
    if situation.state.before_rescale is not None:
        situation, reasons = _compare(situation, situation.state.before_rescale)
    if not situation.state.going_back:
        situation = _correct(situation)
    return situation, reasons


def _forget(situation: ManagerContext) -> ManagerContext:
    state, offered, achieved = situation.state, situation.snapshot.target_rate, situation.snapshot.throughput
    better = achieved is not None and achieved > state.stalled_at * (1 + situation.knobs.small_gain)
    since = situation.now - FORGET_SECONDS
    return situation.after(
        rejected=tuple(each for each in state.rejected if offered > each.carried and each.at > since),
        small_gains=0 if better or offered <= state.stalled_at else state.small_gains,
        correction=CapacityCorrection() if offered <= state.correction.carried else state.correction,
        ineffective={
            name: each
            for name, each in state.ineffective.items()
            if situation.running.get(name, 0) >= each.k and each.at > since
        },
    )


def _compare(situation: ManagerContext, before: MeasuredRun) -> tuple[ManagerContext, list[Reason]]:
    """Whatever speaks against a rescale must do so in two windows in a row: the first after a change may show anything.
    In between the job is left alone (`doubtful`)."""
    state, shot = situation.state, situation.snapshot
    worse = _worse(situation, before)
    ineffective = {} if worse else _ineffective(situation, before)
    if (worse or ineffective) and not state.doubtful:
        text = "by one window the last rescale did not do what it was for: looked at once more"
        return situation.after(doubtful=True), [Reason("hold-judging", text)]
    situation = situation.after(before_rescale=None, doubtful=False)
    if worse:
        rejection = RejectedParallelism(situation.running, shot.throughput or 0.0, situation.now)
        return situation.after(rejected=(*state.rejected, rejection), requested=before.parallelism, going_back=True), [
            worse
        ]
    known = {name: each for name, each in state.ineffective.items() if not _grew(situation, before, name)}
    known |= {name: IneffectiveScaleUp(situation.running[name], situation.now) for name in ineffective}
    situation = _count_gain(situation.after(ineffective=known), before)
    return situation, [*ineffective.values(), *_not_compared(situation, before)]


def _not_compared(situation: ManagerContext, before: MeasuredRun) -> list[Reason]:
    if before.throughput is not None and situation.snapshot.throughput is not None:
        return []
    if situation.knobs.rollback_loss is None and situation.knobs.max_small_gains is None:
        return []
    return [Reason("not-judged", "the throughput is not known, so nobody can say what the last rescale brought")]


def _worse(situation: ManagerContext, before: MeasuredRun) -> Reason | None:
    """Less throughput than before, and less than the world offers now: a lower rate alone is no loss."""
    loss, was, now = situation.knobs.rollback_loss, before.throughput, situation.snapshot.throughput
    if loss is None or was is None or now is None or now >= (1 - loss) * min(was, situation.snapshot.target_rate):
        return None
    change = format_changes(before.parallelism, situation.running)
    text = f"{change} took the throughput from {format_amount(was)} to {format_amount(now)}/s: going back"
    return Reason("rollback", text, {"before": was, "after": now, "loss": 1 - now / was, "limit": loss})


def _count_gain(situation: ManagerContext, before: MeasuredRun) -> ManagerContext:
    was, now = before.throughput, situation.snapshot.throughput
    grew = sum(situation.running.values()) > sum(before.parallelism.values())
    if was is None or now is None or not grew or now >= situation.snapshot.target_rate:
        return situation
    if now >= was * (1 + situation.knobs.small_gain):
        return situation.after(small_gains=0)
    return situation.after(small_gains=situation.state.small_gains + 1, stalled_at=now)


def _ineffective(situation: ManagerContext, before: MeasuredRun) -> dict[str, Reason]:
    """Ineffective scaling: capacity added over capacity expected, for each operator that grew."""
    least, found = situation.knobs.min_effectiveness, {}
    if least is None:
        return {}
    for name, k in situation.running.items():
        one_before, one_now = before.capacity.get(name), situation.demand.capacity[name]
        if not _grew(situation, before, name) or one_before is None or one_now is None:
            continue
        k_before = before.parallelism[name]
        expected, added = (k - k_before) * one_before, k * one_now - k_before * one_before
        if added < least * expected:
            text = (
                f"{name}: {k_before} → {k} added {format_amount(added)}/s of capacity, "
                f"{format_percent(max(0.0, added / expected))} of the {format_amount(expected)}/s expected"
            )
            numbers: dict[str, Number] = {"operator": name, "added": added, "expected": expected, "least": least}
            found[name] = Reason("ineffective-scaling", text, numbers)
    return found


def _grew(situation: ManagerContext, before: MeasuredRun, name: str) -> bool:
    return situation.running[name] > before.parallelism.get(name, situation.running[name])


def _correct(situation: ManagerContext) -> ManagerContext:
    """Target rate ratio: enough instances by every measurement, and yet the rate is not reached, in two windows in a
    row. Then the measured capacity is optimistic by achieved/target, the better of the two, and is divided by it."""
    limit, achieved, offered, known = (
        situation.knobs.target_rate_ratio,
        situation.snapshot.throughput,
        situation.snapshot.target_rate,
        situation.state.correction,
    )
    if limit is None or not achieved:
        return situation
    if achieved >= limit * offered:
        return situation.after(correction=_relaxed(replace(known, bad=None, good=known.good + 1)))
    if not _enough(situation):
        return situation.after(correction=replace(known, bad=None, good=0))
    ratio = achieved / offered
    if known.bad is None:
        return situation.after(correction=replace(known, bad=ratio, good=0))
    factor = max(_LEAST_CORRECTION, known.factor * max(ratio, known.bad))
    return situation.after(correction=CapacityCorrection(factor, achieved, patience=known.patience))


def _relaxed(known: CapacityCorrection) -> CapacityCorrection:
    if known.factor == 1.0 or known.good < known.patience:
        return known
    factor = known.factor**0.5
    patience = min(2 * known.patience, _MOST_PATIENCE)
    return CapacityCorrection(1.0 if factor > _NEARLY else factor, known.carried, patience=patience)


def _enough(situation: ManagerContext) -> bool:
    """Whether what runs carries the rate, by every measurement."""
    shown, _ = correct_capacity(situation, situation.snapshot)
    sized = size(shown)
    if isinstance(sized, Unsized) or not sized.reachable:
        return False
    return all(k <= situation.running[name] for name, k in sized.named_floor.items())
