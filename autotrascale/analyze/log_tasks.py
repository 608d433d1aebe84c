"""Two ways to work through many logs: in this process, or on PySpark with one task for each log.

A function takes one item (a log, a block of windows), writes its results into files and returns a small value. The same
functions run in both ways, so the results are the same.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TypeVar

from autotrascale.monitor.eventlog.log_files import LogFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Item = TypeVar("Item")
Result = TypeVar("Result")
# Starting Spark takes some seconds. One process reads about this much text in the same time.
_SMALL_TEXT_BYTES = 1 << 30


class RunAll(Protocol):
    """Applies a function to each item, and returns the results in the order of the items."""

    def __call__(self, function: Callable[[Item], Result], items: Sequence[Item], /) -> list[Result]: ...


def run_here(function: Callable[[Item], Result], items: Sequence[Item], /) -> list[Result]:
    """Apply `function` to one item after the other in this process."""
    return [function(item) for item in items]


def run_on(spark: SparkSession) -> RunAll:
    """Return a way to apply a function on Spark, with a task for each item. Items with most work should come first."""

    def run(function: Callable[[Item], Result], items: Sequence[Item], /) -> list[Result]:
        if not items:
            return []
        return spark.sparkContext.parallelize(items, len(items)).map(function).collect()

    return run


def needs_spark(logs: Sequence[Sequence[LogFile]], *, splits_logs: bool = False) -> bool:
    """Tell whether the logs have enough text for Spark.

    One log is read by one task, so a single log needs Spark only where later work is split (`splits_logs`).
    """
    has_tasks = len(logs) > 1 or splits_logs
    return has_tasks and sum(file.text_bytes for log in logs for file in log) > _SMALL_TEXT_BYTES


@contextmanager
def workspace(parent: str | None = None) -> Iterator[str]:
    """Give a temporary folder of this machine for results, and remove it afterwards."""
    folder = tempfile.mkdtemp(prefix="autotrascale-analyze-", dir=parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
