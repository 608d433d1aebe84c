"""Gathered windows → tables of snapshots, operators and instances; and snapshots in the domain's own type.

table       one row for each   holds
snapshots   window             the whole snapshot as JSON, ready for `autotrascale decide`
operators   operator of it     work, rates, selectivity, skew, parallelism, upstream
instances   instance of that   work
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from datetime import UTC, datetime
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from autotrascale import validation
from autotrascale.analyze.archive.columns import Columns, ddl, record_batch
from autotrascale.analyze.archive.measuring import snapshot_of
from autotrascale.domain.snapshot import WORK_FIELDS, Snapshot, Work
from autotrascale.domain.true_rates import compute_true_rates

if TYPE_CHECKING:
    import pyarrow as pa

_SNAPSHOTS: Columns = {
    "job": "string",
    "day": "string",
    "run": "string",
    "window": "bigint",
    "started_ms": "bigint",
    "batches": "bigint",
    "snapshot": "string",
}
_WINDOW: Columns = dict(list(_SNAPSHOTS.items())[:5])
_WORK: Columns = dict.fromkeys(WORK_FIELDS, "double")
_OPERATORS: Columns = {
    **_WINDOW,
    "operator": "string",
    "rank": "int",
    "parallelism": "int",
    "upstream": "array<string>",
    "stateful": "boolean",
    **_WORK,
    "source_rate": "double",
    "true_rate": "double",
    "observed_rate": "double",
    "selectivity": "double",
    "skew": "double",
}
_INSTANCES: Columns = {**_WINDOW, "operator": "string", "instance": "int", **_WORK}
_ALWAYS_SAID = ("upstream", "version", "execution")


@dataclass(frozen=True)
class Measured:
    """A snapshot, and when and of which run it is."""

    snapshot: Snapshot
    run: str
    window: int
    started_ms: int
    batches: int

    @property
    def began(self) -> str:
        return datetime.fromtimestamp(self.started_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def table(gathered: DataFrame, p_max: int | None = None) -> DataFrame:
    """One row for each window; `day` is that of its first trigger, in UTC. `snapshot` is null where the log does not
    say what the window's sources offered."""
    shares = gathered.sparkSession.sparkContext.defaultParallelism  # of windows; Spark would take their bytes for few
    return gathered.repartition(shares).mapInArrow(partial(_snapshots, p_max=p_max), ddl(_SNAPSHOTS))


def operators(table: DataFrame) -> DataFrame:
    return _whole(table).mapInArrow(partial(_taken_apart, _operators, _OPERATORS), ddl(_OPERATORS))


def instances(table: DataFrame) -> DataFrame:
    return _whole(table).mapInArrow(partial(_taken_apart, _instances, _INSTANCES), ddl(_INSTANCES))


def unmeasured(table: DataFrame) -> dict[str, int]:
    """How many windows of which job have no snapshot."""
    rows = table.where("snapshot is null").groupBy("job").count().orderBy("job").collect()
    return {row["job"]: row["count"] for row in rows}


def _whole(table: DataFrame) -> DataFrame:
    return table.where("snapshot is not null")


def measured(table: DataFrame) -> Iterator[Measured]:
    """In order of time. They come over one after another: as many as there are never stand in memory together."""
    wanted = _whole(table).select("snapshot", "run", "window", "started_ms", "batches")
    for row in wanted.orderBy("started_ms", "run").toLocalIterator():
        yield Measured(_snapshot(row), row["run"], row["window"], row["started_ms"], row["batches"])


def last_of_each_job(measured: Iterable[Measured]) -> list[Measured]:
    """The newest window of every job, jobs in the order in which they were last seen."""
    newest: dict[str, Measured] = {}
    for one in measured:
        newest.pop(one.snapshot.job, None)
        newest[one.snapshot.job] = one
    return list(newest.values())


