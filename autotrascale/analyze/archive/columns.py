"""One list of columns for both sides of the border between Spark SQL and Python: name → type in Spark's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

Columns = Mapping[str, str]
MARKS = "map<string,struct<n:bigint,first:double,mean:double,last:double>>"
_KINDS = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "array<string>": pa.list_(pa.string()),
    MARKS: pa.map_(
        pa.string(), pa.struct([("n", pa.int64()), *((name, pa.float64()) for name in ("first", "mean", "last"))])
    ),
}


def ddl(columns: Columns) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


def arrow_schema(columns: Columns) -> pa.Schema:
    return pa.schema([(name, _KINDS[kind]) for name, kind in columns.items()])


def record_batch(rows: Sequence[Mapping[str, Any]], columns: Columns) -> pa.RecordBatch:
    """Rows as Spark takes them back from `mapInArrow`."""
    return pa.RecordBatch.from_pydict({name: [row[name] for row in rows] for name in columns}, arrow_schema(columns))
