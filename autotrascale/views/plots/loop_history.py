"""A scaled job over time: latency, parallelism, rate and backlog, with the decisions of its control loop.

Each series has one value per observation, so that a later observation can be appended (`Plot.followed_by`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from textwrap import shorten
from typing import Any

from autotrascale.domain.snapshot import CriticalShares
from autotrascale.domain.target import Target
from autotrascale.plan.control.loop_state import CheckedPrediction
from autotrascale.plan.formatting import format_amount, format_percent, format_seconds
from autotrascale.views.decision_text import count_accurate, format_change, format_reasons
from autotrascale.views.plots.plot import MS, Axis, Level, Plot, Role, Series, SeriesStyle, known_values

LATENCY = ("latency", "Latency and target")
PARALLELISM = ("parallelism", "Parallelism: running, requested, recommended")
RATE = ("rate", "Rate and throughput")
BACKLOG = ("backlog", "Backlog")
PREDICTIONS = ("predictions", "Predictions and measurements")
_HOUR = 3600.0
_MAX_LABEL_LENGTH = 240
_LOG_FROM = 4.0  # times the target: with higher latencies the axis is logarithmic


@dataclass(frozen=True)
class PlottedObservation:
    """An observation, as the journal has it.

    Args:
        at: seconds since 1970; for a simulated job, seconds since its loop's first observation.
        throughput: records per second.
        requested: parallelism that was requested by then and is not observed yet.
        is_new_decision: the decision differs from the previous one. Advice is repeated until it is followed.
    """

    number: int
    at: float
    entry: Mapping[str, Any]
    throughput: float | None = None
    requested: Mapping[str, int] | None = None
    is_new_decision: bool = False
    critical: CriticalShares | None = None


@dataclass(frozen=True)
class PlottedLoop:
    """Properties of a loop that all its plots need."""

    target: Target
    simulated: bool


def follow_requests(
    observations: Iterable[PlottedObservation], before: PlottedObservation | None = None
) -> Iterator[PlottedObservation]:
    """Yield observations with `requested` and `is_new_decision` filled in. A request stands until it runs or fails."""
    last = before
    for each in observations:
        action, requested = each.entry["action"], None if last is None else last.requested
        if action == "rescale":
            requested = each.entry["wanted"]
        elif action in ("rescaled", "failed", "start"):
            requested = None
        is_new = action != "stay" and (last is None or _decision(last.entry) != _decision(each.entry))
        last = replace(each, requested=requested, is_new_decision=is_new)
        yield last


def plot_loop(loop: PlottedLoop, observations: Sequence[PlottedObservation]) -> list[Plot]:
    return [make(loop, observations) for make in (plot_latency, plot_parallelism, plot_rate, plot_backlog)]


def plot_latency(loop: PlottedLoop, observations: Sequence[PlottedObservation]) -> Plot:
    target = loop.target
    values = [None if (s := each.entry["latency_seconds"]) is None else s * MS for each in observations]
    known = known_values(values)
    caption = "No observation has a latency."
    if known:
        within = sum(value <= target.latency_seconds * MS for value in known)
        caption = f"{within} of {len(known)} measured latencies were within {format_seconds(target.latency_seconds)}."
    series = Series(f"latency ({target.statistic})", _times(loop, observations), tuple(values))
    level = Level(target.latency_seconds * MS, f"target {format_seconds(target.latency_seconds)}")
    needs_log = max(known, default=0.0) > _LOG_FROM * target.latency_seconds * MS
    axis = Axis(f"{target.statistic} latency (ms)", "log" if needs_log else "number")
    return Plot(*LATENCY, caption, _time_axis(loop), axis, (series,), (level,))


def plot_parallelism(loop: PlottedLoop, observations: Sequence[PlottedObservation]) -> Plot:
    """Return the instances of all operators together; labels show them by operator."""
    entries, x = [each.entry for each in observations], _times(loop, observations)
    running, recommended = [entry["running"] for entry in entries], [entry["wanted"] for entry in entries]
    requested = [each.requested for each in observations]
    changed = [each for each in observations if each.is_new_decision]
    decisions = Series(
        "decisions",
        _times(loop, changed),
        _counts(each.entry["wanted"] or each.entry["running"] for each in changed),
        "points",
        "bad",
        labels=tuple(format_one_line(each.entry) for each in changed),
    )
    now = next((entry for entry in reversed(entries) if entry["running"]), None)
    caption = "The job was not observed to run." if now is None else f"Now: {format_change(now)}."
    series = (
        _parallelism("recommended", x, recommended, "dashed steps", "second"),
        _parallelism("requested", x, requested, "steps", "third"),
        _parallelism("running", x, running, "steps", "main"),
        decisions,
    )
    return Plot(*PARALLELISM, caption, _time_axis(loop), Axis("instances, all operators"), series)


def plot_rate(loop: PlottedLoop, observations: Sequence[PlottedObservation]) -> Plot:
    x = _times(loop, observations)
    arriving = Series("arriving", x, tuple(each.entry["rate"] for each in observations))
    processed = Series("processed", x, tuple(each.throughput for each in observations), "line", "second")
    known = known_values(arriving.y)
    caption = "No rate was measured."
    if known:
        caption = f"Between {format_amount(min(known))} and {format_amount(max(known))} records/s arrived."
        if not known_values(processed.y):
            caption += " The throughput of old observations is not stored."
    return Plot(*RATE, caption, _time_axis(loop), Axis("records/s"), (arriving, processed))


def plot_backlog(loop: PlottedLoop, observations: Sequence[PlottedObservation]) -> Plot:
    values = tuple(each.entry["backlog_records"] for each in observations)
    known = known_values(values)
    caption = "This job does not report a backlog."
    if known:
        caption = f"At most {format_amount(max(known))} records waited; at the end {format_amount(known[-1])}."
    series = Series("backlog", _times(loop, observations), values)
    return Plot(*BACKLOG, caption, _time_axis(loop), Axis("waiting records"), (series,))


def plot_predictions(checked: Sequence[CheckedPrediction]) -> Plot:
    """Return the predicted and the measured latency after each rescale."""
    if not checked:
        return Plot.unavailable(*PREDICTIONS, "No prediction of a rescale has been compared with a measurement yet.")
    x = tuple(range(1, len(checked) + 1))
    predicted = tuple(each.predicted * MS for each in checked)
    sd = tuple(each.sd * MS for each in checked)
    measured = tuple(each.observed * MS for each in checked)
    series = (
        Series("predicted ± sd", x, predicted, "points", "main", sd=sd),
        Series("measured", x, measured, "points", "second"),
    )
    caption = describe_accurate(count_accurate(checked), len(checked))
    return Plot(*PREDICTIONS, caption, Axis("rescale, the latest last", whole=True), Axis("latency (ms)"), series)


def describe_accurate(accurate: int, total: int) -> str:
    share = format_percent(accurate / total)
    return f"{accurate} of {total} measurements were within two standard deviations ({share})."


def format_one_line(entry: Mapping[str, Any]) -> str:
    text = f"{entry['action']}: {format_change(entry)}: {format_reasons(entry)}"
    return shorten(text, _MAX_LABEL_LENGTH, placeholder=" …")


def _decision(entry: Mapping[str, Any]) -> tuple[Any, Any]:
    return entry["action"], entry["wanted"]


def _time_axis(loop: PlottedLoop) -> Axis:
    return Axis("simulated hours since the first observation") if loop.simulated else Axis("", "time")


def _times(loop: PlottedLoop, observations: Iterable[PlottedObservation]) -> tuple[float, ...]:
    return tuple(each.at / _HOUR if loop.simulated else each.at for each in observations)


def _counts(parallelisms: Iterable[Mapping[str, int] | None]) -> tuple[float | None, ...]:
    return tuple(None if k is None else sum(k.values()) for k in parallelisms)


def _parallelism(
    name: str, x: tuple[float, ...], ks: Sequence[Mapping[str, int] | None], style: SeriesStyle, role: Role
) -> Series:
    labels = tuple(
        "" if k is None else f"{name}: {sum(k.values())} ({', '.join(f'{each} {n}' for each, n in k.items())})"
        for k in ks
    )
    return Series(name, x, _counts(ks), style, role, labels=labels)
