"""A metric store in plain Python: a fake for tests, and the reference for the answers of every other store."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from statistics import fmean

from autotrascale.monitor.stores.metric_store import (
    PERCENTILES,
    Aggregate,
    MetricQuery,
    MetricSample,
    MetricStore,
    StoreStatus,
)
from autotrascale.monitor.stores.points import MetricPoint

_Tags = tuple[tuple[str, str], ...]


class MemoryStore(MetricStore):
    """A metric store in memory. Set `failure` to let every later write and flush raise it."""

    def __init__(self) -> None:
        self.failure: Exception | None = None
        self._values: dict[tuple[str, str, _Tags, int], float] = {}

    def write(self, points: Iterable[MetricPoint]) -> None:
        points = list(points)
        self.flush()
        for point in points:
            for name, value in point.fields.items():
                self._values[point.measurement, name, tuple(point.tags.items()), point.time] = value

    def flush(self) -> None:
        if self.failure is not None:
            raise self.failure

    def check(self) -> None:
        self.flush()

    def status(self) -> StoreStatus:
        return StoreStatus("memory", "this process", problem=None if self.failure is None else str(self.failure))

    def close(self) -> None:
        pass

    def _windows(self, query: MetricQuery, aggregate: Aggregate, every: int | None) -> Iterable[MetricSample]:
        windows: dict[tuple[_Tags, int], list[tuple[int, float]]] = defaultdict(list)
        for group, time, value in self._select(query):
            windows[group, query.start if every is None else time // every * every].append((time, value))
        for (group, start), timed in windows.items():
            yield MetricSample(dict(group), start, _aggregate(sorted(timed), aggregate))

    def _last(self, query: MetricQuery) -> Iterable[MetricSample]:
        latest: dict[_Tags, tuple[int, float]] = {}
        for group, time, value in self._select(query):
            latest[group] = max((time, value), latest.get(group, (-1, 0.0)))
        for group, (time, value) in latest.items():
            yield MetricSample(dict(group), time, value)

    def _select(self, query: MetricQuery) -> Iterator[tuple[_Tags, int, float]]:
        for (measurement, name, tags, time), value in self._values.items():
            group = query.group_of(dict(tags))
            if (measurement, name) != (query.measurement, query.field) or group is None:
                continue
            if query.start <= time < query.stop:
                yield tuple(group.items()), time, value


def _aggregate(timed: list[tuple[int, float]], aggregate: Aggregate) -> float:
    values = [value for _, value in timed]
    match aggregate:
        case "mean":
            return fmean(values)
        case "min":
            return min(values)
        case "max":
            return max(values)
        case "sum":
            return math.fsum(values)
        case "count":
            return float(len(values))
        case "last":
            return values[-1]
        case _:
            rank = math.ceil(PERCENTILES[aggregate] * len(values))
            return sorted(values)[max(rank, 1) - 1]
