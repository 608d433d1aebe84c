"""The sources of a query: their formats and options, and whether the query waits for new input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql.streaming.readwriter import DataStreamWriter

# Sources that forget a record once it is read, although their offsets are in the checkpoint.
_ONCE_ONLY = {"TextSocketTable": "socket", "MemoryStreamTable": "memory"}
_LIMITS = ("maxfilespertrigger", "maxbytespertrigger")  # of file sources; the rate source has none
# Source options that may be shown. Others may be passwords.
_PUBLIC_OPTIONS = (*_LIMITS, "maxoffsetspertrigger", "minpartitions")


def find_once_only_sources(writer: DataStreamWriter) -> tuple[str, ...]:
    """Return the formats of the sources that deliver each record only once."""
    tables = [_table(leaf) for leaf in _leaves(writer)]
    return tuple(sorted({_ONCE_ONLY[table] for table in tables if table in _ONCE_ONLY}))


def reads_all_available(writer: DataStreamWriter) -> bool:
    """Return whether each batch reads all available input: files without a limit, and Spark's rate source.

    False for all other sources, because their limits cannot be seen here.
    """
    streams = [leaf for leaf in _leaves(writer) if leaf.isStreaming()]
    return bool(streams) and all(_is_unlimited(leaf) for leaf in streams)


def read_source_options(writer: DataStreamWriter) -> dict[str, str] | None:
    """Return the public options of a query's only source, by name in lower case.

    None if the query has several sources, or if the options cannot be read.
    """
    streams = [leaf for leaf in _leaves(writer) if leaf.isStreaming()]
    options = _options(streams[0]) if len(streams) == 1 else None
    return None if options is None else {name: value for name, value in options.items() if name in _PUBLIC_OPTIONS}


def is_between_batches(status: Mapping[str, Any]) -> bool:
    """Return whether a running query waits for new input or for its next trigger, by its status in Spark."""
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
