"""The forms of a snapshot: JSON as `decide` reads it, and rows of three tables.

table       one row for each   contents
snapshots   window             the whole snapshot as JSON
operators   operator of it     work, rates, selectivity, skew, parallelism, upstream
instances   instance of that   work
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pyarrow as pa

from autotrascale import validation
from autotrascale.domain.snapshot import WORK_FIELDS, Snapshot, Work
from autotrascale.domain.true_rates import compute_true_rates

_WINDOW = [
    ("job", pa.string()),
    ("day", pa.string()),  # of the first trigger, in UTC
    ("run", pa.string()),
    ("window", pa.int64()),
    ("started_ms", pa.int64()),
]
_WORK = [(name, pa.float64()) for name in WORK_FIELDS]
SNAPSHOTS = pa.schema([*_WINDOW, ("batches", pa.int64()), ("snapshot", pa.string())])
OPERATORS = pa.schema(
    [
        *_WINDOW,
        ("operator", pa.string()),
        ("rank", pa.int32()),
        ("parallelism", pa.int32()),
        ("upstream", pa.list_(pa.string())),
        ("stateful", pa.bool_()),
        *_WORK,
        *((name, pa.float64()) for name in ("source_rate", "true_rate", "observed_rate", "selectivity", "skew")),
    ]
)
INSTANCES = pa.schema([*_WINDOW, ("operator", pa.string()), ("instance", pa.int32()), *_WORK])
_ALWAYS_WRITTEN = ("upstream", "version", "execution")


@dataclass(frozen=True)
class MeasuredSnapshot:
    """A snapshot, and the run and the window that it is of."""

    snapshot: Snapshot
    run: str
    window: int
    started_ms: int
    batches: int

    @property
    def began(self) -> str:
        """The window's first trigger, in UTC."""
        return datetime.fromtimestamp(self.started_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def snapshot_as_dict(value: Any) -> Any:
    """Return a snapshot in the schema that `decide` reads. Unknown values and defaults are left out."""
    if isinstance(value, float | int | str):  # most values are: asked first
        return value
    if isinstance(value, Mapping):
        return {name: snapshot_as_dict(part) for name, part in value.items()}
    if isinstance(value, tuple):
        return [snapshot_as_dict(part) for part in value]
    if is_dataclass(value):
        kind: type = type(value)
        parts = [(name, getattr(value, name), default) for name, default in _defaults(kind)]
        return {name: snapshot_as_dict(part) for name, part, default in parts if part is not None and part != default}
    return value


def snapshot_of_row(row: Mapping[str, Any]) -> Snapshot:
    """Return the snapshot of a row of the table `snapshots`."""
    return validation.validate(json.loads(row["snapshot"]), Snapshot, place=f"run {row['run']}")


def operator_rows(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the rows of `operators` for a row of `snapshots`. The selectivity of zero or unknown records is null."""
    snapshot = snapshot_of_row(row)
    for rank, (name, operator) in enumerate(snapshot.operators.items()):
        total = operator.total
        records_in, records_out = total.records_in, total.records_out
        yield {
            **_window(row),
            "operator": name,
            "rank": rank,
            "parallelism": operator.parallelism,
            "upstream": operator.upstream,
            "stateful": operator.stateful,
            **_work(total),
            "source_rate": snapshot.source_rates.get(name),
            "true_rate": compute_true_rates(operator).processing,
            "observed_rate": None if records_in is None else records_in / snapshot.window_seconds,
            "selectivity": records_out / records_in if records_in and records_out is not None else None,
            "skew": operator.skew,
        }


def instance_rows(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the rows of `instances` for a row of `snapshots`."""
    for name, operator in snapshot_of_row(row).operators.items():
        for instance, work in enumerate(operator.instances):
            yield {**_window(row), "operator": name, "instance": instance, **_work(work)}


@cache
def _defaults(kind: Any) -> list[tuple[str, object]]:
    """Return the fields of a class with their defaults. Fields that are always written have none."""
    usual = (
        (each, each.default_factory() if each.default_factory is not MISSING else each.default) for each in fields(kind)
    )
    return [(each.name, MISSING if each.name in _ALWAYS_WRITTEN else value) for each, value in usual]


def _window(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name, _ in _WINDOW}


def _work(work: Work) -> dict[str, float | None]:
    return {name: getattr(work, name) for name in WORK_FIELDS}
