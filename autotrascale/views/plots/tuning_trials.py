"""The trials of a tuning run: score against the stop rule, latency, instances, and the parallelism by operator."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate

from autotrascale.domain.job import Job
from autotrascale.plan.formatting import format_amount, format_seconds
from autotrascale.plan.search.score import Benefit
from autotrascale.tuning import Evaluation
from autotrascale.views.explanation import format_parallelism
from autotrascale.views.plots.plot import MS, Axis, Level, Plot, Role, Series

SCORES = ("history", "Score and stop threshold")
LATENCIES = ("latencies", "Latency and target")
INSTANCES = ("instances", "Instances and floor")
CHOICES = ("choices", "Parallelism of each trial, by operator")
_NUMBER = Axis("trial", whole=True)
_FELL_BEHIND = "fell behind"


@dataclass(frozen=True)
class SearchedRun:
    """The data of a run for its plots. `benefit`: scores relative to the floor; None before the floor is known."""

    job: Job
    evaluations: tuple[Evaluation, ...]
    benefit: Benefit | None = None

    def score(self, each: Evaluation) -> float | None:
        """Return the score of an evaluation, also of the trials for the floor. Below the floor there is no score."""
        if each.score is not None or self.benefit is None:
            return each.score
        k = self.job.topology.vector(each.parallelism)
        if any(own < least for own, least in zip(k, self.benefit.floor, strict=True)):
            return None
        return float(self.benefit.score(k, math.inf if each.latency_seconds is None else each.latency_seconds))


def plot_run(run: SearchedRun) -> list[Plot]:
    return [make(run) for make in (plot_scores, plot_latencies, plot_instances, plot_choices)]


def plot_scores(run: SearchedRun) -> Plot:
    scored = [(each.number, score, each) for each in run.evaluations if (score := run.score(each)) is not None]
    if not scored:
        return Plot.unavailable(*SCORES, "No trial has a score yet: the floor is searched first.")
    x = tuple(number for number, _, _ in scored)
    scores = tuple(score for _, score, _ in scored)
    best = tuple(accumulate(scores, max))
    labels = tuple(describe_evaluation(run.job, each) for _, _, each in scored)
    series = (Series("best so far", x, best, "steps", "quiet"), Series("score", x, scores, "points", labels=labels))
    levels: tuple[Level, ...] = ()
    caption = f"The best of {len(scored)} scores is {best[-1]:.3f}."
    if run.benefit is not None:
        threshold = run.benefit.threshold
        levels = (Level(threshold, f"stop threshold {threshold:.3f}"),)
        caption += f" The search stops at {threshold:.3f}, if the target is met with enough confidence."
    return Plot(*SCORES, caption, _NUMBER, Axis("benefit score, at most 1"), series, levels)


def plot_latencies(run: SearchedRun) -> Plot:
    target = run.job.target
    measured = [each for each in run.evaluations if each.latency_seconds is not None]
    if not measured:
        return Plot.unavailable(*LATENCIES, "No trial kept up with the rate, so there is no steady latency.")
    limit = target.latency_seconds
    series = tuple(
        Series(
            outcome,
            tuple(each.number for each in evaluations),
            tuple((each.latency_seconds or 0.0) * MS for each in evaluations),
            "points",
            role,
            labels=tuple(describe_evaluation(run.job, each) for each in evaluations),
        )
        for outcome, role, evaluations in _by_outcome(run)
        if outcome != _FELL_BEHIND
    )
    within = sum((each.latency_seconds or math.inf) <= limit for each in measured)
    fell_behind = len(run.evaluations) - len(measured)
    caption = f"{within} of {len(measured)} latencies are within {format_seconds(limit)}."
    caption += f" {fell_behind} more trials fell behind and have no latency." if fell_behind else ""
    level = Level(limit * MS, f"target {format_seconds(limit)}")
    return Plot(*LATENCIES, caption, _NUMBER, Axis(f"{target.statistic} latency (ms)"), series, (level,))


def plot_instances(run: SearchedRun) -> Plot:
    if not run.evaluations:
        return Plot.unavailable(*INSTANCES, "No trial is finished yet.")
    x = tuple(each.number for each in run.evaluations)
    totals = tuple(sum(each.parallelism.values()) for each in run.evaluations)
    labels = tuple(describe_evaluation(run.job, each) for each in run.evaluations)
    series = Series("instances", x, totals, "bars", labels=labels)
    levels = []
    caption = "The floor is not known yet."
    if run.benefit is not None:
        floor, least = run.job.topology.named(run.benefit.floor), sum(run.benefit.floor)
        most = least * (1 + run.benefit.over_allocation)
        levels += [Level(least, f"floor {least}"), Level(most, f"stop rule allows about {format_amount(most)}")]
        caption = f"The floor, the least that sustains the rate, is {format_parallelism(floor)}."
    return Plot(*INSTANCES, caption, _NUMBER, Axis("instances, all operators", whole=True), (series,), tuple(levels))


def plot_choices(run: SearchedRun) -> Plot:
    """Return parallel coordinates: one line for each evaluation across the operators, in instances."""
    names = tuple(run.job.topology)
    if len(names) < 2:
        return Plot.unavailable(*CHOICES, "This job has one operator: the plot of instances shows its parallelism.")
    if not run.evaluations:
        return Plot.unavailable(*CHOICES, "No trial is finished yet.")
    series = []
    for outcome, role, evaluations in _by_outcome(run):
        x: list[float | str] = []
        y: list[float | None] = []
        labels: list[str] = []
        for each in evaluations:  # the value None separates two lines
            x += [*names, names[-1]]
            y += [*(each.parallelism[operator] for operator in names), None]
            labels += [describe_evaluation(run.job, each)] * (len(names) + 1)
        series.append(Series(outcome, tuple(x), tuple(y), "line", role, labels=tuple(labels)))
    caption = "Each line is one trial. Lines meet where two trials have the same parallelism."
    return Plot(*CHOICES, caption, Axis("", "names"), Axis("instances", whole=True), tuple(series))


def describe_evaluation(job: Job, each: Evaluation) -> str:
    result = (
        each.verdict.value.replace("-", " ") if each.latency_seconds is None else format_seconds(each.latency_seconds)
    )
    head = f"{each.number} ({each.phase}): {format_parallelism(each.parallelism)}"
    return f"{head}: {result}, target {format_seconds(job.target.latency_seconds)}"


def _by_outcome(run: SearchedRun) -> list[tuple[str, Role, list[Evaluation]]]:
    limit = run.job.target.latency_seconds
    groups: list[tuple[str, Role, list[Evaluation]]] = [
        ("target met", "good", []),
        ("target missed", "bad", []),
        (_FELL_BEHIND, "quiet", []),
    ]
    for each in run.evaluations:
        latency = each.latency_seconds
        groups[2 if latency is None else int(latency > limit)][2].append(each)
    return [group for group in groups if group[2]]
