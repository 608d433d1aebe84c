"""The scaling manager's gates: is this the moment to ask the policy? Each returns a reason to hold, or None."""

from __future__ import annotations

from collections.abc import Callable

from autotrascale.domain.decision import Reason
from autotrascale.plan.control.manager.manager_state import ManagerContext
from autotrascale.plan.formatting import format_amount, format_percent

Gate = Callable[[ManagerContext], Reason | None]


def check_paused(context: ManagerContext) -> Reason | None:
    return Reason("hold-paused", "On hold: the job file pauses this job.") if context.knobs.paused else None


def check_interval(context: ManagerContext) -> Reason | None:
    """Hold until the policy interval is over."""
    since = None if context.state.asked_at is None else context.now - context.state.asked_at
    interval = context.knobs.interval_seconds
    if since is None or since >= interval:
        return None
    text = f"On hold: the policy was asked {format_amount(since)} s ago, its interval is {format_amount(interval)} s."
    return Reason("hold-interval", text, {"since_seconds": since, "interval_seconds": interval})


def check_warm_up(context: ManagerContext) -> Reason | None:
    left = context.state.intervals_to_ignore
    if not left:
        return None
    return Reason("hold-warm-up", f"On hold: warm-up after a rescale, {left} intervals left.", {"intervals_left": left})


def check_settling(context: ManagerContext) -> Reason | None:
    """Hold for the policy running time after a rescale."""
    if context.state.rescaled_at is None:
        return None
    since, whole = context.now - context.state.rescaled_at, context.knobs.running_seconds
    if since >= whole:
        return None
    text = f"On hold: rescaled {format_amount(since)} s ago. The next decision is {format_amount(whole)} s after it."
    return Reason("hold-settling", text, {"since_seconds": since, "running_seconds": whole})


def check_garbage_collection(context: ManagerContext) -> Reason | None:
    """Hold while garbage collection is heavy: its pauses count as useful time, so they look like low capacity."""
    limit = context.knobs.max_gc_share
    if limit is None:
        return None
    for name, metrics in context.snapshot.operators.items():
        total = metrics.total
        share = total.gc_seconds / total.useful_seconds if total.gc_seconds and total.useful_seconds else 0.0
        if share > limit:
            text = (
                f"On hold: garbage collection takes {format_percent(share)} of the useful time of {name}, "
                f"the limit is {format_percent(limit)}."
            )
            return Reason("hold-garbage", text, {"operator": name, "gc_share": share, "limit": limit})
    return None
