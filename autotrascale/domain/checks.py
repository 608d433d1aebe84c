"""Checks of numbers, shared by all validated types. Each raises `InputError`, which names the place it is given."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real

from autotrascale.domain.errors import InputError

# Numbers outside this range are mistakes; ratios and products of a few numbers inside it stay finite.
SMALLEST, LARGEST = 1e-12, 1e18


def non_negative(place: str, value: float) -> None:
    """Check that `value` is a finite number of at least 0."""
    _check_finite(place, value)
    if value < 0:
        raise InputError(place, "must not be negative", seen=value, remedy="give zero or more")


def positive(place: str, value: float) -> None:
    """Check that `value` is a finite number above 0."""
    _check_finite(place, value)
    if value <= 0:
        raise InputError(place, "must be above zero", seen=value, remedy="give a number greater than 0")


def positive_in_range(place: str, value: float) -> None:
    """Check that `value` lies between `SMALLEST` and `LARGEST`, so that calculations with it stay finite."""
    positive(place, value)
    if not SMALLEST <= value <= LARGEST:
        raise InputError(place, f"must lie between {SMALLEST:g} and {LARGEST:g}", seen=value, remedy="check its unit")


def share(place: str, value: float) -> None:
    """Check that `value` is a number in [0, 1]."""
    _check_finite(place, value)
    if not 0 <= value <= 1:
        raise InputError(place, "must lie between 0 and 1", seen=value, remedy="give a share of one")


def count(place: str, value: int, *, least: int = 1) -> None:
    """Check that `value` is an integer of at least `least`. True and 2.0 are refused."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InputError(place, "must be a whole number", seen=value, remedy=f"give an integer of {least} or more")
    if value < least:
        raise InputError(place, f"must be at least {least}", seen=value, remedy=f"give {least} or more")


def optional(check: Callable[[str, float], None], place: str, value: float | None) -> None:
    """Apply `check` unless `value` is None, which means "not known"."""
    if value is not None:
        check(place, value)


def _is_number(value: object) -> bool:
    kind = type(value)  # an instance check with an abstract class is slow, so the usual types are tried first
    return kind is float or kind is int or (isinstance(value, Real) and kind is not bool)


def _check_finite(place: str, value: float) -> None:
    if not _is_number(value):
        raise InputError(place, "must be a number", seen=value, remedy="give a finite number")
    if value != value or value in (math.inf, -math.inf):  # math.isfinite fails for integers beyond the largest float
        raise InputError(place, "must be finite", seen=value, remedy="leave it out when it is unknown")
