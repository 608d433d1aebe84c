"""Pieces of HTML: a box with a title, a table, a chart. Self-contained, without scripts, and with escaped text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT, LEFT, FOOT = 560, 180, 64, 24
_TICKS = (1.0, 2.0, 5.0)
_MAX_ROWS = 40  # of one table
_CELL = "padding:2px 10px;border-bottom:1px solid #ddd;color:inherit;text-align:"


@dataclass(frozen=True)
class ChartPoint:
    """A point of a chart, with the text of its tooltip. A point without a value is a cross at the upper edge."""

    x: int
    y: float | None
    words: str
    best: bool = False


def render_box(title: str, *parts: str) -> str:
    head = f'<div style="font-weight:600;margin-bottom:4px">{escape(title)}</div>'
    return f'<div style="font-family:sans-serif;font-size:13px;max-width:60em">{head}{"".join(parts)}</div>'


def render_line(text: str) -> str:
    return f'<div style="margin:4px 0">{escape(text)}</div>' if text else ""


def render_list(texts: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(text)}</li>" for text in texts)
    return f'<ul style="margin:4px 0;padding-left:20px">{items}</ul>' if items else ""


def render_table(columns: Sequence[str], rows: Sequence[Sequence[object]], strong: int | None = None) -> str:
    """Return a table, cut after 40 rows. Columns of numbers are aligned right; `strong` is the number of a bold row."""
    shown, left_out = rows[:_MAX_ROWS], len(rows) - _MAX_ROWS
    right = [bool(rows) and all(isinstance(row[i], int | float) for row in rows) for i in range(len(columns))]
    head = "".join(_cell("th", column, each) for column, each in zip(columns, right, strict=True))
    body = "".join(
        f'<tr style="font-weight:{600 if number == strong else 400}">'
        + "".join(_cell("td", value, each) for value, each in zip(row, right, strict=True))
        + "</tr>"
        for number, row in enumerate(shown)
    )
    more = render_line(f"… and {left_out} more") if left_out > 0 else ""
    return f'<table style="border-collapse:collapse;margin:4px 0;font-size:13px"><tr>{head}</tr>{body}</table>{more}'


def render_chart(points: Sequence[ChartPoint], limit: float | None, unit: str, caption: str) -> str:
    """Return an SVG of values in order, with a line at `limit`. "" without a value."""
    values = [point.y for point in points if point.y is not None] + ([] if limit is None else [limit])
    if not points or not values:
        return ""
    top = _above(max(values))
    high = HEIGHT - FOOT - 10
    last = max(point.x for point in points)
    step = (WIDTH - LEFT - 20) / max(1, last)

    def at(value: float) -> float:
        return 10 + high * (1 - value / top)

    parts = [_level(at(value), f"{value:g} {unit}") for value in (0.0, top / 2, top)]
    if limit is not None:
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH}" y1="{at(limit):.1f}" y2="{at(limit):.1f}" stroke="#c33"'
            ' stroke-dasharray="5 4"/>'
        )
    parts += [_mark(LEFT + step * point.x, at(top if point.y is None else point.y), point) for point in points]
    numbers = [point.x for point in points if point.x % max(1, round(last / 10)) == 0]
    parts += [_text(LEFT + step * x, HEIGHT - 6, str(x), "middle") for x in dict.fromkeys(numbers)]
    frame = f'xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" style="max-width:100%"'
    drawing = f'<svg {frame} role="img" aria-label="{escape(caption)}">{"".join(parts)}</svg>'
    failed = any(point.y is None for point in points)
    return drawing + render_line(f"{caption}; crosses: failed or fell behind" if failed else caption)


def render_document(title: str, body: str) -> str:
    """Return a whole HTML document."""
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title><body>{body}</body></html>'
    )


def _cell(tag: str, value: object, right: bool) -> str:
    return f'<{tag} style="{_CELL}{"right" if right else "left"}">{escape(str(value))}</{tag}>'


def _mark(x: float, y: float, point: ChartPoint) -> str:
    said = f"<title>{escape(point.words)}</title>"
    if point.y is None:
        arms = f"M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8"
        return f'<path d="{arms}" stroke="#888" fill="none">{said}</path>'
    look = 'r="6" fill="#27a"' if point.best else 'r="4" fill="#8bd"'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" {look}>{said}</circle>'


def _level(y: float, text: str) -> str:
    return f'<line x1="{LEFT}" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>' + _text(
        LEFT - 6, y + 4, text, "end"
    )


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="11" fill="#777">{escape(text)}</text>'


def _above(value: float) -> float:
    """Return the least of 1, 2, 5, 10, 20 … that is not below `value`."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(tick * power for tick in (*_TICKS, 10.0) if tick * power >= value)
