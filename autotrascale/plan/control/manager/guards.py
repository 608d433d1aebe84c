"""The manager's guards, one small function each: what becomes of the policy's answer.

Guards are called with a parallelism for every operator and give one back, and the reason that is told where the two
differ. `manager.py` says in which order they are applied.
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
Guard = Callable[[ManagerContext, Parallelism], tuple[Parallelism, Reason]]


def require_activation(situation: ManagerContext, wanted: Parallelism) -> tuple[Parallelism, Reason]:
    """Activation time: no action before so many consecutive decisions, and then on what they say together."""
    votes, needed, how = situation.state.votes, situation.knobs.activation_intervals, situation.knobs.activation
    numbers: dict[str, Number] = {"decisions": len(votes), "needed": needed, "combination": how}
    if len(votes) < needed:
        text = f"{len(votes)} of {needed} decisions in a row: not acted on yet"
        return situation.running, Reason("activation", text, numbers)
    combine = max if how == "max" else median_high  # a number that somebody voted for, the larger of two
    together = {name: combine([vote[name] for vote in votes]) for name in wanted}
    return together, Reason("activation", f"the {how} of the last {needed} decisions", numbers)


def skip_rejected(situation: ManagerContext, wanted: Parallelism) -> tuple[Parallelism, Reason]:
    for rejection in situation.state.rejected:
        if dict(wanted) == rejection.parallelism:
            carried, rate = rejection.carried, situation.snapshot.target_rate
            text = f"was tried before and carried {format_amount(carried)}/s of {format_amount(rate)}/s: not again at this rate"
            return situation.running, Reason("rejected", text, {"carried": carried, "rate": rate})
    return wanted, Reason("rejected", "")


def stop_small_gains(situation: ManagerContext, wanted: Parallelism) -> tuple[Parallelism, Reason]:
    limit, gains = situation.knobs.max_small_gains, situation.state.small_gains
    if limit is None or gains < limit:
        return wanted, Reason("small-gains", "")
    text = f"the last {gains} scale-ups gained less than {format_percent(situation.knobs.small_gain)} each: no more of them"
    return _no_more(situation, wanted), Reason("small-gains", text, {"small_gains": gains, "limit": limit})


def stop_ineffective_scale_ups(situation: ManagerContext, wanted: Parallelism) -> tuple[Parallelism, Reason]:
    names = [name for name in situation.state.ineffective if wanted[name] > situation.running[name]]
    text = f"more instances of {join_names(names)} added no capacity the last time: no more of them"
    kept = {name: situation.running[name] if name in names else k for name, k in wanted.items()}
    return kept, Reason("ineffective", text, {"operators": ", ".join(names)})


def apply_dead_band(situation: ManagerContext, wanted: Parallelism) -> tuple[Parallelism, Reason]:
    """Above all of its time an operator falls behind, whatever the band; so does a job with a backlog."""
    target, band = situation.knobs.utilisation, situation.knobs.dead_band
    if not band:
        return wanted, Reason("dead-band", "")
    within = [n for n, busy in situation.busy.items() if target - band <= busy <= min(1.0, target + band)]
    names = [name for name in within if _is_small(situation, name, wanted[name])]
    kept = {name: situation.running[name] if name in names else k for name, k in wanted.items()}
    busy = ", ".join(f"{name} {format_percent(situation.busy[name])}" for name in names[:5])
    text = f"busy within ± {format_percent(band)} of {format_percent(target)}, left alone: {busy}"
    return kept, Reason("dead-band", text, {"utilisation": target, "band": band})


def ignore_small_changes(situation: ManagerContext, wanted: Parallelism) -> tuple[Parallelism, Reason]:
    """A change that small; but what falls behind falls behind by one instance, too."""
    most, running = situation.knobs.ignore_instances, situation.running
    names = [n for n, k in wanted.items() if abs(k - running[n]) <= most and _is_small(situation, n, k)]
    kept = {name: running[name] if name in names else k for name, k in wanted.items()}
    return kept, Reason("ignored", f"changes of ± {most} are ignored: {join_names(names)}", {"ignore_instances": most})


def _is_small(situation: ManagerContext, name: str, k: int) -> bool:
    """A change that may be left undone: no scale-up of a job that is behind."""
    behind = situation.behind or situation.busy.get(name, 0.0) > 1.0
    return k < situation.running[name] or (k > situation.running[name] and not behind)


def delay_scale_down(situation: ManagerContext, wanted: Parallelism) -> tuple[Parallelism, Reason]:
    """Scale-down delay: the largest recommendation in the window. What runs is the first in it after each rescale."""
    largest = {name: max([k, *(said[name] for _, said in situation.state.recommended)]) for name, k in wanted.items()}
    kept = {name: max(k, min(largest[name], situation.running[name])) for name, k in wanted.items()}
    delay = situation.knobs.scale_down_delay_seconds
    text = f"scaled down no further than the largest recommendation of the last {format_amount(delay)} s"
    return kept, Reason("scale-down-delay", text, {"delay_seconds": delay})


def hold_size_while_behind(situation: ManagerContext, wanted: Parallelism) -> tuple[Parallelism, Reason]:
    if situation.knobs.catch_up_seconds is None or situation.catching_up is False:
        return wanted, Reason("catching-up", "")
    backlog = situation.snapshot.backlog_records
    if backlog is None:
        return _no_fewer(situation, wanted), Reason("backlog-unknown", "the backlog is not known: no scale-down")
    text = f"no scale-down while catching up with a backlog of {format_amount(backlog)}"
    return _no_fewer(situation, wanted), Reason("catching-up", text, {"backlog": backlog})


def allow_for_standstill(situation: ManagerContext, wanted: Parallelism) -> tuple[Parallelism, Reason]:
    """What arrives while a rescale stops the job is a backlog. It is there once: what runs and is enough needs no more
    because of it. Who scales up takes what works it off in time, and who scales down goes no further than that."""
    running, extra = situation.running, _restart_rate(situation)
    reason = Reason(
        "restart",
        f"a restart of {format_amount(situation.restart_seconds)} s: {format_amount(extra)}/s more to make up for it",
        {"extra_rate": extra},
    )
    share = situation.knobs.utilisation
    whole = (situation.snapshot.target_rate + extra) / share - situation.snapshot.target_rate
    sized = size(add_rate(situation.snapshot, whole)) if extra else None
    if not isinstance(sized, Sizing):
        return wanted, reason
    enough = sized.named_floor
    if any(k > running[name] for name, k in wanted.items()):
        return {name: max(k, enough[name]) for name, k in wanted.items()}, reason
    return {name: max(k, min(enough[name], running[name])) for name, k in wanted.items()}, reason


def _restart_rate(situation: ManagerContext) -> float:
    """Records per second more, for as long as a backlog may last, to make up for a restart; no more than the rate."""
    within, rate = situation.knobs.catch_up_seconds, situation.snapshot.target_rate
    return 0.0 if within is None else rate * min(1.0, situation.restart_seconds / within)


def forbid_scale_down(situation: ManagerContext, wanted: Parallelism) -> tuple[Parallelism, Reason]:
    """Whoever asks knows a reason why nothing may be given back now."""
    reason = situation.not_down
    if reason is None:
        return wanted, Reason("not-down", "")
    return _no_fewer(situation, wanted), reason


def limit_step(situation: ManagerContext, wanted: Parallelism) -> tuple[Parallelism, Reason]:
    up, down = situation.knobs.max_step_up, situation.knobs.max_step_down
    near = dict(wanted)
    for name, now in situation.running.items():
        near[name] = near[name] if up is None else min(near[name], now + up)
        near[name] = near[name] if down is None else max(near[name], now - down)
    numbers: dict[str, Number] = {}
    numbers |= {} if up is None else {"max_step_up": up}
    numbers |= {} if down is None else {"max_step_down": down}
    return near, Reason("max-step", f"at most {up or 'any'} up and {down or 'any'} down in one step", numbers)


def limit_direction(situation: ManagerContext, wanted: Parallelism) -> tuple[Parallelism, Reason]:
    match situation.knobs.direction:
        case "up":
            return _no_fewer(situation, wanted), Reason("direction", "only up is allowed")
        case "down":
            return _no_more(situation, wanted), Reason("direction", "only down is allowed")
        case "both":
            return wanted, Reason("direction", "")


def clamp_to_bounds(situation: ManagerContext, wanted: Parallelism) -> tuple[Parallelism, Reason]:
    kept = {name: min(max(k, situation.bounds(name)[0]), situation.bounds(name)[1]) for name, k in wanted.items()}
    names = [name for name in wanted if kept[name] != wanted[name]]
    ranges = join_names("{} {}-{}".format(name, *situation.bounds(name)) for name in names)
    return kept, Reason("bounds", f"kept within bounds: {ranges}", {"operators": ", ".join(names)})


def align_to_divisors(situation: ManagerContext, wanted: Parallelism) -> tuple[Parallelism, Reason]:
    """Only operators that move are aligned, in the direction in which they move: this never starts a rescale."""
    kept = {name: _divisor(situation, name, k) for name, k in wanted.items()}
    names = [name for name in wanted if kept[name] != wanted[name]]
    text = "aligned to a divisor: " + join_names(f"{n} {kept[n]} of {situation.knobs.align_to[n]}" for n in names)
    return kept, Reason("aligned", text, {"operators": ", ".join(names)})


def keep_excluded(situation: ManagerContext, wanted: Parallelism) -> tuple[Parallelism, Reason]:
    excluded = situation.knobs.excluded
    kept = {name: situation.running[name] if name in excluded else k for name, k in wanted.items()}
    return kept, Reason("excluded", f"excluded, kept as they run: {join_names(excluded)}")


def apply_pins(situation: ManagerContext, wanted: Parallelism) -> tuple[Parallelism, Reason]:
    pins = situation.knobs.pinned
    text = "pinned: " + join_names(f"{name} at {k}" for name, k in pins.items())
    return {**wanted, **pins}, Reason("pinned", text)


def limit_to_quota(situation: ManagerContext, wanted: Parallelism) -> tuple[Parallelism, Reason]:
    """Above what is needed to keep up, all are cut in proportion. What is pinned or excluded keeps what it has."""
    most, execution = situation.knobs.quota, situation.snapshot.execution
    if most is None or count_slots(execution, wanted) <= most:
        return wanted, Reason("quota", "")
    if execution != "pipelined":
        kept: Parallelism = {name: max(min(k, most), situation.bounds(name)[0]) for name, k in wanted.items()}
    else:
        fixed = {n: k for n, k in wanted.items() if n in situation.knobs.pinned or n in situation.knobs.excluded}
        free = {name: k for name, k in wanted.items() if name not in fixed}
        sized = size(situation.snapshot)
        need = sized.named_floor if isinstance(sized, Sizing) else situation.running
        shares = apply_quota(free, need, max(0, most - sum(fixed.values())))
        kept = {name: fixed.get(name, max(shares.given.get(name, 1), situation.bounds(name)[0])) for name in wanted}
    names = [name for name in wanted if kept[name] < wanted[name]]
    text = f"{count_slots(execution, wanted)} slots are wanted and the quota is {most}: {join_names(names)} cut"
    return kept, Reason("quota", text, {"wanted": count_slots(execution, wanted), "quota": most})


def require_one_worker_count(situation: ManagerContext, wanted: Parallelism) -> tuple[Parallelism, Reason]:
    """With shared execution all operators have the same workers: guards on single operators may not tear them apart."""
    if situation.snapshot.execution != "shared" or len(set(wanted.values())) == 1:
        return wanted, Reason("shared-workers", "")
    text = "every worker runs every operator, and the knobs want different numbers of them: kept as it runs"
    return situation.running, Reason("shared-workers", text)


def _no_fewer(situation: ManagerContext, wanted: Parallelism) -> Parallelism:
    return {name: max(k, situation.running[name]) for name, k in wanted.items()}


def _no_more(situation: ManagerContext, wanted: Parallelism) -> Parallelism:
    return {name: min(k, situation.running[name]) for name, k in wanted.items()}


def _divisor(situation: ManagerContext, name: str, k: int) -> int:
    whole, running = situation.knobs.align_to.get(name), situation.running[name]
    if whole is None or k == running:
        return k
    least, most = situation.bounds(name)
    divisors = [d for d in range(least, min(most, whole) + 1) if whole % d == 0]
    if k < running:
        return next((d for d in divisors if k <= d < running), running)
    return next((d for d in divisors if d >= k), max([d for d in divisors if d > running], default=running))
