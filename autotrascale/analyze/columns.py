"""One list of columns for both sides of the border between Spark SQL and Python: name → type in Spark's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

Columns = Mapping[str, str]


def ddl(columns: Columns) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


def record_batch(rows: Sequence[Mapping[str, Any]], columns: Columns) -> pa.RecordBatch:
    """Rows as Spark takes them back from `mapInArrow`."""
    import pyarrow as pa

    kinds = {
        "int": pa.int32(),
        "bigint": pa.int64(),
        "double": pa.float64(),
        "string": pa.string(),
        "boolean": pa.bool_(),
        "array<string>": pa.list_(pa.string()),
        "map<string,double>": pa.map_(pa.string(), pa.float64()),
    }
    schema = pa.schema([(name, kinds[kind]) for name, kind in columns.items()])
    return pa.RecordBatch.from_pydict({name: [row[name] for row in rows] for name in columns}, schema=schema)
