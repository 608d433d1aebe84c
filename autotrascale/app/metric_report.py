"""Recorded metrics of jobs: which jobs were measured, and the history of one job."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from autotrascale.app.console import note
from autotrascale.app.metric_recording import choose_metric_store
from autotrascale.domain.errors import InputError
from autotrascale.monitor.stores.metric_history import (
    PLOT_POINTS,
    MetricSeries,
    read_backlog_series,
    read_job_series,
    read_last_snapshot_times,
    read_latency_series,
    read_parallelism_series,
    read_throughput_series,
)
from autotrascale.monitor.stores.metric_store import MetricStore
from autotrascale.monitor.stores.points import SECOND
from autotrascale.monitor.stores.snapshot_points import ALWAYS_PRESENT_FIELD
from autotrascale.monitor.stores.store_settings import SqliteSettings, open_store


def report_metrics(option: str | None, job: str, hours: float, points: int) -> dict[str, Any]:
    """Return the measured jobs, or the history of one job.

    Args:
        option: the value of `--metrics`.
        job: name of the job; "": list all jobs.
        hours: how far to look back.
        points: most values of a series.

    Raises:
        InputError: no metric store is in use, or it has no metrics of the job.
    """
    settings = choose_metric_store(option)
    if settings is None:
        raise InputError("--metrics", "is none, but this verb reads a metric store", remedy="name the store")
    if isinstance(settings, SqliteSettings) and not Path(settings.path).expanduser().exists():
        # Opening the store would create the file.
        raise InputError(settings.path, "has no metrics yet", remedy="tune or scale a job on Spark in this folder")
    stop = time.time_ns() + 1
    start = max(0, stop - round(hours * 3600 * SECOND))
    with open_store(settings) as store:
        if problem := store.status().problem:
            note(f"metric store: {problem}")
        return _report_job(store, job, start, stop, points) if job else _list_jobs(store, start, stop)


def _list_jobs(store: MetricStore, start: int, stop: int) -> dict[str, Any]:
    newest = sorted(read_last_snapshot_times(store, start, stop).items(), key=lambda item: -item[1])
    return {
        "jobs": [
            {"job": job, "measured": _format_time(at), "age_seconds": round((stop - at) / SECOND, 1)}
            for job, at in newest
        ]
    }


def _report_job(store: MetricStore, job: str, start: int, stop: int, points: int) -> dict[str, Any]:
    known = read_last_snapshot_times(store, start, stop)
    if job not in known:
        remedy = f"use one of {', '.join(sorted(known))}" if known else "look further back with --hours"
        raise InputError("job", "has no metrics in this time", seen=job, remedy=remedy)
    stop = known[job] + 1
    # Begin at the first measurement, so that no points are spent on the time before.
    first = read_job_series(store, job, ALWAYS_PRESENT_FIELD, start, stop, "count", PLOT_POINTS).times[0]
    span = (store, job, max(start, first), stop)
    parallelism = read_parallelism_series(*span, points=points)
    return {
        "job": job,
        "throughput": _as_dict(read_throughput_series(*span, points=points)),
        "latency_p95_seconds": _as_dict(read_latency_series(*span, statistic="p95", points=points)),
        "backlog_records": _as_dict(read_backlog_series(*span, points=points)),
        "parallelism": {operator: _as_dict(series) for operator, series in parallelism.items()},
    }


def _as_dict(series: MetricSeries) -> dict[str, float]:
    return {_format_time(at): value for at, value in zip(series.times, series.values, strict=True)}


def _format_time(nanoseconds: int) -> str:
    return datetime.fromtimestamp(nanoseconds / SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
