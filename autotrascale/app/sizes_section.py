"""How the sizes of executors are judged: what may be set of it, in a program's job file and by the options of `sizes`.

Read with every job file, also where Spark is not installed.
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

HOUR = 3600.0
WINDOW_SECONDS = 60.0


@dataclass(frozen=True)
class SizingSettings:
    """Everything that may be set about it."""

    rules: ExecutorSizeRules = field(default_factory=ExecutorSizeRules)
    limits: ClusterLimits = field(default_factory=ClusterLimits)
    quota: SizeChangeQuota = field(default_factory=SizeChangeQuota)
    window_seconds: float = WINDOW_SECONDS


@dataclass(frozen=True)
class SizesSection:
    """The `sizes:` section of a program's job file. `between`: the part of the day in which it may be relaunched, by
    this machine's clock; at any time where that is empty. The rest is as the options of `sizes` say it."""

    between: str = ""
    window_seconds: float = WINDOW_SECONDS
    evidence_hours: float = 24.0
    host_memory: str = ""
    host_cores: int | None = None
    job_memory: str = ""
    memory_step: str = "1m"
    a_day: int = 6

    def __post_init__(self) -> None:
        checks.positive("window_seconds", self.window_seconds)
        checks.positive("evidence_hours", self.evidence_hours)
        if self.between:
            DailyWindow.read(self.between)
        self.how()

    def how(self, most_executors: int | None = None) -> SizingSettings:
        limits = ClusterLimits(
            host_memory_mb=parse_size_mb("host_memory", self.host_memory),
            host_cores=self.host_cores,
            most_executors=most_executors,
            most_memory_mb=parse_size_mb("job_memory", self.job_memory),
            memory_step_mb=parse_size_mb("memory_step", self.memory_step) or 1,
        )
        rules = ExecutorSizeRules(evidence_seconds=self.evidence_hours * HOUR)
        return SizingSettings(rules, limits, SizeChangeQuota(a_day=self.a_day), self.window_seconds)

    @property
    def part_of_day(self) -> DailyWindow | None:
        return DailyWindow.read(self.between) if self.between else None


def parse_size_mb(place: str, text: str) -> int | None:
    """`64g`; None of an empty text."""
    if not text:
        return None
    found = parse_megabytes(text)
    if not found:
        raise InputError(place, "is no size", seen=text, remedy="write 64g or 512m")
    return found
