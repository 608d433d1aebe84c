"""The manager's gates: is this the moment to ask the policy at all? Each gives a reason to hold, or None."""

from __future__ import annotations

from collections.abc import Callable

from autotrascale.domain.decision import Reason
from autotrascale.plan.control.manager.manager_state import ManagerContext
from autotrascale.plan.formatting import format_amount, format_percent

Gate = Callable[[ManagerContext], Reason | None]


def check_paused(situation: ManagerContext) -> Reason | None:
    return Reason("hold-paused", "paused: nothing is changed until it is resumed") if situation.knobs.paused else None


def check_interval(situation: ManagerContext) -> Reason | None:
    """Policy interval."""
    since = None if situation.state.asked_at is None else situation.now - situation.state.asked_at
    if since is None or since >= situation.knobs.interval_seconds:
        return None
    text = f"asked {format_amount(since)} s ago, the policy interval is {format_amount(situation.knobs.interval_seconds)} s"
    return Reason("hold-interval", text, {"since_seconds": since, "interval_seconds": situation.knobs.interval_seconds})


def check_warm_up(situation: ManagerContext) -> Reason | None:
    left = situation.state.intervals_to_ignore
    if not left:
        return None
    return Reason("hold-warm-up", f"warming up after a rescale: {left} intervals to ignore", {"intervals_left": left})


def check_settling(situation: ManagerContext) -> Reason | None:
    """Policy running time."""
    if situation.state.rescaled_at is None:
        return None
    since, whole = situation.now - situation.state.rescaled_at, situation.knobs.running_seconds
    if since >= whole:
        return None
    text = f"rescaled {format_amount(since)} s ago, left alone for {format_amount(whole)} s"
    return Reason("hold-settling", text, {"since_seconds": since, "running_seconds": whole})


def check_garbage_collection(situation: ManagerContext) -> Reason | None:
    """Collector pauses count as useful time, so they read as low capacity."""
    limit = situation.knobs.max_gc_share
    if limit is None:
        return None
    for name, metrics in situation.snapshot.operators.items():
        total = metrics.total
        share = total.gc_seconds / total.useful_seconds if total.gc_seconds and total.useful_seconds else 0.0
        if share > limit:
            text = f"{name}: {format_percent(share)} of its useful time is garbage collection, the limit is {format_percent(limit)}"
            return Reason("hold-garbage", text, {"operator": name, "gc_share": share, "limit": limit})
    return None
