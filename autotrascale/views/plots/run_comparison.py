"""Tuning runs side by side: the latency of their trials by the number of instances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autotrascale.plan.formatting import join_names
from autotrascale.tuning import Evaluation
from autotrascale.views.explanation import format_parallelism
from autotrascale.views.plots.plot import MS, Axis, Level, Plot, Role, Series

COMPARISON = ("tried", "Latency by instances")
_ROLES: tuple[Role, ...] = ("main", "second", "third", "good", "bad", "quiet")


def plot_trials_of_runs(runs: Mapping[str, Sequence[Evaluation]], targets: Sequence[float]) -> Plot:
    """Return the plot of several runs.

    Args:
        runs: evaluations by the label of the run.
        targets: latency target of each run in seconds; shown if all are equal.
    """
    series = []
    for i, (run, evaluations) in enumerate(runs.items()):
        measured = [(each, each.latency_seconds) for each in evaluations if each.latency_seconds is not None]
        if measured:
            series.append(_series(run, measured, _ROLES[i % len(_ROLES)]))
    if not series:
        return Plot.unavailable(*COMPARISON, "No trial of these runs kept up with the rate.")
    without = [run for run in runs if run not in {each.name for each in series}]
    caption = "Lower and further left is better."
    caption += f" No trial kept up with the rate in {join_names(without)}." if without else ""
    levels = (Level(targets[0] * MS, "target"),) if len(set(targets)) == 1 else ()
    x, y = Axis("instances, all operators", whole=True), Axis("latency (ms)")
    return Plot(*COMPARISON, caption, x, y, tuple(series), levels)


def _series(run: str, measured: Sequence[tuple[Evaluation, float]], role: Role) -> Series:
    x = tuple(sum(each.parallelism.values()) for each, _ in measured)
    labels = tuple(f"{run}, {each.number}: {format_parallelism(each.parallelism)}" for each, _ in measured)
    return Series(run, x, tuple(latency * MS for _, latency in measured), "points", role, labels=labels)
