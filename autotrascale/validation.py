"""Every file and request comes in through here: text → plain data → a validated, frozen type.

The types are the domain's own dataclasses: their annotations are the schema, their `__post_init__` the laws. Unknown
and repeated keys are refused, and nothing is coerced ("3" is not 3). The first thing wrong is said in one line, with
the rest of what is wrong by name. What is read is bounded: the bytes, the values, how deep they nest, each number.
"""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Hashable, Iterable
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast, get_args, get_type_hints

import yaml
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from autotrascale.domain import checks
from autotrascale.domain.errors import InputError

T = TypeVar("T")

MAX_BYTES = 64 * 2**20  # of one file
MAX_VALUES = 1_000_000  # in it, aliases counted as often as they are used: ten of them can say a thousand million
MAX_DEPTH = 100
MOST_SAID = 5  # other things wrong, beside the first

_STRICT = ConfigDict(extra="forbid", strict=True)
_UNKNOWN = ("unexpected_keyword_argument", "extra_forbidden")


def read_file(path: Path | str, kind: type[T]) -> T:
    """A YAML or JSON file as `kind`; the errors start with the file's name."""
    return validate(read_plain(path), kind, place=str(path))


def read_plain(path: Path | str) -> object:
    """A YAML or JSON file as plain data, within bounds."""
    path = Path(path)
    place = str(path)
    text = read_text(path)
    if path.suffix == ".json":
        return parse_json(text, place)
    return _read_yaml(text, place)


def read_yaml(text: str, kind: type[T], *, place: str) -> T:
    """YAML as `kind`; `place` is where it came from, or is to go."""
    return validate(_read_yaml(text, place), kind, place=place)


def _read_yaml(text: str, place: str) -> object:
    try:
        data = _parse_yaml(text, place)
    except RecursionError:
        raise _too_deep(place) from None
    check_size(data, place)
    return data


def read_text(path: Path, most: int = MAX_BYTES) -> str:
    """So much of it at most: a device may give bytes for ever."""
    place = str(path)
    try:
        with path.open("rb") as file:
            content = file.read(most + 1)
    except (OSError, ValueError) as error:  # the latter: a path that cannot be one
        seen = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(place, "cannot be read", seen=seen, remedy="check the path") from None
    if len(content) > most:
        raise InputError(place, f"is larger than {most:,} bytes", remedy="check that it is what it should be")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError(place, "is not UTF-8 text", remedy="save it as UTF-8") from None


def parse_json(text: str | bytes, place: str, most_values: int = MAX_VALUES) -> object:
    """Plain data, within bounds. `place` is where it came from, for the error's first words."""
    try:
        data = _parse_json(text, place)
    except RecursionError:
        raise _too_deep(place) from None
    check_size(data, place, most_values)
    return data


def check_size(data: object, place: str, most_values: int = MAX_VALUES) -> None:
    """How many values it holds, how deep, and whether each number is one that things are measured in."""
    try:
        _count(data, {}, 0, most_values)
    except _TooLargeError:
        raise InputError(place, f"says more than {most_values} things", remedy="spare the aliases") from None
    except _TooDeepError:
        raise _too_deep(place) from None
    except _NumberError as error:
        raise InputError(
            f"{place}: {'.'.join(reversed(error.path))}",
            f"is 0 or between {checks.SMALLEST:g} and {checks.LARGEST:g} in size, as all that is measured",
            seen=error.seen,
            remedy="check its unit",
        ) from None


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
        raise _explain(error, place, kind) from None


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


def _explain(error: ValidationError, place: str, kind: Any) -> InputError:
    wrong = error.errors(include_url=False)
    first, *others = _with_their_spelling(wrong, kind)
    first_error, remedy = first
    said = "; ".join(f"{_path(each)}: {_in_words(each)[0]}" for each, _ in others[:MOST_SAID])
    more = f" – also {said}" + (f", and {len(others) - MOST_SAID} more" if len(others) > MOST_SAID else "")
    path, more = _path(first_error), more if others else ""
    cause = first_error.get("ctx", {}).get("error")
    if isinstance(cause, InputError):
        inner = cause.under(f"{path}." if path else "")
        return InputError(f"{place}: {inner.place}", inner.problem, seen=inner.seen, remedy=inner.remedy + more)
    problem, usual = _in_words(first_error)
    seen = {} if first_error["type"] == "missing" else {"seen": first_error["input"]}
    return InputError(f"{place}: {path}" if path else place, problem, remedy=(remedy or usual) + more, **seen)


