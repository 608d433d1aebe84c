"""The shares of a batch's critical paths that more instances would not shorten.

    driver      participation of the driver's timeline, without the parts below
    commits     write-ahead log, commit log and commits of state
    external    the sink's time on the driver
    straggler   Σ over operators of the loss of the longest path if the operator's instances were equally busy

Each batch is a window of its own, from its trigger to its commit. Shares are weighted by the batches' seconds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from autotrascale.analyze.critical.activities import Kind
from autotrascale.analyze.critical.driver_phases import DRIVER
from autotrascale.analyze.critical.edges import TICKS, cut_into_windows, make_edges
from autotrascale.analyze.critical.gaps import fill_gaps
from autotrascale.analyze.critical.participation_table import measure_parts, read_reports
from autotrascale.analyze.critical.spark_trace import trace_batch
from autotrascale.analyze.facts import BatchFact
from autotrascale.domain.critical_path_report import CriticalPathReport, average_reports
from autotrascale.domain.snapshot import CriticalShares

_NEWEST = 20  # batches: more batches of a window give the same shares
_COMMITS = (Kind.log, Kind.commit, Kind.state_commit)
_EXTERNAL = (Kind.sink, Kind.external)
_LOGS = (Kind.log, Kind.commit)  # the commits in the driver


def measure_critical(batches: Sequence[BatchFact]) -> CriticalShares | None:
    """Return the shares of the newest batches, None where the log does not hold the times of tasks."""
    timed = [batch for batch in batches[-_NEWEST:] if any(task.times is not None for task in batch.tasks)]
    windows = [window for batch in timed if (window := measure_batch_participation(batch)) is not None]
    return summarise_critical(average_reports(windows)) if windows else None


def measure_batch_participation(batch: BatchFact) -> CriticalPathReport | None:
    """Return the critical paths of one batch, None for a batch that took no time."""
    edges, names = make_edges(trace_batch(batch))
    begin, width = batch.started_ms * TICKS, round(batch.seconds * 1000) * TICKS
    if width <= 0:
        return None
    rows = measure_parts(cut_into_windows(fill_gaps(edges).moved(-begin), width), names, width).to_pylist()
    of = {"application": "", "query": batch.name or batch.query or batch.run}
    found = [{**of, **row} for row in rows if row["started_ms"] == 0]
    return next(iter(read_reports(found)), None)


def summarise_critical(window: CriticalPathReport) -> CriticalShares:
    """Return the shares of a window."""
    kinds: dict[str, float] = defaultdict(float, {part.name: part.participation for part in window.kinds})
    lag = {each.of: 1 - each.at_best for each in window.what_ifs if each.change == "even"}
    external = sum(kinds[kind] for kind in _EXTERNAL)
    driver = sum(part.participation for part in window.timelines if part.name == DRIVER)
    return CriticalShares(
        driver=_share(driver - external - sum(kinds[kind] for kind in _LOGS)),
        commits=_share(sum(kinds[kind] for kind in _COMMITS)),
        external=_share(external),
        straggler=_share(sum(lag.values())),
        operator=max(lag, key=lambda name: lag[name], default=""),
    )


def _share(value: float) -> float:
    # Sums of floats may leave the range by rounding.
    return min(1.0, max(0.0, value))
