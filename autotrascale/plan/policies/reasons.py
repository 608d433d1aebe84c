"""Reasons that several policies give."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from autotrascale.domain.decision import Number, Reason
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.target import Target
from autotrascale.plan.formatting import format_amount, format_load, format_percent, format_seconds, join_names
from autotrascale.plan.sizing.sizing import Sizing, get_limits

HOT_KEY_SHARE = 0.5  # of an operator's records beyond an even share; an instance that takes in more has a hot key
_ROUNDING = 1e-9  # a sum that exceeds 1 by less was added up in another order


def explain_unknown_signal(signal: str, field: str, operators: Sequence[str]) -> Reason:
    """Explain a hold for want of a measurement: which snapshot field, and of which operators."""
    text = f"On hold: {signal} of {join_names(operators)} is unknown. Report `{field}` for each."
    return Reason(f"hold-unknown-{signal}", text, {"operators": ", ".join(operators), "field": field})


def explain_no_scale_down(missing: Sequence[str]) -> Reason:
    """Explain why nothing is given back: a missing measurement may be the cause of the need."""
    fields = " and ".join(missing)
    text = f"No scale-down: {fields} is unknown, and the need depends on it."
    return Reason("hold-unmeasured", text, {"missing": fields})


def explain_demand(snapshot: Snapshot, sized: Sizing, k: Sequence[int]) -> list[Reason]:
    """Explain `k`, operator by operator, from demand and capacity. Hot keys and narrow sources get reasons, too."""
    stages = sized.stages(k) if snapshot.execution == "micro-batch" else [0.0] * len(k)
    each = [_explain_operator(snapshot, sized, at, own, stages[at]) for at, own in enumerate(k)]
    return [*each, *explain_hot_keys(snapshot, sized), *explain_narrow_sources(sized, k)]


def explain_hot_keys(snapshot: Snapshot, sized: Sizing) -> list[Reason]:
    """Name operators of which one instance takes in most of the records. No parallelism changes that."""
    measured = zip(snapshot.operators.items(), sized.load, strict=True)
    return [
        _explain_hot_key(name, metrics.parallelism, metrics.skew, metrics.hot_share, load)
        for (name, metrics), load in measured
        if load and metrics.hot_share >= HOT_KEY_SHARE
    ]


def explain_narrow_sources(sized: Sizing, k: Sequence[int]) -> list[Reason]:
    """Name operators with more instances than the partitions of their source keep busy."""
    parts = zip(sized.operators, sized.known_loads, k, sized.narrow or [None] * len(k), strict=True)
    return [
        _explain_narrow_source(name, load * part.share, part.width, own)
        for name, load, own, part in parts
        if part is not None and own > part.width and load * part.share > 0
    ]


def explain_kept_sources(snapshot: Snapshot, sized: Sizing) -> list[Reason]:
    """Name sources that cannot be sized because their true rate is unknown."""
    names = [name for name, load in sized.named_load.items() if load is None]
    return [_explain_kept_source(name, snapshot.operators[name].parallelism) for name in names]


def explain_mean_only(target: Target) -> list[Reason]:
    """Warn that a queueing model predicts a mean if the target is on a percentile."""
    if target.statistic == "mean":
        return []
    text = f"The target is on {target.statistic} latency, but the model predicts the mean. The percentile is higher."
    return [Reason("mean-only", text, {"statistic": target.statistic})]


def explain_unreachable_rate(sized: Sizing) -> list[Reason]:
    if sized.reachable:
        return []
    short = 1 - sized.reach
    text = (
        f"The bounds carry {format_percent(sized.reach)} of the offered rate. {format_percent(short)} is out of reach."
    )
    return [Reason("out-of-reach", text, {"reach": sized.reach, "short": short})]


def explain_still_behind(sized: Sizing, k: Sequence[int]) -> list[Reason]:
    """Explain why the answer does not carry the rate yet, for policies that move one instance at a time."""
    busy = sized.busy(k)
    if busy <= 1 + _ROUNDING or not sized.reachable:
        return explain_unreachable_rate(sized)
    text = f"Still behind after this step: the busiest part needs {format_percent(busy)} of its time."
    return [Reason("still-behind", text, {"busy": busy})]


def explain_latency(predicted: float, target: Target, stuck: str) -> Reason:
    """Compare the predicted latency in seconds with the target. `stuck`: why the search ended above the target."""
    numbers: dict[str, Number] = {"target_seconds": target.latency_seconds}
    if math.isinf(predicted):  # JSON has no infinity
        text = "Expected: a queue that grows without end, because the bounds do not carry the offered rate."
        return Reason("out-of-reach", text, numbers)
    numbers["predicted_seconds"] = predicted
    text = f"Expected latency {format_seconds(predicted)} (target {format_seconds(target.latency_seconds)})"
    if predicted > target.latency_seconds:
        return Reason("out-of-reach", f"{text}: {stuck}.", numbers)
    return Reason("latency", f"{text}.", numbers)


def explain_no_counterpart(execution: str, why: str, instead: Iterable[str]) -> Reason:
    """Explain a hold because the paper's formula does not hold for this execution."""
    text = f"On hold: {why}. Use {' or '.join(instead)}."
    return Reason("hold-no-counterpart", text, {"execution": execution})


