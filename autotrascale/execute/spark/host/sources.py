"""What the sources of a query can do, and whether they have anything to give now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql.streaming.readwriter import DataStreamWriter

# Spark's own that forget a record once it is read. Its offsets stand in a checkpoint all the same.
_ONCE_ONLY = {"TextSocketTable": "socket", "MemoryStreamTable": "memory"}


def not_replayable(writer: DataStreamWriter) -> tuple[str, ...]:
    """The formats of the sources that cannot give again what they gave before."""
    df: Any = writer._df
    leaves = df._jdf.queryExecution().analyzed().collectLeaves()
    tables = [_table(leaves.apply(at)) for at in range(leaves.size())]
    return tuple(sorted({_ONCE_ONLY[table] for table in tables if table in _ONCE_ONLY}))


def waits(status: Mapping[str, Any]) -> bool:
    """By what Spark says of a query that runs: it is between two batches, because there is nothing new or because its
    next trigger is yet to come."""
    return not status["isTriggerActive"] and str(status["message"]).startswith("Waiting for")


def _table(leaf: Any) -> str:
    if leaf.getClass().getSimpleName() != "StreamingRelationV2":
        return ""
    return str(leaf.table().getClass().getSimpleName())
