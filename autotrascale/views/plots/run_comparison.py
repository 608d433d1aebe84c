"""Runs side by side: what each tried, by instances and latency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autotrascale.plan.formatting import join_names
from autotrascale.tuning import Evaluation
from autotrascale.views.explanation import format_parallelism
from autotrascale.views.plots.plot import Axis, Level, Plot, Role, Series

MS = 1000.0
_ROLES: tuple[Role, ...] = ("main", "second", "third", "good", "bad", "quiet")


def plot_trials_of_runs(runs: Mapping[str, Sequence[Evaluation]], targets: Sequence[float]) -> Plot:
    """`targets` in seconds: a level where all runs have the same."""
    name, title = "tried", "Latency by instances"
    series = []
    for i, (run, evaluations) in enumerate(runs.items()):
        held = [(each, each.latency_seconds) for each in evaluations if each.latency_seconds is not None]
        if held:
            series.append(_of_run(run, held, _ROLES[i % len(_ROLES)]))
    if not series:
        return Plot.unavailable(name, title, "None of these runs has an evaluation that held the rate.")
    without = [run for run in runs if run not in {each.name for each in series}]
    says = "Lower and further to the left is better."
    says += f" Nothing held the rate in {join_names(without)}." if without else ""
    same = len(set(targets)) == 1
    levels = (Level(targets[0] * MS, "target"),) if same else ()
    return Plot(
        name, title, says, Axis("instances, all operators", whole=True), Axis("latency (ms)"), tuple(series), levels
    )


def _of_run(run: str, held: Sequence[tuple[Evaluation, float]], role: Role) -> Series:
    x = tuple(sum(each.parallelism.values()) for each, _ in held)
    said = tuple(f"{run}, {each.number}: {format_parallelism(each.parallelism)}" for each, _ in held)
    return Series(run, x, tuple(latency * MS for _, latency in held), "points", role, said=said)
