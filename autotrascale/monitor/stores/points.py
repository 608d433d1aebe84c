"""A metric point: numbers measured of one thing at one time.

    symbol       meaning                                   unit, shape
    measurement  the kind of thing measured                a name
    tags         the thing that was measured               name → text; few different texts for each name
    fields       measured numbers                          name → finite number, at least one
    time         time of the measurement                   whole nanoseconds since 1970-01-01 UTC

Time identifies a point: a point that is written twice must be the same point. Whole nanoseconds keep it exact. A float
of seconds cannot hold them, a datetime stops at microseconds, and InfluxDB keeps exactly this number.

Within the rules on names and texts, InfluxDB and SQLite both return exactly the points that were written.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from numbers import Real

from autotrascale.domain import checks
from autotrascale.domain.errors import InputError

SECOND = 1_000_000_000  # nanoseconds
END_OF_TIME = 7_258_118_400 * SECOND  # the year 2200; InfluxDB's own end is in 2262
LONGEST_TAG = 1000  # characters; InfluxDB refuses whole series keys above 64 KiB

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
_RESERVED = frozenset({"time", "result", "table"})  # InfluxDB drops or shadows columns of these names
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class MetricPoint:
    """A metric point.

    Points with equal measurement, tags and time are merged: the last write of each field counts. So writing a point
    again changes nothing.

    >>> Point("operator", {"job": "wordcount", "operator": "map"}, {"parallelism": 3}, 1_700_000_000 * SECOND).fields
    {'parallelism': 3.0}
    """

    measurement: str
    tags: Mapping[str, str]
    fields: Mapping[str, float]
    time: int

    def __post_init__(self) -> None:
        check_name("measurement", self.measurement)
        check_tags("tags", self.tags)
        if not self.fields:
            raise InputError("fields", "is empty", remedy="give at least one number")
        for name, value in self.fields.items():
            check_name("fields", name)
            if name in self.tags:
                raise InputError(f"fields.{name}", "is also the name of a tag", remedy="rename the field or the tag")
            _check_number(f"fields.{name}", value)
        check_time("time", self.time)
        object.__setattr__(self, "tags", {name: self.tags[name] for name in sorted(self.tags)})
        # Always floats: InfluxDB takes a field's type from its first value, and then refuses any other type.
        object.__setattr__(self, "fields", {name: float(value) for name, value in self.fields.items()})


def check_name(place: str, name: str) -> None:
    """Refuse a name of a measurement, tag or field that a store cannot keep."""
    if not isinstance(name, str) or not _is_name(name):
        raise InputError(
            place,
            "is not a valid name",
            seen=name,
            remedy=f"use up to 64 letters, digits, '_', '.', '-', a letter first, and none of {sorted(_RESERVED)}",
        )


def check_tags(place: str, tags: Mapping[str, str]) -> None:
    """Refuse tags that a store cannot keep."""
    for name, text in tags.items():
        check_name(place, name)
        if not isinstance(text, str) or not _is_text(text):
            raise InputError(
                f"{place}.{name}",
                "is not a valid tag",
                seen=text,
                remedy=f"use 1 to {LONGEST_TAG} printable characters, no backslash",
            )


def check_time(place: str, time: int) -> None:
    """Refuse a time in nanoseconds that is negative or past the year 2200."""
    checks.count(place, time, least=0)
    if time >= END_OF_TIME:
        raise InputError(place, "is past the year 2200", seen=time, remedy="give nanoseconds since 1970")


def to_datetime(time: int) -> datetime:
    """Return a UTC datetime cut to the microsecond, for display. It is too coarse to be written back."""
    return _EPOCH + timedelta(microseconds=time // 1000)


# Names and texts repeat from window to window. The cache checks each of them once.
@lru_cache(maxsize=4096)
def _is_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None and name not in _RESERVED


@lru_cache(maxsize=4096)
def _is_text(text: str) -> bool:
    # A line break ends a point in InfluxDB's line protocol, and a half surrogate is not UTF-8: neither is printable.
    # A backslash escapes the next character there and cannot be escaped itself.
    return 0 < len(text) <= LONGEST_TAG and text.isprintable() and "\\" not in text


def _check_number(place: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputError(place, "must be a number", seen=value, remedy="leave it out when it is unknown")
    try:
        finite = math.isfinite(value)
    except OverflowError:  # a whole number above every float
        finite = False
    if not finite:
        raise InputError(place, "must be finite", seen=value, remedy="leave it out when it is unknown")
