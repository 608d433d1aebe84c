"""Sums and quotients of numbers that may be unknown."""

from __future__ import annotations

from collections.abc import Iterable


def sum_or_none(numbers: Iterable[int | None]) -> int | None:
    """Return the sum, None as soon as one part is unknown."""
    total = 0
    for number in numbers:
        if number is None:
            return None
        total += number
    return total


def divide_or_none(unit: float, number: float | None) -> float | None:
    """Return `number` in units of `unit`, None where it is unknown."""
    return None if number is None else number / unit
