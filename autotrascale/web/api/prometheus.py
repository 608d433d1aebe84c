"""Prometheus metrics: counted where requests pass, or looked up when they are asked for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

PREFIX = "autotrascale"
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# Values by those of the labels; None as a value: not known, so not said
LabelledValues = dict[tuple[str, ...], float | None]
Gauge = tuple[str, str, tuple[str, ...], LabelledValues]  # name, its help, its labels


class ServerMetrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            f"{PREFIX}_http_requests", "Requests answered.", ["method", "route", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            f"{PREFIX}_http_request_seconds", "Until an answer began.", ["route"], registry=self.registry
        )

    def look_up(self, readings: Callable[[], Iterable[Gauge]]) -> None:
        self.registry.register(_LookedUp(readings))

    def text(self) -> bytes:
        return generate_latest(self.registry)


class _LookedUp(Collector):
    def __init__(self, readings: Callable[[], Iterable[Gauge]]) -> None:
        self._readings = readings

    def collect(self) -> Iterable[GaugeMetricFamily]:
        for name, help_, labels, values in self._readings():
            gauge = GaugeMetricFamily(f"{PREFIX}_{name}", help_, labels=labels)
            for which, value in values.items():
                if value is not None:
                    gauge.add_metric(which, value)
            yield gauge


class CountRequests:
    """Around the application. Routes are counted by their pattern: what does not exist is one route."""

    def __init__(self, app: ASGIApp, metrics: ServerMetrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = getattr(scope.get("route"), "path", "none")
                method = scope["method"] if route != "none" else "any"
                self._metrics.requests.labels(method, route, str(message["status"])).inc()
                self._metrics.seconds.labels(route).observe(time.perf_counter() - began)
            await send(message)

        await self._app(scope, receive, counted)
