"""Feedback of the last rescale: compare the job with its state before, and draw conclusions for later decisions.

A conclusion holds above the rate that the job carried when it was drawn. Once the world offers no more than this rate,
the conclusion is forgotten; it is also forgotten after some hours.
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

# Overheads make capacity optimistic by some part of it. If only a tenth comes through, something else is wrong, and
# more instances are not the answer.
_MIN_CORRECTION = 0.1
_NEARLY_NONE, _MAX_PATIENCE = 0.97, 1000
FORGET_SECONDS = 6 * 3600.0  # then a rejected parallelism may be tried again


def learn_from_rescale(context: ManagerContext) -> tuple[ManagerContext, list[Reason]]:
    """Forget old conclusions, judge a rescale that was not judged yet, then update the capacity correction."""
    context = _forget(context)
    reasons: list[Reason] = []
    if context.state.before_rescale is not None:
        context, reasons = _judge_rescale(context, context.state.before_rescale)
    if not context.state.going_back:
        context = _update_correction(context)
    return context, reasons


def _forget(context: ManagerContext) -> ManagerContext:
    state, offered, carried = context.state, context.snapshot.target_rate, context.snapshot.throughput
    is_better = carried is not None and carried > state.stalled_at * (1 + context.knobs.small_gain)
    since = context.now - FORGET_SECONDS
    return context.with_state(
        rejected=tuple(each for each in state.rejected if offered > each.carried and each.at > since),
        small_gains=0 if is_better or offered <= state.stalled_at else state.small_gains,
        correction=CapacityCorrection() if offered <= state.correction.carried else state.correction,
        ineffective={
            name: each
            for name, each in state.ineffective.items()
            if context.running.get(name, 0) >= each.k and each.at > since
        },
    )


def _judge_rescale(context: ManagerContext, before: MeasuredRun) -> tuple[ManagerContext, list[Reason]]:
    """Judge a rescale. Objections need two windows in a row; in between the job is left alone (`doubtful`)."""
    state, snapshot = context.state, context.snapshot
    loss = _find_loss(context, before)
    ineffective = {} if loss else _find_ineffective(context, before)
    if (loss or ineffective) and not state.doubtful:
        text = "On hold: by one window the last rescale did not help. The next window decides."
        return context.with_state(doubtful=True), [Reason("hold-judging", text)]
    context = context.with_state(before_rescale=None, doubtful=False)
    if loss:
        rejected = (*state.rejected, RejectedParallelism(context.running, snapshot.throughput or 0.0, context.now))
        return context.with_state(rejected=rejected, requested=before.parallelism, going_back=True), [loss]
    known = {name: each for name, each in state.ineffective.items() if not _has_grown(context, before, name)}
    known |= {name: IneffectiveScaleUp(context.running[name], context.now) for name in ineffective}
    context = _count_small_gain(context.with_state(ineffective=known), before)
    return context, [*ineffective.values(), *_explain_not_judged(context, before)]


def _explain_not_judged(context: ManagerContext, before: MeasuredRun) -> list[Reason]:
    if before.throughput is not None and context.snapshot.throughput is not None:
        return []
    if context.knobs.rollback_loss is None and context.knobs.max_small_gains is None:
        return []
    return [Reason("not-judged", "The effect of the last rescale is unknown: the throughput is not measured.")]


def _find_loss(context: ManagerContext, before: MeasuredRun) -> Reason | None:
    """Return a reason to roll back: less throughput than before, and less than the offered rate."""
    limit, was, now = context.knobs.rollback_loss, before.throughput, context.snapshot.throughput
    if limit is None or was is None or now is None or now >= (1 - limit) * min(was, context.snapshot.target_rate):
        return None
    change = format_changes(before.parallelism, context.running)
    text = f"Rollback of {change}: the throughput fell from {format_amount(was)} to {format_amount(now)}/s."
    return Reason("rollback", text, {"before": was, "after": now, "loss": 1 - now / was, "limit": limit})


def _count_small_gain(context: ManagerContext, before: MeasuredRun) -> ManagerContext:
    was, now = before.throughput, context.snapshot.throughput
    has_grown = sum(context.running.values()) > sum(before.parallelism.values())
    if was is None or now is None or not has_grown or now >= context.snapshot.target_rate:
        return context
    if now >= was * (1 + context.knobs.small_gain):
        return context.with_state(small_gains=0)
    return context.with_state(small_gains=context.state.small_gains + 1, stalled_at=now)


def _find_ineffective(context: ManagerContext, before: MeasuredRun) -> dict[str, Reason]:
    """Return a reason for each operator that grew and gained too little of the expected capacity."""
    least, found = context.knobs.min_effectiveness, {}
    if least is None:
        return {}
    for name, k in context.running.items():
        capacity_before, capacity_now = before.capacity.get(name), context.demand.capacity[name]
        if not _has_grown(context, before, name) or capacity_before is None or capacity_now is None:
            continue
        k_before = before.parallelism[name]
        expected, added = (k - k_before) * capacity_before, k * capacity_now - k_before * capacity_before
        if added < least * expected:
            text = (
                f"{name} {k_before} → {k} added {format_amount(added)}/s of capacity, "
                f"{format_percent(max(0.0, added / expected))} of the expected {format_amount(expected)}/s."
            )
            numbers: dict[str, Number] = {"operator": name, "added": added, "expected": expected, "least": least}
            found[name] = Reason("ineffective-scaling", text, numbers)
    return found


def _has_grown(context: ManagerContext, before: MeasuredRun, name: str) -> bool:
    return context.running[name] > before.parallelism.get(name, context.running[name])


def _update_correction(context: ManagerContext) -> ManagerContext:
    """Correct capacities by DS2's target rate ratio.

    If instances are enough by every measurement and still miss the rate in two windows in a row, measured capacity is
    optimistic. The correction is the larger ratio of carried to offered rate.
    """
    limit, known = context.knobs.target_rate_ratio, context.state.correction
    carried, offered = context.snapshot.throughput, context.snapshot.target_rate
    if limit is None or not carried:
        return context
    if carried >= limit * offered:
        return context.with_state(correction=_relax(replace(known, bad=None, good=known.good + 1)))
    if not _is_enough(context):
        return context.with_state(correction=replace(known, bad=None, good=0))
    ratio = carried / offered
    if known.bad is None:
        return context.with_state(correction=replace(known, bad=ratio, good=0))
    factor = max(_MIN_CORRECTION, known.factor * max(ratio, known.bad))
    return context.with_state(correction=CapacityCorrection(factor, carried, patience=known.patience))


def _relax(known: CapacityCorrection) -> CapacityCorrection:
    if known.factor == 1.0 or known.good < known.patience:
        return known
    factor = known.factor**0.5
    patience = min(2 * known.patience, _MAX_PATIENCE)
    return CapacityCorrection(1.0 if factor > _NEARLY_NONE else factor, known.carried, patience=patience)


def _is_enough(context: ManagerContext) -> bool:
    """Return whether the running instances carry the rate by every measurement."""
    shown, _ = correct_capacity(context, context.snapshot)
    sized = size(shown)
    if isinstance(sized, Unsized) or not sized.reachable:
        return False
    return all(k <= context.running[name] for name, k in sized.named_floor.items())
