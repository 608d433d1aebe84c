"""What the control loop did, as people read it: a line for each decision, and the sentence to take away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autotrascale.plan.control.loop_state import Judged, State
from autotrascale.plan.words import amount, listing, percent
from autotrascale.views.explanation import seconds


def row(entry: Mapping[str, Any], target: float) -> str:
    """`03:14:30  4,523/s  775 ms of 1.20 s  flatmap 7 → 11, count 2 → 3  rate-up: …`"""
    rate = "–" if entry["rate"] is None else f"{amount(entry['rate'])}/s"
    latency = "–" if entry["latency_seconds"] is None else seconds(entry["latency_seconds"])
    return f"{clock(entry['at'])}  {rate:>10}  {latency:>7} of {seconds(target)}  {moved(entry)}  {why(entry)}"


def clock(at: float) -> str:
    """Since the loop first looked, `2d 03:14:30`."""
    days, rest = divmod(int(at), 86_400)
    text = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days}d {text}" if days else text


def moved(entry: Mapping[str, Any]) -> str:
    """Running → wanted, the operators that differ; the whole of it where nothing does."""
    running, wanted = entry["running"], entry["wanted"]
    if running is None:
        return "does not run"
    if wanted is None or wanted == running:
        return listing(f"{name} {k}" for name, k in running.items())
    return listing(f"{name} {k} → {wanted[name]}" for name, k in running.items() if wanted.get(name, k) != k)


def why(entry: Mapping[str, Any]) -> str:
    """Every reason but those on single operators, which only `explain` tells."""
    reasons = [reason for reason in entry["reasons"] if "operator" not in reason] or entry["reasons"]
    return "; ".join(f"{reason['code']}: {reason['text']}" for reason in reasons) or entry["action"]


def code(entry: Mapping[str, Any]) -> str:
    """What kind of decision it was: a line is shown when this changes."""
    return " ".join([entry["action"], *(reason["code"] for reason in entry["reasons"])])


def accuracy(judged: tuple[Judged, ...]) -> str:
    """The last prediction against what came, and how many of all lay within two standard deviations."""
    if not judged:
        return "no prediction has been judged yet"
    last = judged[-1]
    near = sum(abs(each.observed - each.predicted) <= 2 * each.sd for each in judged)
    return (
        f"the last prediction was {seconds(last.predicted)} ± {seconds(last.sd)}, observed {seconds(last.observed)}; "
        f"{near} of {len(judged)} came within two standard deviations"
    )


def summary(job: str, target: float, state: State, *, simulated: bool, advise: bool) -> str:
    """The one sentence to take away."""
    totals, where = state.totals, " (simulated)" if simulated else ""
    if not totals.seconds:
        return f"{job}{where} was not looked at for long enough to say anything."
    known = totals.seconds - totals.unknown
    met = percent(totals.within / known) if known > 0 else "an unknown share"
    hours = totals.instance_seconds / 3600
    peak = totals.most_instances * totals.seconds / 3600
    share = f", {percent(hours / peak)} of {totals.most_instances} all the time" if peak else ""
    did = "only advised on" if advise else f"with {totals.rescales} rescale{'' if totals.rescales == 1 else 's'}"
    return (
        f"{job}{where} was within {seconds(target)} for {met} of the measured time in {clock(totals.seconds)}, {did}, "
        f"on {amount(hours)} instance-hours{share}."
    )
