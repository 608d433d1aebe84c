"""Marks in a data frame: filters and observations that give an operator or a stage its name in Spark's metrics.

`monitor/marks.py` explains the form of a mark and how it is recognised in a plan.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from autotrascale.domain import checks
from autotrascale.domain.errors import InputError
from autotrascale.monitor.marks import (
    BEGINS,
    COUNT,
    COUNTING,
    FIRST,
    LAST,
    MARK,
    MEAN,
    NAME,
    PARTITION,
    find_naming_names,
)


def mark(df: DataFrame, name: str, *, parallelism: int | None = None, by: str | Sequence[str] = ()) -> DataFrame:
    """Return `df` with the same records; the Spark stage that makes them is called `name`.

    The name appears in the advice of `autotrascale run` and in `autotrascale snapshot`. A stage is the work that Spark
    does between two shuffles.

    Args:
        df: a data frame of a streaming query.
        name: up to 60 letters, digits, `_`, `-` and `.`.
        parallelism: begin a new stage here with this many partitions. `autotrascale run --apply` may change the number
            when it rescales the query. Default: no new stage.
        by: columns to partition the new stage by. Default: records are spread evenly.

    Raises:
        InputError: `name` is not allowed or is used twice, or `by` is given without `parallelism`.
    """
    columns = [by] if isinstance(by, str) else list(by)
    if parallelism is not None:
        checks.count("mark: parallelism", parallelism)
    elif columns:
        raise InputError("mark", "`by` needs `parallelism`", seen=columns, remedy="give parallelism= too")
    _check_name(df, name)
    if parallelism is None:
        return _add_filter(df, f"{MARK}{name}")
    return _add_filter(df.repartition(parallelism, *columns), f"{MARK}{name}", f"{BEGINS}{name}")


def count_records(df: DataFrame, name: str) -> DataFrame:
    """Return `df` with a filter that counts the records of each batch under `name`."""
    return _add_filter(df, f"{COUNTING}{name}")


def observe_arrivals(df: DataFrame, name: str, arrival: str) -> DataFrame:
    """Return `df` with an observation `name`: record count, and first, mean and last time in column `arrival`.

    Only an observation can aggregate a column on the way.
    """
    micros = fn.unix_micros(fn.col(arrival))
    return observe_records(
        df, name, fn.min(micros).alias(FIRST), fn.avg(micros).alias(MEAN), fn.max(micros).alias(LAST)
    )


def observe_records(df: DataFrame, name: str, *more: Any) -> DataFrame:
    """Return `df` with an observation `name` of the record count and the aggregates `more`.

    Spark does not compile observations to code, so one costs ten times as much as a filter.
    """
    return df.observe(f"{MARK}{name}", fn.count(fn.lit(1)).alias(COUNT), *more)


def _add_filter(df: DataFrame, *texts: str) -> DataFrame:
    """Add a filter that contains `texts` and that every record passes."""
    if not _ends_with_join(df):
        return df.where(_always_true(fn.spark_partition_id(), texts))
    numbered = df.withColumn(PARTITION, fn.spark_partition_id())
    return numbered.where(_always_true(fn.col(PARTITION), texts)).drop(PARTITION)


def _always_true(partition: Column, texts: Sequence[str]) -> Column:
    condition = fn.spark_partition_id() >= 0
    for text in texts:
        condition |= partition.cast("string") == fn.lit(text)
    return condition


def _ends_with_join(df: DataFrame) -> bool:
    """Return whether the last step of the plan is a join, projections and filters aside. False with Spark Connect."""
    plan: Any = getattr(df, "_jdf", None)
    if plan is None:
        return False
    node = plan.queryExecution().analyzed()
    while (kind := node.getClass().getSimpleName()) in ("Project", "Filter", "SubqueryAlias"):
        node = node.child()
    return bool(kind == "Join")


def _check_name(df: object, name: object) -> None:
    if not isinstance(df, DataFrame):
        problem = "needs a DataFrame as its first argument"
        raise InputError("mark", problem, seen=type(df).__name__, remedy='write mark(df, "name")')
    if not isinstance(name, str) or not re.fullmatch(NAME, name):
        remedy = "use up to 60 letters, digits, '_', '-' and '.'; begin with a letter, a digit or '_'"
        raise InputError("mark", "the name is not allowed", seen=name, remedy=remedy)
    if name in _find_names(df):
        raise InputError("mark", "the name is used twice in one plan", seen=name, remedy="give each mark its own name")


def _find_names(df: DataFrame) -> list[str]:
    """Return the names of the marks in the plan of `df`. Empty with Spark Connect, which hides the plan."""
    plan: Any = getattr(df, "_jdf", None)
    return find_naming_names(plan.queryExecution().analyzed().toString()) if plan is not None else []
