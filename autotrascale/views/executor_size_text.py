"""Sizes of executors in words: what they are, what should be done and why, and what was done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from autotrascale.domain.executor_window import RESOURCES, ExecutorSizes, ExecutorWindow
from autotrascale.plan.executor_size import size_evidence
from autotrascale.plan.executor_size.size_changes import SizeChange
from autotrascale.plan.formatting import format_amount, format_percent


@dataclass(frozen=True)
class NeededSetting:
    """Without it some signal is missing."""

    name: str
    value: str
    why: str


PROCESS_TREE = NeededSetting(
    size_evidence.PROCESS_TREE,
    size_evidence.REQUIRED_SETTINGS[size_evidence.PROCESS_TREE],
    "the resident memory of JVM and Python workers: without it nothing is known of memory beside the heap",
)
POLLING = NeededSetting(
    size_evidence.POLLING,
    size_evidence.REQUIRED_SETTINGS[size_evidence.POLLING],
    "an executor looks at its memory between heartbeats too: without it short tasks are never seen",
)
STAGES = NeededSetting(
    size_evidence.STAGES,
    size_evidence.REQUIRED_SETTINGS[size_evidence.STAGES],
    "peaks of each stage are in the log, of executors whose tasks were too short to be looked at themselves",
)
NEEDED = (PROCESS_TREE, POLLING, STAGES)


def find_missing_settings(window: ExecutorWindow, local: bool = False) -> tuple[NeededSetting, ...]:
    """What has to be switched on for what the window does not know."""
    if local or window.memory_mb is not None:
        return ()
    return NEEDED if window.heap_used_mb is None else (PROCESS_TREE,)


def describe_sizes(sizes: ExecutorSizes) -> str:
    """
    >>> in_words(Sizes(1024, 384, 2, 3))
    '3 executors of 2 cores, heap 1,024 MB and 384 MB beside it'
    """
    return (
        f"{_count(sizes.executors, 'executor')} of {_count(sizes.cores, 'core')}, heap {sizes.heap_mb:,} MB"
        f" and {sizes.overhead_mb:,} MB beside it"
    )


def describe_use(window: ExecutorWindow) -> str:
    """One line of what it used, of what is known."""
    parts = [
        ("heap touched", window.heap_touched_mb, _mb),
        ("beside it", window.outside_mb, _mb),
        ("collections", window.gc_share, format_percent),
        ("slots busy", window.busy, format_percent),
        ("of that computing", window.cpu_share, format_percent),
        ("state", window.state_mb, _mb),
        ("spilled", window.spilled_mb or None, _mb),
    ]
    return (
        ", ".join(f"{name} {shown(value)}" for name, value, shown in parts if value is not None) or "nothing is known"
    )


def size_action_rows(actions: Sequence[SizeChange]) -> list[tuple[str, ...]]:
    """A row for each line of the action log."""
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


SIZE_ACTION_COLUMNS = ("at (UTC)", "action", "what", "policy", "change", "why")


def format_size_change(action: SizeChange) -> str:
    """All that becomes other: memory of both kinds may be given back at once, or what a host has no room for spread."""
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


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
