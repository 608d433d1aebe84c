"""A job that is kept, over its time: parallelism, rate, backlog, latency, and what was decided.

Each series has one value for each look, so that what a later look adds can be told alone (`Plot.followed_by`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from textwrap import shorten
from typing import Any

from autotrascale.domain.snapshot import CriticalShares
from autotrascale.domain.target import Target
from autotrascale.plan.formatting import format_amount, format_percent, format_seconds
from autotrascale.views.decision_text import format_change, format_reasons
from autotrascale.views.plots.plot import Axis, Level, Plot, Series, known_values

_HOUR = 3600.0
MS = 1000.0
MOST_SAID = 240  # characters of a reason beside its mark; the whole of it stands in the table
FAR = 4.0  # times the target: beyond, a standstill would press everything else to the ground


@dataclass(frozen=True)
class PlottedObservation:
    """One look, as the journal has it. `at`: seconds since 1970, or of a simulated job since its loop first looked.
    `requested`: what had been asked of the job by then and was not seen to run; `news`: something was decided that the
    look before had not decided already, as advice that nobody follows is given again and again."""

    number: int
    at: float
    entry: Mapping[str, Any]
    throughput: float | None = None
    requested: Mapping[str, int] | None = None
    news: bool = False
    critical: CriticalShares | None = None


@dataclass(frozen=True)
class PlottedLoop:
    """What the plots of one job have in common."""

    target: Target
    simulated: bool


def follow_requests(
    looks: Iterable[PlottedObservation], before: PlottedObservation | None = None
) -> Iterator[PlottedObservation]:
    """Each with what follows from those before it. What was asked for stands until it ran or failed."""
    last = before
    for look in looks:
        action, requested = look.entry["action"], None if last is None else last.requested
        if action == "rescale":
            requested = look.entry["wanted"]
        elif action in ("rescaled", "failed", "start"):
            requested = None
        news = action != "stay" and (last is None or _deed(last.entry) != _deed(look.entry))
        last = replace(look, requested=requested, news=news)
        yield last


def plot_loop(kept: PlottedLoop, looks: Sequence[PlottedObservation]) -> list[Plot]:
    return [make(kept, looks) for make in (plot_latency, plot_parallelism, plot_rate, plot_backlog)]


def plot_latency(kept: PlottedLoop, looks: Sequence[PlottedObservation]) -> Plot:
    target = kept.target
    values = [None if (s := look.entry["latency_seconds"]) is None else s * MS for look in looks]
    there = known_values(values)
    within = sum(value <= target.latency_seconds * MS for value in there)
    says = (
        f"{within} of {len(there)} measured looks were within {format_seconds(target.latency_seconds)}."
        if there
        else ("None of these looks measured a latency.")
    )
    series = Series(f"latency ({target.statistic})", _times(kept, looks), tuple(values))
    level = Level(target.latency_seconds * MS, f"target {format_seconds(target.latency_seconds)}")
    far = max(there, default=0.0) > FAR * target.latency_seconds * MS
    axis = Axis(f"{target.statistic} latency (ms)", "log" if far else "number")
    return _plot("latency", "Latency against the target", says, kept, axis, (series,), (level,))


def plot_parallelism(kept: PlottedLoop, looks: Sequence[PlottedObservation]) -> Plot:
    """In instances of all operators together; which have how many is told where a point is."""
    entries, x = [look.entry for look in looks], _times(kept, looks)
    running = Series(
        "running",
        x,
        _sums(entry["running"] for entry in entries),
        "steps",
        "main",
        said=tuple(_named("running", entry["running"]) for entry in entries),
    )
    recommended = Series(
        "recommended",
        x,
        _sums(entry["wanted"] for entry in entries),
        "dashed steps",
        "second",
        said=tuple(_named("recommended", entry["wanted"]) for entry in entries),
    )
    requested = Series(
        "requested",
        x,
        _sums(look.requested for look in looks),
        "steps",
        "third",
        said=tuple(_named("requested", look.requested) for look in looks),
    )
    acted = [look for look in looks if look.news]
    decided = Series(
        "decisions",
        _times(kept, acted),
        _sums(_decided(look.entry) for look in acted),
        "points",
        "bad",
        said=tuple(one_line(look.entry) for look in acted),
    )
    now = next((entry for entry in reversed(entries) if entry["running"]), None)
    says = "Nothing was seen to run." if now is None else f"Now: {format_change(now)}."
    return _plot(
        "parallelism",
        "Parallelism: running, requested, recommended",
        says,
        kept,
        Axis("instances, all operators"),
        (recommended, requested, running, decided),
    )


def plot_rate(kept: PlottedLoop, looks: Sequence[PlottedObservation]) -> Plot:
    x = _times(kept, looks)
    offered = Series("offered", x, tuple(look.entry["rate"] for look in looks))
    carried = Series("carried", x, tuple(look.throughput for look in looks), "line", "second")
    there = known_values(offered.y)
    says = (
        f"Between {format_amount(min(there))} and {format_amount(max(there))} records/s were offered."
        if there
        else ("No rate was measured.")
    )
    if there and not known_values(carried.y):
        says += " What was carried is not kept of looks this old."
    return _plot("rate", "Rate and throughput", says, kept, Axis("records/s"), (offered, carried))


def plot_backlog(kept: PlottedLoop, looks: Sequence[PlottedObservation]) -> Plot:
    series = Series("backlog", _times(kept, looks), tuple(look.entry["backlog_records"] for look in looks))
    there = known_values(series.y)
    says = (
        f"At most {format_amount(max(there))} records waited, {format_amount(there[-1])} at last."
        if there
        else ("This job does not say how many records wait.")
    )
    return _plot("backlog", "Backlog", says, kept, Axis("records that wait"), (series,))


def plot_predictions(checked: Sequence[tuple[float, float, float]]) -> Plot:
    """Of each rescale: latency predicted, its standard deviation, and what came; in seconds."""
    if not checked:
        return Plot.unavailable(
            "predictions",
            "Prediction against outcome",
            "No rescale has been compared yet with what was predicted of it.",
        )
    x = tuple(range(1, len(checked) + 1))
    predicted = Series(
        "predicted ± sd",
        x,
        tuple(p * MS for p, _, _ in checked),
        "points",
        "main",
        sd=tuple(sd * MS for _, sd, _ in checked),
    )
    observed = Series("observed", x, tuple(o * MS for _, _, o in checked), "points", "second")
    near = sum(abs(o - p) <= 2 * sd for p, sd, o in checked)
    return Plot(
        "predictions",
        "Prediction against outcome",
        f"{near} of {len(checked)} came within two standard deviations ({format_percent(near / len(checked))}).",
        Axis("rescale, the latest last", whole=True),
        Axis("latency (ms)"),
        (predicted, observed),
    )


def one_line(entry: Mapping[str, Any]) -> str:
    return shorten(f"{entry['action']}: {format_change(entry)}: {format_reasons(entry)}", MOST_SAID, placeholder=" …")


def _deed(entry: Mapping[str, Any]) -> tuple[Any, Any]:
    return entry["action"], entry["wanted"]


def _decided(entry: Mapping[str, Any]) -> Mapping[str, int] | None:
    found: Mapping[str, int] | None = entry["wanted"] or entry["running"]
    return found


def _plot(
    name: str,
    title: str,
    says: str,
    kept: PlottedLoop,
    y: Axis,
    series: tuple[Series, ...],
    levels: tuple[Level, ...] = (),
) -> Plot:
    x = Axis("simulated hours since the first look") if kept.simulated else Axis("", "time")
    return Plot(name, title, says, x, y, series, levels)


def _times(kept: PlottedLoop, looks: Iterable[PlottedObservation]) -> tuple[float, ...]:
    return tuple(look.at / _HOUR if kept.simulated else look.at for look in looks)


def _sums(parallelisms: Iterable[Mapping[str, int] | None]) -> tuple[float | None, ...]:
    return tuple(None if k is None else sum(k.values()) for k in parallelisms)


def _named(what: str, k: Mapping[str, int] | None) -> str:
    return "" if k is None else f"{what}: {sum(k.values())} ({', '.join(f'{name} {n}' for name, n in k.items())})"
