"""A job whose batches are long for something that more instances do not shorten, and what does.

    e   share of the batches' time on their critical paths that is the driver's, commits', the sink's calls' or a
        straggler's (`Critical.elsewhere`)

From e ≥ `BOUND` on no parallelism is asked for: not half of the batch is left for it to divide. Measured by
`python -m benchmarks.quality.planted_bench`: docs/critical.md has e where an operator lacks instances, and where not.
"""

from __future__ import annotations

from collections.abc import Mapping

from autotrascale.domain.decision import Number, Reason
from autotrascale.domain.snapshot import CRITICAL_FIELDS, CriticalShares, Snapshot
from autotrascale.plan.formatting import format_percent

MIN_UNSCALABLE_SHARE = 0.5

_WHAT: Mapping[str, str] = {
    "driver": "the driver's own work (offsets, planning, scheduling)",
    "commits": "commits of state and logs",
    "external": "the sink's own function and what it calls",
    "straggler": "waiting for the slowest instance",
}
_INSTEAD: Mapping[str, str] = {
    "driver": "longer batches (the trigger), fewer tasks, a simpler plan or a faster driver shorten that",
    "commits": "a faster checkpoint location, fewer partitions of state or changelog checkpoints shorten that",
    "external": "fewer and larger calls, calls side by side or a faster service shorten that",
    "straggler": "spread its hot key, or look after the executor that it runs on",
}


def check_critical_path(snapshot: Snapshot) -> Reason | None:
    """Why more instances would not help, and what would."""
    critical = snapshot.critical
    if critical is None or critical.elsewhere < MIN_UNSCALABLE_SHARE:
        return None
    numbers: dict[str, Number] = {name: getattr(critical, name) for name in CRITICAL_FIELDS}
    return Reason("hold-critical", describe_critical_path(critical), {"by": critical.most, **numbers})


def describe_critical_path(critical: CriticalShares) -> str:
    """`60% of a batch is no matter of parallelism, most of it …`."""
    most = critical.most
    of = f" of {critical.operator}" if most == "straggler" and critical.operator else ""
    return (
        f"{format_percent(critical.elsewhere)} of a batch's critical path is not divided by more instances: "
        f"{format_percent(getattr(critical, most))} is {_WHAT[most]}{of}; {_INSTEAD[most]}"
    )
