"""Archives of event logs → snapshots of all their windows.

    logs, unread = find_logs(["/logs"])
    with workspace() as folder:
        archive = measure_archive(logs, Measuring(folder, seconds=60))
        for one in archive.snapshots():
            print(snapshot_as_dict(one.snapshot))

Each log is read once. Its snapshots are written into `folder`, which must be reachable for all executors of Spark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from autotrascale.analyze.archive.measure_log import (
    MeasuredLog,
    Measuring,
    is_progress_file,
    measure_log,
    read_progress_file,
)
from autotrascale.analyze.archive.snapshot_form import (
    INSTANCES,
    OPERATORS,
    SNAPSHOTS,
    MeasuredSnapshot,
    instance_rows,
    operator_rows,
    snapshot_of_row,
)
from autotrascale.analyze.joiner import BatchKey
from autotrascale.analyze.log_tasks import RunAll, run_here
from autotrascale.monitor.eventlog.damage import Damage
from autotrascale.monitor.eventlog.events import ProgressRecord
from autotrascale.monitor.eventlog.log_files import LogFile, open_filesystem

_PLACE = ["started_ms", "run", "job"]
_BY_JOB_AND_DAY = ds.partitioning(pa.schema([("job", pa.string()), ("day", pa.string())]), flavor="hive")
Rows = Callable[[Mapping[str, Any]], Iterable[dict[str, Any]]]


class _Place(NamedTuple):
    """The row of a snapshot. Places sort by time."""

    started_ms: int
    run: str
    job: str
    path: str
    group: int
    row: int


@dataclass(frozen=True)
class MeasuredArchive:
    """The snapshots of all logs that were read."""

    folder: str
    logs: tuple[MeasuredLog, ...]
    damages: tuple[Damage, ...]

    @property
    def jobs(self) -> list[str]:
        """The names of all jobs in the logs."""
        return sorted({job for log in self.logs for job in log.jobs})

    @property
    def unmeasured(self) -> dict[str, int]:
        """The number of windows without a snapshot, by job: the log does not hold their input rate."""
        counts = sum((Counter(log.unmeasured) for log in self.logs), Counter[str]())
        return {job: counts[job] for job in sorted(counts)}

    def snapshots(self) -> Iterator[MeasuredSnapshot]:
        """Yield all snapshots in order of time. Few of them are in memory at once."""
        yield from self._read(self._places())

    def newest(self) -> list[MeasuredSnapshot]:
        """Return the newest snapshot of each job. Jobs are ordered by the time of this snapshot."""
        newest: dict[str, _Place] = {}
        for place in self._places():
            newest.pop(place.job, None)
            newest[place.job] = place
        return list(self._read(newest.values()))

    def write(self, folder: str) -> None:
        """Write snapshots, operators and instances as Parquet below `folder`, by job and day.

        Days that are written again are replaced. Other days stay, so an archive may be measured day by day.
        """
        system, path = open_filesystem(folder)
        tables: tuple[tuple[str, pa.Schema, Rows | None], ...] = (
            ("snapshots", SNAPSHOTS, None),
            ("operators", OPERATORS, operator_rows),
            ("instances", INSTANCES, instance_rows),
        )
        for name, schema, rows_of in tables:
            ds.write_dataset(
                self._batches(schema, rows_of),
                f"{path}/{name}",
                format="parquet",
                schema=schema,
                filesystem=system,
                partitioning=_BY_JOB_AND_DAY,
                existing_data_behavior="delete_matching",
            )

    def _batches(self, schema: pa.Schema, rows_of: Rows | None) -> Iterator[pa.RecordBatch]:
        system, _ = open_filesystem(self.folder)
        for log in self.logs:
            with pq.ParquetFile(log.path, filesystem=system) as file:
                for batch in file.iter_batches():
                    if rows_of is None:
                        yield batch
                    else:
                        snapshots = (row for row in batch.to_pylist() if row["snapshot"] is not None)
                        yield pa.RecordBatch.from_pylist([each for row in snapshots for each in rows_of(row)], schema)

    def _places(self) -> list[_Place]:
        """Return the places of all snapshots in order of time."""
        system, _ = open_filesystem(self.folder)
        found = []
        for log in self.logs:
            with pq.ParquetFile(log.path, filesystem=system) as file:
                for group in range(file.num_row_groups):
                    table = file.read_row_group(group, columns=[*_PLACE, "snapshot"])
                    rows = enumerate(table.select(_PLACE).to_pylist())
                    has_snapshot = table["snapshot"].is_valid().to_pylist()
                    found += [
                        _Place(row["started_ms"], row["run"], row["job"], log.path, group, number)
                        for number, row in rows
                        if has_snapshot[number]
                    ]
        return sorted(found)

    def _read(self, places: Iterable[_Place]) -> Iterator[MeasuredSnapshot]:
        system, _ = open_filesystem(self.folder)

        @lru_cache(maxsize=64)
        def read_group(path: str, group: int) -> pa.Table:
            with pq.ParquetFile(path, filesystem=system) as file:
                return file.read_row_group(group)

        for place in places:
            (row,) = read_group(place.path, place.group).slice(place.row, 1).to_pylist()
            yield MeasuredSnapshot(snapshot_of_row(row), row["run"], row["window"], row["started_ms"], row["batches"])


def measure_archive(
    logs: Sequence[Sequence[LogFile]], measuring: Measuring, run_all: RunAll = run_here
) -> MeasuredArchive:
    """Measure the windows of all logs.

    `run_all` runs the work: `run_here` in this process, `run_on(spark)` with a task for each log.
    """
    reports: dict[BatchKey, ProgressRecord] = {}
    damages: list[Damage] = []
    application_logs = []
    for log in logs:
        if is_progress_file(log):
            found, unread = read_progress_file(log)
            reports |= found
            damages += unread
        else:
            application_logs.append(log)
    largest_first = sorted(application_logs, key=lambda log: -sum(file.text_bytes for file in log))
    measured = run_all(partial(measure_log, replace(measuring, reports=reports)), largest_first)
    damages += [damage for log in measured for damage in log.damages]
    return MeasuredArchive(measuring.folder, tuple(measured), tuple(sorted(damages, key=lambda each: each.file)))
