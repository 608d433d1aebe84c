"""A tuning run, evaluation by evaluation: its score against the stop rule, its latency, its instances, its choices."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate

from autotrascale.domain.job import Job
from autotrascale.plan.formatting import format_amount, format_seconds
from autotrascale.plan.search.score import Benefit
from autotrascale.tuning import Evaluation
from autotrascale.views.explanation import format_parallelism
from autotrascale.views.plots.plot import Axis, Level, Plot, Role, Series

MS = 1000.0
_NUMBER = Axis("evaluation", whole=True)


@dataclass(frozen=True)
class SearchedRun:
    """What a run is drawn from. `benefit`: what scores are relative to; None before the floor is known."""

    job: Job
    evaluations: tuple[Evaluation, ...]
    benefit: Benefit | None = None

    def score(self, each: Evaluation) -> float | None:
        """Runs of the floor's search got none when they were made; below the floor there is none."""
        if each.score is not None or self.benefit is None:
            return each.score
        k = self.job.topology.vector(each.parallelism)
        if any(own < least for own, least in zip(k, self.benefit.floor, strict=True)):
            return None
        return float(self.benefit.score(k, math.inf if each.latency_seconds is None else each.latency_seconds))


def plot_run(run: SearchedRun) -> list[Plot]:
    return [make(run) for make in (plot_scores, plot_latencies, plot_instances, plot_choices)]


def plot_scores(run: SearchedRun) -> Plot:
    name, title = "history", "Score against the stop threshold"
    scored = [(each.number, score, each) for each in run.evaluations if (score := run.score(each)) is not None]
    if not scored:
        return Plot.unavailable(
            name, title, "No evaluation has a score yet: scores are relative to the floor, which is looked for first."
        )
    x = tuple(number for number, _, _ in scored)
    best = tuple(accumulate((score for _, score, _ in scored), max))
    series = (
        Series("best so far", x, best, "steps", "quiet"),
        Series(
            "score",
            x,
            tuple(score for _, score, _ in scored),
            "points",
            said=tuple(describe_evaluation(run.job, each) for _, _, each in scored),
        ),
    )
    levels: tuple[Level, ...] = ()
    says = f"The best score of {len(scored)} is {best[-1]:.3f}."
    if run.benefit is not None:
        threshold = run.benefit.threshold
        levels = (Level(threshold, f"stop threshold {threshold:.3f}"),)
        says += f" {threshold:.3f} ends the search, where the target is met and that can be trusted."
    return Plot(name, title, says, _NUMBER, Axis("benefit score, at most 1"), series, levels)


def plot_latencies(run: SearchedRun) -> Plot:
    name, title, target = "latencies", "Latency against the target", run.job.target
    measured = [each for each in run.evaluations if each.latency_seconds is not None]
    if not measured:
        return Plot.unavailable(name, title, "No evaluation held the rate, so none has a steady latency.")
    limit = target.latency_seconds
    series = tuple(
        Series(
            what,
            tuple(each.number for each in these),
            tuple((each.latency_seconds or 0.0) * MS for each in these),
            "points",
            role,
            said=tuple(describe_evaluation(run.job, each) for each in these),
        )
        for what, role, these in _by_outcome(run)
        if what != "did not hold the rate"
    )
    within = sum((each.latency_seconds or math.inf) <= limit for each in measured)
    fell = len(run.evaluations) - len(measured)
    says = f"{within} of {len(measured)} readings are within {format_seconds(limit)}."
    says += f" {fell} more did not hold the rate and {'has' if fell == 1 else 'have'} none." if fell else ""
    level = Level(limit * MS, f"target {format_seconds(limit)}")
    return Plot(name, title, says, _NUMBER, Axis(f"{target.statistic} latency (ms)"), series, (level,))


def plot_instances(run: SearchedRun) -> Plot:
    name, title = "instances", "Instances against the floor"
    if not run.evaluations:
        return Plot.unavailable(name, title, "Nothing was run yet.")
    x = tuple(each.number for each in run.evaluations)
    series = Series(
        "instances",
        x,
        tuple(sum(each.parallelism.values()) for each in run.evaluations),
        "bars",
        said=tuple(describe_evaluation(run.job, each) for each in run.evaluations),
    )
    levels = []
    says = "The floor is not known yet."
    if run.benefit is not None:
        floor, least = run.job.topology.named(run.benefit.floor), sum(run.benefit.floor)
        most = least * (1 + run.benefit.over_allocation)
        levels += [Level(least, f"floor {least}"), Level(most, f"stop rule allows about {format_amount(most)}")]
        says = f"The floor, the least that holds the rate, is {format_parallelism(floor)}."
    return Plot(name, title, says, _NUMBER, Axis("instances, all operators", whole=True), (series,), tuple(levels))


def plot_choices(run: SearchedRun) -> Plot:
    """Parallel coordinates: a line for each evaluation across the operators, all in instances."""
    name, title, names = "choices", "What was tried, operator by operator", tuple(run.job.topology)
    if len(names) < 2:
        return Plot.unavailable(name, title, "This job has one operator: the plot above shows all of it.")
    if not run.evaluations:
        return Plot.unavailable(name, title, "Nothing was run yet.")
    series = []
    for what, role, these in _by_outcome(run):
        x: list[float | str] = []
        y: list[float | None] = []
        said: list[str] = []
        for each in these:  # a gap between one line and the next
            x += [*names, names[-1]]
            y += [*(each.parallelism[operator] for operator in names), None]
            said += [describe_evaluation(run.job, each)] * (len(names) + 1)
        series.append(Series(what, tuple(x), tuple(y), "line", role, said=tuple(said)))
    says = "Each line is one evaluation; lines that touch share a choice."
    return Plot(name, title, says, Axis("", "names"), Axis("instances", whole=True), tuple(series))


def describe_evaluation(job: Job, each: Evaluation) -> str:
    found = (
        each.verdict.value.replace("-", " ") if each.latency_seconds is None else format_seconds(each.latency_seconds)
    )
    return f"{each.number} ({each.phase}): {format_parallelism(each.parallelism)}: {found} of {format_seconds(job.target.latency_seconds)}"


def _by_outcome(run: SearchedRun) -> list[tuple[str, Role, list[Evaluation]]]:
    limit = run.job.target.latency_seconds
    groups: list[tuple[str, Role, list[Evaluation]]] = [
        ("within the target", "good", []),
        ("beyond the target", "bad", []),
        ("did not hold the rate", "quiet", []),
    ]
    for each in run.evaluations:
        latency = each.latency_seconds
        groups[2 if latency is None else int(latency > limit)][2].append(each)
    return [group for group in groups if group[2]]
