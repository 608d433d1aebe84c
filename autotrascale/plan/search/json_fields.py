"""Checks for the fields of a JSON document, each naming the place of a mistake."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from autotrascale.domain.errors import InputError

_MAX_DIGITS = 18  # Python refuses to read a whole number of thousands of digits
_EXPORT_AGAIN = "export the model again"


def parse_model_json(text: str) -> Any:
    """Return the plain data of a model's JSON text; raise `InputError` with line and column where it is not JSON."""
    try:
        return json.loads(text, parse_int=_read_whole_number)
    except json.JSONDecodeError as error:
        place = f"model:{error.lineno}:{error.colno}"
        raise InputError(place, f"is not JSON: {error.msg}", remedy=_EXPORT_AGAIN) from None
    except RecursionError:
        raise InputError("model", "is nested too deeply", remedy=_EXPORT_AGAIN) from None


def check_keys(data: Any, place: str, *, required: Sequence[str], optional: Sequence[str]) -> dict[str, Any]:
    """Return `data` as a dictionary; raise `InputError` for an unknown or missing key."""
    if not isinstance(data, Mapping):
        raise InputError(place, "must hold a mapping of names to values", seen=data, remedy=_EXPORT_AGAIN)
    for name in data:
        if name not in required and name not in optional:
            remedy = "remove it, or use the program that wrote it"
            raise InputError(f"{place}.{name}", "is not a known key", remedy=remedy)
    for name in required:
        if name not in data:
            raise InputError(f"{place}.{name}", "is missing", remedy=_EXPORT_AGAIN)
    return dict(data)


def read_list(values: Mapping[str, Any], name: str, place: str) -> list[Any]:
    """Return the list at `name`, empty when the key is absent."""
    items = values.get(name, [])
    if not isinstance(items, list):
        raise InputError(f"{place}.{name}", "must be a list", seen=items, remedy=_EXPORT_AGAIN)
    return items


def read_numbers(value: Any, place: str) -> tuple[Any, ...]:
    """Return a list of numbers as a tuple."""
    if not isinstance(value, list) or any(isinstance(x, bool) or not isinstance(x, int | float) for x in value):
        raise InputError(place, "must be a list of numbers", seen=value, remedy=_EXPORT_AGAIN)
    return tuple(value)


def _read_whole_number(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        problem = "holds a whole number that is too large"
        raise InputError("model", problem, seen=digits[:20], remedy=_EXPORT_AGAIN)
    return int(digits)
