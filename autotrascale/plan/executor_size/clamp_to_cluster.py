"""From what a policy wants to what a cluster can give (the paper's resizer, §4).

    within the bounds    a JVM below Spark's least heap does not start; a container above the largest host never comes
    in its units         YARN rounds memory up to whole increments: what is rounded up is given to the memory beside
    in containers        memory that fits no host is spread: more executors of fewer cores have as much for each task

"100 GB is mapped to 25 containers of 4 GB": on Spark the containers are executors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from autotrascale.domain import checks
from autotrascale.domain.decision import Reason
from autotrascale.domain.errors import InputError
from autotrascale.domain.executor_window import ExecutorSizes, Resource
from autotrascale.plan.formatting import format_amount

MIN_HEAP_MB = 512  # Spark refuses to start with less than 450 MB
MIN_BESIDE_MB = 384  # what Spark itself leaves beside the smallest heap


@dataclass(frozen=True)
class ClusterLimits:
    """Of the largest host, of the job, and how the cluster counts. None: no bound that is known."""

    host_memory_mb: int | None = None
    host_cores: int | None = None
    most_executors: int | None = None
    most_memory_mb: int | None = None  # of all executors together: the job's quota
    memory_step_mb: int = 1
    least_heap_mb: int = MIN_HEAP_MB
    least_overhead_mb: int = MIN_BESIDE_MB

    def __post_init__(self) -> None:
        for name in ("host_memory_mb", "host_cores", "most_executors", "most_memory_mb"):
            if getattr(self, name) is not None:
                checks.count(name, getattr(self, name))
        checks.count("memory_step_mb", self.memory_step_mb)
        checks.count("least_heap_mb", self.least_heap_mb)
        checks.count("least_overhead_mb", self.least_overhead_mb, least=0)
        host = self.host_memory_mb
        if host is not None and self.least_heap_mb + self.least_overhead_mb > host:
            raise InputError(
                "host_memory_mb",
                "is less than the smallest executor takes",
                seen=host,
                remedy=f"give {self.least_heap_mb + self.least_overhead_mb} MB or more",
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
    """The sizes to ask for: as near to `wanted` as the cluster can come, and never on the other side of `now`. A reason
    where that is no change."""
    up = wanted > now.of(resource)
    wanted = max(wanted, _least(resource, limits))
    for candidate in _candidates(now, resource, wanted, limits):
        moved = candidate.of(resource) - now.of(resource)
        if candidate != now and (moved == 0 or (moved > 0) == up) and limits.allow(candidate):
            return candidate
    what = "memory" if resource in ("heap", "beside") else resource
    text = (
        f"{format_amount(wanted)} of {resource} cannot be had: {_bound(resource, limits)}"
        if up
        else f"no less {what} can be"
    )
    return Reason("hold-limit", text, {"wanted": wanted, "now": now.of(resource)})


def _candidates(now: ExecutorSizes, resource: Resource, wanted: int, limits: ClusterLimits) -> list[ExecutorSizes]:
    """In the order of preference."""
    asked = _in_steps(now.with_(resource, wanted), limits)
    if resource in ("heap", "beside"):
        return [asked, *_spread(now, asked, limits), *_as_much_as_fits(now, resource, limits)]
    if resource == "cores" and wanted > now.cores:
        most = min(limits.host_cores or wanted, wanted)
        # No more cores on a host: as many slots, in more executors.
        return [asked, now.with_("cores", max(most, now.cores)), _more_executors(now, wanted, limits)]
    most = limits.most_executors or wanted
    if limits.most_memory_mb is not None:
        most = min(most, limits.most_memory_mb // now.memory_mb)
    return [asked, now.with_("executors", max(1, min(wanted, most)))] if resource == "executors" else [asked]


def _spread(now: ExecutorSizes, asked: ExecutorSizes, limits: ClusterLimits) -> list[ExecutorSizes]:
    """Executors of fewer cores with the memory of now: each task has more of it, and the slots stay."""
    per_slot = asked.heap_mb / now.cores
    found = []
    for cores in range(now.cores - 1, 0, -1):
        heap = max(_least("heap", limits), math.ceil(per_slot * cores))
        executors = math.ceil(now.slots / cores)
        found.append(_in_steps(replace(asked, heap_mb=heap, cores=cores, executors=executors), limits))
    return found if asked.memory_mb > now.memory_mb else []


def _as_much_as_fits(now: ExecutorSizes, resource: Resource, limits: ClusterLimits) -> list[ExecutorSizes]:
    most = [limits.host_memory_mb, limits.most_memory_mb and limits.most_memory_mb // now.executors]
    known = [each for each in most if each is not None]
    if not known:
        return []
    free = min(known) // limits.memory_step_mb * limits.memory_step_mb - now.memory_mb
    return [now.with_(resource, now.of(resource) + free)] if free > 0 else []


def _more_executors(now: ExecutorSizes, cores: int, limits: ClusterLimits) -> ExecutorSizes:
    wanted = math.ceil(now.executors * cores / now.cores)
    return now.with_("executors", min(wanted, limits.most_executors or wanted))


def _in_steps(sizes: ExecutorSizes, limits: ClusterLimits) -> ExecutorSizes:
    over = -sizes.memory_mb % limits.memory_step_mb
    return replace(sizes, overhead_mb=sizes.overhead_mb + over)


def _least(resource: Resource, limits: ClusterLimits) -> int:
    return {"heap": limits.least_heap_mb, "beside": limits.least_overhead_mb}.get(resource, 1)


def _bound(resource: Resource, limits: ClusterLimits) -> str:
    if resource in ("heap", "beside"):
        host, job = limits.host_memory_mb, limits.most_memory_mb
        said = [f"the largest host has {format_amount(host)} MB"] if host else []
        said += [f"the job may have {format_amount(job)} MB in all"] if job else []
    elif resource == "cores":
        said = [f"the largest host has {limits.host_cores} cores"] if limits.host_cores else []
    else:
        said = [f"the job may have {limits.most_executors}"] if limits.most_executors else []
        said += [f"the job may have {format_amount(limits.most_memory_mb)} MB in all"] if limits.most_memory_mb else []
    return ", and ".join(said) or "nothing more was granted"
