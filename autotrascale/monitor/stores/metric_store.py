"""The port of metric stores: points in, answers to queries out.

Every store gives the same answers, to the nanosecond and for ties (`autotrascale.testing.metric_store_contract`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from dataclasses import field as given
from typing import Literal, get_args

from autotrascale.closeable import Closeable
from autotrascale.domain import checks
from autotrascale.domain.errors import InputError
from autotrascale.monitor.stores.points import MetricPoint, check_name, check_tags, check_time

Aggregate = Literal["mean", "min", "max", "sum", "count", "last", "p50", "p95", "p99"]

# Nearest rank: the smallest value that a share q of the values does not exceed. It is always a measured value.
PERCENTILES: Mapping[str, float] = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


@dataclass(frozen=True)
class MetricQuery:
    """The values of a field in [start, stop), in nanoseconds, of the points that carry all of `tags`.

    `by` names the tags that form groups. A point without such a tag belongs to a group without it.
    """

    measurement: str
    field: str
    start: int
    stop: int
    tags: Mapping[str, str] = given(default_factory=dict)
    by: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_name("measurement", self.measurement)
        check_name("field", self.field)
        check_tags("tags", self.tags)
        for name in self.by:
            check_name("by", name)
        if len(set(self.by)) != len(self.by):
            raise InputError("by", "names a tag twice", seen=self.by, remedy="name it once")
        check_time("start", self.start)
        check_time("stop", self.stop)
        if self.start >= self.stop:
            raise InputError("stop", f"is not after start {self.start}", seen=self.stop, remedy="raise it")

    def group_of(self, tags: Mapping[str, str]) -> dict[str, str] | None:
        """Return the group of a series with these tags, or None if the query does not select it."""
        if any(tags.get(name) != text for name, text in self.tags.items()):
            return None
        return {name: tags[name] for name in self.by if name in tags}


@dataclass(frozen=True)
class MetricSample:
    """A value of a group at a time in nanoseconds. The time of a window is its beginning."""

    group: Mapping[str, str]
    time: int
    value: float


@dataclass(frozen=True)
class StoreStatus:
    """State of a store, as this process knows it.

    `problem`: the last failure that has not been followed by a success. `waiting`: points on the local disk that are
    not in the store yet. `dropped`: oldest points that were given up because too many waited. `refused`: points that
    the store rejected, set aside.
    """

    kind: str
    place: str
    problem: str | None = None
    waiting: int = 0
    dropped: int = 0
    refused: int = 0

    @property
    def healthy(self) -> bool:
        return self.problem is None


class MetricStore(Closeable, ABC):
    """A store of metric points. Threads may share it."""

    @abstractmethod
    def write(self, points: Iterable[MetricPoint]) -> None:
        """Write the points. They survive a crash of this process once the call returns."""

    @abstractmethod
    def flush(self) -> None:
        """Make all points written so far visible to queries. Raises `MetricStoreError` if that fails."""

    def windows(self, query: MetricQuery, aggregate: Aggregate, every: int | None = None) -> list[MetricSample]:
        """Return a value for each group and window of `every` nanoseconds; None makes the whole range one window.

        Windows begin at multiples of `every` since 1970, so they do not move with the range. The range cuts the first
        and the last window. A window without values is left out: missing is not zero.
        """
        if aggregate not in get_args(Aggregate):
            remedy = f"use one of {', '.join(get_args(Aggregate))}"
            raise InputError("aggregate", "is not known", seen=aggregate, remedy=remedy)
        if every is not None:
            checks.count("every", every)
        return sorted(self._windows(query, aggregate, every), key=_by_group_then_time)

    def last(self, query: MetricQuery) -> list[MetricSample]:
        """Return the latest value of each group and its time; the greatest of several values at that time."""
        return sorted(self._last(query), key=_by_group_then_time)

    @abstractmethod
    def check(self) -> None:
        """Query the store now. Raises `MetricStoreError` if it cannot answer."""

    @abstractmethod
    def status(self) -> StoreStatus: ...

    @abstractmethod
    def close(self) -> None:
        """Close files, connections and threads. A second call does nothing."""

    @abstractmethod
    def _windows(self, query: MetricQuery, aggregate: Aggregate, every: int | None) -> Iterable[MetricSample]: ...

    @abstractmethod
    def _last(self, query: MetricQuery) -> Iterable[MetricSample]: ...


def _by_group_then_time(sample: MetricSample) -> tuple[list[tuple[str, str]], int]:
    return sorted(sample.group.items()), sample.time
