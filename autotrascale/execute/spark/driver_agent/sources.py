"""What the sources of a query can do, and whether they have anything to give now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql.streaming.readwriter import DataStreamWriter

# Spark's own that forget a record once it is read. Its offsets stand in a checkpoint all the same.
_ONCE_ONLY = {"TextSocketTable": "socket", "MemoryStreamTable": "memory"}
_LIMITS = ("maxfilespertrigger", "maxbytespertrigger")  # of files; a source of Spark's that counts time has none
# What may be told of a source's options. Others may be passwords.
_TOLD = (*_LIMITS, "maxoffsetspertrigger", "minpartitions")


def find_once_only_sources(writer: DataStreamWriter) -> tuple[str, ...]:
    """The formats of the sources that cannot give again what they gave before."""
    tables = [_table(leaf) for leaf in _leaves(writer)]
    return tuple(sorted({_ONCE_ONLY[table] for table in tables if table in _ONCE_ONLY}))


def reads_all_available(writer: DataStreamWriter) -> bool:
    """Whether each batch takes all that there is when it is planned: files without a limit, and Spark's own rates. Of
    other sources nobody can say it from here."""
    streams = [leaf for leaf in _leaves(writer) if leaf.isStreaming()]
    return bool(streams) and all(_is_unlimited(leaf) for leaf in streams)


def read_source_options(writer: DataStreamWriter) -> dict[str, str] | None:
    """Of a query with one source, what its author set of how it is read, by names in lower case; None where there are
    several sources, or nobody can say it from here."""
    streams = [leaf for leaf in _leaves(writer) if leaf.isStreaming()]
    options = _options(streams[0]) if len(streams) == 1 else None
    return None if options is None else {name: value for name, value in options.items() if name in _TOLD}


def is_between_batches(status: Mapping[str, Any]) -> bool:
    """By what Spark says of a query that runs: it is between two batches, because there is nothing new or because its
    next trigger is yet to come."""
    return not status["isTriggerActive"] and str(status["message"]).startswith("Waiting for")


def _leaves(writer: DataStreamWriter) -> list[Any]:
    df: Any = writer._df
    leaves = df._jdf.queryExecution().analyzed().collectLeaves()
    return [leaves.apply(at) for at in range(leaves.size())]


def _is_unlimited(leaf: Any) -> bool:
    if _table(leaf) == "RateStreamTable":
        return True
    if leaf.getClass().getSimpleName() != "StreamingRelation" or not str(leaf.sourceName()).startswith("FileSource["):
        return False
    options = _options(leaf) or {}
    return not any(limit in options for limit in _LIMITS)


def _options(leaf: Any) -> dict[str, str] | None:
    """Their names are in whatever case they were written."""
    match leaf.getClass().getSimpleName():
        case "StreamingRelation":
            entries = leaf.dataSource().options().toSeq()
            pairs = [entries.apply(at) for at in range(entries.size())]
            return {str(pair._1()).lower(): str(pair._2()) for pair in pairs}
        case "StreamingRelationV2":
            return {str(name).lower(): str(value) for name, value in dict(leaf.extraOptions()).items()}
    return None


def _table(leaf: Any) -> str:
    if leaf.getClass().getSimpleName() != "StreamingRelationV2":
        return ""
    return str(leaf.table().getClass().getSimpleName())
