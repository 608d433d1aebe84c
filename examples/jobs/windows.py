"""Windows over the arrival time, for the jobs with windows."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from autotrascale.domain import checks
from autotrascale.domain.errors import InputError
from autotrascale.execute.spark.jobs.load_generator import ARRIVAL

SHORTEST_SECONDS = 0.001


def with_arrival_watermark(df: DataFrame) -> DataFrame:
    """Return `df` with a watermark at its newest arrival time: records come in the order of their arrival."""
    return df.withWatermark(ARRIVAL, "0 seconds")


def window_column(seconds: float, every: float | None = None) -> Column:
    """Return the column `window`: windows of `seconds`, tumbling, or sliding by `every` seconds."""
    return fn.window(ARRIVAL, as_interval(seconds), as_interval(seconds if every is None else every)).alias("window")


def check_length(place: str, seconds: float) -> None:
    """Raise `InputError` unless `seconds` is at least a millisecond."""
    checks.positive(place, seconds)
    if seconds < SHORTEST_SECONDS:
        raise InputError(
            place, "is shorter than a millisecond", seen=seconds, remedy=f"give {SHORTEST_SECONDS} or more"
        )


def as_interval(seconds: float) -> str:
    """Return `seconds` as an interval for Spark, exact to the millisecond like the load."""
    return f"{round(seconds * 1000)} milliseconds"
