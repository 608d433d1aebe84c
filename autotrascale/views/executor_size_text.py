"""Executor sizes as text: sizes, their use, Spark settings that measurements need, and the log of changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from autotrascale.domain.executor_window import RESOURCES, ExecutorSizes, ExecutorWindow
from autotrascale.plan.executor_size import size_evidence
from autotrascale.plan.executor_size.size_changes import SizeChange
from autotrascale.plan.formatting import format_amount, format_percent
from autotrascale.views.executor_cost import format_count


@dataclass(frozen=True)
class NeededSetting:
    """A Spark setting without which a measurement is missing."""

    name: str
    value: str
    why: str


PROCESS_TREE = NeededSetting(
    size_evidence.PROCESS_TREE,
    size_evidence.REQUIRED_SETTINGS[size_evidence.PROCESS_TREE],
    "it reports the resident memory of JVM and Python workers; without it memory outside the heap is unknown",
)
POLLING = NeededSetting(
    size_evidence.POLLING,
    size_evidence.REQUIRED_SETTINGS[size_evidence.POLLING],
    "executors measure their memory between heartbeats, too; without it the memory of short tasks is unknown",
)
STAGES = NeededSetting(
    size_evidence.STAGES,
    size_evidence.REQUIRED_SETTINGS[size_evidence.STAGES],
    "the log has the peaks of each stage, also for tasks that are too short to be measured",
)
NEEDED = (PROCESS_TREE, POLLING, STAGES)


def find_missing_settings(window: ExecutorWindow, local: bool = False) -> tuple[NeededSetting, ...]:
    """Return the settings for the measurements that the window lacks. None are needed in local mode."""
    if local or window.memory_mb is not None:
        return ()
    return NEEDED if window.heap_used_mb is None else (PROCESS_TREE,)


def describe_sizes(sizes: ExecutorSizes) -> str:
    """Return sizes as text.

    >>> describe_sizes(ExecutorSizes(1024, 384, 2, 3))
    '3 executors of 2 cores, heap 1,024 MB and overhead 384 MB'
    """
    executors, cores = format_count(sizes.executors, "executor"), format_count(sizes.cores, "core")
    return f"{executors} of {cores}, heap {sizes.heap_mb:,} MB and overhead {sizes.overhead_mb:,} MB"


def describe_use(window: ExecutorWindow) -> str:
    """Return the known measurements of a window in one line."""
    parts = [
        ("heap touched", window.heap_touched_mb, _mb),
        ("outside the heap", window.outside_mb, _mb),
        ("garbage collection", window.gc_share, format_percent),
        ("slots busy", window.busy, format_percent),
        ("computing, of that", window.cpu_share, format_percent),
        ("state", window.state_mb, _mb),
        ("spilled", window.spilled_mb or None, _mb),
    ]
    return (
        ", ".join(f"{name} {shown(value)}" for name, value, shown in parts if value is not None)
        or "nothing was measured"
    )


def size_action_rows(actions: Sequence[SizeChange]) -> list[tuple[str, ...]]:
    """Return a row for each entry of the log, under `SIZE_ACTION_COLUMNS`."""
    return [
        (
            datetime.fromtimestamp(action.at, UTC).strftime("%Y-%m-%d %H:%M"),
            f"{action.number}",
            action.what,
            action.policy,
            format_size_change(action),
            action.reason.text,
        )
        for action in actions
    ]


SIZE_ACTION_COLUMNS = ("at (UTC)", "change no.", "step", "policy", "change", "why")


def format_size_change(action: SizeChange) -> str:
    """Return every resource that changes. One action may change several."""
    before, after = action.before, action.after
    changed = [each for each in RESOURCES if before.of(each) != after.of(each)]
    return ", ".join(f"{each} {before.of(each):,} → {after.of(each):,}" for each in changed)


def action_as_data(action: SizeChange) -> Mapping[str, Any]:
    return {
        "number": action.number,
        "what": action.what,
        "at": action.at,
        "policy": action.policy,
        "resource": action.resource,
        "before": sizes_as_data(action.before),
        "after": sizes_as_data(action.after),
        "reason": action.reason.as_dict(),
    }


def sizes_as_data(sizes: ExecutorSizes) -> Mapping[str, int]:
    return {
        "heap_mb": sizes.heap_mb,
        "overhead_mb": sizes.overhead_mb,
        "cores": sizes.cores,
        "executors": sizes.executors,
    }


def _mb(value: float) -> str:
    return f"{format_amount(value)} MB"
