"""A plot as a terminal draws it: lines of characters, of which each Braille one has room for 2 × 4 dots.

Colours are those of the roles; where there are none, points and bars have characters of their own, and the legend says
what is what.
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

WIDTH, HEIGHT = 64, 12  # characters, of what is drawn
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
_FILLS = "█▓▒░▚▞"  # of areas, one after another
_SHADES = " ░▒▓█"
_ROW_NAME = 28
_BLANK = 0x2800
_BITS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))  # of a dot: column, row
_EIGHTHS = " ▁▂▃▄▅▆▇█"
_BAR = 0.7  # of the room that it has


def draw_plot(plot: Plot, width: int = WIDTH, height: int = HEIGHT) -> Text:
    """With its title above, and below it the sentence that says what it shows."""
    title = Text(plot.title, style="bold")
    if any(series.drawn == "heat" for series in plot.series):
        return Text("\n").join([title, *_heat(plot, width), Text(plot.says, style="dim")])
    if plot.missing or not _scales(plot, width, height):
        return Text("\n").join([title, Text(plot.missing or plot.says or "There is nothing to draw yet.")])
    lines = [title, *_drawn(plot, width, height), _legend(plot), Text(plot.says, style="dim")]
    return Text("\n").join(line for line in lines if line)


@dataclass(frozen=True)
class _Scale:
    """From values to dots, of which there are `dots`."""

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
    beside = 0.5 if plot.x.kind == "names" or _has_bars(plot) else 0.0  # what stands at a place has room on both sides
    across = _Scale(min(xs) - beside, max(xs) + beside, 2 * width, plot.x.kind == "log" and min(xs) > beside)
    return across, _Scale(low, max(ys), 4 * height, log)


def _has_bars(plot: Plot) -> bool:
    return any(series.drawn == "bars" for series in plot.series)


def _points(plot: Plot, series: Series) -> Iterator[tuple[float, float | None]]:
    names = _names(plot)
    for x, y in zip(series.x, series.y, strict=True):
        yield float(names.index(x)) if isinstance(x, str) else x, y


def _names(plot: Plot) -> list[str]:
    return list(dict.fromkeys(x for series in plot.series for x in series.x if isinstance(x, str)))


# --- what is drawn ----------------------------------------------------------------------------------------------------


class _Canvas:
    """Of cells: dots that are set, or a character instead; the colour is that of what was drawn last."""

    def __init__(self, width: int, height: int) -> None:
        self._width, self._height = width, height
        self._dots = [[0] * width for _ in range(height)]
        self._instead: dict[tuple[int, int], str] = {}
        self._styles: dict[tuple[int, int], str] = {}

    def dot(self, x: float, y: float, style: str) -> None:
        column, row = round(x), 4 * self._height - 1 - round(y)
        if 0 <= column < 2 * self._width and 0 <= row < 4 * self._height:
            self._dots[row // 4][column // 2] |= _BITS[column % 2][row % 4]
            self._styles[row // 4, column // 2] = style

    def sign(self, x: float, y: float, sign: str, style: str) -> None:
        cell = (4 * self._height - 1 - round(y)) // 4, round(x) // 2
        self._instead[cell], self._styles[cell] = sign, style

    def lines(self) -> Iterator[Text]:
        for row, cells in enumerate(self._dots):
            line = Text()
            for column, dots in enumerate(cells):
                sign = self._instead.get((row, column), chr(_BLANK + dots) if dots else " ")
                line.append(sign, self._styles.get((row, column), ""))
            yield line


def _drawn(plot: Plot, width: int, height: int) -> list[Text]:
    scales = _scales(plot, width, height)
    assert scales is not None
    x, y = scales
    canvas = _Canvas(width, height)
    for level in plot.levels:
        for column in range(0, 2 * width, 4):
            canvas.dot(column, y.at(level.value), STYLES["level"])
    _fill(canvas, plot, x, y, width)
    for series in plot.series:
        if series.drawn == "area":
            continue
        places = [(x.at(a), None if b is None or (y.log and b <= 0) else y.at(b)) for a, b in _points(plot, series)]
        _draw(canvas, series, places, x, y)
    return _framed(plot, list(canvas.lines()), x, y)


def _draw(
    canvas: _Canvas, series: Series, places: list[tuple[float, float | None]], across: _Scale, up: _Scale
) -> None:
    style = STYLES[series.role]
    if series.drawn == "bars":
        wide = _BAR * (across.dots - 1) / max(across.high - across.low, 1.0)
        for x, y in places:
            _bar(canvas, x, y, wide, style)
        return
    for n, (x, y) in enumerate(places):
        if y is None:
            continue
        if (sd := series.sd[n] if series.sd else None) is not None:
            value = series.y[n] or 0.0
            least, most = (up.at(value + side * sd) for side in (-1, 1))
            whole = series.drawn == "points"
            for dot in range(round(least), round(most) + 1) if whole else (least, most):
                canvas.dot(x, dot, style)
        if series.drawn == "points":
            canvas.sign(x, y, _SIGNS["points"], style)
        elif len(places) == 1:
            canvas.dot(x, y, style)
    if series.drawn != "points":
        _connect(canvas, series.drawn, places, style)


def _connect(canvas: _Canvas, drawn: SeriesStyle, places: list[tuple[float, float | None]], style: str) -> None:
    for (x0, y0), (x1, y1) in pairwise(places):
        if y0 is not None and y1 is not None:
            for n, (x, y) in enumerate(_way(x0, y0, x1, y1, steps=drawn != "line")):
                if drawn != "dashed steps" or n % 4 < 2:
                    canvas.dot(x, y, style)


def _fill(canvas: _Canvas, plot: Plot, across: _Scale, up: _Scale, width: int) -> None:
    """Areas from the highest down, so that each covers what it stands on; a column shows the place that is nearest."""
    areas = [(n, series) for n, series in enumerate(stack_areas(plot)) if series.drawn == "area" and series.x]
    for n, series in reversed(areas):
        places = [across.at(float(x)) for x in series.x]
        for column in range(width):
            nearest = min(range(len(places)), key=lambda at: abs(places[at] - 2 * column))
            for row in range(round(up.at(series.y[nearest] or 0.0)) // 4 + 1 if series.y[nearest] else 0):
                canvas.sign(2 * column, 4 * row, _FILLS[n % len(_FILLS)], STYLES[series.role])


def _heat(plot: Plot, width: int) -> list[Text]:
    """A row for each series; several places that share a column show the greatest."""
    most = max((y for series in plot.series for y in known_values(series.y)), default=0.0) or 1.0
    wide = min(_ROW_NAME, max(cell_len(series.name) for series in plot.series))
    lines = [Text(f"darkest: {_value(most)} {plot.y.title}", style="dim")]
    for series in plot.series:
        columns = [0.0] * min(width, max(1, len(series.x)))
        for n, y in enumerate(series.y):
            at = n * len(columns) // len(series.y)
            columns[at] = max(columns[at], y or 0.0)
        cells = "".join(_SHADES[math.ceil(y / most * (len(_SHADES) - 1))] for y in columns)
        lines.append(Text(f"{set_cell_size(series.name, wide)} │{cells}"))
    times = [_value(x, plot.x) for x in (plot.series[0].x[0], plot.series[0].x[-1]) if not isinstance(x, str)]
    return [*lines, Text(" " * (wide + 2) + " to ".join(dict.fromkeys(times)))]


def _bar(canvas: _Canvas, x: float, y: float | None, wide: float, style: str) -> None:
    """Full cells, and a part of one on top."""
    dots = 0 if y is None else round(y) + 1
    for column in range(math.ceil((x - wide / 2) / 2), max(math.ceil((x - wide / 2) / 2) + 1, int((x + wide / 2) / 2))):
        for full in range(dots // 4):
            canvas.sign(2 * column, 4 * full, _EIGHTHS[-1], style)
        if dots % 4:
            canvas.sign(2 * column, 4 * (dots // 4), _EIGHTHS[2 * (dots % 4)], style)


def _way(x0: float, y0: float, x1: float, y1: float, *, steps: bool) -> Iterator[tuple[float, float]]:
    """Every dot from here to there; as steps, first along and then up or down."""
    corners = [(x0, y0), (x1, y0), (x1, y1)] if steps else [(x0, y0), (x1, y1)]
    for (a, b), (c, d) in pairwise(corners):
        many = max(1, round(max(abs(c - a), abs(d - b))))
        for n in range(many + 1):
            yield a + (c - a) * n / many, b + (d - b) * n / many


# --- what stands around it --------------------------------------------------------------------------------------------


def _framed(plot: Plot, rows: list[Text], x: _Scale, y: _Scale) -> list[Text]:
    labels = {0: _value(y.high), len(rows) - 1: _value(y.low)}
    for level in plot.levels:
        row = len(rows) - 1 - round(y.at(level.value)) // 4
        labels.setdefault(min(max(row, 0), len(rows) - 1), _value(level.value))
    wide = max(map(cell_len, labels.values()))
    framed = [Text(f"{labels.get(n, ''):>{wide}} │") + row for n, row in enumerate(rows)]
    width = len(rows[0])
    below = Text(f"{'':>{wide}} └{'─' * width}")
    return [Text(plot.y.title, style="dim"), *framed, below, Text(" " * (wide + 2) + _below(plot, x, width))]


def _below(plot: Plot, x: _Scale, width: int) -> str:
    if plot.x.kind == "names":
        names = _names(plot)
        room = max(1, width // len(names))
        return "".join(_middle(name, room) for name in names).rstrip()
    if x.low == x.high:
        return f"{_value(x.low, plot.x)} {plot.x.title}".center(width).rstrip()
    beside = 0.5 if _has_bars(plot) else 0.0
    left, right = _value(x.low + beside, plot.x), _value(x.high - beside, plot.x)
    return left + plot.x.title.center(max(0, width - len(left) - len(right))) + right


def _middle(name: str, room: int) -> str:
    """Of so many cells: letters of some scripts take two."""
    short = set_cell_size(name, min(cell_len(name), max(1, room - 1)))
    before = (room - cell_len(short)) // 2
    return set_cell_size(" " * before + short, room)


def _value(value: float, axis: Axis | None = None) -> str:
    """A time in the zone of whoever reads it."""
    if axis is not None and axis.kind == "time":
        return time.strftime("%H:%M:%S", time.localtime(value))
    return format_amount(value)


def _legend(plot: Plot) -> Text:
    if len(plot.series) + len(plot.levels) < 2:
        return Text("")
    said = [
        Text.assemble(
            (_FILLS[n % len(_FILLS)] if each.drawn == "area" else _SIGNS[each.drawn], STYLES[each.role]),
            f" {each.name}",
        )
        for n, each in enumerate(plot.series)
    ]
    said += [Text.assemble(("⠂⠂", STYLES["level"]), f" {level.name}") for level in plot.levels]
    return Text("   ").join(said)
