"""Edges as a table of typed columns, for files: names instead of numbers, times in ticks since 1970."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from autotrascale.analyze.critical.edges import KINDS, NONE, Edges, Names, Numbers

EDGES = pa.schema(
    [
        ("source", pa.string()),
        ("target", pa.string()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("kind", pa.string()),
        ("operator", pa.string()),
        ("instance", pa.int64()),
        ("message", pa.bool_()),
    ]
)
_KINDS = pa.array([kind.value for kind in KINDS])


def edges_to_table(edges: Edges, names: Names) -> pa.Table:
    """Return edges as a table with the columns of `EDGES`."""
    arrays = [
        _named(names.timelines, edges.source),
        _named(names.timelines, edges.target),
        pa.array(edges.start),
        pa.array(edges.end),
        _KINDS.take(pa.array(edges.kind)),
        _named(names.operators, edges.operator),
        pa.array(edges.instance, mask=edges.instance == NONE),
        pa.array(edges.message),
    ]
    return pa.Table.from_arrays(arrays, schema=EDGES)


def table_to_edges(table: pa.Table) -> tuple[Edges, Names]:
    """Return the edges of a table. A kind of a later version of AuTraScale becomes `unknown`."""
    ends, timelines = _numbered(pa.chunked_array([*table["source"].chunks, *table["target"].chunks]))
    operator, operators = _numbered(table["operator"])
    kind = pc.index_in(table["kind"], _KINDS).fill_null(len(KINDS) - 1)
    edges = Edges(
        source=ends[: len(table)],
        target=ends[len(table) :],
        start=_integers(table["start"]),
        end=_integers(table["end"]),
        kind=_integers(kind),
        operator=operator,
        instance=_integers(table["instance"].fill_null(NONE)),
        message=table["message"].to_numpy().astype(bool),
        window=np.zeros(len(table), np.int64),
    )
    return edges, Names(timelines, operators)


def _named(names: Iterable[str], numbers: Numbers) -> pa.Array:
    return pa.array(list(names), pa.string()).take(pa.array(numbers, mask=numbers == NONE))


def _numbered(column: Any) -> tuple[Numbers, tuple[str, ...]]:
    encoded = pa.concat_arrays(column.chunks).dictionary_encode()
    return _integers(encoded.indices.fill_null(NONE)), tuple(encoded.dictionary.to_pylist())


def _integers(column: Any) -> Numbers:
    chunked = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    numbers: Numbers = chunked.to_numpy().astype(np.int64)
    return numbers
