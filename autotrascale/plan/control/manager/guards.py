"""The scaling manager's guards: limits on the policy's answer.

A guard takes a parallelism for every operator and returns the limited parallelism, with a reason if it may differ.
`scaling_manager.py` defines their order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median_high

from autotrascale.domain.decision import Number, Reason
from autotrascale.plan.control.manager.adjustments import add_rate
from autotrascale.plan.control.manager.manager_state import ManagerContext
from autotrascale.plan.formatting import format_amount, format_percent, join_names
from autotrascale.plan.sizing.quota import apply_quota
from autotrascale.plan.sizing.sizing import Sizing, count_slots, size

Parallelism = Mapping[str, int]
Guarded = tuple[Parallelism, Reason | None]
Guard = Callable[[ManagerContext, Parallelism], Guarded]


def require_activation(context: ManagerContext, wanted: Parallelism) -> Guarded:
    """Activation time: act after so many consecutive decisions, on their combination."""
    votes, needed, how = context.state.votes, context.knobs.activation_intervals, context.knobs.activation
    numbers: dict[str, Number] = {"decisions": len(votes), "needed": needed, "combination": how}
    if len(votes) < needed:
        text = f"No change yet: {len(votes)} of {needed} consecutive decisions."
        return context.running, Reason("activation", text, numbers)
    combine = max if how == "max" else median_high  # the larger of two medians: a number that was voted for
    combined = {name: combine([vote[name] for vote in votes]) for name in wanted}
    return combined, Reason("activation", f"The {how} of the last {needed} decisions counts.", numbers)


def skip_rejected(context: ManagerContext, wanted: Parallelism) -> Guarded:
    """Do not repeat a parallelism that made things worse at this rate."""
    for rejection in context.state.rejected:
        if dict(wanted) == rejection.parallelism:
            carried, rate = rejection.carried, context.snapshot.target_rate
            text = (
                f"No change: the same parallelism carried {format_amount(carried)}/s before, "
                f"and {format_amount(rate)}/s are offered."
            )
            return context.running, Reason("rejected", text, {"carried": carried, "rate": rate})
    return wanted, None


def stop_small_gains(context: ManagerContext, wanted: Parallelism) -> Guarded:
    """Stop scale-ups after several of them gained little throughput."""
    limit, gains = context.knobs.max_small_gains, context.state.small_gains
    if limit is None or gains < limit:
        return wanted, None
    gain = format_percent(context.knobs.small_gain)
    text = f"No scale-up: the last {gains} gained less than {gain} of throughput each."
    return _forbid_more(context, wanted), Reason("small-gains", text, {"small_gains": gains, "limit": limit})


def stop_ineffective_scale_ups(context: ManagerContext, wanted: Parallelism) -> Guarded:
    names = [name for name in context.state.ineffective if wanted[name] > context.running[name]]
    text = f"No scale-up of {join_names(names)}: the last one added no capacity."
    return _keep_running(context, wanted, names), Reason("ineffective", text, {"operators": ", ".join(names)})


def apply_dead_band(context: ManagerContext, wanted: Parallelism) -> Guarded:
    """Leave operators alone whose utilisation is within the band. Above 100 % no band holds, nor with a backlog."""
    target, band = context.knobs.utilisation, context.knobs.dead_band
    if not band:
        return wanted, None
    within = [name for name, busy in context.utilisation.items() if target - band <= busy <= min(1.0, target + band)]
    names = [name for name in within if _may_be_skipped(context, name, wanted[name])]
    busy = ", ".join(f"{name} {format_percent(context.utilisation[name])}" for name in names[:5])
    text = f"No change within ± {format_percent(band)} of {format_percent(target)} utilisation: {busy}."
    return _keep_running(context, wanted, names), Reason("dead-band", text, {"utilisation": target, "band": band})


def ignore_small_changes(context: ManagerContext, wanted: Parallelism) -> Guarded:
    """Ignore small changes. A job that is behind gets even one instance more."""
    most, running = context.knobs.ignore_instances, context.running
    names = [n for n, k in wanted.items() if abs(k - running[n]) <= most and _may_be_skipped(context, n, k)]
    text = f"No change of ± {most} or less: {join_names(names)}."
    return _keep_running(context, wanted, names), Reason("ignored", text, {"ignore_instances": most})


def _may_be_skipped(context: ManagerContext, name: str, k: int) -> bool:
    """Return whether a small change to `k` may be left out: a scale-down, or a scale-up of a job that keeps up."""
    is_behind = context.is_behind or context.utilisation.get(name, 0.0) > 1.0
    return k < context.running[name] or (k > context.running[name] and not is_behind)


def delay_scale_down(context: ManagerContext, wanted: Parallelism) -> Guarded:
    """Scale-down delay: go no lower than the largest recommendation of so long.

    After each rescale the parallelism that runs is the first recommendation.
    """
    largest = {name: max([k, *(each[name] for _, each in context.state.recommended)]) for name, k in wanted.items()}
    limited = {name: max(k, min(largest[name], context.running[name])) for name, k in wanted.items()}
    delay = context.knobs.scale_down_delay_seconds
    text = f"Scale-down only to the largest recommendation of the last {format_amount(delay)} s."
    return limited, Reason("scale-down-delay", text, {"delay_seconds": delay})


def hold_size_while_behind(context: ManagerContext, wanted: Parallelism) -> Guarded:
    """Do not scale down while the job works off a backlog, or while the backlog is unknown."""
    if context.knobs.catch_up_seconds is None or context.has_backlog is False:
        return wanted, None
    backlog = context.snapshot.backlog_records
    if backlog is None:
        reason = Reason("backlog-unknown", "No scale-down: the backlog is unknown.")
        return _forbid_fewer(context, wanted), reason
    text = f"No scale-down until a backlog of {format_amount(backlog)} records is worked off."
    return _forbid_fewer(context, wanted), Reason("catching-up", text, {"backlog": backlog})


def allow_for_standstill(context: ManagerContext, wanted: Parallelism) -> Guarded:
    """Add the capacity that works off the input of a rescale's standstill.

    This backlog arises once. A parallelism that runs and is enough needs no rescale because of it.
    """
    running, extra = context.running, _rate_after_standstill(context)
    text = (
        f"Sized for {format_amount(extra)}/s more, to work off the input of a standstill of "
        f"{format_amount(context.standstill_seconds)} s."
    )
    reason = Reason("restart", text, {"extra_rate": extra})
    whole = (context.snapshot.target_rate + extra) / context.knobs.utilisation - context.snapshot.target_rate
    sized = size(add_rate(context.snapshot, whole)) if extra else None
    if not isinstance(sized, Sizing):
        return wanted, reason
    enough = sized.named_floor
    if any(k > running[name] for name, k in wanted.items()):
        return {name: max(k, enough[name]) for name, k in wanted.items()}, reason
    return {name: max(k, min(enough[name], running[name])) for name, k in wanted.items()}, reason


def _rate_after_standstill(context: ManagerContext) -> float:
    """Return the records/s that work off a standstill within the catch-up time, at most the offered rate."""
    within, rate = context.knobs.catch_up_seconds, context.snapshot.target_rate
    return 0.0 if within is None else rate * min(1.0, context.standstill_seconds / within)


def forbid_scale_down(context: ManagerContext, wanted: Parallelism) -> Guarded:
    """Do not scale down if the caller gave a reason against it."""
    if context.no_scale_down is None:
        return wanted, None
    return _forbid_fewer(context, wanted), context.no_scale_down


def limit_step(context: ManagerContext, wanted: Parallelism) -> Guarded:
    up, down = context.knobs.max_step_up, context.knobs.max_step_down
    near = dict(wanted)
    for name, now in context.running.items():
        near[name] = near[name] if up is None else min(near[name], now + up)
        near[name] = near[name] if down is None else max(near[name], now - down)
    numbers: dict[str, Number] = {}
    numbers |= {} if up is None else {"max_step_up": up}
    numbers |= {} if down is None else {"max_step_down": down}
    return near, Reason("max-step", f"At most {up or 'any'} up and {down or 'any'} down in one step.", numbers)


def limit_direction(context: ManagerContext, wanted: Parallelism) -> Guarded:
    match context.knobs.direction:
        case "up":
            return _forbid_fewer(context, wanted), Reason("direction", "Only scale-ups are allowed.")
        case "down":
            return _forbid_more(context, wanted), Reason("direction", "Only scale-downs are allowed.")
        case "both":
            return wanted, None


def clamp_to_bounds(context: ManagerContext, wanted: Parallelism) -> Guarded:
    bounds = {name: context.get_bounds(name) for name in wanted}
    clamped = {name: min(max(k, bounds[name][0]), bounds[name][1]) for name, k in wanted.items()}
    names = [name for name in wanted if clamped[name] != wanted[name]]
    ranges = join_names("{} {} to {}".format(name, *bounds[name]) for name in names)
    return clamped, Reason("bounds", f"Limited by bounds: {ranges}.", {"operators": ", ".join(names)})


def align_to_divisors(context: ManagerContext, wanted: Parallelism) -> Guarded:
    """Align changing operators to a divisor, in the direction of the change. This never starts a rescale."""
    aligned = {name: _align(context, name, k) for name, k in wanted.items()}
    names = [name for name in wanted if aligned[name] != wanted[name]]
    changes = join_names(f"{name} {aligned[name]} of {context.knobs.align_to[name]}" for name in names)
    return aligned, Reason("aligned", f"Aligned to a divisor: {changes}.", {"operators": ", ".join(names)})


def keep_excluded(context: ManagerContext, wanted: Parallelism) -> Guarded:
    excluded = context.knobs.excluded
    reason = Reason("excluded", f"Excluded from rescaling: {join_names(excluded)}.")
    return _keep_running(context, wanted, excluded), reason


def apply_pins(context: ManagerContext, wanted: Parallelism) -> Guarded:
    pins = context.knobs.pinned
    return {**wanted, **pins}, Reason("pinned", f"Pinned: {join_names(f'{name} {k}' for name, k in pins.items())}.")


def limit_to_quota(context: ManagerContext, wanted: Parallelism) -> Guarded:
    """Cut operators to the quota, in proportion above their need. Pinned and excluded operators are not cut."""
    most, execution = context.knobs.quota, context.snapshot.execution
    if most is None or count_slots(execution, wanted) <= most:
        return wanted, None
    least = {name: context.get_bounds(name)[0] for name in wanted}
    if execution != "pipelined":
        cut: Parallelism = {name: max(min(k, most), least[name]) for name, k in wanted.items()}
    else:
        knobs = context.knobs
        fixed = {name: k for name, k in wanted.items() if name in knobs.pinned or name in knobs.excluded}
        free = {name: k for name, k in wanted.items() if name not in fixed}
        sized = size(context.snapshot)
        need = sized.named_floor if isinstance(sized, Sizing) else context.running
        shares = apply_quota(free, need, max(0, most - sum(fixed.values())))
        cut = {name: fixed.get(name, max(shares.given.get(name, 1), least[name])) for name in wanted}
    names = [name for name in wanted if cut[name] < wanted[name]]
    slots = count_slots(execution, wanted)
    text = f"Cut to a quota of {most} slots: {slots} are wanted. Fewer instances: {join_names(names)}."
    return cut, Reason("quota", text, {"wanted": slots, "quota": most})


def require_one_worker_count(context: ManagerContext, wanted: Parallelism) -> Guarded:
    """Keep the workers if guards want different numbers of them: with shared execution all operators have the same."""
    if context.snapshot.execution != "shared" or len(set(wanted.values())) == 1:
        return wanted, None
    text = "No change: every worker runs every operator, but the knobs want different numbers of workers."
    return context.running, Reason("shared-workers", text)


def _keep_running(context: ManagerContext, wanted: Parallelism, names: list[str] | tuple[str, ...]) -> Parallelism:
    return {name: context.running[name] if name in names else k for name, k in wanted.items()}


def _forbid_fewer(context: ManagerContext, wanted: Parallelism) -> Parallelism:
    return {name: max(k, context.running[name]) for name, k in wanted.items()}


def _forbid_more(context: ManagerContext, wanted: Parallelism) -> Parallelism:
    return {name: min(k, context.running[name]) for name, k in wanted.items()}


def _align(context: ManagerContext, name: str, k: int) -> int:
    whole, running = context.knobs.align_to.get(name), context.running[name]
    if whole is None or k == running:
        return k
    least, most = context.get_bounds(name)
    divisors = [d for d in range(least, min(most, whole) + 1) if whole % d == 0]
    if k < running:
        return next((d for d in divisors if k <= d < running), running)
    return next((d for d in divisors if d >= k), max([d for d in divisors if d > running], default=running))
