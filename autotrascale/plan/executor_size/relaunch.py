"""Is now the moment to start a program again with other sizes, and with which settings?

Sizes change with the application, so it stands still for as long as Spark takes to start. That is done where it
disturbs least: in a part of the day that somebody named, or right when a query has stood still anyway, as its state was
moved. It always ends at a batch's end, which is the driver's affair.

    a day     so many relaunches at the most, and never two that are under way
    back      what did worse is taken back at once: it undoes what had no leave to do harm

Settings are those of the next life beside those of this one: a name that does not change stays what it was.
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

HEAP, BESIDE, CORES = "spark.executor.memory", "spark.executor.memoryOverhead", "spark.executor.cores"
CORES_MAX, INSTANCES = "spark.cores.max", "spark.executor.instances"
_CLOCK = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")
_WHOLE_DAY = 24 * 60


@dataclass(frozen=True)
class DailyWindow:
    """A part of each day, in minutes since midnight; one that ends before it begins goes past midnight."""

    begin: int
    end: int

    def __post_init__(self) -> None:
        for name in ("begin", "end"):
            checks.count(name, getattr(self, name), least=0)
            if getattr(self, name) >= _WHOLE_DAY:
                raise InputError(name, "is no minute of a day", seen=getattr(self, name), remedy="write 0 to 1439")

    @classmethod
    def read(cls, text: str) -> DailyWindow:
        """
        >>> DailyWindow.read("23:30-01:00").holds(15)
        True
        """
        found = _CLOCK.fullmatch(text)
        if found is None:
            raise InputError("between", "is no part of a day", seen=text, remedy="write 02:00-04:00")
        hours = [int(each) for each in found.groups()]
        return cls(60 * hours[0] + hours[1], 60 * hours[2] + hours[3])

    def holds(self, minute: int) -> bool:
        if self.begin < self.end:
            return self.begin <= minute < self.end
        return minute >= self.begin or minute < self.end

    def __str__(self) -> str:
        return "-".join(f"{each // 60:02}:{each % 60:02}" for each in (self.begin, self.end))


@dataclass(frozen=True)
class RelaunchMoment:
    """`minute` of the day, by the clock that people set `Between` by. `under_way`: an earlier relaunch has not come up.
    `just_moved`: a query has stood still since the last look, as its state was moved."""

    at: float
    minute: int
    under_way: bool = False
    just_moved: bool = False


def explain_wait(
    action: SizeChange | None, between: DailyWindow | None, a_day: int, done: Iterable[SizeChange], now: RelaunchMoment
) -> str:
    """Empty where it is the moment. `done`: the action log."""
    if action is None or action.what != "asked":
        return "nothing is asked for"
    if now.under_way:
        return "a relaunch is under way"
    if action.policy == "back":
        return ""
    today = sum(each.what == "relaunched" and now.at - each.at < DAY_SECONDS for each in done)
    if today >= a_day:
        return f"it was relaunched {today} times within a day"
    if between is not None and not between.holds(now.minute) and not now.just_moved:
        return f"it waits for {between}"
    return ""


def choose_settings(before: ExecutorSizes, after: ExecutorSizes, master: str = "", apart_mb: int = 0) -> dict[str, str]:
    """What has to be set at the next start, of what changes. A standalone cluster goes by cores in all; with a local
    master the driver is the executor. `apart_mb`: of the memory beside the heap, what has settings of its own."""
    changed: dict[str, str] = {}
    if master.startswith("local") and not master.startswith("local-cluster"):
        heap = {"spark.driver.memory": f"{after.heap_mb}m"} if after.heap_mb != before.heap_mb else {}
        return heap | ({"spark.master": f"local[{after.cores}]"} if after.cores != before.cores else {})
    if after.heap_mb != before.heap_mb:
        changed[HEAP] = f"{after.heap_mb}m"
    if after.overhead_mb != before.overhead_mb or changed:
        changed[BESIDE] = f"{max(0, after.overhead_mb - apart_mb)}m"
    if after.cores != before.cores:
        changed[CORES] = str(after.cores)
    if after.slots != before.slots and (not master or master.startswith("spark://")):
        changed[CORES_MAX] = str(after.slots)
    if after.executors != before.executors and not master.startswith("spark://"):
        changed[INSTANCES] = str(after.executors)
    return changed
