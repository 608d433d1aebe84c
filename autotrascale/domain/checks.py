"""The few checks on numbers that every validated type needs, each naming the place it was asked at."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real

from autotrascale.domain.errors import InputError

# What users write lies within these, or is a mistake: ratios and products of any few such numbers are numbers still.
SMALLEST, LARGEST = 1e-12, 1e18


def non_negative(place: str, value: float) -> None:
    _finite(place, value)
    if value < 0:
        raise InputError(place, "must not be negative", seen=value, remedy="give zero or more")


def positive(place: str, value: float) -> None:
    _finite(place, value)
    if value <= 0:
        raise InputError(place, "must be above zero", seen=value, remedy="give a number greater than 0")


def positive_in_range(place: str, value: float) -> None:
    """Above zero, and no number that only arithmetic knows: 5e-324 records a second has no logarithm worth having."""
    positive(place, value)
    if not SMALLEST <= value <= LARGEST:
        raise InputError(place, f"must lie between {SMALLEST:g} and {LARGEST:g}", seen=value, remedy="check its unit")


def share(place: str, value: float) -> None:
    """A number in [0, 1]."""
    _finite(place, value)
    if not 0 <= value <= 1:
        raise InputError(place, "must lie between 0 and 1", seen=value, remedy="give a share of one")


def count(place: str, value: int, *, least: int = 1) -> None:
    """A whole number, `least` or more. True and 2.0 are not whole numbers here: they are mistakes."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InputError(place, "must be a whole number", seen=value, remedy=f"give an integer of {least} or more")
    if value < least:
        raise InputError(place, f"must be at least {least}", seen=value, remedy=f"give {least} or more")


def optional(check: Callable[[str, float], None], place: str, value: float | None) -> None:
    """None means "not known", which is fine wherever this is asked."""
    if value is not None:
        check(place, value)


def _is_number(value: object) -> bool:
    kind = type(value)  # the common kinds first: an abstract class takes its time to say what belongs to it
    return kind is float or kind is int or (isinstance(value, Real) and kind is not bool)


def _finite(place: str, value: float) -> None:
    if not _is_number(value):
        raise InputError(place, "must be a number", seen=value, remedy="give a finite number")
    if value != value or value in (math.inf, -math.inf):  # of whole numbers too, which may be beyond any float
        raise InputError(place, "must be finite", seen=value, remedy="leave it out when it is unknown")
