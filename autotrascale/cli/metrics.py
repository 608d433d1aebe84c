"""`autotrascale metrics [JOB]`: what the metric store knows of jobs that run, or ran, on Spark."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotrascale.app.console import FormatOption, OutputFormat, note, print_answer, print_table, say
from autotrascale.app.stores import MetricsOption

if TYPE_CHECKING:
    from collections.abc import Mapping

    from autotrascale.monitor.stores.metric_history import MetricSeries
    from autotrascale.monitor.stores.metric_store import MetricStore

_SECOND = 1_000_000_000


def metrics(
    job: Annotated[str, typer.Argument(metavar="[JOB]", help="One job's history; else all jobs, newest first.")] = "",
    hours: Annotated[float, typer.Option(metavar="H", min=0.01, help="How far back to look.")] = 24.0,
    points: Annotated[int, typer.Option(metavar="N", min=2, help="At most so many rows.")] = 24,
    store: MetricsOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Show what tuning runs and control loops measured of real jobs, and how fresh it is."""
    from autotrascale.app.metric_recording import choose_metric_store
    from autotrascale.domain.errors import InputError
    from autotrascale.monitor.stores.store_settings import SqliteSettings, open_store

    wanted = choose_metric_store(store)
    if wanted is None:
        raise InputError("--metrics", "is none, and this verb reads what a store holds", remedy="name the store")
    if isinstance(wanted, SqliteSettings) and not Path(wanted.path).expanduser().exists():  # looking makes nothing
        raise InputError(wanted.path, "holds no metrics yet", remedy="tune or autoscale a job on Spark in this folder")
    stop = time.time_ns() + 1
    start = max(0, stop - round(hours * 3600 * _SECOND))
    with open_store(wanted) as opened:
        if problem := opened.status().problem:
            note(f"metric store: {problem}")
        if job:
            answer = _history(opened, job, start, stop, points)
            print_answer(form, answer, lambda: _show(answer))
        else:
            jobs = _jobs(opened, start, stop)
            print_answer(form, {"jobs": jobs}, lambda: _list(jobs, hours))


def register(app: typer.Typer) -> None:
    app.command("metrics")(metrics)


def _jobs(store: MetricStore, start: int, stop: int) -> list[dict[str, Any]]:
    from autotrascale.monitor.stores.metric_history import read_last_snapshot_times

    newest = sorted(read_last_snapshot_times(store, start, stop).items(), key=lambda item: -item[1])
    return [{"job": job, "measured": _when(at), "age_seconds": round((stop - at) / _SECOND, 1)} for job, at in newest]


def _history(store: MetricStore, job: str, start: int, stop: int, points: int) -> dict[str, Any]:
    """Series by name; those of one job, of equal steps, where nothing was measured nothing stands."""
    from autotrascale.domain.errors import InputError
    from autotrascale.monitor.stores.metric_history import (
        read_backlog_series,
        read_last_snapshot_times,
        read_latency_series,
        read_parallelism_series,
        read_throughput_series,
    )

    known = read_last_snapshot_times(store, start, stop)
    if job not in known:
        remedy = f"use one of {', '.join(sorted(known))}" if known else "look further back with --hours"
        raise InputError("job", "has no metrics of this time", seen=job, remedy=remedy)
    stop = known[job] + 1
    span = (store, job, max(start, _first(store, job, start, stop)), stop)
    return {
        "job": job,
        "throughput": _plain(read_throughput_series(*span, points=points)),
        "latency_p95_seconds": _plain(read_latency_series(*span, statistic="p95", points=points)),
        "backlog_records": _plain(read_backlog_series(*span, points=points)),
        "parallelism": {name: _plain(one) for name, one in read_parallelism_series(*span, points=points).items()},
    }


def _first(store: MetricStore, job: str, start: int, stop: int) -> int:
    """About where its history begins: rows are not spent on the time before."""
    from autotrascale.monitor.stores.metric_history import PLOT_POINTS, read_job_series
    from autotrascale.monitor.stores.snapshot_points import ALWAYS_PRESENT_FIELD

    return read_job_series(store, job, ALWAYS_PRESENT_FIELD, start, stop, "count", PLOT_POINTS).times[0]


def _plain(series: MetricSeries) -> dict[str, float]:
    return {_when(at): value for at, value in zip(series.times, series.values, strict=True)}


def _when(nanoseconds: int) -> str:
    return datetime.fromtimestamp(nanoseconds / _SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _list(jobs: list[dict[str, Any]], hours: float) -> None:
    if not jobs:
        say(f"no job on Spark was measured in the last {hours:g} hours")
        return
    print_table(("job", "last measured (UTC)", "seconds ago"), [tuple(one.values()) for one in jobs])


def _show(answer: Mapping[str, Any]) -> None:
    say(f"{answer['job']}: times are UTC, each the beginning of a step")
    columns = ("throughput", "latency_p95_seconds", "backlog_records")
    operators: dict[str, dict[str, float]] = answer["parallelism"]
    times = sorted({at for name in columns for at in answer[name]} | {at for one in operators.values() for at in one})
    print_table(
        ("time", "done/s", "p95 s", "backlog", *operators),
        [
            (
                at.replace("T", " ").rstrip("Z"),
                *(_number(answer[name].get(at)) for name in columns),
                *(_number(one.get(at)) for one in operators.values()),
            )
            for at in times
        ],
    )


def _number(value: float | None) -> str:
    if value is None:
        return "?"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
