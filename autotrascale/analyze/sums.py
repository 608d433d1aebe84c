"""Numbers that may be unknown: sums, quotients, and the form that they have in events."""

from __future__ import annotations

from collections.abc import Iterable

from autotrascale.monitor.eventlog.events import UNKNOWN


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


def none_if_unknown(number: int) -> int | None:
    """Return None for a number that is not in the line of a task."""
    return None if number == UNKNOWN else number
