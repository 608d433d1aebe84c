"""Convert the use of executors in a window to a metric point. Unknown values have no field.

measurement             tags   fields
autotrascale_executors  job    given memory and cores (heap_given_mb, …_given_mb, cores, executors); used memory;
                               shares of the tasks' time (gc_share, cpu_share); lost executors by cause (lost_heap, …)
"""

from __future__ import annotations

from typing import get_args

from autotrascale.domain.executor_window import MEASURED, RESOURCES, ExecutorWindow, LossReason
from autotrascale.monitor.stores.points import SECOND, MetricPoint

EXECUTORS_MEASUREMENT = "autotrascale_executors"


def executor_window_to_points(window: ExecutorWindow) -> list[MetricPoint]:
    """Return the point of a window, at its end."""
    fields: dict[str, float | None] = {
        "window_seconds": window.seconds,
        "memory_given_mb": window.sizes.memory_mb,
        "busy": window.busy,
        "gc_share": window.gc_share,
        "cpu_share": window.cpu_share,
        "out_of_heap": window.out_of_heap,
        "behind": window.behind[-1] if window.behind else None,
    }
    for resource in RESOURCES:
        name = resource if resource in ("cores", "executors") else f"{resource}_given_mb"
        fields[name] = window.sizes.of(resource)
    for why in get_args(LossReason):
        fields[f"lost_{why}"] = sum(lost.reason == why for lost in window.lost)
    for name in MEASURED:
        fields[name] = getattr(window, name)
    known = {name: float(value) for name, value in fields.items() if value is not None}
    return [
        MetricPoint(
            EXECUTORS_MEASUREMENT, {"job": window.application}, known, round((window.began + window.seconds) * SECOND)
        )
    ]
