"""Metrics in Prometheus' text format: counted with each request, or collected when they are asked for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

PREFIX = "autotrascale"
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"

LabelledValues = dict[tuple[str, ...], float | None]  # by label values; None: unknown, and left out
Gauge = tuple[str, str, tuple[str, ...], LabelledValues]  # name, help, label names, values


class ServerMetrics:
    """The metrics of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            f"{PREFIX}_http_requests", "Requests answered.", ["method", "route", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            f"{PREFIX}_http_request_seconds", "Time until an answer began.", ["route"], registry=self.registry
        )

    def collect_with(self, collect: Callable[[], Iterable[Gauge]]) -> None:
        """Call `collect` for gauges whenever metrics are asked for."""
        self.registry.register(_Gauges(collect))

    def text(self) -> bytes:
        return generate_latest(self.registry)


class _Gauges(Collector):
    def __init__(self, collect: Callable[[], Iterable[Gauge]]) -> None:
        self._collect = collect

    def collect(self) -> Iterable[GaugeMetricFamily]:
        for name, help_, labels, values in self._collect():
            gauge = GaugeMetricFamily(f"{PREFIX}_{name}", help_, labels=labels)
            for label_values, value in values.items():
                if value is not None:
                    gauge.add_metric(label_values, value)
            yield gauge


class CountRequests:
    """Middleware that counts requests by the pattern of their route. All unknown paths count as one route, "none"."""

    def __init__(self, app: ASGIApp, metrics: ServerMetrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()

        async def send_and_count(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = getattr(scope.get("route"), "path", "none")
                method = scope["method"] if route != "none" else "any"
                self._metrics.requests.labels(method, route, str(message["status"])).inc()
                self._metrics.seconds.labels(route).observe(time.perf_counter() - began)
            await send(message)

        await self._app(scope, receive, send_and_count)
