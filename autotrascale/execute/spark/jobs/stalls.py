"""Stalls: a sleep for each record that an operator takes in.

A stall stands for a blocking call. A stall takes time and no CPU, so parallelism can be studied on a machine with few
cores. Operators written in Python sleep in Python; operators that Spark runs in its JVM sleep in the JVM.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from autotrascale.domain import checks

Batch: TypeAlias = Any
"""A `pyarrow.RecordBatch`. PyArrow has no type hints."""
Batches: TypeAlias = Iterator[Batch]
ArrowMap: TypeAlias = Callable[[Iterable[Batch]], Batches]


def check_stalls(job: object) -> None:
    """Raise `InputError` unless each field of `job` named `…_stall` is a non-negative number of seconds."""
    for name, value in vars(job).items():
        if name.endswith("_stall"):
            checks.non_negative(name, value)


def with_stall(work: Callable[[Batch], Batch], seconds: float) -> ArrowMap:
    """Return a function for `mapInArrow` that sleeps `seconds` for each record of a batch and then calls `work`."""

    def apply(batches: Iterable[Batch]) -> Batches:
        for batch in stall_batches(batches, seconds):
            yield work(batch)

    return apply


def stall_batches(batches: Iterable[Batch], seconds: float) -> Batches:
    """Yield each batch unchanged after sleeping `seconds` for each of its records."""
    for batch in batches:
        if seconds:
            time.sleep(seconds * batch.num_rows)
        yield batch


def with_jvm_stall(df: DataFrame, seconds: float) -> DataFrame:
    """Return `df` with a filter that every row passes after `seconds` of sleep in the JVM.

    Spark forgets the partitioning of rows that went through Python and would shuffle them again before a stateful
    operator. A call within the JVM keeps the partitioning. The call is not deterministic for Spark, so the optimizer
    leaves the filter in its stage.
    """
    if not seconds:
        return df
    nanos = fn.lit(round(seconds * 1e9)).cast("bigint")
    park = fn.reflect(fn.lit("java.util.concurrent.locks.LockSupport"), fn.lit("parkNanos"), nanos)
    return df.where(park.isNotNull())


def pass_through(batch: Batch) -> Batch:
    """Return `batch`: the work of an operator that only stalls."""
    return batch
