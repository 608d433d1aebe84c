"""A question → Flux, in words that InfluxDB 1.8 (Flux 0.65) and 2.x both know.

Answers hold the columns `at` (nanoseconds, as a number: the client's datetimes would cut them), `_value`, and the tags
of the group.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from autotrascale.monitor.stores.metric_store import PERCENTILES, Aggregate, MetricQuery
from autotrascale.monitor.stores.points import SECOND


def build_windows_query(bucket: str, query: MetricQuery, aggregate: Aggregate, every: int | None) -> str:
    # `window` begins its windows at multiples of `every`; `_start` of the first is cut to the range all the same.
    windowed = "" if every is None else f" |> window(every: {every}ns)"
    start = "r._start" if every is not None else _moment(query.start)
    return (
        f"{_values(bucket, query)}{_grouped(query)}{windowed} |> {_function(aggregate)}"
        f" |> map(fn: (r) => ({{r with at: int(v: {start})}})) |> {_kept(query)}"
    )


def build_last_query(bucket: str, query: MetricQuery, exact: bool) -> str:
    """Not `exact`: answers may come from `stop` itself, but the server need not read all of the range."""
    # `last` of every series first, so that only one row of each has to be sorted.
    return (
        f"{_values(bucket, query, exact)} |> last(){_grouped(query)} |> {_function('last')}"
        f" |> map(fn: (r) => ({{r with at: int(v: r._time)}})) |> {_kept(query)}"
    )


def build_probe(bucket: str) -> str:
    """The cheapest question that still needs the server, the credentials, the bucket and Flux."""
    return f"from(bucket: {_text(bucket)}) |> range(start: {_moment(0)}, stop: {_moment(1)}) |> limit(n: 1)"


def _values(bucket: str, query: MetricQuery, exact: bool = True) -> str:
    tests = [("_measurement", query.measurement), ("_field", query.field), *query.tags.items()]
    matches = " and ".join(f"r[{_text(name)}] == {_text(text)}" for name, text in tests)
    start, stop = _moment(query.start), _moment(query.stop)
    # This filter looks idle, but 1.8 and some of 2.x answer with the points at `stop` too.
    before_stop = f" |> filter(fn: (r) => r._time < {stop})" if exact else ""
    return (
        f"from(bucket: {_text(bucket)}) |> range(start: {start}, stop: {stop})"
        f" |> filter(fn: (r) => {matches}){before_stop}"
    )


def _grouped(query: MetricQuery) -> str:
    return f" |> group(columns: [{', '.join(map(_text, query.by))}])"


def _kept(query: MetricQuery) -> str:
    return f"keep(columns: [{', '.join(map(_text, ['at', '_value', *query.by]))}])"


def _function(aggregate: Aggregate) -> str:
    if aggregate == "last":
        return 'sort(columns: ["_time", "_value"]) |> last()'
    if aggregate in PERCENTILES:
        return f'quantile(q: {PERCENTILES[aggregate]}, method: "exact_selector")'  # by nearest rank
    return f"{aggregate}()"


def _text(text: str) -> str:
    """A string literal. Whatever is not a plain letter or digit goes in as bytes: quotes, `${…}`, everything."""
    plain = (c if c.isascii() and c.isalnum() else "".join(f"\\x{byte:02x}" for byte in c.encode()) for c in text)
    return f'"{"".join(plain)}"'


def _moment(time: int) -> str:
    seconds, nanoseconds = divmod(time, SECOND)
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{nanoseconds:09d}Z"
