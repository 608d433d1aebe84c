"""Decisions of a control loop as text: a line for each decision, and a summary of a session."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.true_rates import compute_true_rates
from autotrascale.plan.control.loop_state import CheckedPrediction, State, Totals
from autotrascale.plan.formatting import format_amount, format_percent, format_seconds, join_names
from autotrascale.plan.sizing.executor_plan import ExecutorSize
from autotrascale.views.executor_cost import format_count, format_hourly_cost, format_usage


def format_decision(entry: Mapping[str, Any], target: float) -> str:
    """Return a line: time, rate, latency of `target` (seconds), parallelism and reasons.

    `03:14:30  4,523/s  775 ms of 1.20 s  flatmap 7 → 11, count 2 → 3  rate-up: …`
    """
    rate = "–" if entry["rate"] is None else f"{format_amount(entry['rate'])}/s"
    latency = "–" if entry["latency_seconds"] is None else format_seconds(entry["latency_seconds"])
    head = f"{format_clock(entry['at'])}  {rate:>10}  {latency:>7} of {format_seconds(target)}"
    return f"{head}  {format_change(entry)}  {format_reasons(entry)}"


def format_clock(at: float) -> str:
    """Return seconds since the loop's first observation as `2d 03:14:30`."""
    days, rest = divmod(int(at), 86_400)
    text = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days}d {text}" if days else text


def parse_clock(text: str) -> float | None:
    """Return the seconds of a time such as `2d 03:14:30`, `03:14:30` or `90`, or None for any other text."""
    match = re.fullmatch(r"(?:(\d+)d\s+)?(\d+):(\d\d):(\d\d)|(\d+(?:\.\d+)?)", text.strip())
    if match is None:
        return None
    days, hours, minutes, seconds, plain = match.groups()
    return float(plain) if plain else int(days or 0) * 86_400.0 + int(hours) * 3600 + int(minutes) * 60 + int(seconds)


def format_change(entry: Mapping[str, Any]) -> str:
    """Return the operators whose parallelism changes, or the whole parallelism if none does."""
    running, wanted = entry["running"], entry["wanted"]
    if running is None:
        return "the job is down"
    if wanted is None or wanted == running:
        return join_names(f"{name} {k}" for name, k in running.items())
    return join_names(f"{name} {k} → {wanted[name]}" for name, k in running.items() if wanted.get(name, k) != k)


def format_reasons(entry: Mapping[str, Any]) -> str:
    """Return the reasons for the whole job; reasons for single operators only if there are no others."""
    reasons = [reason for reason in entry["reasons"] if "operator" not in reason] or entry["reasons"]
    return "; ".join(f"{reason['code']}: {reason['text'].removesuffix('.')}" for reason in reasons) or entry["action"]


def format_cost_change(entry: Mapping[str, Any], size: ExecutorSize | None) -> str:
    """Return the hourly cost after and before a change of executors. "" if nothing changes or `size` is unknown."""
    running, wanted = entry["running"], entry["wanted"]
    if size is None or not running or not wanted or running == wanted:
        return ""
    return format_hourly_cost(sum(wanted.values()), size, instead_of=sum(running.values()))


def decision_kind(entry: Mapping[str, Any]) -> str:
    """Return action and reason codes. A new line of output is due when this changes."""
    return " ".join([entry["action"], *(reason["code"] for reason in entry["reasons"])])


def select_decisions(entries: Sequence[Mapping[str, Any]], most: int) -> list[Mapping[str, Any]]:
    """Return the last `most` entries with a change and the last `most` with a command. Repeated advice counts once."""
    changes: list[Mapping[str, Any]] = []
    advised: Any = None
    for entry in entries:
        is_repeated = entry["action"] == "would-rescale" and entry["wanted"] == advised
        if not is_repeated and entry["action"] != "stay":
            changes.append(entry)
            advised = entry["wanted"] if entry["action"] == "would-rescale" else None
    commands = [entry for entry in entries if any(reason["code"] == "ordered" for reason in entry["reasons"])]
    by_number = {entry["number"]: entry for entry in (*changes[-most:], *commands[-most:])}
    return [by_number[number] for number in sorted(by_number)]


