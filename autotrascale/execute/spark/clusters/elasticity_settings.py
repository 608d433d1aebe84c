"""Settings that let the executors of a session come and go, and warnings about settings that prevent it. Pure.

docs/how-to/clusters.md lists the same settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

DYNAMIC_ALLOCATION = "spark.dynamicAllocation.enabled"
DECOMMISSION = "spark.decommission.enabled"
STORAGE_DECOMMISSION = "spark.storage.decommission.enabled"
CORES = "spark.executor.cores"
CORES_MAX = "spark.cores.max"
INSTANCES = "spark.executor.instances"


@dataclass(frozen=True)
class ClusterSetting:
    """A setting that must be there before a session starts, and the reason for it."""

    name: str
    value: str
    why: str


_GRACEFUL_RELEASE = (
    ClusterSetting(DECOMMISSION, "true", "a released executor finishes its tasks first"),
    ClusterSetting(
        STORAGE_DECOMMISSION, "true", "it copies its shuffle files to other executors, so no stage runs twice"
    ),
    ClusterSetting(
        "spark.storage.decommission.replicationReattemptInterval", "1s", "the copy starts at once, not after 30 s"
    ),
    ClusterSetting(
        "spark.executor.decommission.forceKillTimeout", "300s", "a released executor whose task hangs is killed"
    ),
    ClusterSetting("spark.locality.wait", "100ms", "new executors get tasks although the state was elsewhere before"),
)


def choose_elasticity_settings(
    master: str, executors: tuple[int, int] | None = None, cores: int | None = None
) -> tuple[ClusterSetting, ...]:
    """Return the settings for a master; none for a master without executors. A user's own settings replace them.

    Args:
        master: such as "yarn"
        executors: the least and the most, None if unknown
        cores: of one executor, None if unknown
    """
    if explain_no_executors(master):
        return ()
    return (*_GRACEFUL_RELEASE, *_choose_bounds(master, executors, cores))


def _choose_bounds(master: str, executors: tuple[int, int] | None, cores: int | None) -> tuple[ClusterSetting, ...]:
    if executors is None:
        return ()
    least, most = executors
    if not master.startswith("spark://"):
        return (ClusterSetting(INSTANCES, str(least), "the application starts with the fewest executors"),)
    # A standalone cluster ignores the number of executors, and gives an application without a bound everything.
    if cores is None:
        return ()
    size = f"{cores} core{'' if cores == 1 else 's'}"
    return (ClusterSetting(CORES_MAX, str(most * cores), f"it never gets more than {most} executors of {size}"),)


def explain_no_executors(master: str) -> str:
    """Return why a master has no executors to request or release; empty on a cluster."""
    if master.startswith("local-cluster"):
        return f"master {master} is a test cluster inside the driver: its executors are of no use to other applications"
    if master.startswith("local"):
        return f"master {master} runs all tasks inside the driver: there are no executors to release"
    return ""


def explain_not_elastic(conf: Mapping[str, str]) -> str:
    """Return why executors of a session with these settings cannot be requested and released; empty if they can."""
    if reason := explain_no_executors(conf.get("spark.master", "local[*]")):
        return reason
    if _is_true(conf.get(DYNAMIC_ALLOCATION, "false")):
        return f"{DYNAMIC_ALLOCATION} is true, so Spark itself requests and releases executors: set it to false"
    if not _is_true(conf.get(DECOMMISSION, "false")):
        return f"{DECOMMISSION} is not true, so an executor can only be killed with its tasks: set it at the start"
    return ""


def list_cautions(conf: Mapping[str, str], most: int | None = None) -> tuple[str, ...]:
    """Return one line for each setting that limits or disturbs scaling. `most`: executors that the program may have."""
    master, lines = conf.get("spark.master", ""), list[str]()
    if explain_no_executors(master):
        return ()
    cores = _parse_count(conf.get(CORES))
    if master.startswith("spark://"):
        bound = _parse_count(conf.get(CORES_MAX))
        if cores is None:
            lines.append(f"{CORES} is not set, so an executor takes all free cores of a worker: set it")
        if bound is not None and cores is not None and most is not None and bound < most * cores:
            lines.append(
                f"{CORES_MAX} is {bound}, which allows {bound // cores} executors of {cores} cores, not {most}."
                f" It is fixed when the session starts: set it to {most * cores}"
            )
        if bound is None and most is None:
            lines.append(f"{CORES_MAX} is not set, so the application first takes all free cores: set it")
        if INSTANCES in conf:
            lines.append(f"{INSTANCES} has no effect on a standalone cluster: set {CORES_MAX} instead")
    if not _is_true(conf.get(STORAGE_DECOMMISSION, "false")):
        lines.append(f"{STORAGE_DECOMMISSION} is not true: after a release, a stage of a batch may run again")
    return tuple(lines)


def _is_true(text: str) -> bool:
    return text.strip().lower() == "true"


def _parse_count(text: str | None) -> int | None:
    return int(text) if text is not None and text.strip().isdecimal() else None
