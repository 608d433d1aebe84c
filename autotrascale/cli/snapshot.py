"""`autotrascale snapshot`: what the event log of a Spark application says of its operators, window by window."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from autotrascale.app.console import OutputFormat, note, print_answer, print_table, say
from autotrascale.cli.options import FormatOption

if TYPE_CHECKING:
    from collections.abc import Iterable

    from autotrascale.analyze.archive.measured_archive import MeasuredArchive
    from autotrascale.analyze.archive.snapshot_form import MeasuredSnapshot
    from autotrascale.domain.snapshot import OperatorMetrics


def snapshot(
    event_log: Annotated[
        list[str],
        typer.Option(metavar="PATH", help="An event log, a folder of them, or progress records; may be repeated."),
    ],
    window: Annotated[
        str, typer.Option(metavar="SECONDS|run", help="The length of a window; run makes one of each run of a query.")
    ] = "60",
    job: Annotated[str, typer.Option(metavar="NAME", help="Only this job: a query's or an application's name.")] = "",
    every: Annotated[bool, typer.Option("--all", help="Every window, and not only the newest of each job.")] = False,
    p_max: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Bound for each operator. [default: the executors' cores]")
    ] = None,
    output: Annotated[
        str, typer.Option(metavar="FOLDER", help="Also write every window as Parquet, by job and day.")
    ] = "",
    driver_memory: Annotated[str, typer.Option(metavar="SIZE", help="Memory of Spark's JVM.")] = "1g",
    form: FormatOption = OutputFormat.table,
) -> None:
    """Turn Spark's event logs into snapshots, as `decide` reads them. JSON: one snapshot on each line."""
    seconds = _seconds(window)
    from autotrascale.analyze.archive.measure_log import Measuring
    from autotrascale.analyze.archive.measured_archive import measure_archive
    from autotrascale.analyze.archive.snapshot_form import snapshot_as_dict
    from autotrascale.analyze.log_tasks import workspace
    from autotrascale.app.log_runner import open_log_runner
    from autotrascale.execute.spark.common.spark_settings import parse_megabytes
    from autotrascale.monitor.eventlog.log_files import find_logs

    parse_megabytes("--driver-memory", driver_memory)
    if output:
        check_output(output)
    logs, unread = find_logs(event_log)
    with workspace() as folder, open_log_runner(logs, driver_memory) as run_all:
        archive = measure_archive(logs, Measuring(folder, seconds, job, p_max), run_all)
        for damage in (*unread, *archive.damages):
            note(str(damage))
        _check_job(archive, job, event_log)
        for name, count in archive.unmeasured.items():
            note(f"job {name}: {count} windows left out: this version of Spark counts no records, so rates are unknown")
        if output:
            archive.write(output)
        for one in archive.snapshots() if every else archive.newest():
            print_answer(form, snapshot_as_dict(one.snapshot), partial(_show, one))


def register(app: typer.Typer) -> None:
    app.command("snapshot")(snapshot)


def _seconds(window: str) -> float | None:
    if window == "run":
        return None
    try:
        seconds = float(window)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise typer.BadParameter(f"{window!r} is neither a number of seconds above 0 nor run", param_hint="--window")
    return seconds


def check_output(folder: str) -> None:
    """Raise `InputError` unless the folder can be written. A folder on another file system is not checked."""
    from autotrascale.domain.errors import InputError
    from autotrascale.monitor.eventlog.log_files import is_address

    if is_address(folder):
        return
    there = next(path for path in (Path(folder).absolute(), *Path(folder).absolute().parents) if path.exists())
    try:
        with TemporaryDirectory(prefix=".", dir=there):
            pass
    except OSError as error:
        why = "is no folder" if isinstance(error, NotADirectoryError) else f"cannot be written: {error.strerror}"
        raise InputError("--output", why, seen=folder, remedy="name another folder") from None


def _check_job(archive: MeasuredArchive, job: str, paths: Iterable[str]) -> None:
    from autotrascale.domain.errors import InputError

    jobs = archive.jobs
    if not jobs:
        remedy = "give the log of an application that ran a job to its end (progress records alone have no tasks)"
        raise InputError(", ".join(paths), "holds no batch or query that ran", remedy=remedy)
    if job and job not in jobs:
        raise InputError("--job", "is in none of the logs", seen=job, remedy=f"use one of {', '.join(jobs)}")


def _show(one: MeasuredSnapshot) -> None:
    shot = one.snapshot
    rates = ", ".join(f"{name} {rate:,.1f}/s" for name, rate in shot.source_rates.items())
    say(f"{shot.job}: {one.began} UTC, {shot.window_seconds:.1f} s, {one.batches} batches, p_max {shot.p_max}")
    say(f"  offered {rates}; done {_number(shot.throughput, '/s')}; latency {_number(shot.latency_seconds.mean, ' s')}")
    print_table(
        ("operator", "k", "records in", "records out", "true rate/s", "busy", "skew", "GC"),
        [_row(name, operator, shot.window_seconds) for name, operator in shot.operators.items()],
    )


def _row(name: str, operator: OperatorMetrics, seconds: float) -> tuple[object, ...]:
    from autotrascale.domain.true_rates import compute_true_rates

    total = operator.total
    useful, gc = total.useful_seconds, total.gc_seconds
    return (
        name,
        operator.parallelism,
        _number(total.records_in, ""),
        _number(total.records_out, ""),
        _number(compute_true_rates(operator).processing, ""),
        "?" if useful is None else f"{useful / seconds / operator.parallelism:.0%}",
        _number(operator.skew, ""),
        f"{gc / useful:.0%}" if useful and gc is not None else "?",
    )


def _number(value: float | None, unit: str) -> str:
    """Three digits say enough; what is not known is a question mark."""
    if value is None:
        return "?"
    return (f"{value:,.0f}" if value >= 100 else f"{value:.3g}") + unit
