"""Read the latency of services that a job calls, from the metric store or from Prometheus.

The latency is read where the service publishes it; the service itself is not called. A value that is missing or too old
is unknown. A backlog is then answered as if the service were not named.
"""

from __future__ import annotations

import math
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as given
from typing import Any
from urllib.parse import urlencode, urlsplit

from autotrascale import validation
from autotrascale.domain import checks
from autotrascale.domain.errors import AuTraScaleError, InputError
from autotrascale.monitor.stores.metric_store import MetricQuery, MetricStore
from autotrascale.monitor.stores.points import SECOND, check_name, check_tags

FRESH_SECONDS = 300.0  # an older latency counts as unknown
_TIMEOUT_SECONDS = 2.0  # of Prometheus: a loop observes every few seconds
_MAX_BYTES = 1 << 20
_MAX_POINTS = 5000


@dataclass(frozen=True)
class StoredMetric:
    """A field in the metric store of real jobs."""

    measurement: str  # Name of the measurement.
    field: str  # Field with the latency.
    tags: Mapping[str, str] = given(default_factory=dict)  # Tags that a point must have.

    def __post_init__(self) -> None:
        check_name("measurement", self.measurement)
        check_name("field", self.field)
        check_tags("tags", self.tags)


@dataclass(frozen=True)
class PrometheusQuery:
    """A query that returns one number."""

    url: str  # Address of the Prometheus server, without /api.
    query: str  # PromQL query for the latency, which returns one number.

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
            raise InputError("url", "is not the address of a server", seen=self.url, remedy="write http://HOST:9090")
        if not self.query.strip():
            raise InputError("query", "is empty", remedy="write a query for the latency, such as avg(latency_seconds)")


@dataclass(frozen=True)
class Service:
    """Source of a service's latency: either `metric` or `prometheus`."""

    metric: StoredMetric | None = None  # Field in the metric store. Give it or `prometheus`.
    prometheus: PrometheusQuery | None = None  # Query to a Prometheus server.
    unit: float = 1.0  # Seconds of one unit of the latency; 0.001 for milliseconds.

    def __post_init__(self) -> None:
        if (self.metric is None) == (self.prometheus is None):
            raise InputError("metric and prometheus", "are both given or both missing", remedy="give exactly one")
        checks.positive_in_range("unit", self.unit)


class ServiceLatencies:
    """Latencies of services. `tell` prints a line when a latency cannot be read, and when it can be read again."""

    def __init__(
        self, services: Mapping[str, Service], store: Callable[[], MetricStore | None], tell: Callable[[str], None]
    ) -> None:
        self._services, self._store, self._tell = services, store, tell
        self._troubles: dict[str, str] = {}

    def at(self, unix_seconds: float, over: float = FRESH_SECONDS) -> dict[str, float]:
        """Return the mean latencies in seconds of the `over` seconds before a Unix time, without unknown latencies."""
        return self.during([(unix_seconds - over, unix_seconds)])[0]

    def during(self, spans: Sequence[tuple[float, float]]) -> list[dict[str, float]]:
        """Return the mean latencies in each of consecutive (begin, end) spans, in Unix seconds."""
        found: list[dict[str, float]] = [{} for _ in spans]
        for name, service in self._services.items():
            trouble = ""
            try:
                for latency, known in zip(self._read(service, spans), found, strict=True):
                    if latency is not None:
                        known[name] = latency * service.unit
            except (AuTraScaleError, OSError, ValueError) as error:
                trouble = f"the latency of {name} cannot be read: {' '.join(str(error).split())}"
            if trouble != self._troubles.get(name, ""):
                self._tell(trouble or f"the latency of {name} can be read again")
            self._troubles[name] = trouble
        return found

    def _read(self, service: Service, spans: Sequence[tuple[float, float]]) -> list[float | None]:
        if service.prometheus is not None:
            return query_prometheus(service.prometheus, spans)
        store = self._store()
        if store is None or service.metric is None:
            raise InputError("metrics", "are kept in no store", remedy="name a store with --metrics")
        return [_stored(store, service.metric, *span) for span in spans]


def _stored(store: MetricStore, metric: StoredMetric, begin: float, end: float) -> float | None:
    query = MetricQuery(metric.measurement, metric.field, _nanoseconds(begin), _nanoseconds(end), metric.tags)
    return next((_latency(sample.value) for sample in store.windows(query, "mean")), None)


def query_prometheus(query: PrometheusQuery, spans: Sequence[tuple[float, float]]) -> list[float | None]:
    """Return the mean of the points in each span, or None for a span without points."""
    if not spans:
        return []
    begin, end = spans[0][0], spans[-1][1]
    shortest = min(end - begin for begin, end in spans)
    step = max(shortest / 5, (end - begin) / _MAX_POINTS, 0.1)
    address = f"{query.url.rstrip('/')}/api/v1/query_range"
    question = urlencode({"query": query.query, "start": f"{begin:.3f}", "end": f"{end:.3f}", "step": f"{step:.3f}"})
    points = _points(_answer(f"{address}?{question}", query.url))
    means: list[float | None] = []
    for begin, end in spans:
        inside = [value for at, value in points if begin <= at <= end]
        means.append(sum(inside) / len(inside) if inside else None)
    return means


def _answer(address: str, server: str) -> Any:
    try:
        with urllib.request.urlopen(address, timeout=_TIMEOUT_SECONDS) as answer:
            text = answer.read(_MAX_BYTES + 1)
    except urllib.error.HTTPError as error:
        with error:
            text = error.read(_MAX_BYTES)
        raise InputError(
            server,
            f"answers with status {error.code}",
            seen=text.decode(errors="replace")[:200],
            remedy="try the query there by hand",
        ) from None
    if len(text) > _MAX_BYTES:
        raise InputError(server, "answers with too much data", remedy="write a query that returns one number")
    return validation.parse_json(text, server)


def _points(answer: Any) -> list[tuple[float, float]]:
    """`{"data": {"result": [{"values": [[1700000000, "0.02"], …]}]}}`"""
    try:
        results = answer["data"]["result"]
        if len(results) > 1:
            raise InputError("query", f"returns {len(results)} series", remedy="reduce it to one with avg(…) or max(…)")
        values = [(float(at), _latency(float(value))) for at, value in results[0]["values"]] if results else []
    except (KeyError, TypeError, IndexError) as error:
        raise InputError("prometheus", "returns no range of numbers", seen=answer) from error
    return [(at, value) for at, value in values if value is not None]


def _latency(value: float) -> float | None:
    return value if math.isfinite(value) and value >= 0 else None


def _nanoseconds(seconds: float) -> int:
    return max(0, round(seconds * SECOND))