def describe_observation(at: float, snapshot: Snapshot | None, detail: str) -> list[str]:
    """Return the measurements of one observation: a line for the job, then a line for each operator."""
    if snapshot is None:
        return [f"{format_clock(at)}  no measurement: {detail}"]
    backlog = "unknown" if snapshot.backlog_records is None else format_amount(snapshot.backlog_records)
    processed = "unknown" if snapshot.throughput is None else f"{format_amount(snapshot.throughput)}/s"
    arriving, window = format_amount(snapshot.target_rate), format_seconds(snapshot.window_seconds)
    lines = [f"{format_clock(at)}  {arriving}/s arrive, {processed} processed, backlog {backlog}, window {window}"]
    for name, metrics in snapshot.operators.items():
        rate, busy = compute_true_rates(metrics).processing, metrics.total.useful_seconds
        per_instance = "unknown" if rate is None else f"{format_amount(rate / metrics.parallelism)}/s per instance"
        is_busy = busy is not None
        share = (
            f", busy {format_percent((busy or 0) / metrics.parallelism / snapshot.window_seconds)}" if is_busy else ""
        )
        lines.append(f"    {name} × {metrics.parallelism}: true rate {per_instance}{share}")
    return lines


def count_accurate(predictions: Iterable[CheckedPrediction]) -> int:
    """Return how many measured latencies were within two standard deviations of the prediction."""
    return sum(abs(each.observed - each.predicted) <= 2 * each.sd for each in predictions)


def describe_accuracy(checked: Sequence[CheckedPrediction]) -> str:
    """Return the last prediction beside its measurement, and how many predictions were accurate."""
    if not checked:
        return "no prediction has been compared with a measurement yet"
    last = checked[-1]
    return (
        f"last prediction {format_seconds(last.predicted)} ± {format_seconds(last.sd)}, "
        f"measured {format_seconds(last.observed)}; "
        f"{count_accurate(checked)} of {len(checked)} measurements within two standard deviations"
    )


def describe_holds(state: State) -> str:
    """Return how many observations allowed no decision, with the reasons, the most frequent first."""
    held, observations = state.totals.held, state.totals.observations
    if not held:
        return f"all {observations} observations allowed a decision"
    each = ", ".join(f"{name} {n}" for name, n in sorted(held.items(), key=lambda item: (-item[1], item[0])))
    return f"{sum(held.values())} of {observations} observations allowed no decision: {each}"


def summarize_session(
    job: str, target: float, state: State, *, simulated: bool, advise: bool, size: ExecutorSize | None = None
) -> str:
    """Return two sentences: time within the target with the number of rescales, and resources used.

    Args:
        target: seconds.
        size: of an executor, for a job whose instances are executors.
    """
    totals, name = state.totals, f"{job} (simulated)" if simulated else job
    if not totals.seconds:
        return f"{name} was observed for too short a time to summarise."
    measured = totals.seconds - totals.unknown
    share = format_percent(totals.within / measured) if measured > 0 else "an unknown share"
    rescales = (
        "with advice only" if advise and not totals.rescales else f"with {format_count(totals.rescales, 'rescale')}"
    )
    met = f"{name} met its target of {format_seconds(target)} in {share} of the measured time"
    return f"{met} ({format_clock(totals.seconds)}), {rescales}. It used {describe_usage(totals, size)}."


def describe_usage(totals: Totals, size: ExecutorSize | None) -> str:
    """Return instance hours or executor hours, and the saving against the largest number all the time."""
    unit, price = ("instance", None) if size is None else ("executor", size.price)
    return format_usage(totals.instance_seconds, totals.most_instances, totals.seconds, price, unit)
