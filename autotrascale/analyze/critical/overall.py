"""What the parts of all windows come to, on PySpark: the mean of each query, its newest windows, and files.

The mean is that of `domain.participation.mean`, as sums that Spark makes: a year of windows need not come to one
process.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as fn

from autotrascale.analyze.critical.activities import Kind
from autotrascale.analyze.critical.participation_table import UNCOVERED, read_part, read_participations
from autotrascale.domain.critical_path_report import SUMMARIES, CriticalPathReport, WhatIf, order_shares, order_what_ifs

_QUERY = ("application", "query")
_PART = ("summary", "name", "other", "instance")


def overall(parts: DataFrame) -> list[CriticalPathReport]:
    """Of all windows of each query, as one."""
    whole = parts.where(fn.col("summary") == UNCOVERED).groupBy(*_QUERY)
    windows = whole.agg(
        fn.count("*").alias("windows"),
        fn.min("started_ms").alias("started_ms"),
        fn.sum("seconds").alias("seconds"),
        fn.avg("participation").alias("uncovered"),
        fn.sum("path_ms").alias("path_ms"),
    )
    sums = parts.groupBy(*_QUERY, *_PART).agg(
        fn.sum("participation").alias("participation"),
        fn.sum("busy_ms").alias("busy_ms"),
        fn.max("instances").alias("instances"),
        fn.sum(fn.col("path_ms") * (1 - fn.col("at_best"))).alias("saved_ms"),
    )
    by_query: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in sums.collect():
        by_query[row["application"], row["query"]].append(row)
    found = [_mean(row, by_query[row["application"], row["query"]]) for row in windows.collect()]
    return sorted(found, key=lambda one: (one.application, one.query))


def newest(parts: DataFrame, query: CriticalPathReport, most: int) -> list[CriticalPathReport]:
    """Its last windows, in order of time."""
    own = parts.where((fn.col("application") == query.application) & (fn.col("query") == query.query))
    times = own.where(fn.col("summary") == UNCOVERED).select("started_ms")
    last = [row["started_ms"] for row in times.orderBy(fn.desc("started_ms")).limit(most).collect()]
    rows = own.where(fn.col("started_ms") >= min(last)).collect() if last else []
    return list(read_participations(row.asDict() for row in rows))


def windows(parts: DataFrame) -> Iterator[CriticalPathReport]:
    """In order of time within each query. They come over one after another."""
    place = (*_QUERY, "started_ms")
    rows = (row.asDict() for row in parts.orderBy(*place).toLocalIterator())
    for _, own in groupby(rows, key=lambda row: tuple(row[name] for name in place)):
        yield from read_participations(own)


def write(parts: DataFrame, folder: str) -> None:
    """Parquet by application, query and day. Days that are written again are replaced, others stay."""
    by = (*_QUERY, "day")
    writer = parts.hint("rebalance", *by).write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
    writer.partitionBy(*by).parquet(folder)


def _mean(of: Row, rows: list[Row]) -> CriticalPathReport:
    count = of["windows"]
    parts: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        if row["summary"] in SUMMARIES:
            parts[row["summary"]].append(read_part({**row.asDict(), "participation": row["participation"] / count}))
    changes = [row for row in rows if row["saved_ms"] is not None and of["path_ms"] > 0]
    kept = {name: order_shares(parts[name]) for name in SUMMARIES}
    return CriticalPathReport(
        application=of["application"],
        query=of["query"],
        started_ms=round(of["started_ms"]),
        seconds=of["seconds"],
        waiting=sum(part.participation for part in kept["kinds"] if part.name == Kind.waiting),
        uncovered=of["uncovered"],
        what_ifs=order_what_ifs(
            WhatIf(row["summary"], row["name"], 1 - row["saved_ms"] / of["path_ms"]) for row in changes
        ),
        **kept,
    )
