"""Plots as small SVG files: the values of `views/plots`, which pages and notebooks draw too, here by matplotlib.

The same plots give the same bytes on the same matplotlib, so that a file changes when its figures do.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autotrascale.views.plots.plot import Plot, Series
from autotrascale.views.plots.plotly import COLOURS

WIDTH, HEIGHT, COLUMNS = 4.6, 3.0, 2  # inches of a panel
LETTERS = 45  # below a panel, before they are set aslant
_STYLES = {"line": "-", "steps": "-", "dashed steps": ":"}
_SETTINGS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "autotrascale",
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "axes.grid": True,
    "grid.color": "#e5e7eb",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
}


def draw(plots: Sequence[Plot], path: Path) -> None:
    """One panel for each, two in a row."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    columns = min(COLUMNS, len(plots))
    rows = -(-len(plots) // columns)
    with mpl.rc_context(_SETTINGS):
        figure, panels = plt.subplots(rows, columns, figsize=(WIDTH * columns, HEIGHT * rows), squeeze=False)
        for panel in panels.flat[len(plots) :]:
            panel.set_visible(False)
        for panel, plot in zip(panels.flat, plots, strict=False):
            _panel(panel, plot)
        figure.tight_layout()
        figure.savefig(path, metadata={"Date": None, "Creator": None} if path.suffix == ".svg" else {})
        plt.close(figure)


def _panel(panel: Any, plot: Plot) -> None:
    panel.set_title(plot.title, loc="left")
    panel.set_xlabel(plot.x.title)
    panel.set_ylabel(plot.y.title)
    names = [str(x) for x in dict.fromkeys(x for series in plot.series for x in series.x)]
    bars = [series for series in plot.series if series.style == "bars"]
    for series in plot.series:
        xs = [names.index(str(x)) for x in series.x] if plot.x.kind == "names" else list(series.x)
        if series.style == "bars":
            _bars(panel, series, xs, bars.index(series), len(bars))
        else:
            _line(panel, series, xs)
    if plot.x.kind == "names":
        slanted = sum(map(len, names)) > LETTERS
        panel.set_xticks(range(len(names)), names, rotation=25 if slanted else 0, ha="right" if slanted else "center")
    if plot.y.kind == "log":
        panel.set_yscale("log")
        panel.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        panel.yaxis.set_minor_formatter("")
    for level in plot.levels:
        panel.axhline(level.value, color=COLOURS["level"], linewidth=1, linestyle="--", label=level.name)
    named = len(plot.series) + len(plot.levels)
    low, high = panel.get_ylim()  # room for the names above what is drawn
    if plot.y.kind == "log":
        panel.set_ylim(low, high * (high / low) ** (0.15 if named > 1 else 0.0))
    else:
        below = any(y is not None and y < 0 for series in plot.series for y in series.y)
        panel.set_ylim(low if below else 0, high * (1.12 if named > 1 else 1.0))
    if named > 1:
        panel.legend(loc="upper right", ncols=min(named, 4), columnspacing=1.0, handlelength=1.4)


def _bars(panel: Any, series: Series, xs: Sequence[float], i: int, of: int) -> None:
    width = 0.8 / of
    places = [x - 0.4 + width * (i + 0.5) for x in xs]
    heights = [0.0 if y is None else y for y in series.y]
    errors = {"yerr": [sd or 0.0 for sd in series.sd], "error_kw": {"elinewidth": 0.8}} if series.sd else {}
    panel.bar(places, heights, width * 0.92, color=COLOURS[series.role], label=series.name, **errors)


def _line(panel: Any, series: Series, xs: Sequence[float]) -> None:
    ys = [float("nan") if y is None else y for y in series.y]
    look = {"color": COLOURS[series.role], "label": series.name}
    if series.style == "points":
        errors = [sd or 0.0 for sd in series.sd] if series.sd else None
        panel.errorbar(xs, ys, yerr=errors, fmt="o", markersize=4, elinewidth=0.8, **look)
        return
    steps = {"drawstyle": "steps-post"} if series.style != "line" else {}
    panel.plot(
        xs,
        ys,
        _STYLES[series.style],
        linewidth=1.5,
        marker="o" if len(xs) < 12 else None,
        markersize=3,
        **steps,
        **look,
    )
