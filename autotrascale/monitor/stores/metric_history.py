"""Read series of a job's metrics from a store: the age of its metrics, and series that fit on a plot."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from autotrascale.domain import checks
from autotrascale.domain.target import Statistic
from autotrascale.monitor.stores.metric_store import Aggregate, MetricQuery, MetricStore
from autotrascale.monitor.stores.points import END_OF_TIME, SECOND
from autotrascale.monitor.stores.snapshot_points import (
    ALWAYS_PRESENT_FIELD,
    JOB_MEASUREMENT,
    LATENCY_FIELDS,
    OPERATOR_MEASUREMENT,
)

PLOT_POINTS = 500  # about one for each useful pixel

# Window lengths in nanoseconds that are easy to read on an axis.
_DAY = 86_400 * SECOND
_STEPS = (
    *(1, 1000, 1_000_000, 10_000_000, 100_000_000),
    *(SECOND * seconds for seconds in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800)),
    *(SECOND * seconds for seconds in (3600, 7200, 10_800, 21_600, 43_200)),
)


@dataclass(frozen=True)
class MetricSeries:
    """Values at times in nanoseconds, oldest first. Windows without a measurement have no entry."""

    times: tuple[int, ...] = ()
    values: tuple[float, ...] = ()


def read_last_snapshot_times(store: MetricStore, start: int = 0, stop: int = END_OF_TIME - 1) -> dict[str, int]:
    """Return the time of each job's latest snapshot in [start, stop), in nanoseconds."""
    samples = store.last(MetricQuery(JOB_MEASUREMENT, ALWAYS_PRESENT_FIELD, start, stop, by=("job",)))
    return {sample.group["job"]: sample.time for sample in samples}


def read_latency_series(
    store: MetricStore, job: str, start: int, stop: int, statistic: Statistic = "p95", points: int = PLOT_POINTS
) -> MetricSeries:
    """Read the latency in seconds, the greatest of each window: a mean would hide peaks that miss a target."""
    return read_job_series(store, job, LATENCY_FIELDS[statistic], start, stop, "max", points)


def read_throughput_series(
    store: MetricStore, job: str, start: int, stop: int, points: int = PLOT_POINTS
) -> MetricSeries:
    """Read the throughput in records per second, the mean of each window."""
    return read_job_series(store, job, "throughput", start, stop, "mean", points)


def read_backlog_series(store: MetricStore, job: str, start: int, stop: int, points: int = PLOT_POINTS) -> MetricSeries:
    """Read the waiting records, the most of each window."""
    return read_job_series(store, job, "backlog_records", start, stop, "max", points)


def read_job_series(
    store: MetricStore, job: str, field: str, start: int, stop: int, aggregate: Aggregate, points: int = PLOT_POINTS
) -> MetricSeries:
    """Read a field of a job's snapshots, at most `points` values. It is empty if there are none."""
    query = MetricQuery(JOB_MEASUREMENT, field, start, stop, {"job": job})
    samples = store.windows(query, aggregate, choose_window_length(start, stop, points))
    return MetricSeries(tuple(sample.time for sample in samples), tuple(sample.value for sample in samples))


def read_parallelism_series(
    store: MetricStore, job: str, start: int, stop: int, points: int = PLOT_POINTS
) -> dict[str, MetricSeries]:
    """Read the parallelism of each operator, the last observation of each window."""
    query = MetricQuery(OPERATOR_MEASUREMENT, "parallelism", start, stop, {"job": job}, ("operator",))
    found: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for sample in store.windows(query, "last", choose_window_length(start, stop, points)):
        found[sample.group["operator"]].append((sample.time, sample.value))
    return {name: MetricSeries(*zip(*series, strict=True)) for name, series in found.items()}


def choose_window_length(start: int, stop: int, points: int) -> int:
    """Return the shortest readable window length that cuts [start, stop) into at most `points` windows.

    `points` is at least 2.
    """
    checks.count("points", points, least=2)  # windows do not move, so any range may cut one window
    for length in _STEPS:
        if _windows_in(start, stop, length) <= points:
            return length
    days = 1
    while _windows_in(start, stop, days * _DAY) > points:
        days += 1
    return days * _DAY


def _windows_in(start: int, stop: int, length: int) -> int:
    return (stop - 1) // length - start // length + 1
