"""A snapshot as metric points. What the snapshot does not know has no field: missing stays missing.

measurement            tags                       fields
autotrascale_job       job                        what holds for the whole job, latency as latency_mean, …_p95
autotrascale_source    job, operator              rate, offered, in records per second
autotrascale_operator  job, operator              parallelism, the work of the window, waiting records, …
autotrascale_instance  job, operator, instance    the work of one instance, where it was reported
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from autotrascale.domain.snapshot import WORK_FIELDS, OperatorMetrics, Snapshot, Work
from autotrascale.domain.target import Statistic
from autotrascale.monitor.stores.points import Point

# The prefix keeps them apart from a bucket's other tenants.
JOB = "autotrascale_job"
SOURCE = "autotrascale_source"
OPERATOR = "autotrascale_operator"
INSTANCE = "autotrascale_instance"

ALWAYS_THERE = "window_seconds"  # the one field that every snapshot of a job has
LATENCY = {statistic: f"latency_{statistic}" for statistic in get_args(Statistic)}

_OPERATOR_FIELDS = ("parallelism", "backpressure", "backlog_records", "arrival_cv2", "service_cv2", "silent_instances")


def snapshot_points(snapshot: Snapshot, time: int) -> list[Point]:
    """`time` is the end of the snapshot's window, in nanoseconds."""
    points = [Point(JOB, {"job": snapshot.job}, _known(_job_fields(snapshot)), time)]
    for name, rate in snapshot.source_rates.items():
        points.append(Point(SOURCE, {"job": snapshot.job, "operator": name}, {"rate": rate}, time))
    for name, metrics in snapshot.operators.items():
        points += _operator_points({"job": snapshot.job, "operator": name}, metrics, time)
    return points


def _job_fields(snapshot: Snapshot) -> dict[str, float | None]:
    return {
        ALWAYS_THERE: snapshot.window_seconds,
        "p_max": snapshot.p_max,
        "overhead_share": snapshot.overhead_share,
        "batch_seconds": snapshot.batch_seconds,
        "target_rate": snapshot.target_rate,
        "throughput": snapshot.throughput,
        "backlog_records": snapshot.backlog_records,
        **{name: snapshot.latency_seconds.of(statistic) for statistic, name in LATENCY.items()},
    }


def _operator_points(tags: Mapping[str, str], metrics: OperatorMetrics, time: int) -> list[Point]:
    own = {name: getattr(metrics, name) for name in _OPERATOR_FIELDS}
    points = [Point(OPERATOR, tags, _known({**own, **_work(metrics.total)}), time)]
    for number, work in enumerate(metrics.instances):
        fields = _known(_work(work))
        if fields:
            points.append(Point(INSTANCE, {**tags, "instance": str(number)}, fields, time))
    return points


def _work(work: Work) -> dict[str, float | None]:
    return {name: getattr(work, name) for name in WORK_FIELDS}


def _known(fields: Mapping[str, float | None]) -> dict[str, float]:
    return {name: value for name, value in fields.items() if value is not None}
