"""A plot as Plotly draws it: a figure as plain data, for `plotly.graph_objects.Figure(**figure(plot))` or for a page.

Plotly itself is not needed to make one. A trace says which role it plays (`meta.role`), from which a page takes the
colour of its theme; here they get colours that can be told apart on white.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autotrascale.views.plots.plot import Axis, Level, Plot, Role, Series, known_values

DIGITS = 5  # significant ones: nobody sees more on a screen, and each costs a byte for each point
COLOURS: dict[Role, str] = {
    "main": "#1f5fa8",
    "second": "#a4560a",
    "third": "#6b4aa0",
    "good": "#1b6e3c",
    "bad": "#b3261e",
    "quiet": "#6b7280",
    "level": "#6b7280",
}
_SHAPES = {"line": "linear", "steps": "hv", "dashed steps": "hv"}
FEW = 10  # whole numbers that all have a tick
_BAND = 0.18  # how much of a colour a band of one standard deviation shows


def build_figure(plot: Plot) -> dict[str, Any]:
    """`data` and `layout`."""
    return {"data": [*build_traces(plot), *map(_named, plot.levels)], "layout": _layout(plot)}


def build_traces(plot: Plot) -> list[dict[str, Any]]:
    """In the order of the series; a line with a band is two, the band before it."""
    if plot.series and all(series.drawn == "heat" for series in plot.series):
        return [_heat(plot)]
    return [trace for series in plot.series for trace in _traces(series, plot.x.kind == "time")]


def build_extension(plot: Plot) -> list[dict[str, Any]]:
    """What `Plotly.extendTraces` takes: the arrays of each trace, and nothing else."""
    return [{name: trace[name] for name in ("x", "y", "text") if name in trace} for trace in build_traces(plot)]


def _traces(series: Series, time: bool) -> list[dict[str, Any]]:
    x = [_place(each, time) for each in series.x]
    trace: dict[str, Any] = {"name": series.name, "x": x, "y": _short(series.y), "meta": {"role": series.role}}
    colour = COLOURS[series.role]
    if series.said:
        trace |= {"text": list(series.said), "hovertemplate": "%{text}<extra></extra>"}
    if series.drawn == "bars":
        return [trace | {"type": "bar", "marker": {"color": colour}, "textposition": "none"}]
    trace |= {"type": "scatter", "connectgaps": False}
    if series.drawn == "area":
        return [trace | {"mode": "lines", "stackgroup": "all", "line": {"color": colour, "width": 1}}]
    if series.drawn == "points":
        whiskers = {"error_y": {"array": _short(series.sd), "thickness": 1, "width": 3}} if series.sd else {}
        return [trace | {"mode": "markers", "marker": {"size": 8, "color": colour}} | whiskers]
    dash = "dot" if series.drawn == "dashed steps" else "solid"
    line = {"shape": _SHAPES[series.drawn], "color": colour, "width": 2, "dash": dash}
    band = [_band(series, x)] if series.sd else []
    return [*band, trace | {"mode": "lines", "line": line}]


def _heat(plot: Plot) -> dict[str, Any]:
    """One trace of all rows, the first on top."""
    rows = list(reversed(plot.series))
    time = plot.x.kind == "time"
    return {
        "type": "heatmap",
        "name": plot.title,
        "x": [_place(each, time) for each in rows[0].x],
        "y": [series.name for series in rows],
        "z": [_short(series.y) for series in rows],
        "zmin": 0,
        "colorscale": [[0, "rgba(31,95,168,0)"], [1, COLOURS["main"]]],
        "meta": {"role": "main"},
        "colorbar": {"title": {"text": plot.y.title}},
    }


def _band(series: Series, x: Sequence[float | str]) -> dict[str, Any]:
    """There and back again, filled."""
    edges = [(y, sd or 0.0) for y, sd in zip(series.y, series.sd, strict=True) if y is not None]
    places = [at for at, y in zip(x, series.y, strict=True) if y is not None]
    upper, lower = [y + sd for y, sd in edges], [y - sd for y, sd in edges]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": series.name,
        "x": [*places, *reversed(places)],
        "y": _short([*upper, *reversed(lower)]),
        "fill": "toself",
        "line": {"width": 0},
        "opacity": _BAND,
        "fillcolor": COLOURS[series.role],
        "hoverinfo": "skip",
        "showlegend": False,
        "meta": {"role": series.role, "band": True},
    }


def _layout(plot: Plot) -> dict[str, Any]:
    xs = [x for series in plot.series for x in series.x if not isinstance(x, str)]
    ys = known_values([y for series in plot.series for y in series.y])
    bars = any(series.drawn == "bars" for series in plot.series)
    if any(series.drawn == "heat" for series in plot.series):
        return {"xaxis": _axis(plot.x, xs), "yaxis": {"type": "category"}, "showlegend": False, "hovermode": "closest"}
    return {
        "xaxis": _axis(plot.x, xs),
        "yaxis": {**_axis(plot.y, ys, upright=True), "rangemode": "tozero" if plot.y.kind == "number" else "normal"},
        "shapes": [_line_at(level) for level in plot.levels],
        "showlegend": len(plot.series) + len(plot.levels) > 1,
        "hovermode": "closest",
        **({"barmode": "stack"} if bars else {}),
    }


def _axis(axis: Axis, values: Sequence[float], *, upright: bool = False) -> dict[str, Any]:
    """Upright axes begin at zero."""
    found: dict[str, Any] = {"title": {"text": axis.title}}
    found["type"] = {"number": "linear", "log": "log", "time": "date", "names": "category"}[axis.kind]
    if axis.kind == "log" and values:
        ticks = [step * 10**e for e in range(-3, 9) for step in (1, 2, 5)]
        found["tickvals"] = [t for t in ticks if min(values) / 2 <= t <= max(values) * 2]
        found["ticktext"] = [f"{t:,g}" for t in found["tickvals"]]
    if axis.whole and values and max(values) - (0 if upright else min(values)) <= FEW:
        found |= {"dtick": 1}
    elif axis.whole:
        found |= {"tickformat": ",d", "nticks": 8}
    return found


def _line_at(level: Level) -> dict[str, Any]:
    y = _rounded(level.value)
    return {
        "type": "line",
        "xref": "paper",
        "x0": 0,
        "x1": 1,
        "y0": y,
        "y1": y,
        "line": {"color": COLOURS["level"], "width": 1, "dash": "dash"},
    }


def _named(level: Level) -> dict[str, Any]:
    """Its name, in the legend: written beside its line it would stand on what was measured."""
    line = {"color": COLOURS["level"], "width": 1, "dash": "dash"}
    return {
        "type": "scatter",
        "mode": "lines",
        "name": level.name,
        "x": [None],
        "y": [None],
        "line": line,
        "meta": {"role": "level"},
    }


def _place(value: float | str, time: bool) -> float | str:
    """Milliseconds of a time, as Plotly counts them."""
    if isinstance(value, str):
        return value
    return round(value * 1000) if time else _rounded(value)


def _short(values: Sequence[float | None]) -> list[float | None]:
    return [None if value is None else _rounded(value) for value in values]


def _rounded(value: float) -> float:
    return value if isinstance(value, int) else float(f"{value:.{DIGITS}g}")
