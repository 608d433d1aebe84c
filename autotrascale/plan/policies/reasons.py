"""Reasons that several policies give, each said in one place."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from autotrascale.domain.decision import Number, Reason
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.target import Target
from autotrascale.plan.formatting import format_amount, format_load, format_percent, format_seconds, join_names
from autotrascale.plan.sizing.sizing import Sizing, get_limits

HOT_KEY_SHARE = 0.5  # an instance that takes in this much beside its even part holds a hot key
_ROUNDING = 1e-9  # busier than 1 by no more is a sum added up in another order


def explain_unknown_signal(signal: str, field: str, operators: Sequence[str]) -> Reason:
    """What a policy goes by and nobody measured: which field, and of which operators."""
    text = f"holding: {signal} of {join_names(operators)} is not known; report {field} for each"
    return Reason(f"hold-unknown-{signal}", text, {"operators": ", ".join(operators), "field": field})


def explain_no_scale_down(missing: Sequence[str]) -> Reason:
    """Unknown is never good news: what was not measured may be why so much runs."""
    fields = " and ".join(missing)
    text = f"holding: not known: {fields}; what is needed depends on it, so nothing is given back"
    return Reason("hold-unmeasured", text, {"missing": fields})


def explain_demand(snapshot: Snapshot, sized: Sizing, k: Sequence[int]) -> list[Reason]:
    """Why k, operator by operator, from demand and capacity; and which of them have a hot key."""
    stages = sized.stages(k) if snapshot.execution == "micro-batch" else [0.0] * len(k)
    each = [_demand(snapshot, sized, at, own, stage) for at, (own, stage) in enumerate(zip(k, stages, strict=True))]
    return [*each, *explain_hot_keys(snapshot, sized), *explain_narrow_sources(sized, k)]


def explain_hot_keys(snapshot: Snapshot, sized: Sizing) -> list[Reason]:
    """Operators of which one instance takes in most of the records: no parallelism changes that."""
    measured = zip(snapshot.operators.items(), sized.load, strict=True)
    return [
        _hot_key(name, metrics.parallelism, metrics.skew, metrics.hot_share, load)
        for (name, metrics), load in measured
        if load and metrics.hot_share >= HOT_KEY_SHARE
    ]


def explain_narrow_sources(sized: Sizing, k: Sequence[int]) -> list[Reason]:
    """Operators with more instances than the partitions of their source keep busy."""
    parts = zip(sized.operators, sized.known_loads, k, sized.narrow or [None] * len(k), strict=True)
    return [
        _narrow_source(name, load * part.share, part.width, own)
        for name, load, own, part in parts
        if part is not None and own > part.width and load * part.share > 0
    ]


def explain_kept_sources(snapshot: Snapshot, sized: Sizing) -> list[Reason]:
    """Sources that cannot be sized, because their own true rate is not known."""
    names = [name for name, load in sized.named_load.items() if load is None]
    return [_kept_source(name, snapshot.operators[name].parallelism) for name in names]


def explain_mean_only(target: Target) -> list[Reason]:
    """Queueing models predict a mean. A target on a percentile is compared with it all the same, and that is said."""
    if target.statistic == "mean":
        return []
    text = f"the target is on {target.statistic}, the model predicts the mean: the percentile will be higher"
    return [Reason("mean-only", text, {"statistic": target.statistic})]


def explain_unreachable_rate(sized: Sizing) -> list[Reason]:
    if sized.reachable:
        return []
    short = 1 - sized.reach
    text = (
        f"the bounds carry {format_percent(sized.reach)} of the offered rate: {format_percent(short)} is out of reach"
    )
    return [Reason("out-of-reach", text, {"reach": sized.reach, "short": short})]


def explain_still_behind(sized: Sizing, k: Sequence[int]) -> list[Reason]:
    """For policies that move by one instance at a time: what they answer need not carry the rate yet."""
    busy = sized.busy(k)
    if busy <= 1 + _ROUNDING or not sized.reachable:
        return explain_unreachable_rate(sized)
    text = f"one instance at a time: with this step the busiest part still needs {format_percent(busy)} of its time"
    return [Reason("still-behind", text, {"busy": busy})]


def explain_latency(predicted: float, target: Target, stuck: str) -> Reason:
    """Predicted against wanted; `stuck` says why it ended above, if it did."""
    numbers: dict[str, Number] = {"target_seconds": target.latency_seconds}
    if math.isinf(predicted):  # not a number that JSON can carry
        return Reason("out-of-reach", "predicts a queue without end: the bounds do not carry the offered rate", numbers)
    numbers["predicted_seconds"] = predicted
    wanted = format_seconds(target.latency_seconds)
    if predicted > target.latency_seconds:
        return Reason(
            "out-of-reach", f"predicts {format_seconds(predicted)} for a target of {wanted}: {stuck}", numbers
        )
    return Reason("latency", f"predicts {format_seconds(predicted)}, within the target of {wanted}", numbers)


def explain_no_counterpart(execution: str, why: str, instead: Iterable[str]) -> Reason:
    """The paper's formula does not hold for the way this engine runs operators."""
    text = f"holding: {why}; use {' or '.join(instead)}"
    return Reason("hold-no-counterpart", text, {"execution": execution})


