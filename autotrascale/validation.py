"""Read and validate files and requests: text → plain data → a validated, frozen type.

The types are dataclasses: their annotations are the schema, and `__post_init__` checks the rest. Unknown and repeated
keys are refused, and nothing is coerced ("3" is not 3). The first mistake becomes a message of one line, which also
lists other mistakes. Bytes, values, nesting depth and the size of numbers are limited.
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

MAX_BYTES = 64 * 2**20  # in a file
MAX_VALUES = 1_000_000  # in a file; YAML aliases count each time they are used, as a few of them can expand to billions
MAX_DEPTH = 100
MAX_MORE_MISTAKES = 5  # listed after the first mistake

_STRICT = ConfigDict(extra="forbid", strict=True)
_UNKNOWN = ("unexpected_keyword_argument", "extra_forbidden")


def read_file(path: Path | str, kind: type[T]) -> T:
    """Return a YAML or JSON file as `kind`; an `InputError` starts with the file's name."""
    return validate(read_plain(path), kind, place=str(path))


def read_plain(path: Path | str) -> object:
    """Return a YAML or JSON file as plain data, within the limits."""
    path = Path(path)
    place = str(path)
    text = read_text(path)
    if path.suffix == ".json":
        return parse_json(text, place)
    return _read_yaml(text, place)


def read_yaml(text: str, kind: type[T], *, place: str) -> T:
    """Return YAML text as `kind`. `place` is the origin of the text, for error messages."""
    return validate(_read_yaml(text, place), kind, place=place)


def _read_yaml(text: str, place: str) -> object:
    try:
        data = _parse_yaml(text, place)
    except RecursionError:
        raise _too_deep_error(place) from None
    check_size(data, place)
    return data


def read_text(path: Path, most: int = MAX_BYTES) -> str:
    """Return a UTF-8 file of at most `most` bytes, default `MAX_BYTES`. A device may supply bytes without end."""
    place = str(path)
    try:
        with path.open("rb") as file:
            content = file.read(most + 1)
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        seen = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(place, "cannot be read", seen=seen, remedy="check the path") from None
    if len(content) > most:
        raise InputError(place, f"is larger than {most:,} bytes", remedy="check the path")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError(place, "is not UTF-8 text", remedy="save it as UTF-8") from None


def parse_json(text: str | bytes, place: str, most_values: int = MAX_VALUES) -> object:
    """Return JSON text as plain data, within the limits. `place` is the origin of the text, for error messages."""
    try:
        data = _parse_json(text, place)
    except RecursionError:
        raise _too_deep_error(place) from None
    check_size(data, place, most_values)
    return data


def check_size(data: object, place: str, most_values: int = MAX_VALUES) -> None:
    """Check the number of values, the nesting depth, and the size of each number."""
    try:
        _count_values(data, {}, 0, most_values)
    except _TooLargeError:
        raise InputError(place, f"holds more than {most_values} values", remedy="use fewer aliases") from None
    except _TooDeepError:
        raise _too_deep_error(place) from None
    except _NumberError as error:
        raise InputError(
            f"{place}: {'.'.join(reversed(error.path))}",
            f"must be 0, or between {checks.SMALLEST:g} and {checks.LARGEST:g} in size",
            seen=error.seen,
            remedy="check its unit",
        ) from None


def validate(data: object, kind: type[T], *, place: str) -> T:
    """Return plain data as `kind`. `place` is the origin of the data, for error messages."""
    if not isinstance(data, dict):
        raise InputError(
            place, "must hold a mapping of names to values", seen=data, remedy="see the examples in configs/"
        )
    try:
        # Through JSON, lists become tuples, and pydantic's strict mode accepts what JSON can express.
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
    """Yield `kind` and every dataclass in its annotations."""
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
    """Return the first mistake as an `InputError` whose remedy also lists other mistakes."""
    (first, suggestion), *others = _add_suggestions(error.errors(include_url=False), kind)
    more = ""
    if others:
        listed = [f"{_format_path(each)}: {_describe(each)[0]}" for each, _ in others[:MAX_MORE_MISTAKES]]
        more = " – also " + "; ".join(listed)
        more += f", and {len(others) - MAX_MORE_MISTAKES} more" if len(others) > MAX_MORE_MISTAKES else ""
    path = _format_path(first)
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, InputError):
        inner = cause.with_prefix(f"{path}." if path else "")
        return InputError(f"{place}: {inner.place}", inner.problem, seen=inner.seen, remedy=inner.remedy + more)
    problem, remedy = _describe(first)
    seen = {} if first["type"] == "missing" else {"seen": first["input"]}
    return InputError(f"{place}: {path}" if path else place, problem, remedy=(suggestion or remedy) + more, **seen)


def _format_path(error: ErrorDetails) -> str:
    return ".".join(str(part) for part in error["loc"])