def _explain_operator(snapshot: Snapshot, sized: Sizing, at: int, k: int, stage: float) -> Reason:
    name, load = sized.operators[at], sized.load[at]
    running = snapshot.operators[name].parallelism
    if load is None:
        return _explain_kept_source(name, running, k)
    rate, capacity = sized.demand[at] or 0.0, sized.capacity[at]
    numbers: dict[str, Number] = {"operator": name, "running": running, "wanted": k, "demand": rate, "load": load}
    if capacity is None or not load:
        return Reason("no-demand", f"{name}: no demand → {k}.", numbers)
    numbers["capacity"] = capacity
    demand = f"{format_amount(rate)}/s at {format_amount(capacity)}/s per instance"
    text = f"{name}: {demand} {_describe_need(snapshot, load, k, stage)}{_describe_bound(snapshot, name, load, k)}."
    return Reason("demand", text, numbers)


def _describe_need(snapshot: Snapshot, load: float, k: int, stage: float) -> str:
    match snapshot.execution:
        case "pipelined":
            return f"need {format_load(load)} → {k}"
        case "shared":
            return f"need {format_load(load)} of the workers"
        case "micro-batch":
            return f"are {format_seconds(load)} of work per second, {format_seconds(stage)} on {k}"


def _describe_bound(snapshot: Snapshot, name: str, load: float, k: int) -> str:
    if snapshot.execution == "shared":
        return ""
    least, most = get_limits(snapshot, name)
    if k == most and load > most:
        return ", its maximum"
    return ", its minimum" if k == least and load <= least - 1 else ""


def _explain_hot_key(name: str, running: int, skew: float, alone: float, load: float) -> Reason:
    share = skew / running
    text = (
        f"{name}: a hot key gives one of {running} instances {format_percent(share)} of the records, "
        f"{format_seconds(load * alone)} of work per second. More instances do not divide it."
    )
    numbers: dict[str, Number] = {"operator": name, "running": running, "hottest_share": share, "skew": skew}
    return Reason("skew", text, {**numbers, "hot_share": alone, "busy_alone": load * alone})


def _explain_narrow_source(name: str, work: float, width: float, k: int) -> Reason:
    text = (
        f"{name}: the partitions of its source keep {format_load(width)} of {k} instances busy. "
        f"Reading takes {format_seconds(work / width)} per second; more instances do not shorten it."
    )
    numbers: dict[str, Number] = {"operator": name, "width": width, "wanted": k, "reading": work / width}
    return Reason("source-partitions", text, numbers)


def _explain_kept_source(name: str, running: int, k: int | None = None) -> Reason:
    k = running if k is None else k
    text = f"{name}: stays at {k}, its true rate is unknown."
    return Reason("source-kept", text, {"operator": name, "running": running, "wanted": k})
