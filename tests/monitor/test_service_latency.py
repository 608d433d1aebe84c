"""Latencies of services from the metric store and Prometheus, and messages about failures."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from autotrascale.domain.errors import InputError
from autotrascale.monitor.service_latency import PrometheusQuery, Service, ServiceLatencies, StoredMetric
from autotrascale.monitor.stores.metric_store import MetricStore
from autotrascale.monitor.stores.points import SECOND, MetricPoint
from autotrascale.monitor.stores.store_settings import SqliteSettings, open_store
from autotrascale.validation import validate

T0 = 1_700_000_000


class Prometheus:
    """Answers every query alike, as the real one does: a range of one series, a second apart."""

    def __init__(self) -> None:
        self.series: list[list[list[Any]]] = [[[T0 + second, f"{0.01 * second}"] for second in range(60)]]
        self.status, self.asked = 200, list[dict[str, list[str]]]()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                assert parts.path == "/api/v1/query_range"
                outer.asked.append(parse_qs(parts.query))
                result = [{"metric": {}, "values": values} for values in outer.series]
                body = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}).encode()
                self.send_response(outer.status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def prometheus() -> Iterator[Prometheus]:
    fake = Prometheus()
    thread = threading.Thread(target=fake.server.serve_forever)
    thread.start()
    yield fake
    fake.server.shutdown()
    fake.server.server_close()
    thread.join()


def latencies(service: Service, said: list[str], store: MetricStore | None = None) -> ServiceLatencies:
    return ServiceLatencies({"prices": service}, lambda: store, said.append)


def test_prometheus_is_asked_for_the_range_and_each_span_has_its_mean(prometheus: Prometheus) -> None:
    said: list[str] = []
    service = Service(prometheus=PrometheusQuery(prometheus.url, "avg(latency_seconds)"), unit=0.5)
    found = latencies(service, said).during([(T0, T0 + 10), (T0 + 10, T0 + 20), (T0 + 100, T0 + 110)])
    assert found == [{"prices": pytest.approx(0.025)}, {"prices": pytest.approx(0.075)}, {}]
    assert prometheus.asked[0]["query"] == ["avg(latency_seconds)"]
    assert said == []


def test_missing_numbers_are_unknown(prometheus: Prometheus) -> None:
    prometheus.series = [[[T0 + 1, "NaN"], [T0 + 2, "-1"], [T0 + 3, "+Inf"], [T0 + 4, "0.5"]]]
    service = Service(prometheus=PrometheusQuery(prometheus.url, "x"))
    assert latencies(service, []).during([(T0, T0 + 3.5), (T0 + 3.5, T0 + 9)]) == [{}, {"prices": 0.5}]


def test_failure_and_recovery_are_reported_once_each(prometheus: Prometheus) -> None:
    said: list[str] = []
    services = latencies(Service(prometheus=PrometheusQuery(prometheus.url, "x")), said)
    prometheus.status = 503
    assert services.at(T0 + 10, over=10) == services.at(T0 + 20, over=10) == {}
    prometheus.status = 200
    assert services.at(T0 + 10, over=10) == {"prices": pytest.approx(0.05)}
    prometheus.series *= 2
    assert services.at(T0 + 10, over=10) == {}
    assert said[0].startswith(f"the latency of prices cannot be read: {prometheus.url}: answers with status 503")
    assert said[1:] == [
        "the latency of prices can be read again",
        "the latency of prices cannot be read: query: returns 2 series; reduce it to one with avg(…) or max(…)",
    ]


def test_a_missing_server_is_reported_in_one_line() -> None:
    said: list[str] = []
    assert latencies(Service(prometheus=PrometheusQuery("http://127.0.0.1:9", "x")), said).at(T0) == {}
    assert len(said) == 1
    assert "\n" not in said[0]
    assert said[0].startswith("the latency of prices cannot be read: <urlopen error")


def test_a_metric_of_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with open_store(SqliteSettings()) as store:
        store.write(
            MetricPoint("calls", {"service": name}, {"milliseconds": value}, (T0 + at) * SECOND)
            for name, value, at in [("prices", 20.0, 1), ("prices", 40.0, 5), ("stock", 900.0, 5), ("prices", 80.0, 15)]
        )
        store.flush()
        service = Service(StoredMetric("calls", "milliseconds", {"service": "prices"}), unit=0.001)
        found = latencies(service, [], store).during([(T0, T0 + 10), (T0 + 10, T0 + 20), (T0 + 20, T0 + 30)])
    assert found == [{"prices": pytest.approx(0.03)}, {"prices": pytest.approx(0.08)}, {}]


def test_a_missing_store_is_reported() -> None:
    said: list[str] = []
    assert latencies(Service(StoredMetric("calls", "seconds")), said).at(T0) == {}
    assert said == ["the latency of prices cannot be read: metrics: are kept in no store; name a store with --metrics"]


@pytest.mark.parametrize(
    ("data", "line"),
    [
        ({}, "metric and prometheus: are both given or both missing"),
        (
            {"metric": {"measurement": "calls", "field": "s"}, "prometheus": {"url": "http://h", "query": "x"}},
            "metric and prometheus: are both",
        ),
        ({"metric": {"measurement": "a b", "field": "s"}}, "metric.measurement: is not a valid name"),
        ({"metric": {"measurement": "calls"}}, "metric.field: is missing"),
        ({"prometheus": {"url": "prometheus:9090", "query": "x"}}, "prometheus.url: is not the address of a server"),
        ({"prometheus": {"url": "http://h", "query": " "}}, "prometheus.query: is empty"),
        ({"metric": {"measurement": "calls", "field": "s"}, "unit": 0}, "unit: must be above zero"),
    ],
)
def test_bad_settings_are_refused(data: dict[str, Any], line: str) -> None:
    with pytest.raises(InputError) as caught:
        validate(data, Service, place="services.prices")
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)