def _path(error: ErrorDetails) -> str:
    return ".".join(str(part) for part in error["loc"])


def _with_their_spelling(wrong: list[ErrorDetails], kind: Any) -> list[tuple[ErrorDetails, str]]:
    """Misspelt keys first, each with the key that it is likely to stand for: what seems to be missing beside it is then
    no mistake of its own."""
    found: list[tuple[ErrorDetails, str]] = []
    meant: set[tuple[Any, ...]] = set()
    for each in (each for each in wrong if each["type"] in _UNKNOWN):
        *within, key = each["loc"]
        missing = [e["loc"][-1] for e in wrong if e["type"] == "missing" and list(e["loc"][:-1]) == within]
        known = [str(name) for name in missing] + _keys_at(kind, within)
        nearest = next(iter(difflib.get_close_matches(str(key), known, n=1, cutoff=0.7)), None)
        if nearest is not None:
            found.append((each, f"did you mean {nearest}?"))
            meant |= {(*within, nearest)} if nearest in missing else set()
    spelt = [each for each, _ in found]
    rest = [
        (each, "") for each in wrong if each not in spelt and (each["type"] != "missing" or each["loc"] not in meant)
    ]
    return found + rest


def _keys_at(kind: Any, path: list[Any]) -> list[str]:
    """The keys that a mapping at this place may have. A part of the path that is no field is the name of an entry, or
    of one of several kinds, and leads no further down."""
    here = _outermost(kind)
    for part in path:
        below: list[Any] = []
        for each in here:
            hints = get_type_hints(each)
            below += _outermost(hints[part]) if part in hints else [each]
        here = below
    return [field.name for each in here for field in fields(each)]


def _outermost(hint: Any) -> list[Any]:
    """The dataclasses that an annotation mentions: `Mapping[str, Operator]`, `A | None`."""
    if is_dataclass(hint):
        return [hint]
    return [
        found for argument in get_args(hint) if not isinstance(argument, str | int) for found in _outermost(argument)
    ]


def _in_words(error: ErrorDetails) -> tuple[str, str]:
    match error["type"]:
        case "missing":
            return "is missing", "add it"
        case kind if kind in _UNKNOWN:
            return "is not a known key", "remove it or correct its spelling"
        case "literal_error":
            return "is not one of the allowed values", f"use {error['ctx']['expected']}"
        case "json_invalid":
            return "holds a number or a character that JSON cannot carry", "leave it out when it is unknown"
        case _:
            return error["msg"][0].lower() + error["msg"][1:], "correct it"


def _parse_json(text: str | bytes, place: str) -> object:
    try:
        return json.loads(text, object_pairs_hook=_no_repeats)
    except UnicodeDecodeError:
        raise InputError(place, "is not UTF-8 text", remedy="send it as UTF-8") from None
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


def _count(value: object, known: dict[int, int], depth: int, most: int) -> int:
    """How many values it holds, written out. What stands in several places is counted once and added often."""
    if isinstance(value, float):
        if value and not checks.SMALLEST <= abs(value) <= checks.LARGEST and math.isfinite(value):
            raise _NumberError(value)
        return 1
    if not isinstance(value, dict | list):
        return 1
    if depth >= MAX_DEPTH:
        raise _TooDeepError
    if id(value) not in known:
        total = 1
        for name, each in value.items() if isinstance(value, dict) else enumerate(value):
            try:
                total += _count(each, known, depth + 1, most)
            except _NumberError as error:
                error.path.append(str(name))
                raise
            if total > most:
                raise _TooLargeError
        known[id(value)] = total
    return known[id(value)]


def _too_deep(place: str) -> InputError:
    return InputError(place, "is nested too deeply", remedy="correct it")


class _TooLargeError(Exception):
    """A file that would fill the memory."""


class _TooDeepError(Exception):
    """One that would exhaust the stack of whoever walks through it."""


class _NumberError(Exception):
    """A number that only arithmetic knows. What is not finite is the schema's to refuse, and so are whole numbers."""

    def __init__(self, seen: float) -> None:
        self.seen = seen
        self.path: list[str] = []  # from the inside out


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