def as_dict(value: Any) -> Any:
    """A snapshot in the schema that `decide` reads. What is not known, or stands at its default, is left out."""
    if isinstance(value, float | int | str):  # most are: asked first
        return value
    if isinstance(value, Mapping):
        return {name: as_dict(part) for name, part in value.items()}
    if isinstance(value, tuple):
        return [as_dict(part) for part in value]
    if is_dataclass(value):
        kind: type = type(value)
        parts = [(name, getattr(value, name), default) for name, default in _defaults(kind)]
        return {name: as_dict(part) for name, part, default in parts if part is not None and part != default}
    return value


@cache
def _defaults(kind: Any) -> list[tuple[str, object]]:
    """Of each field what need not be said. What a reader wants to see in any case has no such value."""
    usual = (
        (each, each.default_factory() if each.default_factory is not MISSING else each.default) for each in fields(kind)
    )
    return [(each.name, MISSING if each.name in _ALWAYS_SAID else value) for each, value in usual]


def _snapshots(batches: Iterable[pa.RecordBatch], p_max: int | None) -> Iterator[pa.RecordBatch]:
    """Windows become Python's objects one by one: each has thousands, and there may be thousands of windows."""
    for batch in batches:
        windows = (_with_stages(batch.slice(at, 1).to_pylist()[0]) for at in range(batch.num_rows))
        yield record_batch([_row(window, p_max) for window in windows], _SNAPSHOTS)


def _with_stages(row: dict[str, Any]) -> dict[str, Any]:
    """Each of its batches with the stages of its own."""
    of: dict[int, list[Any]] = {batch["batch"]: [] for batch in row["batches"]}
    for stage in row["stages"]:
        of[stage.pop("batch")].append(stage)
    return {**row, "batches": [{**batch, "stages": of[batch["batch"]]} for batch in row["batches"]]}


def _row(row: Mapping[str, Any], p_max: int | None) -> dict[str, Any]:
    started_ms = min(batch["started_ms"] for batch in row["batches"])
    snapshot = snapshot_of(row, p_max)
    return {
        **{name: row[name] for name in ("job", "run", "window")},
        "day": datetime.fromtimestamp(started_ms / 1000, UTC).strftime("%Y-%m-%d"),
        "started_ms": started_ms,
        "batches": len(row["batches"]),
        "snapshot": None if snapshot is None else json.dumps(as_dict(snapshot), allow_nan=False),
    }


def _taken_apart(
    rows_of: Callable[[Snapshot], Iterable[dict[str, Any]]], columns: Columns, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        windows = [(row, {name: row[name] for name in _WINDOW}) for row in batch.to_pylist()]
        yield record_batch([{**window, **part} for row, window in windows for part in rows_of(_snapshot(row))], columns)


def _operators(snapshot: Snapshot) -> Iterator[dict[str, Any]]:
    """Zero records make no selectivity, and unknown ones nothing at all: null, in every case."""
    for rank, (name, operator) in enumerate(snapshot.operators.items()):
        total = operator.total
        took, gave = total.records_in, total.records_out
        yield {
            "operator": name,
            "rank": rank,
            "parallelism": operator.parallelism,
            "upstream": operator.upstream,
            "stateful": operator.stateful,
            **_work(total),
            "source_rate": snapshot.source_rates.get(name),
            "true_rate": compute_true_rates(operator).processing,
            "observed_rate": None if took is None else took / snapshot.window_seconds,
            "selectivity": gave / took if took and gave is not None else None,
            "skew": operator.skew,
        }


def _instances(snapshot: Snapshot) -> Iterator[dict[str, Any]]:
    for name, operator in snapshot.operators.items():
        for instance, work in enumerate(operator.instances):
            yield {"operator": name, "instance": instance, **_work(work)}


def _work(done: Work) -> dict[str, float | None]:
    return {name: getattr(done, name) for name in WORK_FIELDS}


def _snapshot(row: Any) -> Snapshot:
    return validation.validate(json.loads(row["snapshot"]), Snapshot, place=f"run {row['run']}")