def _demand(snapshot: Snapshot, sized: Sizing, at: int, k: int, stage: float) -> Reason:
    name, load = sized.operators[at], sized.load[at]
    running = snapshot.operators[name].parallelism
    if load is None:
        return _kept_source(name, running, k)
    rate, capacity = sized.demand[at] or 0.0, sized.capacity[at]
    numbers: dict[str, Number] = {"operator": name, "running": running, "wanted": k, "demand": rate, "load": load}
    if capacity is None or not load:
        return Reason("no-demand", f"{name}: no demand → {k}", numbers)
    numbers["capacity"] = capacity
    text = f"{name}: demand {format_amount(rate)}/s over {format_amount(capacity)}/s per instance {_needs(snapshot, load, k, stage)}"
    return Reason("demand", text + _bound(snapshot, name, load, k), numbers)


def _needs(snapshot: Snapshot, load: float, k: int, stage: float) -> str:
    match snapshot.execution:
        case "pipelined":
            return f"needs {format_load(load)} → {k}"
        case "shared":
            return f"needs {format_load(load)} of the workers"
        case "micro-batch":
            return f"is {format_seconds(load)} of work in each second, {format_seconds(stage)} on {k}"


def _bound(snapshot: Snapshot, name: str, load: float, k: int) -> str:
    if snapshot.execution == "shared":
        return ""
    least, most = get_limits(snapshot, name)
    if k == most and load > most:
        return ", the most it may have"
    return ", the least it may have" if k == least and load <= least - 1 else ""


def _hot_key(name: str, running: int, skew: float, alone: float, load: float) -> Reason:
    share = skew / running
    text = (
        f"{name}: one of {running} instances takes in {format_percent(share)} of the records, and more instances do not "
        f"divide one key: it alone has {format_seconds(load * alone)} of work in each second"
    )
    numbers: dict[str, Number] = {"operator": name, "running": running, "hottest_share": share, "skew": skew}
    return Reason("skew", text, {**numbers, "hot_share": alone, "busy_alone": load * alone})


def _narrow_source(name: str, work: float, width: float, k: int) -> Reason:
    text = (
        f"{name}: the partitions of its source keep {format_load(width)} of {k} busy, and the others wait while it is"
        f" read: {format_seconds(work / width)} in each second, which more do not shorten"
    )
    numbers: dict[str, Number] = {"operator": name, "width": width, "wanted": k, "reading": work / width}
    return Reason("source-partitions", text, numbers)


def _kept_source(name: str, running: int, k: int | None = None) -> Reason:
    k = running if k is None else k
    text = f"{name}: its own true rate is not known, kept at {k}"
    return Reason("source-kept", text, {"operator": name, "running": running, "wanted": k})
