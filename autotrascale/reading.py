"""Every file and request comes in through here: text → plain data → a validated, frozen type.

The types are the domain's own dataclasses: their annotations are the schema, their `__post_init__` the laws. Unknown
and repeated keys are refused, and nothing is coerced ("3" is not 3). The first thing wrong is said in one line.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable
from dataclasses import is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast, get_args, get_type_hints

import yaml
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from autotrascale.domain.errors import InputError

T = TypeVar("T")

MOST_VALUES = (
    1_000_000  # in one file, aliases counted as often as they are used: ten of them can say a thousand million
)

_STRICT = ConfigDict(extra="forbid", strict=True)


def read_file(path: Path | str, kind: type[T]) -> T:
    """A YAML or JSON file as `kind`; the errors start with the file's name."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(str(path), "cannot be read", seen=error.strerror, remedy="check the path") from None
    except UnicodeDecodeError:
        raise InputError(str(path), "is not UTF-8 text", remedy="save it as UTF-8") from None
    parse = _parse_json if path.suffix == ".json" else _parse_yaml
    try:
        data = parse(text, str(path))
        _count(data, {})
    except RecursionError:
        raise InputError(str(path), "is nested too deeply", remedy="correct it") from None
    except _TooLargeError:
        raise InputError(str(path), f"says more than {MOST_VALUES} things", remedy="spare the aliases") from None
    return validate(data, kind, place=str(path))


def validate(data: object, kind: type[T], *, place: str) -> T:
    """Plain data as `kind`. `place` is where the data came from, for the error's first words."""
    if not isinstance(data, dict):
        raise InputError(
            place, "must hold a mapping of names to values", seen=data, remedy="see the examples in configs/"
        )
    try:
        # By way of JSON: lists become tuples, and strictness is the one that JSON readers expect.
        value: T = _adapter(cast(Hashable, kind)).validate_json(json.dumps(data, default=str))
        return value
    except ValidationError as error:
        raise _explain(error, place) from None


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    for part in _dataclasses_within(kind, set()):
        part.__pydantic_config__ = _STRICT
    return TypeAdapter(kind)


def _dataclasses_within(kind: Any, seen: set[Any]) -> Iterable[Any]:
    """`kind` and every dataclass its annotations mention: each must refuse unknown keys."""
    if kind in seen:
        return
    if is_dataclass(kind):
        seen.add(kind)
        yield kind
        for hint in get_type_hints(kind).values():
            yield from _dataclasses_within(hint, seen)
    for argument in get_args(kind):
        if not isinstance(argument, str | int):
            yield from _dataclasses_within(argument, seen)


def _explain(error: ValidationError, place: str) -> InputError:
    first, *others = error.errors(include_url=False)
    more = f" (and {len(others)} more such)" if others else ""
    path = ".".join(str(part) for part in first["loc"])
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, InputError):
        inner = cause.under(f"{path}." if path else "")
        return InputError(f"{place}: {inner.place}", inner.problem, seen=inner.seen, remedy=inner.remedy + more)
    problem, remedy = _in_words(first)
    seen = {} if first["type"] == "missing" else {"seen": first["input"]}
    return InputError(f"{place}: {path}" if path else place, problem, remedy=remedy + more, **seen)


def _in_words(error: ErrorDetails) -> tuple[str, str]:
    match error["type"]:
        case "missing":
            return "is missing", "add it"
        case "unexpected_keyword_argument" | "extra_forbidden":
            return "is not a known key", "remove it or correct its spelling"
        case "literal_error":
            return "is not one of the allowed values", f"use {error['ctx']['expected']}"
        case "json_invalid":
            return "holds a number or a character that JSON cannot carry", "leave it out when it is unknown"
        case _:
            return error["msg"][0].lower() + error["msg"][1:], "correct it"


def _parse_json(text: str, place: str) -> object:
    try:
        return json.loads(text, object_pairs_hook=_no_repeats)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{place}:{error.lineno}:{error.colno}", f"is not JSON: {error.msg}", remedy="correct it"
        ) from None
    except _RepeatedKeyError as error:
        raise InputError(place, "says the same key twice", seen=str(error), remedy="keep one of them") from None
    except ValueError as error:
        said = str(error).partition(":")[0]
        raise InputError(place, f"holds a number that cannot be read: {said}", remedy="correct it") from None


def _parse_yaml(text: str, place: str) -> object:
    try:
        return yaml.load(text, _Loader)
    except _RepeatedKeyError as error:
        raise InputError(place, "says the same key twice", seen=str(error), remedy="keep one of them") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{place}:{mark.line + 1}:{mark.column + 1}" if mark else place
        raise InputError(where, f"is not YAML: {error.problem}", remedy="correct it") from None
    except yaml.YAMLError as error:
        raise InputError(place, f"is not YAML: {error}".splitlines()[0], remedy="correct it") from None
    except (ValueError, TypeError) as error:  # a date of no calendar, a number of thousands of digits
        said = str(error).partition(": value has")[0]
        raise InputError(place, f"holds a value that cannot be read: {said}", remedy="correct it") from None


def _count(value: object, known: dict[int, int]) -> int:
    """How many values it holds, written out. What stands in several places is counted once and added often."""
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in known:
        inner = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_count(each, known) for each in inner)
        if known[id(value)] > MOST_VALUES:
            raise _TooLargeError
    return known[id(value)]


class _TooLargeError(Exception):
    """A file that would fill the memory."""


class _RepeatedKeyError(Exception):
    """JSON and YAML readers keep the last of two equal keys and say nothing; we do not."""


def _no_repeats(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        names = [name for name, _ in pairs]
        raise _RepeatedKeyError(next(str(name) for name in names if names.count(name) > 1))
    return mapping


class _Loader(yaml.SafeLoader):
    """PyYAML's safe reader, made to refuse a repeated key."""


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    return _no_repeats(loader.construct_pairs(node, deep=True))


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)
