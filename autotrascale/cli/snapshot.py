"""`autotrascale snapshot`: what the event log of a Spark application says of its operators, window by window."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from autotrascale.app.console import FormatOption, OutputFormat, note, print_answer, print_table, say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from autotrascale.analyze.archive.pipeline import Archive
    from autotrascale.analyze.archive.snapshots import Measured
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
    driver_memory: Annotated[str, typer.Option(metavar="SIZE", help="Memory of the JVM that reads.")] = "1g",
    form: FormatOption = OutputFormat.table,
) -> None:
    """Turn Spark's event logs into snapshots, as `decide` reads them. JSON: one snapshot on each line."""
    seconds = _seconds(window)
    from autotrascale.analyze.archive.pipeline import read, workspace
    from autotrascale.analyze.archive.snapshots import as_dict, last_of_each_job, measured, unmeasured
    from autotrascale.execute.spark.common.spark_settings import parse_megabytes
    from autotrascale.execute.spark.controller.local_session import local_session
    from autotrascale.monitor.eventlog.log_files import check_paths

    check_paths(event_log)
    parse_megabytes("--driver-memory", driver_memory)
    if output:
        check_output(output)
    with workspace() as folder, local_session(driver_memory) as spark:
        archive = read(spark, event_log, folder)
        _tell_damage(archive)
        _check_job(archive, job, event_log)
        windows = archive.windows(seconds, job=job, p_max=p_max)
        for name, count in unmeasured(windows).items():
            note(f"job {name}: {count} windows left out: this version of Spark counts no records, so rates are unknown")
        if output:
            archive.write(windows, output)
        found = measured(windows)
        for one in found if every else last_of_each_job(found):
            print_answer(form, as_dict(one.snapshot), partial(_show, one))


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
    """Before Spark is started; of a folder elsewhere only Spark can tell."""
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


def _tell_damage(archive: Archive) -> None:
    for damage in archive.damages:
        note(str(damage))


def _check_job(archive: Archive, job: str, paths: Iterable[str]) -> None:
    from autotrascale.domain.errors import InputError

    jobs = archive.jobs()
    if not jobs:
        remedy = "give the log of an application that ran a job to its end (progress records alone have no tasks)"
        raise InputError(", ".join(paths), "holds no batch or query that ran", remedy=remedy)
    if job and job not in jobs:
        raise InputError("--job", "is in none of the logs", seen=job, remedy=f"use one of {', '.join(jobs)}")


def _show(one: Measured) -> None:
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
