"""What the control loop did, as people read it: a line for each decision, and the sentence to take away."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.true_rates import compute_true_rates
from autotrascale.plan.control.loop_state import CheckedPrediction, State, Totals
from autotrascale.plan.formatting import format_amount, format_percent, format_seconds, join_names
from autotrascale.plan.sizing.executor_plan import ExecutorSize
from autotrascale.views.executor_cost import format_hourly_cost, format_usage


def format_decision(entry: Mapping[str, Any], target: float) -> str:
    """`03:14:30  4,523/s  775 ms of 1.20 s  flatmap 7 → 11, count 2 → 3  rate-up: …`"""
    rate = "–" if entry["rate"] is None else f"{format_amount(entry['rate'])}/s"
    latency = "–" if entry["latency_seconds"] is None else format_seconds(entry["latency_seconds"])
    return f"{format_clock(entry['at'])}  {rate:>10}  {latency:>7} of {format_seconds(target)}  {format_change(entry)}  {format_reasons(entry)}"


def format_clock(at: float) -> str:
    """Since the loop first looked, `2d 03:14:30`."""
    days, rest = divmod(int(at), 86_400)
    text = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days}d {text}" if days else text


def format_change(entry: Mapping[str, Any]) -> str:
    """Running → wanted, the operators that differ; the whole of it where nothing does."""
    running, wanted = entry["running"], entry["wanted"]
    if running is None:
        return "does not run"
    if wanted is None or wanted == running:
        return join_names(f"{name} {k}" for name, k in running.items())
    return join_names(f"{name} {k} → {wanted[name]}" for name, k in running.items() if wanted.get(name, k) != k)


def format_reasons(entry: Mapping[str, Any]) -> str:
    """Every reason but those on single operators, which only `explain` tells."""
    reasons = [reason for reason in entry["reasons"] if "operator" not in reason] or entry["reasons"]
    return "; ".join(f"{reason['code']}: {reason['text']}" for reason in reasons) or entry["action"]


def decision_kind(entry: Mapping[str, Any]) -> str:
    """What kind of decision it was: a line is shown when this changes."""
    return " ".join([entry["action"], *(reason["code"] for reason in entry["reasons"])])


def select_decisions(entries: Sequence[Mapping[str, Any]], most: int) -> list[Mapping[str, Any]]:
    """The last by which something was changed, and by which somebody asked for something; advice that stands, once."""
    changes: list[Mapping[str, Any]] = []
    advised: Any = None
    for entry in entries:
        again = entry["action"] == "would-rescale" and entry["wanted"] == advised
        if not again and entry["action"] != "stay":
            changes.append(entry)
            advised = entry["wanted"] if entry["action"] == "would-rescale" else None
    asked = [entry for entry in entries if any(reason["code"] == "ordered" for reason in entry["reasons"])]
    by_number = {entry["number"]: entry for entry in (*changes[-most:], *asked[-most:])}
    return [by_number[number] for number in sorted(by_number)]


def describe_accuracy(checked: tuple[CheckedPrediction, ...]) -> str:
    """The last prediction against what came, and how many of all lay within two standard deviations."""
    if not checked:
        return "no prediction has been compared with what came yet"
    last = checked[-1]
    near = sum(abs(each.observed - each.predicted) <= 2 * each.sd for each in checked)
    return (
        f"the last prediction was {format_seconds(last.predicted)} ± {format_seconds(last.sd)}, observed {format_seconds(last.observed)}; "
        f"{near} of {len(checked)} came within two standard deviations"
    )


def describe_holds(state: State) -> str:
    """How many looks could not be decided on, and why, the most frequent first."""
    held, looks = state.totals.held, state.totals.looks
    if not held:
        return f"none of {looks} looks held"
    each = ", ".join(f"{name} {n}" for name, n in sorted(held.items(), key=lambda each: (-each[1], each[0])))
    return f"{sum(held.values())} of {looks} looks held: {each}"


def parse_clock(text: str) -> float | None:
    """The inverse of `clock`: `2d 03:14:30`, `03:14:30`, or plain seconds; None where it is none of these."""
    found = re.fullmatch(r"(?:(\d+)d\s+)?(\d+):(\d\d):(\d\d)|(\d+(?:\.\d+)?)", text.strip())
    if found is None:
        return None
    days, hours, minutes, rest, plain = found.groups()
    return float(plain) if plain else int(days or 0) * 86_400.0 + int(hours) * 3600 + int(minutes) * 60 + int(rest)


def describe_observation(at: float, snapshot: Snapshot | None, detail: str) -> list[str]:
    """What one look showed, a line for each operator."""
    if snapshot is None:
        return [f"{format_clock(at)}  nothing was measured: {detail}"]
    waiting = "unknown" if snapshot.backlog_records is None else format_amount(snapshot.backlog_records)
    carried = "unknown" if snapshot.throughput is None else f"{format_amount(snapshot.throughput)}/s"
    lines = [
        f"{format_clock(at)}  {format_amount(snapshot.target_rate)}/s offered, {carried} carried, backlog {waiting}, "
        f"window {format_seconds(snapshot.window_seconds)}"
    ]
    for name, metrics in snapshot.operators.items():
        rate, busy = compute_true_rates(metrics).processing, metrics.total.useful_seconds
        each = "unknown" if rate is None else f"{format_amount(rate / metrics.parallelism)}/s for each instance"
        share = "" if busy is None else f", busy {format_percent(busy / metrics.parallelism / snapshot.window_seconds)}"
        lines.append(f"    {name} × {metrics.parallelism}: true rate {each}{share}")
    return lines


def format_cost_change(entry: Mapping[str, Any], size: ExecutorSize | None) -> str:
    """What a change of executors costs or saves by the hour; empty where nothing changes or they are no executors."""
    running, wanted = entry["running"], entry["wanted"]
    if size is None or not running or not wanted or running == wanted:
        return ""
    return format_hourly_cost(sum(wanted.values()), size, instead_of=sum(running.values()))


def summarize_session(
    job: str, target: float, state: State, *, simulated: bool, advise: bool, size: ExecutorSize | None = None
) -> str:
    """The one sentence to take away. `size`: where the job's instances are executors."""
    totals, where = state.totals, " (simulated)" if simulated else ""
    if not totals.seconds:
        return f"{job}{where} was not looked at for long enough to say anything."
    known = totals.seconds - totals.unknown
    met = format_percent(totals.within / known) if known > 0 else "an unknown share"
    did = (
        "only advised on"
        if advise and not totals.rescales
        else f"with {totals.rescales} rescale{'' if totals.rescales == 1 else 's'}"
    )
    return (
        f"{job}{where} was within {format_seconds(target)} for {met} of the measured time in {format_clock(totals.seconds)}, {did}, "
        f"on {_used(totals, size)}."
    )


def _used(totals: Totals, size: ExecutorSize | None) -> str:
    if size is not None:
        return format_usage(totals.instance_seconds, totals.most_instances, totals.seconds, size.price)
    hours, peak = totals.instance_seconds / 3600, totals.most_instances * totals.seconds / 3600
    share = f", {format_percent(hours / peak)} of {totals.most_instances} all the time" if peak else ""
    return f"{format_amount(hours)} instance-hours{share}"
