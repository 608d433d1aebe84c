"""Activities and messages as columns of numbers, for many windows at once.

    symbol   meaning                                                     unit, shape
    E        edges                                                       —
    tick     a microsecond: Spark's clocks have milliseconds             1 µs
    window   number of the edge's window, where edges were cut           whole number, [E]
    source   number of the timeline where the edge begins;               [E]
    target   … where it ends: the same timeline for an activity          [E]
    start    begin of the edge, end: its end                             ticks since 1970, or of its window, [E]
    kind     place in KINDS;  operator, instance: numbers, -1: none      [E]
    message  the edge leads from one timeline to another                 [E]

Ticks are whole numbers: equal lengths of paths must compare as equal, and sums of floats do not.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from autotrascale.analyze.critical.activities import Activity, ActivityTrace, Kind, Message
from autotrascale.analyze.progress_records import LATEST_MS
from autotrascale.domain.errors import InputError

Numbers = NDArray[np.int64]
KINDS = tuple(Kind)
WAITING, UNKNOWN = KINDS.index(Kind.waiting), KINDS.index(Kind.unknown)
NONE = -1
TICKS = 1000  # in a millisecond


@dataclass(frozen=True)
class Names:
    """The names of the numbered timelines and operators."""

    timelines: tuple[str, ...]
    operators: tuple[str, ...]


@dataclass(frozen=True)
class Edges:
    """Edges in columns, as in the table above."""

    source: Numbers
    target: Numbers
    start: Numbers
    end: Numbers
    kind: Numbers
    operator: Numbers
    instance: Numbers
    message: NDArray[np.bool_]
    window: Numbers

    def __len__(self) -> int:
        return len(self.source)

    def taken(self, which: NDArray[Any]) -> Self:
        """Return the edges at these places, or the edges for which `which` is true."""
        return replace(self, **{each.name: getattr(self, each.name)[which] for each in fields(self)})

    def moved(self, ticks: int) -> Self:
        """Return the edges moved to later times by `ticks`."""
        return replace(self, start=self.start + ticks, end=self.end + ticks)

    def joined(self, *others: Edges) -> Edges:
        """Return these edges and the edges of `others`."""
        parts = (self, *others)
        return Edges(*(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(self)))


def make_edges(trace: ActivityTrace) -> tuple[Edges, Names]:
    """Return a trace in columns, all of it in window 0. Raises `InputError` for an impossible time."""
    timelines, operators = _Numbering(), _Numbering()
    rows = [_activity(each, timelines, operators) for each in trace.activities]
    rows += [_message(each, timelines, operators) for each in trace.messages]
    columns = np.array(rows, dtype=np.int64).reshape(-1, 8).T
    source, target, start, end, kind, operator, instance, message = columns
    edges = Edges(source, target, start, end, kind, operator, instance, message.astype(bool), np.zeros_like(source))
    return edges, Names(timelines.names(), operators.names())


def cut_into_windows(edges: Edges, width: int) -> Edges:
    """Return every edge as far as it lies in each window of `width` ticks (Def. 10).

    Windows are counted from 1970, and times from the begin of their window. An edge that only touches a window has no
    time in it and is left out. A message without duration stays, except at the very begin of a window, where every
    path begins.
    """
    took_time = edges.end > edges.start
    edges = edges.taken(took_time | (edges.message & (edges.start % width > 0)))
    first = edges.start // width
    last = np.maximum(first, (edges.end - 1) // width)
    many = last - first + 1
    of = np.repeat(np.arange(len(edges)), many)
    window = np.arange(len(of)) - np.repeat(np.cumsum(many) - many, many) + first[of]
    apart = edges.taken(of)
    begins = window * width
    start, end = np.maximum(apart.start - begins, 0), np.minimum(apart.end - begins, width)
    return replace(apart, start=start, end=end, window=window)


def tick(ms: float) -> int:
    """Return milliseconds in ticks."""
    return round(ms * TICKS)


class _Numbering:
    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def of(self, name: str) -> int:
        return self._numbers.setdefault(name, len(self._numbers))

    def names(self) -> tuple[str, ...]:
        return tuple(self._numbers)


def _activity(one: Activity, timelines: _Numbering, operators: _Numbering) -> tuple[int, ...]:
    _check(one.timeline, one.start_ms, one.end_ms)
    at = timelines.of(one.timeline)
    operator = NONE if one.operator is None else operators.of(one.operator)
    instance = NONE if one.instance is None else one.instance
    return at, at, tick(one.start_ms), tick(one.end_ms), KINDS.index(one.kind), operator, instance, 0


def _message(one: Message, timelines: _Numbering, operators: _Numbering) -> tuple[int, ...]:
    _check(f"{one.source} to {one.target}", one.sent_ms, one.received_ms)
    operator = NONE if one.operator is None else operators.of(one.operator)
    source, target = timelines.of(one.source), timelines.of(one.target)
    return source, target, tick(one.sent_ms), tick(one.received_ms), KINDS.index(one.kind), operator, NONE, 1


def _check(place: str, start_ms: float, end_ms: float) -> None:
    if not 0 <= start_ms <= end_ms <= LATEST_MS:
        seen, remedy = f"{start_ms} to {end_ms} ms", "give times since 1970 in ms, of one clock"
        raise InputError(f"timeline {place}", "ends before it begins, or at no time", seen=seen, remedy=remedy)
