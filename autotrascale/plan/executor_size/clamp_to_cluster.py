"""The sizes that a cluster can provide, as near as possible to a wanted size (the paper's resizer, §4).

    bounds        a JVM below Spark's minimum heap does not start; a container above the largest host never comes
    granularity   YARN rounds memory up to whole increments; the difference is given to the overhead
    containers    memory that fits no host is spread: more executors of fewer cores have as much memory for each task

"100 GB is mapped to 25 containers of 4 GB": on Spark, containers are executors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from autotrascale.domain import checks
from autotrascale.domain.decision import Reason
from autotrascale.domain.errors import InputError
from autotrascale.domain.executor_window import MEMORY, ExecutorSizes, Resource
from autotrascale.plan.formatting import format_amount

MIN_HEAP_MB = 512  # Spark refuses to start with less than 450 MB
MIN_OVERHEAD_MB = 384  # Spark's own default for the smallest heap


@dataclass(frozen=True)
class ClusterLimits:
    """The limits of the largest host, of the job, and of the cluster. None: unknown or no limit."""

    host_memory_mb: int | None = None
    host_cores: int | None = None
    most_executors: int | None = None
    most_memory_mb: int | None = None  # of all executors together
    memory_step_mb: int = 1  # granularity of an executor's memory
    least_heap_mb: int = MIN_HEAP_MB
    least_overhead_mb: int = MIN_OVERHEAD_MB

    def __post_init__(self) -> None:
        for name in ("host_memory_mb", "host_cores", "most_executors", "most_memory_mb"):
            if getattr(self, name) is not None:
                checks.count(name, getattr(self, name))
        checks.count("memory_step_mb", self.memory_step_mb)
        checks.count("least_heap_mb", self.least_heap_mb)
        checks.count("least_overhead_mb", self.least_overhead_mb, least=0)
        host, smallest = self.host_memory_mb, self.least_heap_mb + self.least_overhead_mb
        if host is not None and smallest > host:
            raise InputError(
                "host_memory_mb",
                "is less than the smallest executor takes",
                seen=host,
                remedy=f"give {smallest} MB or more",
            )

    def allow(self, sizes: ExecutorSizes) -> bool:
        bounds = (
            (sizes.memory_mb, self.host_memory_mb),
            (sizes.cores, self.host_cores),
            (sizes.executors, self.most_executors),
            (sizes.memory_mb * sizes.executors, self.most_memory_mb),
        )
        return all(most is None or value <= most for value, most in bounds)


def fit_to_cluster(
    now: ExecutorSizes, resource: Resource, wanted: int, limits: ClusterLimits
) -> ExecutorSizes | Reason:
    """Return the possible sizes nearest to `wanted`, or a reason if no change is possible.

    A wish for more never ends below the present size, nor a wish for less above it.

    Args:
        now: the present sizes.
        resource: the resource to change.
        wanted: its wanted value.
        limits: of the cluster.
    """
    is_up = wanted > now.of(resource)
    wanted = max(wanted, _least(resource, limits))
    for candidate in _list_candidates(now, resource, wanted, limits):
        moved = candidate.of(resource) - now.of(resource)
        if candidate != now and (moved == 0 or (moved > 0) == is_up) and limits.allow(candidate):
            return candidate
    if is_up:
        text = (
            f"No change: {format_amount(wanted)} of {resource} is not available, {_describe_limit(resource, limits)}."
        )
    else:
        text = f"No change: the {'memory' if resource in MEMORY else resource} is at its minimum."
    return Reason("hold-limit", text, {"wanted": wanted, "now": now.of(resource)})


def _list_candidates(now: ExecutorSizes, resource: Resource, wanted: int, limits: ClusterLimits) -> list[ExecutorSizes]:
    """Return possible sizes, the preferred first."""
    asked = _round_up(now.with_(resource, wanted), limits)
    if resource in MEMORY:
        return [asked, *_spread(now, asked, limits), *_fill_host(now, resource, limits)]
    if resource == "cores" and wanted > now.cores:
        most = min(limits.host_cores or wanted, wanted)
        # If the host has no more cores, more executors provide as many slots.
        return [asked, now.with_("cores", max(most, now.cores)), _add_executors(now, wanted, limits)]
    most = limits.most_executors or wanted
    if limits.most_memory_mb is not None:
        most = min(most, limits.most_memory_mb // now.memory_mb)
    return [asked, now.with_("executors", max(1, min(wanted, most)))] if resource == "executors" else [asked]


def _spread(now: ExecutorSizes, asked: ExecutorSizes, limits: ClusterLimits) -> list[ExecutorSizes]:
    """Return executors of fewer cores: each task has more memory, and the slots stay."""
    if asked.memory_mb <= now.memory_mb:
        return []
    heap_per_slot = asked.heap_mb / now.cores
    spread = []
    for cores in range(now.cores - 1, 0, -1):
        heap = max(_least("heap", limits), math.ceil(heap_per_slot * cores))
        executors = math.ceil(now.slots / cores)
        spread.append(_round_up(replace(asked, heap_mb=heap, cores=cores, executors=executors), limits))
    return spread


def _fill_host(now: ExecutorSizes, resource: Resource, limits: ClusterLimits) -> list[ExecutorSizes]:
    """Return sizes with all memory that the host and the job's quota have left."""
    most = [limits.host_memory_mb, limits.most_memory_mb and limits.most_memory_mb // now.executors]
    known = [each for each in most if each is not None]
    if not known:
        return []
    free = min(known) // limits.memory_step_mb * limits.memory_step_mb - now.memory_mb
    return [now.with_(resource, now.of(resource) + free)] if free > 0 else []


def _add_executors(now: ExecutorSizes, cores: int, limits: ClusterLimits) -> ExecutorSizes:
    wanted = math.ceil(now.executors * cores / now.cores)
    return now.with_("executors", min(wanted, limits.most_executors or wanted))


def _round_up(sizes: ExecutorSizes, limits: ClusterLimits) -> ExecutorSizes:
    missing = -sizes.memory_mb % limits.memory_step_mb
    return replace(sizes, overhead_mb=sizes.overhead_mb + missing)


def _least(resource: Resource, limits: ClusterLimits) -> int:
    return {"heap": limits.least_heap_mb, "overhead": limits.least_overhead_mb}.get(resource, 1)


def _describe_limit(resource: Resource, limits: ClusterLimits) -> str:
    host, job = limits.host_memory_mb, limits.most_memory_mb
    job_limit = [f"the job may have {format_amount(job)} MB in all"] if job else []
    if resource in MEMORY:
        limited_by = [f"the largest host has {format_amount(host)} MB"] if host else []
        limited_by += job_limit
    elif resource == "cores":
        limited_by = [f"the largest host has {limits.host_cores} cores"] if limits.host_cores else []
    else:
        limited_by = [f"the job may have {limits.most_executors} executors"] if limits.most_executors else []
        limited_by += job_limit
    return " and ".join(limited_by) or "nothing more was granted"
