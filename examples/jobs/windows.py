"""Windows over the arrival time, as the windowed jobs cut them."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from autotrascale.domain import checks
from autotrascale.domain.errors import InputError
from autotrascale.execute.spark.jobs.load_generator import ARRIVAL

GRAIN = 0.001


def with_arrival_watermark(df: DataFrame) -> DataFrame:
    """Records come in the order of their arrival, batch after batch, so the watermark may stand at the newest one."""
    return df.withWatermark(ARRIVAL, "0 seconds")


def window_column(seconds: float, every: float | None = None) -> Column:
    """Tumbling, or sliding when `every` is less than their length. The column is called `window`."""
    return fn.window(ARRIVAL, as_interval(seconds), as_interval(seconds if every is None else every)).alias("window")


def check_length(place: str, seconds: float) -> None:
    checks.positive(place, seconds)
    if seconds < GRAIN:
        raise InputError(place, "is shorter than a millisecond", seen=seconds, remedy=f"give {GRAIN} or more")


def as_interval(seconds: float) -> str:
    """Spark's words for a length of time. It is exact to the millisecond, which is the load's own grain too."""
    return f"{round(seconds * 1000)} milliseconds"
