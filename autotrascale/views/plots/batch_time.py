"""Where the time of a batch goes, or of an instance where there are no batches: from one measured window.

t_i    seconds that the stage of operator i lasts for each second: useful time · skew / instances / window
h, B   share of a batch of B seconds in which no stage runs
b      a batch: B where batches were measured. A simulated job tells h of its longest batch, so there it is the one
       that repeats itself, h B / (1 − Σ t_i)
"""

from __future__ import annotations

from autotrascale.domain.snapshot import Snapshot
from autotrascale.plan.formatting import format_percent, format_seconds, join_names
from autotrascale.views.plots.plot import Axis, Plot, Series

NAME = "batch"
MS = 1000.0
REST = "the rest"
_TITLE = "Where the time of a batch goes"


def plot_batch_time(
    snapshot: Snapshot | None, *, simulated: bool, why_not: str = "No window was measured yet."
) -> Plot:
    if snapshot is None:
        return Plot.unavailable(NAME, "Where the time goes", why_not)
    stages = {
        name: metrics.total.useful_seconds / metrics.parallelism / snapshot.window_seconds
        for name, metrics in snapshot.operators.items()
        if metrics.total.useful_seconds is not None
    }
    unknown = [name for name in snapshot.operators if name not in stages]
    if snapshot.execution != "micro-batch":
        return _of_instances(stages, unknown)
    if unknown or snapshot.overhead_share is None or snapshot.batch_seconds is None:
        lacks = f"the useful time of {join_names(unknown)}" if unknown else "what a batch takes beside its operators"
        return Plot.unavailable(NAME, _TITLE, f"Not known in the last window: {lacks}.")
    hot = {name: share * snapshot.operators[name].skew for name, share in stages.items()}
    return _of_batches(hot, snapshot.overhead_share, snapshot.batch_seconds, simulated)


def _of_batches(stages: dict[str, float], overhead: float, batch: float, simulated: bool) -> Plot:
    fixed, busy = overhead * batch, sum(stages.values())
    if simulated and busy >= 1:
        why = "It fell behind in the last window: batches grow, and none is like another."
        return Plot.unavailable(NAME, _TITLE, why)
    length = fixed / (1 - busy) if simulated else batch
    each = 0.0 if busy == 0 else (length - fixed) / busy
    parts = {**{name: share * each for name, share in stages.items()}, REST: fixed}
    longest = max(parts, key=lambda name: parts[name])
    says = f"A batch takes {format_seconds(length)}; {longest} takes {format_seconds(parts[longest])} of it."
    says += f" {REST.capitalize()} is planning, scheduling and committing, in which no operator works."
    said = tuple(
        f"{name}: {format_seconds(part)}, {format_percent(part / (length or 1.0))}" for name, part in parts.items()
    )
    series = Series("time", tuple(parts), tuple(part * MS for part in parts.values()), "bars", said=said)
    return Plot(NAME, _TITLE, says, Axis("", "names"), Axis("ms of each batch"), (series,))


def _of_instances(shares: dict[str, float], unknown: list[str]) -> Plot:
    title = "How busy the instances of each operator are"
    if not shares:
        return Plot.unavailable(NAME, title, "The time that instances were useful is not known of any operator.")
    busiest = max(shares, key=lambda name: shares[name])
    says = f"{busiest} is the busiest: its instances work {format_percent(shares[busiest])} of the time."
    says += f" Not known of {join_names(unknown)}." if unknown else ""
    said = tuple(f"{name}: {format_percent(share)} of the time" for name, share in shares.items())
    series = Series("busy", tuple(shares), tuple(100 * share for share in shares.values()), "bars", said=said)
    return Plot(NAME, title, says, Axis("", "names"), Axis("% of the time"), (series,))
