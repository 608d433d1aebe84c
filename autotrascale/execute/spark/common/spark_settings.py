"""The `spark:` section of a job file: which job, where it runs, and how long to look at it."""

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

BetweenTrials = Literal["fresh", "keep"]

_MEMORY = re.compile(r"([1-9][0-9]*)([mg])")
_MASTER = re.compile(r"local(\[(\*|[1-9][0-9]*)\])?|spark://.+|yarn|k8s://.+")
# What the engine itself lives by: one operator = one stage, and facts that can be read while the job runs.
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
    """Seconds after which something that does not answer is given up, and what hangs is killed."""

    start: float = 120.0  # of the host: JVM, session, executors
    command: float = 60.0  # starting, stopping, rescaling a query
    first_batch: float = 90.0  # from the start of a query to the first commit
    finish_batch: float = 15.0  # of a query that is to be rescaled; then its batch is cut off, and runs again

    def __post_init__(self) -> None:
        for name in ("start", "command", "first_batch"):
            checks.positive(name, getattr(self, name))
        checks.non_negative("finish_batch", self.finish_batch)


@dataclass(frozen=True)
class SparkSettings:
    """`job` is "module:attribute" and `options` are its own; everything else has a default that works on a laptop.

    `between_trials`: `fresh` gives each trial an empty state, which is what a tuner wants; `keep` treats the query as
    the one that must live on: it stays running between trials and is rescaled with its state.
    `sink`: where the output of trials goes: counted and dropped, to files of the trial's own, or to the job's own sink.
    `sources` are those whose records are not the job's own to make but come from a topic.
    `rescale`: of a job that runs, whether a second query is made ready while the first one runs on, and takes over.
    `load_shape` are (seconds, factor) points: the asked rate times a piecewise linear factor over time.
    """

    job: str
    options: Mapping[str, Any] = field(default_factory=dict)
    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict)
    python_path: tuple[str, ...] = ()
    driver_memory: str = "1g"
    p_max: int | None = None  # the master's slots, when not given
    between_trials: BetweenTrials = "fresh"
    sink: Sink = "discard"
    prime_batches: int = 3
    window: StabilityRules = field(default_factory=StabilityRules)
    patience: SparkTimeouts = field(default_factory=SparkTimeouts)
    load_shape: tuple[tuple[float, float], ...] = ((0.0, 1.0),)
    sources: Mapping[str, SourceSettings] = field(default_factory=dict)
    work_dir: str = ""  # the system's folder for temporary files, when empty
    checkpoint_dir: str = ""  # where the cluster's executors can write too; inside work_dir when empty
    keep_event_log: bool = False
    rescale: RescaleMode = "in-place"

    def __post_init__(self) -> None:
        if not _MASTER.fullmatch(self.master):
            remedy = "use local[n], spark://host:port, yarn or k8s://…"
            raise InputError("master", "is no master that Spark knows", seen=self.master, remedy=remedy)
        for name in self.conf:
            if name in ENGINE_SETTINGS:
                raise InputError(f"conf.{name}", "is set by the engine itself", remedy="remove it")
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
    """Of a size as Java has it."""
    size = _MEMORY.fullmatch(text)
    if not size:
        raise InputError(place, "is no amount of memory", seen=text, remedy="write it like 800m or 2g")
    return int(size.group(1)) * (1024 if size.group(2) == "g" else 1)
