"""Settings of executor sizing: the section `sizes:` of job files and the options of the verb `sizes`.

Every job file imports this module, also on machines without Spark.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from autotrascale.analyze.executor_conf import parse_megabytes
from autotrascale.domain import checks
from autotrascale.domain.errors import InputError
from autotrascale.plan.executor_size.clamp_to_cluster import ClusterLimits
from autotrascale.plan.executor_size.relaunch import DailyWindow
from autotrascale.plan.executor_size.size_evidence import ExecutorSizeRules
from autotrascale.plan.executor_size.size_step import SizeChangeQuota

HOUR_SECONDS = 3600.0
WINDOW_SECONDS = 60.0


@dataclass(frozen=True)
class SizingSettings:
    """Settings of executor sizing in the form that planning takes."""

    rules: ExecutorSizeRules = field(default_factory=ExecutorSizeRules)
    limits: ClusterLimits = field(default_factory=ClusterLimits)
    quota: SizeChangeQuota = field(default_factory=SizeChangeQuota)
    window_seconds: float = WINDOW_SECONDS


@dataclass(frozen=True)
class SizesSection:
    """Section `sizes:` of a job file. If present, executor sizes are judged, and changed by a relaunch if allowed."""

    between: str = ""  # Time of day for relaunches by this machine's clock, such as 02:00-04:00; empty: any time.
    window_seconds: float = WINDOW_SECONDS  # Length of a measured window.
    evidence_hours: float = 24.0  # Time to observe before memory, cores or executors are given back.
    host_memory: str = ""  # Memory of the largest host, such as 64g; empty: no limit.
    host_cores: int | None = None  # Cores of the largest host.
    job_memory: str = ""  # Upper limit for the memory of all executors together; empty: no limit.
    memory_step: str = "1m"  # Granularity in which the cluster allocates memory.
    a_day: int = 6  # Upper limit for changes of one application in 24 hours.

    def __post_init__(self) -> None:
        checks.positive("window_seconds", self.window_seconds)
        checks.positive("evidence_hours", self.evidence_hours)
        if self.between:
            DailyWindow.read(self.between)
        self.to_settings()

    def to_settings(self, max_executors: int | None = None) -> SizingSettings:
        """Return the settings for planning. `max_executors` limits the number of executors."""
        limits = ClusterLimits(
            host_memory_mb=parse_size_mb("host_memory", self.host_memory),
            host_cores=self.host_cores,
            most_executors=max_executors,
            most_memory_mb=parse_size_mb("job_memory", self.job_memory),
            memory_step_mb=parse_size_mb("memory_step", self.memory_step) or 1,
        )
        rules = ExecutorSizeRules(evidence_seconds=self.evidence_hours * HOUR_SECONDS)
        return SizingSettings(rules, limits, SizeChangeQuota(a_day=self.a_day), self.window_seconds)

    @property
    def relaunch_window(self) -> DailyWindow | None:
        """The part of the day in which relaunches are allowed; None allows them at any time."""
        return DailyWindow.read(self.between) if self.between else None


def parse_size_mb(place: str, text: str) -> int | None:
    """Return a memory size such as `64g` in MB, or None for an empty text.

    Raises:
        InputError: `text` is not a size; the error names `place`.
    """
    if not text:
        return None
    megabytes = parse_megabytes(text)
    if not megabytes:
        raise InputError(place, "is not a size", seen=text, remedy="write 64g or 512m")
    return megabytes
