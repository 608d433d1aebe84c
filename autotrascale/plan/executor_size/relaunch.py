"""The moment of a relaunch with other executor sizes, and the Spark settings of the next launch.

Sizes change only with a new application, so the program stands still while Spark starts. The relaunch therefore waits
for a part of the day that the user named, or for a moment in which a query has stood still anyway because its state was
moved. The driver ends it at the end of a batch.

    daily limit   at most so many relaunches a day, and never two at once
    way back      sizes that did worse are taken back at once

A setting that does not change keeps its value of the present launch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from autotrascale.domain import checks
from autotrascale.domain.errors import InputError
from autotrascale.domain.executor_window import ExecutorSizes
from autotrascale.plan.executor_size.size_changes import SizeChange
from autotrascale.plan.executor_size.size_step import DAY_SECONDS

HEAP, OVERHEAD, CORES = "spark.executor.memory", "spark.executor.memoryOverhead", "spark.executor.cores"
CORES_MAX, INSTANCES = "spark.cores.max", "spark.executor.instances"
_CLOCK = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")
_DAY_MINUTES = 24 * 60


@dataclass(frozen=True)
class DailyWindow:
    """A part of each day, in minutes since midnight. If it ends before it begins, it crosses midnight."""

    begin: int
    end: int

    def __post_init__(self) -> None:
        for name in ("begin", "end"):
            checks.count(name, getattr(self, name), least=0)
            if getattr(self, name) >= _DAY_MINUTES:
                raise InputError(name, "is no minute of a day", seen=getattr(self, name), remedy="write 0 to 1439")

    @classmethod
    def read(cls, text: str) -> DailyWindow:
        """Parse a window such as `02:00-04:00`. Raise `InputError` for any other text.

        >>> DailyWindow.read("23:30-01:00").contains(15)
        True
        """
        match = _CLOCK.fullmatch(text)
        if match is None:
            raise InputError("between", "is no part of a day", seen=text, remedy="write 02:00-04:00")
        begin_hour, begin_minute, end_hour, end_minute = (int(each) for each in match.groups())
        return cls(60 * begin_hour + begin_minute, 60 * end_hour + end_minute)

    def contains(self, minute: int) -> bool:
        if self.begin < self.end:
            return self.begin <= minute < self.end
        return minute >= self.begin or minute < self.end

    def __str__(self) -> str:
        return "-".join(f"{each // 60:02}:{each % 60:02}" for each in (self.begin, self.end))


@dataclass(frozen=True)
class RelaunchMoment:
    """The circumstances under which a relaunch is considered."""

    at: float  # Unix seconds
    minute: int  # of the day, on the clock of the `DailyWindow`
    under_way: bool = False  # an earlier relaunch is not up yet
    just_moved: bool = False  # a query stood still since the last observation because its state was moved


def explain_wait(
    change: SizeChange | None, window: DailyWindow | None, a_day: int, log: Iterable[SizeChange], moment: RelaunchMoment
) -> str:
    """Return why the relaunch for `change` must wait, or "" if now is the moment.

    Args:
        change: the change in flight, if any.
        window: the part of the day in which relaunches are allowed; None: always.
        a_day: maximum of relaunches a day.
        log: the action log.
        moment: the present circumstances.
    """
    if change is None or change.what != "asked":
        return "no change is asked for"
    if moment.under_way:
        return "a relaunch is under way"
    if change.policy == "back":
        return ""
    today = sum(each.what == "relaunched" and moment.at - each.at < DAY_SECONDS for each in log)
    if today >= a_day:
        return f"{today} relaunches within a day are the limit"
    if window is not None and not window.contains(moment.minute) and not moment.just_moved:
        return f"it waits for {window}"
    return ""


def choose_settings(
    before: ExecutorSizes, after: ExecutorSizes, master: str = "", separate_mb: int = 0
) -> dict[str, str]:
    """Return the Spark settings that change.

    With a local master the driver is the only executor. A standalone cluster takes the cores of all executors together.

    Args:
        before: the present sizes.
        after: the sizes of the next launch.
        master: the Spark master; empty if unknown.
        separate_mb: the part of the overhead that other settings reserve.
    """
    if master.startswith("local") and not master.startswith("local-cluster"):
        heap = {"spark.driver.memory": f"{after.heap_mb}m"} if after.heap_mb != before.heap_mb else {}
        return heap | ({"spark.master": f"local[{after.cores}]"} if after.cores != before.cores else {})
    changed: dict[str, str] = {}
    if after.heap_mb != before.heap_mb:
        changed[HEAP] = f"{after.heap_mb}m"
    if after.overhead_mb != before.overhead_mb or changed:
        changed[OVERHEAD] = f"{max(0, after.overhead_mb - separate_mb)}m"
    if after.cores != before.cores:
        changed[CORES] = str(after.cores)
    if after.slots != before.slots and (not master or master.startswith("spark://")):
        changed[CORES_MAX] = str(after.slots)
    if after.executors != before.executors and not master.startswith("spark://"):
        changed[INSTANCES] = str(after.executors)
    return changed
