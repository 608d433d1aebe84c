"""Stalls: a sleep for each record that an operator takes in.

A stall stands for a blocking call and takes time, not CPU, so parallelism can be studied honestly on a machine of few
cores. Operators written in Python and those that Spark runs in its JVM sleep each in their own way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from autotrascale.domain import checks

Batch: TypeAlias = Any
"""A `pyarrow.RecordBatch`; Arrow comes without types of its own."""
Batches: TypeAlias = Iterator[Batch]
ArrowMap: TypeAlias = Callable[[Iterable[Batch]], Batches]


def check_stalls(job: object) -> None:
    """Every field of the job that is called `…_stall` is a number of seconds."""
    for name, value in vars(job).items():
        if name.endswith("_stall"):
            checks.non_negative(name, value)


def with_stall(work: Callable[[Batch], Batch], seconds: float) -> ArrowMap:
    """For `mapInArrow`: sleeps for what the records of a batch take together, then does `work` on it."""

    def apply(batches: Iterable[Batch]) -> Batches:
        for batch in stall_batches(batches, seconds):
            yield work(batch)

    return apply


def stall_batches(batches: Iterable[Batch], seconds: float) -> Batches:
    """The same batches, each after its stall."""
    for batch in batches:
        if seconds:
            time.sleep(seconds * batch.num_rows)
        yield batch


def with_jvm_stall(df: DataFrame, seconds: float) -> DataFrame:
    """The same rows, each after its stall, by a predicate that is true in its time. Spark forgets how rows are spread
    as soon as Python has had them, and would shuffle them again before a stateful operator; the JVM's own call leaves
    them where they are. It counts as random, so the optimizer keeps it in the stage in which it stands."""
    if not seconds:
        return df
    nanos = fn.lit(round(seconds * 1e9)).cast("bigint")
    park = fn.reflect(fn.lit("java.util.concurrent.locks.LockSupport"), fn.lit("parkNanos"), nanos)
    return df.where(park.isNotNull())


def pass_through(batch: Batch) -> Batch:
    """The work of an operator that only waits."""
    return batch
