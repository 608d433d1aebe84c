"""What the papers print, each point with its source, and whether a simulated job was made to show it.

A point that is an `input` says nothing when it comes out again: it is called so wherever it is shown.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypedDict

from experiments.shared.documents import table

FILE = Path(__file__).with_name("published.json")


class Point(TypedDict):
    name: str
    value: Any
    unit: str
    source: str
    used: Literal["input", "compared"]


@cache
def points() -> dict[str, Point]:
    found: list[Point] = json.loads(FILE.read_text(encoding="utf-8"))
    return {point["name"]: point for point in found}


def published(name: str) -> Any:
    return points()[name]["value"]


def inputs(*names: str) -> str:
    """A table of the points that the simulated jobs of an experiment were made to show."""
    chosen = [points()[name] for name in names if points()[name]["used"] == "input"]
    return table(("input", "value", "from"), [(p["name"], _said(p), p["source"]) for p in chosen])


def _said(point: Point) -> str:
    return f"{_value(point['value'])} {point['unit']}".strip()


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_value(each)}" for name, each in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"({', '.join(_value(each) for each in value)})"
    return f"{value:,g}" if isinstance(value, float) else f"{value:,}" if type(value) is int else str(value)
