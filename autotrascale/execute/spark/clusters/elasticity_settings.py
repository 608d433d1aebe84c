"""What must be set before a session starts, so that its executors can come and go; and what stands in the way.

Pure: settings in, settings and sentences out. docs/clusters.md has the same in words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

DYNAMIC_ALLOCATION = "spark.dynamicAllocation.enabled"
DECOMMISSION = "spark.decommission.enabled"
CORES = "spark.executor.cores"
CORES_MAX = "spark.cores.max"
INSTANCES = "spark.executor.instances"


@dataclass(frozen=True)
class ClusterSetting:
    name: str
    value: str
    why: str


_GRACEFUL = (
    ClusterSetting(DECOMMISSION, "true", "an executor that is given back finishes its tasks first"),
    ClusterSetting(
        "spark.storage.decommission.enabled", "true", "… and hands its shuffle files on: no stage runs twice"
    ),
    ClusterSetting(
        "spark.storage.decommission.replicationReattemptInterval", "1s", "… at once, not after half a minute"
    ),
    ClusterSetting(
        "spark.executor.decommission.forceKillTimeout", "300s", "a task that never ends holds no executor for ever"
    ),
    ClusterSetting("spark.locality.wait", "100ms", "new executors get tasks although the state was elsewhere before"),
)


def choose_elasticity_settings(
    master: str, executors: tuple[int, int] | None = None, cores: int | None = None
) -> tuple[ClusterSetting, ...]:
    """For a master, the least and most executors where they are known, and the cores of one. A user's own settings go
    over these. Nothing on a master without executors."""
    if explain_no_executors(master):
        return ()
    return (*_GRACEFUL, *_bounds(master, executors, cores))


def _bounds(master: str, executors: tuple[int, int] | None, cores: int | None) -> tuple[ClusterSetting, ...]:
    if executors is None:
        return ()
    least, most = executors
    if not master.startswith("spark://"):
        return (ClusterSetting(INSTANCES, str(least), "it starts with the fewest executors"),)
    # A standalone cluster does not heed the number of executors, and gives all it has to whoever sets no bound.
    if cores is None:
        return ()
    return (
        ClusterSetting(
            CORES_MAX,
            str(most * cores),
            f"it never gets more than {most} executors of {cores} core{'' if cores == 1 else 's'}",
        ),
    )


def explain_no_executors(master: str) -> str:
    """Why there is nothing to ask for and nothing to give back; empty on a cluster."""
    if master.startswith("local-cluster"):
        return f"master {master} is a toy cluster inside the driver: nobody else can use what it gives back"
    if master.startswith("local"):
        return f"master {master} runs all tasks inside the driver: there are no executors to give back"
    return ""


def explain_not_elastic(conf: Mapping[str, str]) -> str:
    """Why the executors of a session with these settings cannot be asked for and given back; empty where they can."""
    if reason := explain_no_executors(conf.get("spark.master", "local[*]")):
        return reason
    if _is_on(conf.get(DYNAMIC_ALLOCATION, "false")):
        return f"{DYNAMIC_ALLOCATION} is true, so Spark itself asks for executors and gives them back: set it to false"
    if not _is_on(conf.get(DECOMMISSION, "false")):
        return f"{DECOMMISSION} is not true, so an executor could only be killed with its tasks: set it at the start"
    return ""


def list_cautions(conf: Mapping[str, str], most: int | None = None) -> tuple[str, ...]:
    """What will not be as somebody expects, one line each."""
    master, said = conf.get("spark.master", ""), list[str]()
    if explain_no_executors(master):
        return ()
    cores = _number(conf.get(CORES))
    if master.startswith("spark://"):
        bound = _number(conf.get(CORES_MAX))
        if cores is None:
            said.append(
                f"{CORES} is not set, so an executor takes all free cores of a worker: set it to have sizes alike"
            )
        if bound is not None and cores is not None and most is not None and bound < most * cores:
            said.append(
                f"{CORES_MAX} is {bound}, so there can never be more than {bound // cores} executors of {cores} cores,"
                f" and not {most}: it is fixed when the session starts; set it to {most * cores}"
            )
        if bound is None and most is None:
            said.append(
                f"{CORES_MAX} is not set, so it starts with all that the cluster has free, until the first release"
            )
        if INSTANCES in conf:
            said.append(f"{INSTANCES} is not heeded by a standalone cluster: {CORES_MAX} is")
    if not _is_on(conf.get("spark.storage.decommission.enabled", "false")):
        said.append("spark.storage.decommission.enabled is not true: a release may make a stage of a batch run again")
    return tuple(said)


def _is_on(text: str) -> bool:
    return text.strip().lower() == "true"


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.strip().isdecimal() else None
