"""How a data frame is marked, so that measuring knows an operator by its name. `monitor/marks.py` has what Spark makes
of it."""

from __future__ import annotations

import re
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from autotrascale.domain.errors import InputError
from autotrascale.monitor.marks import COUNT, MARK, NAME, naming_names


def mark(df: DataFrame, name: str) -> DataFrame:
    """The same records, and the stage that makes them is called `name` wherever the query is measured: in the advice of
    `autotrascale run`, in `autotrascale snapshot` of its event log. A stage is what Spark does between two shuffles."""
    _check(df, name)
    partition = fn.spark_partition_id()
    return df.where((partition >= 0) | (partition.cast("string") == fn.lit(f"{MARK}{name}")))


def counted(df: DataFrame, name: str, *more: Any) -> DataFrame:
    """The same records, counted in each batch under this name, with `more` aggregates of them."""
    return df.observe(f"{MARK}{name}", fn.count(fn.lit(1)).alias(COUNT), *more)


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
    return naming_names(plan.queryExecution().analyzed().toString()) if plan is not None else []
