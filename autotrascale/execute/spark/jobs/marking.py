"""How a data frame is marked, so that measuring knows an operator by its name. `monitor/marks.py` has what Spark makes
of it."""

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
    """The same records, and the stage that makes them is called `name` wherever the query is measured: in the advice of
    `autotrascale run`, in `autotrascale snapshot` of its event log. A stage is what Spark does between two shuffles.

    With `parallelism` a stage of its own begins here, in so many partitions: the records are spread evenly, or `by`
    these columns. `autotrascale run --apply` may give it another number whenever it moves the query."""
    columns = [by] if isinstance(by, str) else list(by)
    if parallelism is not None:
        checks.count("mark: parallelism", parallelism)
    elif columns:
        raise InputError(
            "mark",
            "spreads records by columns and not over how many partitions",
            seen=columns,
            remedy="give parallelism= too",
        )
    _check(df, name)
    if parallelism is None:
        return _all(df, f"{MARK}{name}")
    return _all(df.repartition(parallelism, *columns), f"{MARK}{name}", f"{BEGINS}{name}")


def count_records(df: DataFrame, name: str) -> DataFrame:
    """The same records, counted in each batch under this name."""
    return _all(df, f"{COUNTING}{name}")


def observe_arrivals(df: DataFrame, name: str, arrival: str) -> DataFrame:
    """The same, with the first, the mean and the last of the times in this column: nothing but an observation adds up a
    column on the way."""
    micros = fn.unix_micros(fn.col(arrival))
    return observe_records(
        df, name, fn.min(micros).alias(FIRST), fn.avg(micros).alias(MEAN), fn.max(micros).alias(LAST)
    )


def observe_records(df: DataFrame, name: str, *more: Any) -> DataFrame:
    """Counted by an observation, with `more` aggregates. Spark compiles none: it costs ten times what a filter does."""
    return df.observe(f"{MARK}{name}", fn.count(fn.lit(1)).alias(COUNT), *more)


def _all(df: DataFrame, *texts: str) -> DataFrame:
    """A filter that says this, and that every record passes."""
    if not _joins(df):
        return df.where(_asking(fn.spark_partition_id(), texts))
    numbered = df.withColumn(PARTITION, fn.spark_partition_id())
    return numbered.where(_asking(fn.col(PARTITION), texts)).drop(PARTITION)


def _asking(partition: Column, texts: Sequence[str]) -> Column:
    asked = fn.spark_partition_id() >= 0
    for text in texts:
        asked |= partition.cast("string") == fn.lit(text)
    return asked


def _joins(df: DataFrame) -> bool:
    """Whether its last step but for projections and filters, which Spark moves, is a join. Of a data frame of Spark
    Connect that is not known here."""
    plan: Any = getattr(df, "_jdf", None)
    if plan is None:
        return False
    node = plan.queryExecution().analyzed()
    while (kind := node.getClass().getSimpleName()) in ("Project", "Filter", "SubqueryAlias"):
        node = node.child()
    return bool(kind == "Join")


def _check(df: object, name: object) -> None:
    if not isinstance(df, DataFrame):
        problem = "is given something else than a DataFrame"
        raise InputError("mark", problem, seen=type(df).__name__, remedy='write mark(df, "name")')
    if not isinstance(name, str) or not re.fullmatch(NAME, name):
        remedy = "take up to 60 letters, digits, '_', '-' and '.', beginning with a letter, a digit or '_'"
        raise InputError("mark", "cannot be called that", seen=name, remedy=remedy)
    if name in _names_in(df):
        problem = "is the name of another mark that this DataFrame comes from"
        raise InputError("mark", problem, seen=name, remedy="give each its own")


def _names_in(df: DataFrame) -> list[str]:
    """What the data frame's own plan says. Of one of Spark Connect it is not known here."""
    plan: Any = getattr(df, "_jdf", None)
    return find_naming_names(plan.queryExecution().analyzed().toString()) if plan is not None else []
