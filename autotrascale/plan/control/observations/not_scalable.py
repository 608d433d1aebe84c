"""Detection of bottlenecks that more instances do not remove.

    hot key        one instance takes in most of the records; more instances do not divide one key
    partitions     instances beyond the partitions of a topic wait while it is read
    critical path  most of a batch is the driver's, the commits', the sink's calls' or a straggler's time

    symbol   meaning
    e        share of the critical paths that parallelism does not divide (`CriticalShares.elsewhere`)

From e ≥ `MIN_UNSCALABLE_SHARE` on, no parallelism is asked for: less than half of the batch is left to divide.
`python -m benchmarks.quality.planted_bench` measures e; docs/how-to/critical-path.md has the results.

Two other causes are handled elsewhere: garbage collection by a gate of the scaling manager, slow services by
`slow_services.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autotrascale.domain.decision import Number, Reason
from autotrascale.domain.snapshot import CRITICAL_FIELDS, CriticalShares, Snapshot
from autotrascale.plan.formatting import format_percent
from autotrascale.plan.policies.reasons import explain_narrow_sources
from autotrascale.plan.sizing.sizing import Unsized, size

MIN_UNSCALABLE_SHARE = 0.5  # e
SATURATED_SHARE, IDLE_SHARE = 0.95, 0.5  # useful share of the window, of the hottest instance and of its siblings
HOT_SHARE = 0.5  # of an operator's records, taken in by one instance …
FAIR_SHARE_RATIO = 3.0  # … which is also this multiple of an even share

_CAUSES: Mapping[str, str] = {
    "driver": "the driver's own work (offsets, planning, scheduling)",
    "commits": "commits of state and logs",
    "external": "the sink's own function and its calls",
    "straggler": "waiting for the slowest instance",
}
_REMEDIES: Mapping[str, str] = {
    "driver": "a longer trigger, fewer tasks, a simpler plan or a faster driver",
    "commits": "a faster checkpoint location, fewer partitions of state or changelog checkpoints",
    "external": "fewer and larger calls, parallel calls or a faster service",
    "straggler": "spreading its hot key, or another executor for it",
}


def check_critical_path(snapshot: Snapshot) -> Reason | None:
    """Return why more instances would not help, and the remedy; None if they may help or nothing was measured."""
    critical = snapshot.critical
    if critical is None or critical.elsewhere < MIN_UNSCALABLE_SHARE:
        return None
    numbers: dict[str, Number] = {name: getattr(critical, name) for name in CRITICAL_FIELDS}
    text = f"On hold: {describe_critical_path(critical)}."
    return Reason("hold-critical", text, {"by": critical.most, **numbers})


def describe_critical_path(critical: CriticalShares) -> str:
    """Return a clause such as `60% of a batch's critical path does not shrink with more instances; …`."""
    most = critical.most
    operator = f" of {critical.operator}" if most == "straggler" and critical.operator else ""
    return (
        f"{format_percent(critical.elsewhere)} of a batch's critical path does not shrink with more instances; "
        f"{format_percent(getattr(critical, most))} is {_CAUSES[most]}{operator}. What helps: {_REMEDIES[most]}"
    )


def check_skew(snapshot: Snapshot) -> Reason | None:
    """Return a reason that names an operator with one saturated instance and idle siblings, or None."""
    window = snapshot.window_seconds
    for name, metrics in snapshot.operators.items():
        useful = [work.useful_seconds for work in metrics.instances if work.useful_seconds is not None]
        if len(useful) < 2:
            continue
        hottest, siblings = max(useful), (sum(useful) - max(useful)) / (len(useful) - 1)
        if hottest >= SATURATED_SHARE * window and siblings < IDLE_SHARE * window:
            text = (
                f"On hold: one instance of {name} is busy {format_percent(hottest / window)} of the time, its siblings "
                f"{format_percent(siblings / window)}. More instances do not divide a hot key."
            )
            return Reason("hold-skew", text, {"operator": name, "skew": metrics.skew})
    return None


def find_hot_keys(snapshot: Snapshot) -> list[Reason]:
    """Return a hint for each operator of which one instance takes in most of the records."""
    hints = []
    for name, metrics in snapshot.operators.items():
        taken_in = [work.records_in for work in metrics.instances if work.records_in is not None]
        instances = len(taken_in)
        share = max(taken_in, default=0.0) / (sum(taken_in) or 1.0)
        if instances < 2 or share < HOT_SHARE or share * instances < min(FAIR_SHARE_RATIO, 0.9 * instances):
            continue
        text = f"{name} has a hot key: one of {instances} instances takes in {format_percent(share)} of the records."
        hints.append(Reason("hot-key", text, {"operator": name, "share": share}))
    return hints


def find_narrow_sources(snapshot: Snapshot, wanted: Mapping[str, int], reasons: Sequence[Reason]) -> list[Reason]:
    """Return a hint for each operator with more instances than its source's partitions keep busy.

    The policy may have said so already in `reasons`; then there is no hint.
    """
    if all(metrics.narrow is None for metrics in snapshot.operators.values()):
        return []
    sized = size(snapshot)
    if isinstance(sized, Unsized) or any(reason.code == "source-partitions" for reason in reasons):
        return []
    return explain_narrow_sources(sized, [wanted[name] for name in sized.operators])
