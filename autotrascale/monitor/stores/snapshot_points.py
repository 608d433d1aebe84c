"""Convert a snapshot to metric points. Unknown values have no field.

measurement            tags                       fields
autotrascale_job       job                        values of the whole job; latency as latency_mean, …_p95
autotrascale_source    job, operator              rate, in records per second
autotrascale_operator  job, operator              parallelism, the work of the window, waiting records, …
autotrascale_instance  job, operator, instance    the work of one instance, if it was reported
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from autotrascale.domain.snapshot import WORK_FIELDS, OperatorMetrics, Snapshot, Work
from autotrascale.domain.target import Statistic
from autotrascale.monitor.stores.points import MetricPoint

# The prefix separates them from other measurements of a shared bucket.
JOB_MEASUREMENT = "autotrascale_job"
SOURCE_MEASUREMENT = "autotrascale_source"
OPERATOR_MEASUREMENT = "autotrascale_operator"
INSTANCE_MEASUREMENT = "autotrascale_instance"

ALWAYS_PRESENT_FIELD = "window_seconds"  # every snapshot of a job has this field
LATENCY_FIELDS = {statistic: f"latency_{statistic}" for statistic in get_args(Statistic)}

_OPERATOR_FIELDS = ("parallelism", "backpressure", "backlog_records", "arrival_cv2", "service_cv2", "silent_instances")


def snapshot_to_points(snapshot: Snapshot, time: int) -> list[MetricPoint]:
    """Return the points of a snapshot. `time` is the end of its window, in nanoseconds."""
    points = [MetricPoint(JOB_MEASUREMENT, {"job": snapshot.job}, _known(_job_fields(snapshot)), time)]
    for name, rate in snapshot.source_rates.items():
        points.append(MetricPoint(SOURCE_MEASUREMENT, {"job": snapshot.job, "operator": name}, {"rate": rate}, time))
    for name, metrics in snapshot.operators.items():
        points += _operator_points({"job": snapshot.job, "operator": name}, metrics, time)
    return points


def _job_fields(snapshot: Snapshot) -> dict[str, float | None]:
    return {
        ALWAYS_PRESENT_FIELD: snapshot.window_seconds,
        "p_max": snapshot.p_max,
        "overhead_share": snapshot.overhead_share,
        "batch_seconds": snapshot.batch_seconds,
        "target_rate": snapshot.target_rate,
        "throughput": snapshot.throughput,
        "backlog_records": snapshot.backlog_records,
        **{name: snapshot.latency_seconds.of(statistic) for statistic, name in LATENCY_FIELDS.items()},
    }


def _operator_points(tags: Mapping[str, str], metrics: OperatorMetrics, time: int) -> list[MetricPoint]:
    own = {name: getattr(metrics, name) for name in _OPERATOR_FIELDS}
    points = [MetricPoint(OPERATOR_MEASUREMENT, tags, _known({**own, **_work(metrics.total)}), time)]
    for number, work in enumerate(metrics.instances):
        fields = _known(_work(work))
        if fields:
            points.append(MetricPoint(INSTANCE_MEASUREMENT, {**tags, "instance": str(number)}, fields, time))
    return points


def _work(work: Work) -> dict[str, float | None]:
    return {name: getattr(work, name) for name in WORK_FIELDS}


def _known(fields: Mapping[str, float | None]) -> dict[str, float]:
    return {name: value for name, value in fields.items() if value is not None}
