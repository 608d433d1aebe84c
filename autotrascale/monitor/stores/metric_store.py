"""The port that every metric store stands behind, and the questions that can be asked of one.

Every store gives the same answers, to the nanosecond and the tie; `autotrascale.testing.metric_store_contract` says so.
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

# By nearest rank: the smallest value that a share q of the values does not exceed. Always a value that was measured.
PERCENTILES: Mapping[str, float] = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


@dataclass(frozen=True)
class MetricQuery:
    """The values of one field in [start, stop), nanoseconds, of the points that carry all of `tags`.

    `by` names the tags that set groups apart. A point without one of them belongs to the group that lacks it.
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
            raise InputError("stop", f"is not after the start of {self.start}", seen=self.stop, remedy="raise it")

    def group_of(self, tags: Mapping[str, str]) -> dict[str, str] | None:
        """The group that a series with these tags falls in, None when the query is not about it."""
        if any(tags.get(name) != text for name, text in self.tags.items()):
            return None
        return {name: tags[name] for name in self.by if name in tags}


@dataclass(frozen=True)
class MetricSample:
    """One answer: a value at a time, of a group. The time of a window is its beginning."""

    group: Mapping[str, str]
    time: int
    value: float


@dataclass(frozen=True)
class StoreStatus:
    """What a service shows of its store. Nothing is asked of the store for it."""

    kind: str
    place: str
    problem: str | None = None  # the last thing that went wrong and has not gone right since
    waiting: int = 0  # points on disk here, not yet in the store
    dropped: int = 0  # points given up, oldest first, because too many waited
    refused: int = 0  # points that the store will not take, set aside

    @property
    def healthy(self) -> bool:
        return self.problem is None


class MetricStore(Closeable, ABC):
    """Keeps points and answers questions about them. Threads may share one."""

    @abstractmethod
    def write(self, points: Iterable[MetricPoint]) -> None:
        """Take the points. They are safe from a crash of this process once the call returns."""

    @abstractmethod
    def flush(self) -> None:
        """Every point written so far is in the answers when this returns, or `MetricStoreError` says why it is not."""

    def windows(self, query: MetricQuery, aggregate: Aggregate, every: int | None = None) -> list[MetricSample]:
        """One value for each group and window of `every` nanoseconds; None makes the whole range one window.

        Windows begin at multiples of `every` since 1970, so that they stay put while the range moves; the first and
        the last hold only what the range holds of them. A window without values is left out: missing is not zero.
        """
        if aggregate not in get_args(Aggregate):
            remedy = f"use one of {', '.join(get_args(Aggregate))}"
            raise InputError("aggregate", "is not known", seen=aggregate, remedy=remedy)
        if every is not None:
            checks.count("every", every)
        return sorted(self._windows(query, aggregate, every), key=_by_group_then_time)

    def last(self, query: MetricQuery) -> list[MetricSample]:
        """The latest value of each group and its time; of several at that time the greatest."""
        return sorted(self._last(query), key=_by_group_then_time)

    @abstractmethod
    def check(self) -> None:
        """Ask the store something now, and raise `MetricStoreError` if it cannot answer."""

    @abstractmethod
    def status(self) -> StoreStatus: ...

    @abstractmethod
    def close(self) -> None:
        """Let go of files, connections and threads; calling it twice is fine."""

    @abstractmethod
    def _windows(self, query: MetricQuery, aggregate: Aggregate, every: int | None) -> Iterable[MetricSample]: ...

    @abstractmethod
    def _last(self, query: MetricQuery) -> Iterable[MetricSample]: ...


def _by_group_then_time(sample: MetricSample) -> tuple[list[tuple[str, str]], int]:
    return sorted(sample.group.items()), sample.time
