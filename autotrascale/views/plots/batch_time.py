"""The time of a batch by operator, or the busy share of instances for a job without batches, from one window.

Notation:
    t_i    seconds that the stage of operator i lasts per second: useful time · skew / instances / window
    h      share of a batch in which no stage runs
    B      measured length of a batch in seconds
    b      length of the batch that is plotted: B if batches were measured. For a simulated job, whose h is that of its
           longest batch, b is the batch that repeats itself: h · B / (1 − Σ t_i)
"""

from __future__ import annotations

from autotrascale.domain.snapshot import Snapshot
from autotrascale.plan.formatting import format_percent, format_seconds, join_names
from autotrascale.views.plots.plot import MS, Axis, Plot, Series

BATCH_TIME = ("batch", "Where the time goes")
NO_OPERATOR = "no operator"


def plot_batch_time(
    snapshot: Snapshot | None, *, simulated: bool, why_missing: str = "No window was measured yet."
) -> Plot:
    """Return the plot of one window. `why_missing` is shown if there is no snapshot."""
    if snapshot is None:
        return Plot.unavailable(*BATCH_TIME, why_missing)
    stages = {
        name: metrics.total.useful_seconds / metrics.parallelism / snapshot.window_seconds
        for name, metrics in snapshot.operators.items()
        if metrics.total.useful_seconds is not None
    }
    unknown = [name for name in snapshot.operators if name not in stages]
    if snapshot.execution != "micro-batch":
        return _plot_busy_instances(stages, unknown)
    if unknown or snapshot.overhead_share is None or snapshot.batch_seconds is None:
        lacks = f"the useful time of {join_names(unknown)}" if unknown else "the time of a batch outside its operators"
        return Plot.unavailable(*BATCH_TIME, f"Unknown in the last window: {lacks}.")
    skewed = {name: share * snapshot.operators[name].skew for name, share in stages.items()}
    return _plot_batches(skewed, snapshot.overhead_share, snapshot.batch_seconds, simulated)


def _plot_batches(stages: dict[str, float], overhead: float, batch: float, simulated: bool) -> Plot:
    fixed, busy = overhead * batch, sum(stages.values())
    if simulated and busy >= 1:
        return Plot.unavailable(*BATCH_TIME, "The job fell behind in the last window, so its batches grow.")
    length = fixed / (1 - busy) if simulated else batch
    scale = 0.0 if busy == 0 else (length - fixed) / busy
    parts = {**{name: share * scale for name, share in stages.items()}, NO_OPERATOR: fixed}
    longest = max(parts, key=lambda name: parts[name])
    caption = f"A batch takes {format_seconds(length)}; {longest} takes {format_seconds(parts[longest])} of it."
    caption += f" “{NO_OPERATOR.capitalize()}” is planning, scheduling and committing."
    labels = tuple(
        f"{name}: {format_seconds(part)}, {format_percent(part / (length or 1.0))}" for name, part in parts.items()
    )
    series = Series("time", tuple(parts), tuple(part * MS for part in parts.values()), "bars", labels=labels)
    return Plot(*BATCH_TIME, caption, Axis("", "names"), Axis("ms of each batch"), (series,))


def _plot_busy_instances(shares: dict[str, float], unknown: list[str]) -> Plot:
    if not shares:
        return Plot.unavailable(*BATCH_TIME, "The useful time of instances is unknown for every operator.")
    busiest = max(shares, key=lambda name: shares[name])
    caption = f"Instances of {busiest} are the busiest, {format_percent(shares[busiest])} of the time."
    caption += f" Unknown for {join_names(unknown)}." if unknown else ""
    labels = tuple(f"{name}: {format_percent(share)} of the time" for name, share in shares.items())
    series = Series("busy", tuple(shares), tuple(100 * share for share in shares.values()), "bars", labels=labels)
    return Plot(*BATCH_TIME, caption, Axis("", "names"), Axis("% of the time"), (series,))
