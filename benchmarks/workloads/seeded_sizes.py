"""Size actions of a simulated application with a daily load. The size policies judge its windows; their actions are
carried out at once and logged."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from autotrascale.domain.executor_window import ExecutorSizes, ExecutorWindow
from autotrascale.knowledge.decision_journal import size_action_log
from autotrascale.knowledge.decision_journal.journal_file import JournalFile
from autotrascale.plan.executor_size.clamp_to_cluster import ClusterLimits
from autotrascale.plan.executor_size.size_changes import SizeChange
from autotrascale.plan.executor_size.size_evidence import ExecutorSizeRules
from autotrascale.plan.executor_size.size_step import ExecutorSizeState, SizeChangeQuota, judge_window

BEGINS = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
HOUR = 3600.0
BEGAN_WITH = ExecutorSizes(heap_mb=6000, overhead_mb=800, cores=2, executors=4)
HEAP, OVERHEAD = 2400.0, 700.0  # MB of an executor with busy slots


def write_size_actions(file: JournalFile, application: str) -> None:
    """Append the size actions of four days to the journal."""
    size_action_log.append_actions(file, application, list_size_actions(application))


def list_size_actions(application: str, days: int = 4) -> tuple[SizeChange, ...]:
    """Return the size actions of an application in its first days."""
    state, now, done = ExecutorSizeState(), BEGAN_WITH, list[SizeChange]()
    for hour in range(24 * days):
        state, _, actions = judge_window(
            ExecutorSizeRules(), ClusterLimits(), SizeChangeQuota(), state, _window(application, now, hour)
        )
        asked = [each.after for each in actions if each.what == "asked"]
        now, done = (asked or [now])[-1], [*done, *actions]
    return tuple(done)


def _window(application: str, now: ExecutorSizes, hour: int) -> ExecutorWindow:
    """Return an hour of the application. Its load grows by 50 % in hour 26. A nearly full heap is collected often."""
    share = (0.5 + 0.15 * math.sin(2 * math.pi * hour / 24)) * (1.5 if hour >= 26 else 1.0)
    needed, busy, overhead, rate = HEAP * share, share * HOUR * now.slots, OVERHEAD * share, 1000.0 * share
    heap = min(needed, now.heap_mb)
    return ExecutorWindow(
        application,
        BEGINS + hour * HOUR,
        HOUR,
        now,
        batches=120,
        tasks=960,
        run_seconds=busy,
        gc_seconds=(0.04 if needed < 0.95 * now.heap_mb else 0.25) * busy,
        fetching_seconds=0.0,
        cpu_seconds=0.7 * busy,
        heap_used_mb=heap,
        heap_least_mb=0.6 * heap,
        heap_touched_mb=heap,
        outside_mb=overhead,
        memory_mb=heap + overhead,
        rate=rate,
        done=rate,
        behind=(100.0, 100.0),
    )
