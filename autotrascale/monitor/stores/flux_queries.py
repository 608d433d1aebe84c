"""Translate metric queries to Flux that InfluxDB 1.8 (Flux 0.65) and 2.x both understand.

Answers have the columns `at` (nanoseconds as a number, because the client's datetimes are coarser), `_value`, and the
tags of the group.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from autotrascale.monitor.stores.metric_store import PERCENTILES, Aggregate, MetricQuery
from autotrascale.monitor.stores.points import SECOND


def build_windows_query(bucket: str, query: MetricQuery, aggregate: Aggregate, every: int | None) -> str:
    # `window` begins windows at multiples of `every`, but the range cuts `_start` of the first window.
    windowed = "" if every is None else f" |> window(every: {every}ns)"
    start = "r._start" if every is not None else _moment(query.start)
    return (
        f"{_select(bucket, query)}{_group(query)}{windowed} |> {_function(aggregate)}"
        f" |> map(fn: (r) => ({{r with at: int(v: {start})}})) |> {_keep_columns(query)}"
    )


def build_last_query(bucket: str, query: MetricQuery, exact: bool) -> str:
    """Return the query for the latest value of each group.

    Without `exact`, an answer may come from `stop` itself, but the server need not read the whole range.
    """
    # `last` of every series first, so that only one row of each must be sorted.
    return (
        f"{_select(bucket, query, exact)} |> last(){_group(query)} |> {_function('last')}"
        f" |> map(fn: (r) => ({{r with at: int(v: r._time)}})) |> {_keep_columns(query)}"
    )


def build_probe(bucket: str) -> str:
    """Return the cheapest query that still needs the server, the credentials, the bucket and Flux."""
    return f"from(bucket: {_text(bucket)}) |> range(start: {_moment(0)}, stop: {_moment(1)}) |> limit(n: 1)"


def _select(bucket: str, query: MetricQuery, exact: bool = True) -> str:
    tests = [("_measurement", query.measurement), ("_field", query.field), *query.tags.items()]
    matches = " and ".join(f"r[{_text(name)}] == {_text(text)}" for name, text in tests)
    start, stop = _moment(query.start), _moment(query.stop)
    # Needed: InfluxDB 1.8 and some 2.x versions return points at `stop` too.
    before_stop = f" |> filter(fn: (r) => r._time < {stop})" if exact else ""
    return (
        f"from(bucket: {_text(bucket)}) |> range(start: {start}, stop: {stop})"
        f" |> filter(fn: (r) => {matches}){before_stop}"
    )


def _group(query: MetricQuery) -> str:
    return f" |> group(columns: [{', '.join(map(_text, query.by))}])"


def _keep_columns(query: MetricQuery) -> str:
    return f"keep(columns: [{', '.join(map(_text, ['at', '_value', *query.by]))}])"


def _function(aggregate: Aggregate) -> str:
    if aggregate == "last":
        return 'sort(columns: ["_time", "_value"]) |> last()'
    if aggregate in PERCENTILES:
        return f'quantile(q: {PERCENTILES[aggregate]}, method: "exact_selector")'  # by nearest rank
    return f"{aggregate}()"


def _text(text: str) -> str:
    """Return a string literal. Every character that is not an ASCII letter or digit is escaped."""
    plain = (c if c.isascii() and c.isalnum() else "".join(f"\\x{byte:02x}" for byte in c.encode()) for c in text)
    return f'"{"".join(plain)}"'


def _moment(time: int) -> str:
    seconds, nanoseconds = divmod(time, SECOND)
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{nanoseconds:09d}Z"
