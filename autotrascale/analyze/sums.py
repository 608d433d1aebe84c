"""Sums and quotients of numbers of which some may not be known."""

from __future__ import annotations

from collections.abc import Iterable


def sum_or_none(numbers: Iterable[int | None]) -> int | None:
    """None as soon as one part is not known."""
    total = 0
    for number in numbers:
        if number is None:
            return None
        total += number
    return total


def divide_or_none(unit: float, number: float | None) -> float | None:
    return None if number is None else number / unit