def _add_suggestions(wrong: list[ErrorDetails], kind: Any) -> list[tuple[ErrorDetails, str]]:
    """Return the mistakes with a suggestion for each, misspelt keys first.

    A required key that is only misspelt is not reported as missing.
    """
    found: list[tuple[ErrorDetails, str]] = []
    meant: set[tuple[Any, ...]] = set()
    for each in (each for each in wrong if each["type"] in _UNKNOWN):
        *within, key = each["loc"]
        missing = [e["loc"][-1] for e in wrong if e["type"] == "missing" and list(e["loc"][:-1]) == within]
        known = [str(name) for name in missing] + _list_keys(kind, within)
        nearest = next(iter(difflib.get_close_matches(str(key), known, n=1, cutoff=0.7)), None)
        if nearest is not None:
            found.append((each, f"did you mean {nearest}?"))
            meant |= {(*within, nearest)} if nearest in missing else set()
    spelt = [each for each, _ in found]
    rest = [
        (each, "") for each in wrong if each not in spelt and (each["type"] != "missing" or each["loc"] not in meant)
    ]
    return found + rest


def _list_keys(kind: Any, path: list[Any]) -> list[str]:
    """Return the keys that a mapping at `path` may have.

    A part of the path that is no field is the name of an entry, or of one of several kinds.
    """
    here = _outermost_dataclasses(kind)
    for part in path:
        below: list[Any] = []
        for each in here:
            hints = get_type_hints(each)
            below += _outermost_dataclasses(hints[part]) if part in hints else [each]
        here = below
    return [field.name for each in here for field in fields(each)]


def _outermost_dataclasses(hint: Any) -> list[Any]:
    """Return the outermost dataclasses in an annotation such as `Mapping[str, Operator]` or `A | None`."""
    if is_dataclass(hint):
        return [hint]
    return [
        found
        for argument in get_args(hint)
        if not isinstance(argument, str | int)
        for found in _outermost_dataclasses(argument)
    ]


def _describe(error: ErrorDetails) -> tuple[str, str]:
    match error["type"]:
        case "missing":
            return "is missing", "add it"
        case kind if kind in _UNKNOWN:
            return "is not a known key", "remove it or correct its spelling"
        case "literal_error":
            return "is not one of the allowed values", f"use {error['ctx']['expected']}"
        case "json_invalid":
            return "holds a number or a character that JSON cannot represent", "leave it out when it is unknown"
        case _:
            return error["msg"][0].lower() + error["msg"][1:], "correct it"


def _parse_json(text: str | bytes, place: str) -> object:
    try:
        return json.loads(text, object_pairs_hook=_refuse_repeats)
    except UnicodeDecodeError:
        raise InputError(place, "is not UTF-8 text", remedy="send it as UTF-8") from None
    except json.JSONDecodeError as error:
        raise InputError(
            f"{place}:{error.lineno}:{error.colno}", f"is not JSON: {error.msg}", remedy="correct it"
        ) from None
    except _RepeatedKeyError as error:
        raise InputError(place, "repeats a key", seen=str(error), remedy="keep one") from None
    except ValueError as error:
        said = str(error).partition(":")[0]
        raise InputError(place, f"holds a number that cannot be read: {said}", remedy="correct it") from None


def _parse_yaml(text: str, place: str) -> object:
    try:
        return yaml.load(text, _Loader)
    except _RepeatedKeyError as error:
        raise InputError(place, "repeats a key", seen=str(error), remedy="keep one") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{place}:{mark.line + 1}:{mark.column + 1}" if mark else place
        raise InputError(where, f"is not YAML: {error.problem}", remedy="correct it") from None
    except yaml.YAMLError as error:
        raise InputError(place, f"is not YAML: {error}".splitlines()[0], remedy="correct it") from None
    except (ValueError, TypeError) as error:  # an impossible date, or a number of thousands of digits
        said = str(error).partition(": value has")[0]
        raise InputError(place, f"holds a value that cannot be read: {said}", remedy="correct it") from None


def _count_values(value: object, known: dict[int, int], depth: int, most: int) -> int:
    """Return the number of values in `value`. A shared part is counted once and added for each use."""
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
                total += _count_values(each, known, depth + 1, most)
            except _NumberError as error:
                error.path.append(str(name))
                raise
            if total > most:
                raise _TooLargeError
        known[id(value)] = total
    return known[id(value)]


def _too_deep_error(place: str) -> InputError:
    return InputError(place, "is nested too deeply", remedy="correct it")


class _TooLargeError(Exception):
    """The data has too many values."""


class _TooDeepError(Exception):
    """The data is nested so deeply that walking it would exhaust the stack."""


class _NumberError(Exception):
    """A number is too small or too large. The schema checks integers and numbers that are not finite."""

    def __init__(self, seen: float) -> None:
        self.seen = seen
        self.path: list[str] = []  # innermost key first


class _RepeatedKeyError(Exception):
    """A key is repeated. Without this check, JSON and YAML readers silently keep the last value."""


def _refuse_repeats(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        names = [name for name, _ in pairs]
        raise _RepeatedKeyError(next(str(name) for name in names if names.count(name) > 1))
    return mapping


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, which refuses a repeated key."""


def _construct_mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    return _refuse_repeats(loader.construct_pairs(node, deep=True))


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _construct_mapping)
