"""Metric points in InfluxDB 2.x or 1.8. Each write goes to the server at once, without retries.

`spooled_store` keeps points while the server is away. The client's own batching is not used: it gives up after some
retries, drops its points, and reports that only to a callback.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

from influxdb_client.client.exceptions import InfluxDBError
from influxdb_client.client.flux_csv_parser import FluxCsvParserException, FluxQueryException
from influxdb_client.client.influxdb_client import InfluxDBClient
from influxdb_client.client.write.point import Point as InfluxPoint
from influxdb_client.client.write_api import SYNCHRONOUS
from influxdb_client.rest import ApiException
from urllib3.exceptions import HTTPError

from autotrascale.domain.errors import (
    MetricStoreError,
    MetricStoreRefusedError,
    MetricStoreTooLargeError,
    MetricStoreUnavailableError,
)
from autotrascale.monitor.stores import flux_queries
from autotrascale.monitor.stores.metric_store import Aggregate, MetricQuery, MetricSample, MetricStore, StoreStatus
from autotrascale.monitor.stores.points import MetricPoint

BATCH = 5000  # points for one request, as InfluxData advises

# The points are at fault: unreadable, too large, unprocessable. After any other failure, such as a missing bucket or a
# wrong token, the same points may succeed later.
_TOO_LARGE = 413
_REFUSALS = frozenset({400, _TOO_LARGE, 422})


class InfluxStore(MetricStore):
    """A bucket of an InfluxDB server.

    For InfluxDB 1.8: bucket "database/retention policy", org "-", token "user:password".
    """

    def __init__(
        self,
        url: str,
        bucket: str,
        org: str = "-",
        token: str | None = None,
        timeout_seconds: float = 10.0,
        ca_file: str | None = None,
    ) -> None:
        self._place = f"{url} bucket {bucket}"
        self._bucket = bucket
        self._org = org
        self._secrets = _secrets(token)
        self._problems: dict[str, str] = {}  # by activity, until it works again
        # No retries: they would be silent, and the caller knows better how long to wait.
        self._client = InfluxDBClient(
            url, token=token or "", org=org, timeout=round(timeout_seconds * 1000), retries=False, ssl_ca_cert=ca_file
        )
        self._write = self._client.write_api(write_options=SYNCHRONOUS)
        self._query = self._client.query_api()

    def __repr__(self) -> str:
        return f"InfluxStore({self._place!r})"

    def write(self, points: Iterable[MetricPoint]) -> None:
        """Write batch by batch. After an error, write all points again: points that were written do not change."""
        remaining = iter(points)
        while batch := [InfluxPoint.from_dict(vars(point)) for point in islice(remaining, BATCH)]:
            with self._translate_errors("writing", _REFUSALS):
                self._write.write(self._bucket, self._org, batch)

    def flush(self) -> None:
        """Do nothing: a write is visible to queries when it returns."""

    def check(self) -> None:
        self._ask(flux_queries.build_probe(self._bucket))

    def status(self) -> StoreStatus:
        return StoreStatus("influxdb", self._place, problem="; ".join(self._problems.values()) or None)

    def close(self) -> None:
        self._client.close()  # type: ignore[no-untyped-call]

    def _windows(self, query: MetricQuery, aggregate: Aggregate, every: int | None) -> Iterable[MetricSample]:
        for values in self._ask(flux_queries.build_windows_query(self._bucket, query, aggregate, every)):
            at = values["at"]
            yield MetricSample(
                _group(query, values), at if every is None else at // every * every, float(values["_value"])
            )

    def _last(self, query: MetricQuery) -> Iterable[MetricSample]:
        rows = self._ask(flux_queries.build_last_query(self._bucket, query, exact=False))
        if any(values["at"] >= query.stop for values in rows):
            rows = self._ask(flux_queries.build_last_query(self._bucket, query, exact=True))
        return [MetricSample(_group(query, values), values["at"], float(values["_value"])) for values in rows]

    def _ask(self, text: str) -> list[dict[str, Any]]:
        with self._translate_errors("reading"):
            return [record.values for table in self._query.query(text) for record in table.records]

    @contextmanager
    def _translate_errors(self, doing: str, refusals: frozenset[int] = frozenset()) -> Iterator[None]:
        """Raise the client's errors as ours, without secrets, and keep them for the status."""
        try:
            yield
        except ApiException as error:
            kind = _kind(error.status) if error.status in refusals else MetricStoreUnavailableError
            raise self._make_error(kind, doing, f"{error.status or 'no answer'}: {_read_message(error)}") from None
        except (HTTPError, InfluxDBError, OSError) as error:
            raise self._make_error(MetricStoreUnavailableError, doing, str(error)) from None
        except (FluxQueryException, FluxCsvParserException) as error:
            raise self._make_error(MetricStoreError, doing, str(error)) from None
        self._problems.pop(doing, None)

    def _make_error(self, kind: type[MetricStoreError], doing: str, message: str) -> MetricStoreError:
        line = " ".join(message.split())
        for secret in self._secrets:
            line = line.replace(secret, "***")
        text = f"{self._place}: {doing} failed: {line[:500]}"
        self._problems[doing] = text
        return kind(text)


def _kind(status: int) -> type[MetricStoreError]:
    return MetricStoreTooLargeError if status == _TOO_LARGE else MetricStoreRefusedError


def _group(query: MetricQuery, values: dict[str, Any]) -> dict[str, str]:
    return {name: values[name] for name in query.by if values.get(name) is not None}


def _secrets(token: str | None) -> tuple[str, ...]:
    """Return the token, and the password of `user:password` too: a server may repeat either in an error."""
    if not token:
        return ()
    _, _, password = token.partition(":")
    return (token, password) if password else (token,)


def _read_message(error: ApiException) -> str:
    """Return the message: InfluxDB 1.8 answers `{"error": …}`, 2.x `{"code": …, "message": …}`, a proxy any text."""
    body = error.body.decode(errors="replace") if isinstance(error.body, bytes) else error.body
    try:
        answer = json.loads(body or "")
    except ValueError:
        return str(body or error.reason)
    if not isinstance(answer, dict):
        return str(body)
    return str(answer.get("message") or answer.get("error") or body)
