"""How the sizes of executors are judged: what may be set of it, in a program's job file and by the options of `sizes`.

Read with every job file, also where Spark is not installed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from autotrascale.analyze.executor_sizes import megabytes
from autotrascale.domain import checks
from autotrascale.domain.errors import InputError
from autotrascale.plan.executor_size.evidence import Rules
from autotrascale.plan.executor_size.fitting import Limits
from autotrascale.plan.executor_size.relaunch import Between
from autotrascale.plan.executor_size.steps import Quota

HOUR = 3600.0
WINDOW_SECONDS = 60.0


@dataclass(frozen=True)
class How:
    """Everything that may be set about it."""

    rules: Rules = field(default_factory=Rules)
    limits: Limits = field(default_factory=Limits)
    quota: Quota = field(default_factory=Quota)
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
            Between.read(self.between)
        self.how()

    def how(self, most_executors: int | None = None) -> How:
        limits = Limits(
            host_memory_mb=size_in_mb("host_memory", self.host_memory),
            host_cores=self.host_cores,
            most_executors=most_executors,
            most_memory_mb=size_in_mb("job_memory", self.job_memory),
            memory_step_mb=size_in_mb("memory_step", self.memory_step) or 1,
        )
        rules = Rules(evidence_seconds=self.evidence_hours * HOUR)
        return How(rules, limits, Quota(a_day=self.a_day), self.window_seconds)

    @property
    def part_of_day(self) -> Between | None:
        return Between.read(self.between) if self.between else None


def size_in_mb(place: str, text: str) -> int | None:
    """`64g`; None of an empty text."""
    if not text:
        return None
    found = megabytes(text)
    if not found:
        raise InputError(place, "is no size", seen=text, remedy="write 64g or 512m")
    return found
