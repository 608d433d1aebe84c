"""A plot as lines of characters for a terminal. Each Braille character has 2 × 4 dots.

Series have the colours of their roles. Points, bars and areas also have characters of their own, for terminals without
colours.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from autotrascale.plan.formatting import format_amount
from autotrascale.views.plots.plot import Axis, Plot, Role, Series, SeriesStyle, known_values, stack_areas

WIDTH, HEIGHT = 64, 12  # of the plot area, in characters
STYLES: Mapping[Role, str] = {
    "main": "bright_blue",
    "second": "yellow",
    "third": "magenta",
    "good": "green",
    "bad": "red",
    "quiet": "bright_black",
    "level": "bright_black",
}
_SIGNS: Mapping[SeriesStyle, str] = {
    "line": "⠤",
    "steps": "⠤",
    "dashed steps": "⠄",
    "points": "●",
    "bars": "█",
    "area": "█",
    "heat": "█",
}
_FILLS = "█▓▒░▚▞"  # of areas, in the order of series
_SHADES = " ░▒▓█"
_MAX_ROW_NAME = 28
_BLANK = 0x2800
_BITS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))  # by column and row of a dot
_EIGHTHS = " ▁▂▃▄▅▆▇█"
_BAR_WIDTH = 0.7  # of the space for a bar


def draw_plot(plot: Plot, width: int = WIDTH, height: int = HEIGHT) -> Text:
    """Return the plot with its title above, and its legend and caption below."""
    title = Text(plot.title, style="bold")
    if any(series.style == "heat" for series in plot.series):
        return Text("\n").join([title, *_draw_heatmap(plot, width), Text(plot.caption, style="dim")])
    if plot.missing or not _scales(plot, width, height):
        return Text("\n").join([title, Text(plot.missing or plot.caption or "No data yet.")])
    lines = [title, *_draw_area(plot, width, height), _legend(plot), Text(plot.caption, style="dim")]
    return Text("\n").join(line for line in lines if line)


@dataclass(frozen=True)
class _Scale:
    """Maps values from `low` to `high` to positions from 0 to `dots` - 1."""

    low: float
    high: float
    dots: int
    log: bool = False

    def at(self, value: float) -> float:
        value = min(max(value, self.low), self.high)
        low, high, value = (math.log(each) if self.log else each for each in (self.low, self.high, value))
        return (value - low) / (high - low) * (self.dots - 1) if high > low else (self.dots - 1) / 2


def _scales(plot: Plot, width: int, height: int) -> tuple[_Scale, _Scale] | None:
    xs = [x for series in plot.series for x, y in _points(plot, series) if y is not None]
    ys = [y for series in stack_areas(plot) for y in known_values(series.y)] + [level.value for level in plot.levels]
    log = plot.y.kind == "log"
    ys = [y for y in ys if math.isfinite(y) and (y > 0 or not log)]
    if not xs or not ys:
        return None
    low = min(ys) if log else min(0.0, *ys)
    margin = 0.5 if plot.x.kind == "names" or _has_bars(plot) else 0.0
    across = _Scale(min(xs) - margin, max(xs) + margin, 2 * width, plot.x.kind == "log" and min(xs) > margin)
    return across, _Scale(low, max(ys), 4 * height, log)


def _has_bars(plot: Plot) -> bool:
    return any(series.style == "bars" for series in plot.series)


def _points(plot: Plot, series: Series) -> Iterator[tuple[float, float | None]]:
    names = _names(plot)
    for x, y in zip(series.x, series.y, strict=True):
        yield float(names.index(x)) if isinstance(x, str) else x, y


def _names(plot: Plot) -> list[str]:
    return list(dict.fromkeys(x for series in plot.series for x in series.x if isinstance(x, str)))


# --- the plot area ----------------------------------------------------------------------------------------------------


class _Canvas:
    """Cells with dots or with a character. A later element covers an earlier one."""

    def __init__(self, width: int, height: int) -> None:
        self._width, self._height = width, height
        self._dots = [[0] * width for _ in range(height)]
        self._signs: dict[tuple[int, int], str] = {}
        self._styles: dict[tuple[int, int], str] = {}

    def dot(self, x: float, y: float, style: str) -> None:
        column, row = round(x), 4 * self._height - 1 - round(y)
        if 0 <= column < 2 * self._width and 0 <= row < 4 * self._height:
            self._dots[row // 4][column // 2] |= _BITS[column % 2][row % 4]
            self._styles[row // 4, column // 2] = style

    def sign(self, x: float, y: float, sign: str, style: str) -> None:
        cell = (4 * self._height - 1 - round(y)) // 4, round(x) // 2
        self._signs[cell], self._styles[cell] = sign, style

    def lines(self) -> Iterator[Text]:
        for row, cells in enumerate(self._dots):
            line = Text()
            for column, dots in enumerate(cells):
                sign = self._signs.get((row, column), chr(_BLANK + dots) if dots else " ")
                line.append(sign, self._styles.get((row, column), ""))
            yield line


def _draw_area(plot: Plot, width: int, height: int) -> list[Text]:
    scales = _scales(plot, width, height)
    assert scales is not None
    x, y = scales
    canvas = _Canvas(width, height)
    for level in plot.levels:
        for column in range(0, 2 * width, 4):
            canvas.dot(column, y.at(level.value), STYLES["level"])
    _fill_areas(canvas, plot, x, y, width)
    for series in plot.series:
        if series.style == "area":
            continue
        places = [(x.at(a), None if b is None or (y.log and b <= 0) else y.at(b)) for a, b in _points(plot, series)]
        _draw_series(canvas, series, places, x, y)
    return _add_axes(plot, list(canvas.lines()), x, y)


def _draw_series(
    canvas: _Canvas, series: Series, places: list[tuple[float, float | None]], across: _Scale, up: _Scale
) -> None:
    style = STYLES[series.role]
    if series.style == "bars":
        bar_width = _BAR_WIDTH * (across.dots - 1) / max(across.high - across.low, 1.0)
        for x, y in places:
            _draw_bar(canvas, x, y, bar_width, style)
        return
    for n, (x, y) in enumerate(places):
        if y is None:
            continue
        if (sd := series.sd[n] if series.sd else None) is not None:
            value = series.y[n] or 0.0
            least, most = (up.at(value + side * sd) for side in (-1, 1))
            is_whisker = series.style == "points"
            for dot in range(round(least), round(most) + 1) if is_whisker else (least, most):
                canvas.dot(x, dot, style)
        if series.style == "points":
            canvas.sign(x, y, _SIGNS["points"], style)
        elif len(places) == 1:
            canvas.dot(x, y, style)
    if series.style != "points":
        _connect(canvas, series.style, places, style)


def _connect(canvas: _Canvas, shape: SeriesStyle, places: list[tuple[float, float | None]], style: str) -> None:
    for (x0, y0), (x1, y1) in pairwise(places):
        if y0 is not None and y1 is not None:
            for n, (x, y) in enumerate(_interpolate(x0, y0, x1, y1, steps=shape != "line")):
                if shape != "dashed steps" or n % 4 < 2:
                    canvas.dot(x, y, style)


def _fill_areas(canvas: _Canvas, plot: Plot, across: _Scale, up: _Scale, width: int) -> None:
    """Draw areas from the top of the stack down, so that each covers the areas below. A column shows the nearest x."""
    areas = [(n, series) for n, series in enumerate(stack_areas(plot)) if series.style == "area" and series.x]
    for n, series in reversed(areas):
        places = [across.at(float(x)) for x in series.x]
        for column in range(width):
            nearest = min(range(len(places)), key=lambda at: abs(places[at] - 2 * column))
            for row in range(round(up.at(series.y[nearest] or 0.0)) // 4 + 1 if series.y[nearest] else 0):
                canvas.sign(2 * column, 4 * row, _FILLS[n % len(_FILLS)], STYLES[series.role])


def _draw_heatmap(plot: Plot, width: int) -> list[Text]:
    """Return a row for each series. If several values share a column, the greatest is shown."""
    most = max((y for series in plot.series for y in known_values(series.y)), default=0.0) or 1.0
    name_width = min(_MAX_ROW_NAME, max(cell_len(series.name) for series in plot.series))
    lines = [Text(f"darkest: {_format_value(most)} {plot.y.title}", style="dim")]
    for series in plot.series:
        columns = [0.0] * min(width, max(1, len(series.x)))
        for n, y in enumerate(series.y):
            at = n * len(columns) // len(series.y)
            columns[at] = max(columns[at], y or 0.0)
        cells = "".join(_SHADES[math.ceil(y / most * (len(_SHADES) - 1))] for y in columns)
        lines.append(Text(f"{set_cell_size(series.name, name_width)} │{cells}"))
    times = [_format_value(x, plot.x) for x in (plot.series[0].x[0], plot.series[0].x[-1]) if not isinstance(x, str)]
    return [*lines, Text(" " * (name_width + 2) + " to ".join(dict.fromkeys(times)))]


def _draw_bar(canvas: _Canvas, x: float, y: float | None, width: float, style: str) -> None:
    dots = 0 if y is None else round(y) + 1
    first = math.ceil((x - width / 2) / 2)
    for column in range(first, max(first + 1, int((x + width / 2) / 2))):
        for full in range(dots // 4):
            canvas.sign(2 * column, 4 * full, _EIGHTHS[-1], style)
        if dots % 4:
            canvas.sign(2 * column, 4 * (dots // 4), _EIGHTHS[2 * (dots % 4)], style)


def _interpolate(x0: float, y0: float, x1: float, y1: float, *, steps: bool) -> Iterator[tuple[float, float]]:
    """Yield the dots between two points. As steps: first horizontally, then vertically."""
    corners = [(x0, y0), (x1, y0), (x1, y1)] if steps else [(x0, y0), (x1, y1)]
    for (a, b), (c, d) in pairwise(corners):
        count = max(1, round(max(abs(c - a), abs(d - b))))
        for n in range(count + 1):
            yield a + (c - a) * n / count, b + (d - b) * n / count


# --- labels around the plot area --------------------------------------------------------------------------------------


def _add_axes(plot: Plot, rows: list[Text], x: _Scale, y: _Scale) -> list[Text]:
    labels = {0: _format_value(y.high), len(rows) - 1: _format_value(y.low)}
    for level in plot.levels:
        row = len(rows) - 1 - round(y.at(level.value)) // 4
        labels.setdefault(min(max(row, 0), len(rows) - 1), _format_value(level.value))
    label_width = max(map(cell_len, labels.values()))
    framed = [Text(f"{labels.get(n, ''):>{label_width}} │") + row for n, row in enumerate(rows)]
    width = len(rows[0])
    below = Text(f"{'':>{label_width}} └{'─' * width}")
    return [Text(plot.y.title, style="dim"), *framed, below, Text(" " * (label_width + 2) + _x_labels(plot, x, width))]


def _x_labels(plot: Plot, x: _Scale, width: int) -> str:
    if plot.x.kind == "names":
        names = _names(plot)
        cells = max(1, width // len(names))
        return "".join(_centre(name, cells) for name in names).rstrip()
    if x.low == x.high:
        return f"{_format_value(x.low, plot.x)} {plot.x.title}".center(width).rstrip()
    margin = 0.5 if _has_bars(plot) else 0.0
    left, right = _format_value(x.low + margin, plot.x), _format_value(x.high - margin, plot.x)
    return left + plot.x.title.center(max(0, width - len(left) - len(right))) + right


def _centre(name: str, cells: int) -> str:
    # Not `str.center`: letters of some scripts are two cells wide.
    short = set_cell_size(name, min(cell_len(name), max(1, cells - 1)))
    before = (cells - cell_len(short)) // 2
    return set_cell_size(" " * before + short, cells)


def _format_value(value: float, axis: Axis | None = None) -> str:
    if axis is not None and axis.kind == "time":
        return time.strftime("%H:%M:%S", time.localtime(value))
    return format_amount(value)


def _legend(plot: Plot) -> Text:
    if len(plot.series) + len(plot.levels) < 2:
        return Text("")
    labels = [
        Text.assemble(
            (_FILLS[n % len(_FILLS)] if each.style == "area" else _SIGNS[each.style], STYLES[each.role]),
            f" {each.name}",
        )
        for n, each in enumerate(plot.series)
    ]
    labels += [Text.assemble(("⠂⠂", STYLES["level"]), f" {level.name}") for level in plot.levels]
    return Text("   ").join(labels)
