"""The manager's guards, one small function each. `manager.py` says in which order they are applied.

A gate looks at the situation and gives a reason to hold, or None. An adjustment changes what the policy is shown. A
guard changes what the policy answered. Guards are called with a parallelism for every operator and give one back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from statistics import median_high

from autotrascale.domain.decision import Number, Reason
from autotrascale.domain.snapshot import OperatorMetrics, Snapshot
from autotrascale.plan.control.situation import Situation
from autotrascale.plan.sizing.sizing import Sizing, size
from autotrascale.plan.words import amount, listing, percent

Parallelism = Mapping[str, int]
Gate = Callable[[Situation], Reason | None]
Adjustment = Callable[[Situation, Snapshot], tuple[Snapshot, Reason | None]]
Guard = Callable[[Situation, Parallelism], tuple[Parallelism, Reason]]


# --- Gates: is this the moment to ask at all?


def paused(situation: Situation) -> Reason | None:
    return Reason("hold-paused", "paused: nothing is changed until it is resumed") if situation.knobs.paused else None


def interval(situation: Situation) -> Reason | None:
    """Policy interval."""
    since = None if situation.state.asked_at is None else situation.now - situation.state.asked_at
    if since is None or since >= situation.knobs.interval_seconds:
        return None
    text = f"asked {amount(since)} s ago, the policy interval is {amount(situation.knobs.interval_seconds)} s"
    return Reason("hold-interval", text, {"since_seconds": since, "interval_seconds": situation.knobs.interval_seconds})


def warm_up(situation: Situation) -> Reason | None:
    left = situation.state.intervals_to_ignore
    if not left:
        return None
    return Reason("hold-warm-up", f"warming up after a rescale: {left} intervals to ignore", {"intervals_left": left})


def settling(situation: Situation) -> Reason | None:
    """Policy running time."""
    if situation.state.rescaled_at is None:
        return None
    since, whole = situation.now - situation.state.rescaled_at, situation.knobs.running_seconds
    if since >= whole:
        return None
    text = f"rescaled {amount(since)} s ago, left alone for {amount(whole)} s"
    return Reason("hold-settling", text, {"since_seconds": since, "running_seconds": whole})


def garbage(situation: Situation) -> Reason | None:
    """Collector pauses count as useful time, so they read as low capacity."""
    limit = situation.knobs.max_gc_share
    if limit is None:
        return None
    for name, metrics in situation.snapshot.operators.items():
        total = metrics.total
        share = total.gc_seconds / total.useful_seconds if total.gc_seconds and total.useful_seconds else 0.0
        if share > limit:
            text = f"{name}: {percent(share)} of its useful time is garbage collection, the limit is {percent(limit)}"
            return Reason("hold-garbage", text, {"operator": name, "gc_share": share, "limit": limit})
    return None


# --- Lenses: what shall the policy see?


def corrected(situation: Situation, shown: Snapshot) -> tuple[Snapshot, Reason | None]:
    """Target rate ratio: capacity times what was learned, by way of useful time, of which it is the inverse."""
    factor = situation.state.correction
    if situation.knobs.target_rate_ratio is None or factor == 1.0:
        return shown, None
    operators = {name: _slowed(metrics, 1 / factor) for name, metrics in shown.operators.items()}
    text = f"measured capacity was optimistic: taken times {factor:.2f}"
    return replace(shown, operators=operators), Reason("corrected", text, {"factor": factor})


def utilised(situation: Situation, shown: Snapshot) -> tuple[Snapshot, Reason | None]:
    share = situation.knobs.utilisation
    if share == 1.0:
        return shown, None
    rates = {name: rate / share for name, rate in shown.source_rates.items()}
    text = f"sized to be busy {percent(share)} of the time"
    return replace(shown, source_rates=rates), Reason("utilisation", text, {"utilisation": share})


def with_backlog(situation: Situation, shown: Snapshot) -> tuple[Snapshot, Reason | None]:
    """Catch-up time: the backlog is demand too, spread over the time in which it shall be worked off."""
    backlog, within = situation.snapshot.backlog_records, situation.knobs.catch_up_seconds
    if within is None or not backlog or not situation.catching_up:
        return shown, None
    extra = backlog / within
    text = f"backlog of {amount(backlog)}: {amount(extra)}/s more to work it off in {amount(within)} s"
    return _faster(shown, extra), Reason("backlog", text, {"backlog": backlog, "extra_rate": extra})


def with_restart(situation: Situation, shown: Snapshot) -> tuple[Snapshot, Reason | None]:
    """Restart time: if a rescale is due, what arrives while the job stands still is backlog as well."""
    knobs, rate = situation.knobs, situation.snapshot.target_rate
    if knobs.catch_up_seconds is None or not knobs.restart_seconds or not rate or not _rescale_is_due(shown):
        return shown, None
    extra = rate * knobs.restart_seconds / knobs.catch_up_seconds
    text = f"a restart of {amount(knobs.restart_seconds)} s: {amount(extra)}/s more to make up for it"
    return _faster(shown, extra), Reason("restart", text, {"extra_rate": extra})


# --- Guards: what becomes of the answer?


def activation(situation: Situation, wanted: Parallelism) -> tuple[Parallelism, Reason]:
    """Activation time: no action before so many consecutive decisions, and then on what they say together."""
    votes, needed, how = situation.state.votes, situation.knobs.activation_intervals, situation.knobs.activation
    numbers: dict[str, Number] = {"decisions": len(votes), "needed": needed, "combination": how}
    if len(votes) < needed:
        text = f"{len(votes)} of {needed} decisions in a row: not acted on yet"
        return situation.running, Reason("activation", text, numbers)
    combine = max if how == "max" else median_high  # a number that somebody voted for, the larger of two
    together = {name: combine([vote[name] for vote in votes]) for name in wanted}
    return together, Reason("activation", f"the {how} of the last {needed} decisions", numbers)


def not_rejected(situation: Situation, wanted: Parallelism) -> tuple[Parallelism, Reason]:
    for rejection in situation.state.rejected:
        if dict(wanted) == rejection.parallelism:
            carried, rate = rejection.carried, situation.snapshot.target_rate
            text = f"was tried before and carried {amount(carried)}/s of {amount(rate)}/s: not again at this rate"
            return situation.running, Reason("rejected", text, {"carried": carried, "rate": rate})
    return wanted, Reason("rejected", "")


def enough_small_gains(situation: Situation, wanted: Parallelism) -> tuple[Parallelism, Reason]:
    limit, gains = situation.knobs.max_small_gains, situation.state.small_gains
    if limit is None or gains < limit:
        return wanted, Reason("small-gains", "")
    text = f"the last {gains} scale-ups gained less than {percent(situation.knobs.small_gain)} each: no more of them"
    return _no_more(situation, wanted), Reason("small-gains", text, {"small_gains": gains, "limit": limit})


def effective_only(situation: Situation, wanted: Parallelism) -> tuple[Parallelism, Reason]:
    names = [name for name in situation.state.ineffective if wanted[name] > situation.running[name]]
    text = f"more instances of {listing(names)} added no capacity the last time: no more of them"
    kept = {name: situation.running[name] if name in names else k for name, k in wanted.items()}
    return kept, Reason("ineffective", text, {"operators": ", ".join(names)})


def dead_band(situation: Situation, wanted: Parallelism) -> tuple[Parallelism, Reason]:
    """Above all of its time an operator falls behind, whatever the band."""
    target, band = situation.knobs.utilisation, situation.knobs.dead_band
    if not band:
        return wanted, Reason("dead-band", "")
    within = [n for n, busy in situation.busy.items() if target - band <= busy <= min(1.0, target + band)]
    names = [name for name in within if wanted[name] != situation.running[name]]
    kept = {name: situation.running[name] if name in names else k for name, k in wanted.items()}
    busy = ", ".join(f"{name} {percent(situation.busy[name])}" for name in names[:5])
    text = f"busy within ± {percent(band)} of {percent(target)}, left alone: {busy}"
    return kept, Reason("dead-band", text, {"utilisation": target, "band": band})


def ignore_small(situation: Situation, wanted: Parallelism) -> tuple[Parallelism, Reason]:
    most, running = situation.knobs.ignore_instances, situation.running
    kept = {name: running[name] if abs(k - running[name]) <= most else k for name, k in wanted.items()}
    names = [name for name in wanted if kept[name] != wanted[name]]
    return kept, Reason("ignored", f"changes of ± {most} are ignored: {listing(names)}", {"ignore_instances": most})


def delayed_down(situation: Situation, wanted: Parallelism) -> tuple[Parallelism, Reason]:
    """Scale-down delay: the largest recommendation in the window. What runs is the first in it after each rescale."""
    largest = {name: max([k, *(wish[name] for _, wish in situation.state.wishes)]) for name, k in wanted.items()}
    kept = {name: max(k, min(largest[name], situation.running[name])) for name, k in wanted.items()}
    delay = situation.knobs.scale_down_delay_seconds
    text = f"scaled down no further than the largest recommendation of the last {amount(delay)} s"
    return kept, Reason("scale-down-delay", text, {"delay_seconds": delay})


def not_down_while_behind(situation: Situation, wanted: Parallelism) -> tuple[Parallelism, Reason]:
    if situation.knobs.catch_up_seconds is None or situation.catching_up is False:
        return wanted, Reason("catching-up", "")
    backlog = situation.snapshot.backlog_records
    if backlog is None:
        return _no_fewer(situation, wanted), Reason("backlog-unknown", "the backlog is not known: no scale-down")
    text = f"no scale-down while catching up with a backlog of {amount(backlog)}"
    return _no_fewer(situation, wanted), Reason("catching-up", text, {"backlog": backlog})


def max_step(situation: Situation, wanted: Parallelism) -> tuple[Parallelism, Reason]:
    up, down = situation.knobs.max_step_up, situation.knobs.max_step_down
    near = dict(wanted)
    for name, now in situation.running.items():
        near[name] = near[name] if up is None else min(near[name], now + up)
        near[name] = near[name] if down is None else max(near[name], now - down)
    numbers: dict[str, Number] = {}
    numbers |= {} if up is None else {"max_step_up": up}
    numbers |= {} if down is None else {"max_step_down": down}
    return near, Reason("max-step", f"at most {up or 'any'} up and {down or 'any'} down in one step", numbers)


def one_direction(situation: Situation, wanted: Parallelism) -> tuple[Parallelism, Reason]:
    match situation.knobs.direction:
        case "up":
            return _no_fewer(situation, wanted), Reason("direction", "only up is allowed")
        case "down":
            return _no_more(situation, wanted), Reason("direction", "only down is allowed")
        case "both":
            return wanted, Reason("direction", "")


def bounded(situation: Situation, wanted: Parallelism) -> tuple[Parallelism, Reason]:
    kept = {name: min(max(k, situation.bounds(name)[0]), situation.bounds(name)[1]) for name, k in wanted.items()}
    names = [name for name in wanted if kept[name] != wanted[name]]
    ranges = listing("{} {}-{}".format(name, *situation.bounds(name)) for name in names)
    return kept, Reason("bounds", f"kept within bounds: {ranges}", {"operators": ", ".join(names)})


def aligned(situation: Situation, wanted: Parallelism) -> tuple[Parallelism, Reason]:
    """Only operators that move are aligned, in the direction in which they move: this never starts a rescale."""
    kept = {name: _divisor(situation, name, k) for name, k in wanted.items()}
    names = [name for name in wanted if kept[name] != wanted[name]]
    text = "aligned to a divisor: " + listing(f"{n} {kept[n]} of {situation.knobs.align_to[n]}" for n in names)
    return kept, Reason("aligned", text, {"operators": ", ".join(names)})


def without_excluded(situation: Situation, wanted: Parallelism) -> tuple[Parallelism, Reason]:
    excluded = situation.knobs.excluded
    kept = {name: situation.running[name] if name in excluded else k for name, k in wanted.items()}
    return kept, Reason("excluded", f"excluded, kept as they run: {listing(excluded)}")


def pinned(situation: Situation, wanted: Parallelism) -> tuple[Parallelism, Reason]:
    pins = situation.knobs.pinned
    text = "pinned: " + listing(f"{name} at {k}" for name, k in pins.items())
    return {**wanted, **pins}, Reason("pinned", text)


def one_worker_count(situation: Situation, wanted: Parallelism) -> tuple[Parallelism, Reason]:
    """With shared execution all operators have the same workers: guards on single operators may not tear them apart."""
    if situation.snapshot.execution != "shared" or len(set(wanted.values())) == 1:
        return wanted, Reason("shared-workers", "")
    text = "every worker runs every operator, and the knobs want different numbers of them: kept as it runs"
    return situation.running, Reason("shared-workers", text)


def _no_fewer(situation: Situation, wanted: Parallelism) -> Parallelism:
    return {name: max(k, situation.running[name]) for name, k in wanted.items()}


def _no_more(situation: Situation, wanted: Parallelism) -> Parallelism:
    return {name: min(k, situation.running[name]) for name, k in wanted.items()}


def _divisor(situation: Situation, name: str, k: int) -> int:
    whole, running = situation.knobs.align_to.get(name), situation.running[name]
    if whole is None or k == running:
        return k
    least, most = situation.bounds(name)
    divisors = [d for d in range(least, min(most, whole) + 1) if whole % d == 0]
    if k < running:
        return next((d for d in divisors if k <= d < running), running)
    return next((d for d in divisors if d >= k), max([d for d in divisors if d > running], default=running))


def _slowed(metrics: OperatorMetrics, factor: float) -> OperatorMetrics:
    if metrics.instances:
        return replace(
            metrics,
            instances=tuple(replace(w, useful_seconds=_times(w.useful_seconds, factor)) for w in metrics.instances),
        )
    return replace(metrics, useful_seconds=_times(metrics.useful_seconds, factor))


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _faster(snapshot: Snapshot, extra: float) -> Snapshot:
    """`extra` records per second more, spread over the sources as their rates are."""
    whole, rates = snapshot.target_rate, snapshot.source_rates
    more = {name: extra * (rate / whole if whole else 1 / len(rates)) for name, rate in rates.items()}
    return replace(snapshot, source_rates={name: rate + more[name] for name, rate in rates.items()})


def _rescale_is_due(shown: Snapshot) -> bool:
    """Judged by the floor, so that the policy is asked once only: some of them remember what they were asked."""
    sized = size(shown)
    return isinstance(sized, Sizing) and sized.named_floor != shown.parallelism
