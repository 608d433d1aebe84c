"""A plot as a Plotly figure in plain data, for `plotly.graph_objects.Figure(**build_figure(plot))` or for a page.

Plotly itself is not needed. `meta.role` of a trace is the role of its series, so that a page can use the colours of its
own theme. The colours here are for a white background.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autotrascale.views.plots.plot import Axis, Level, Plot, Role, Series, known_values

SIGNIFICANT_DIGITS = 5  # more are invisible on a screen, and each is a byte per value
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
MAX_TICKS = 10  # up to so many whole numbers, each has a tick
_BAND_OPACITY = 0.18


def build_figure(plot: Plot) -> dict[str, Any]:
    """Return `data` and `layout` of a figure."""
    return {"data": [*build_traces(plot), *map(_legend_entry, plot.levels)], "layout": _layout(plot)}


def build_traces(plot: Plot) -> list[dict[str, Any]]:
    """Return the traces in the order of the series. A line with a band is two traces, the band first."""
    if plot.series and all(series.style == "heat" for series in plot.series):
        return [_heatmap(plot)]
    return [trace for series in plot.series for trace in _traces(series, plot.x.kind == "time")]


def build_extension(plot: Plot) -> list[dict[str, Any]]:
    """Return only the arrays of each trace, to append to traces that a page has already."""
    return [{name: trace[name] for name in ("x", "y", "text") if name in trace} for trace in build_traces(plot)]


def _traces(series: Series, is_time: bool) -> list[dict[str, Any]]:
    x = [_x_value(each, is_time) for each in series.x]
    trace: dict[str, Any] = {"name": series.name, "x": x, "y": _round_all(series.y), "meta": {"role": series.role}}
    colour = COLOURS[series.role]
    if series.labels:
        trace |= {"text": list(series.labels), "hovertemplate": "%{text}<extra></extra>"}
    if series.style == "bars":
        return [trace | {"type": "bar", "marker": {"color": colour}, "textposition": "none"}]
    trace |= {"type": "scatter", "connectgaps": False}
    if series.style == "area":
        return [trace | {"mode": "lines", "stackgroup": "all", "line": {"color": colour, "width": 1}}]
    if series.style == "points":
        whiskers = {"error_y": {"array": _round_all(series.sd), "thickness": 1, "width": 3}} if series.sd else {}
        return [trace | {"mode": "markers", "marker": {"size": 8, "color": colour}} | whiskers]
    dash = "dot" if series.style == "dashed steps" else "solid"
    line = {"shape": _SHAPES[series.style], "color": colour, "width": 2, "dash": dash}
    band = [_band(series, x)] if series.sd else []
    return [*band, trace | {"mode": "lines", "line": line}]


def _heatmap(plot: Plot) -> dict[str, Any]:
    rows = list(reversed(plot.series))
    is_time = plot.x.kind == "time"
    return {
        "type": "heatmap",
        "name": plot.title,
        "x": [_x_value(each, is_time) for each in rows[0].x],
        "y": [series.name for series in rows],
        "z": [_round_all(series.y) for series in rows],
        "zmin": 0,
        "colorscale": [[0, "rgba(31,95,168,0)"], [1, COLOURS["main"]]],
        "meta": {"role": "main"},
        "colorbar": {"title": {"text": plot.y.title}},
    }


def _band(series: Series, x: Sequence[float | str]) -> dict[str, Any]:
    """Return the filled outline: the upper edge forwards, then the lower edge backwards."""
    edges = [(y, sd or 0.0) for y, sd in zip(series.y, series.sd, strict=True) if y is not None]
    known_x = [at for at, y in zip(x, series.y, strict=True) if y is not None]
    upper, lower = [y + sd for y, sd in edges], [y - sd for y, sd in edges]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": series.name,
        "x": [*known_x, *reversed(known_x)],
        "y": _round_all([*upper, *reversed(lower)]),
        "fill": "toself",
        "line": {"width": 0},
        "opacity": _BAND_OPACITY,
        "fillcolor": COLOURS[series.role],
        "hoverinfo": "skip",
        "showlegend": False,
        "meta": {"role": series.role, "band": True},
    }


def _layout(plot: Plot) -> dict[str, Any]:
    xs = [x for series in plot.series for x in series.x if not isinstance(x, str)]
    ys = known_values([y for series in plot.series for y in series.y])
    bars = any(series.style == "bars" for series in plot.series)
    if any(series.style == "heat" for series in plot.series):
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
    """Return the settings of an axis. `upright`: the axis is vertical and begins at zero."""
    settings: dict[str, Any] = {"title": {"text": axis.title}}
    settings["type"] = {"number": "linear", "log": "log", "time": "date", "names": "category"}[axis.kind]
    if axis.kind == "log" and values:
        ticks = [step * 10**e for e in range(-3, 9) for step in (1, 2, 5)]
        settings["tickvals"] = [t for t in ticks if min(values) / 2 <= t <= max(values) * 2]
        settings["ticktext"] = [f"{t:,g}" for t in settings["tickvals"]]
    if axis.whole and values and max(values) - (0 if upright else min(values)) <= MAX_TICKS:
        settings |= {"dtick": 1}
    elif axis.whole:
        settings |= {"tickformat": ",d", "nticks": 8}
    return settings


def _line_at(level: Level) -> dict[str, Any]:
    y = _round(level.value)
    return {
        "type": "line",
        "xref": "paper",
        "x0": 0,
        "x1": 1,
        "y0": y,
        "y1": y,
        "line": {"color": COLOURS["level"], "width": 1, "dash": "dash"},
    }


def _legend_entry(level: Level) -> dict[str, Any]:
    # A label beside the line would cover data.
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


def _x_value(value: float | str, is_time: bool) -> float | str:
    if isinstance(value, str):
        return value
    return round(value * 1000) if is_time else _round(value)  # Plotly counts milliseconds


def _round_all(values: Sequence[float | None]) -> list[float | None]:
    return [None if value is None else _round(value) for value in values]


def _round(value: float) -> float:
    return value if isinstance(value, int) else float(f"{value:.{SIGNIFICANT_DIGITS}g}")
