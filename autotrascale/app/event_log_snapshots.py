"""Use case of `snapshot`: snapshots of a job from event logs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from autotrascale.analyze.archive.measure_log import Measuring
from autotrascale.analyze.archive.measured_archive import MeasuredArchive, measure_archive
from autotrascale.analyze.log_tasks import workspace
from autotrascale.app.console import note
from autotrascale.app.event_logs import check_output_folder, open_log_runner
from autotrascale.domain.errors import InputError
from autotrascale.execute.spark.common.spark_settings import parse_megabytes
from autotrascale.monitor.eventlog.log_files import find_logs

if TYPE_CHECKING:
    from autotrascale.analyze.archive.snapshot_form import MeasuredSnapshot


def read_snapshots(
    paths: Sequence[str],
    window_seconds: float | None,
    *,
    job: str = "",
    every: bool = False,
    p_max: int | None = None,
    output: str = "",
    driver_memory: str = "1g",
) -> Iterator[MeasuredSnapshot]:
    """Yield the newest snapshot of each job, or all snapshots.

    Args:
        paths: event logs, or folders of them.
        window_seconds: length of a window; None: one window for each run of a query.
        job: name of the only job to read; "": all jobs.
        every: yield all snapshots.
        p_max: most instances of an operator; None: the cores of the executors.
        output: folder for all windows as Parquet; "": do not write.
        driver_memory: memory of Spark's JVM.

    Raises:
        InputError: a log cannot be read, the job is in no log, or the output cannot be written.
    """
    parse_megabytes("--driver-memory", driver_memory)
    if output:
        check_output_folder(output)
    logs, unread = find_logs(paths)
    with workspace() as folder, open_log_runner(logs, driver_memory) as run_all:
        archive = measure_archive(logs, Measuring(folder, window_seconds, job, p_max), run_all)
        for damage in (*unread, *archive.damages):
            note(str(damage))
        _check_job(archive, job, paths)
        for name, count in archive.unmeasured.items():
            note(f"job {name}: {count} windows left out, as this version of Spark does not count records")
        if output:
            archive.write(output)
        yield from archive.snapshots() if every else archive.newest()


def _check_job(archive: MeasuredArchive, job: str, paths: Sequence[str]) -> None:
    jobs = archive.jobs
    if not jobs:
        remedy = "give the log of an application that has ended (progress records alone have no tasks)"
        raise InputError(", ".join(paths), "has no batch or query that ran", remedy=remedy)
    if job and job not in jobs:
        raise InputError("--job", "is in none of the logs", seen=job, remedy=f"use one of {', '.join(jobs)}")
