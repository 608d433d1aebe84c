"""The `spark:` section of a job file: the job, the cluster, and how long to observe."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from autotrascale.analyze.stability import StabilityRules
from autotrascale.domain import checks
from autotrascale.domain.errors import InputError
from autotrascale.domain.trial import Sink
from autotrascale.execute.spark.common.source_settings import SourceSettings
from autotrascale.execute.spark.jobs.rate_schedule import RateSchedule
from autotrascale.plan.migration.rescale_mode import RescaleMode

_MEMORY = re.compile(r"([1-9][0-9]*)([mg])")
_MASTER = re.compile(r"local(\[(\*|[1-9][0-9]*)\])?|spark://.+|yarn|k8s://.+")
# Set by the engine: one operator must be one stage, and the event log must be readable while the job runs.
ENGINE_SETTINGS = (
    "spark.sql.adaptive.enabled",
    "spark.sql.shuffle.partitions",
    "spark.master",
    "spark.driver.memory",
    "spark.eventLog.enabled",
    "spark.eventLog.dir",
    "spark.eventLog.compress",
    "spark.eventLog.rolling.enabled",
)


@dataclass(frozen=True)
class SparkTimeouts:
    """Seconds after which a step is given up and a process that hangs is killed."""

    start: float = 120.0  # Seconds for the start of JVM, session and executors.
    command: float = 60.0  # Seconds for a start, stop or rescale of a query.
    first_batch: float = 90.0  # Seconds from the start of a query to its first commit.
    finish_batch: float = 15.0  # Seconds for the open batch of a rescaled query; then it is cut off and runs again.

    def __post_init__(self) -> None:
        for name in ("start", "command", "first_batch"):
            checks.positive(name, getattr(self, name))
        checks.non_negative("finish_batch", self.finish_batch)


@dataclass(frozen=True)
class SparkSettings:
    """Settings of a Flow job on Spark. Only `job` is required; the defaults suit a laptop."""

    job: str  # Job as "module:attribute".
    options: Mapping[str, Any] = field(default_factory=dict)  # Options of the job.
    master: str = "local[*]"  # URL of the cluster.
    # Spark settings. A setting of the engine, such as spark.sql.shuffle.partitions, is refused.
    conf: Mapping[str, str] = field(default_factory=dict)
    python_path: tuple[str, ...] = ()  # Folders for imports of the job.
    driver_memory: str = "1g"  # Heap of the driver, such as 800m or 2g.
    p_max: int | None = None  # Most instances of an operator; default: the slots of the master.
    # fresh: each trial begins with an empty state; keep: one query runs on and is rescaled with its state.
    between_trials: Literal["fresh", "keep"] = "fresh"
    # Output of trials. discard: counted and dropped; scratch: files of the trial; real: the job's own sink.
    sink: Sink = "discard"
    prime_batches: int = 3  # Batches that warm up a trial.
    window: StabilityRules = field(default_factory=StabilityRules)  # Conditions for a stable trial.
    patience: SparkTimeouts = field(default_factory=SparkTimeouts)
    # Points (seconds, factor) of a piecewise linear factor on the input rate.
    load_shape: tuple[tuple[float, float], ...] = ((0.0, 1.0),)
    # Sources whose records come from a topic instead of the load generator.
    sources: Mapping[str, SourceSettings] = field(default_factory=dict)
    work_dir: str = ""  # Folder for files of trials; default: the system's folder for temporary files.
    checkpoint_dir: str = ""  # Folder for checkpoints, writable for executors; default: inside work_dir.
    keep_event_log: bool = False  # Keep the event log of each trial.
    rescale: RescaleMode = "in-place"  # Rescale of a running job: in place, or by a second query that takes over.

    def __post_init__(self) -> None:
        if not _MASTER.fullmatch(self.master):
            remedy = "use local[n], spark://host:port, yarn or k8s://…"
            raise InputError("master", "is not a Spark master", seen=self.master, remedy=remedy)
        for name in self.conf:
            if name in ENGINE_SETTINGS:
                raise InputError(f"conf.{name}", "is set by AuTraScale itself", remedy="remove it")
        if self.p_max is not None:
            checks.count("p_max", self.p_max)
        checks.count("prime_batches", self.prime_batches)
        RateSchedule(self.load_shape)
        self.driver_megabytes  # noqa: B018 - refuse a bad size now

    @property
    def may_overlap(self) -> bool:
        return self.rescale != "in-place"

    @property
    def local(self) -> bool:
        return self.master.startswith("local")

    @property
    def driver_megabytes(self) -> int:
        return parse_megabytes("driver_memory", self.driver_memory)


def parse_megabytes(place: str, text: str) -> int:
    """Return the megabytes of a size such as 800m or 2g. Raises `InputError`, which names `place`."""
    size = _MEMORY.fullmatch(text)
    if not size:
        raise InputError(place, "is not an amount of memory", seen=text, remedy="write it like 800m or 2g")
    return int(size.group(1)) * (1024 if size.group(2) == "g" else 1)
