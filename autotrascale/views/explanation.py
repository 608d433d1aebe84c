"""Why this parallelism, operator by operator: why not one instance fewer, with the numbers that say so.

k_i − 1     the neighbour with one instance fewer: as measured where it was run, else as the benefit model expects it
P           the probability that a configuration truly meets the target, from the readings and the model
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from autotrascale.domain.trial import Verdict
from autotrascale.plan.formatting import format_load, format_percent, format_seconds, join_names
from autotrascale.plan.policies.registry import OURS
from autotrascale.plan.search.acquisition import probability_met
from autotrascale.tuning import Evaluation, Outcome

BUSY_ALL_THE_TIME = 0.95  # of one instance; more is told in instances
SURE = 0.995  # a probability beyond it is told as such: nobody knows the digits

Point = tuple[int, ...]


@dataclass(frozen=True)
class OperatorExplanation:
    operator: str
    k: int
    floor: int
    load: float | None
    text: str


def explain_operators(outcome: Outcome) -> list[OperatorExplanation]:
    """One answer for each operator: to "why not one fewer" where the target is met, else to what holds it up. Another
    policy than ours is asked for its own reasons."""
    answers = []
    for i, (name, k) in enumerate(outcome.best.parallelism.items()):
        load = None if outcome.sizing is None else outcome.sizing.load[i]
        if outcome.policy == OURS:
            parts = [_floor_part(outcome, name, load), _fewer(outcome, i) if outcome.met_target else _more(outcome, i)]
        else:
            parts = [*_said_of(outcome, name), *_tried(outcome, i)]
        answers.append(
            OperatorExplanation(name, k, outcome.floor[name], load, "; ".join(part for part in parts if part))
        )
    return answers


def _floor_part(outcome: Outcome, name: str, load: float | None) -> str:
    holds = f"{outcome.floor[name]} is the least that holds the rate (floor)" if outcome.floor_holds else ""
    return ", as ".join(part for part in (holds, _needs(load)) if part)


def _needs(load: float | None) -> str:
    if load is None:
        return ""
    if load < BUSY_ALL_THE_TIME:  # 0.0 would read as if nothing was measured
        return f"its work keeps one instance busy for {load:.1%} of the time"
    return f"its work keeps {format_load(load)} instances busy"


# --- another policy's own reasons ------------------------------------------------------------------------------------


def _said_of(outcome: Outcome, name: str) -> list[str]:
    """Without the operator's name in front, which stands there already."""
    said = [each.text.removeprefix(f"{name}: ") for each in outcome.said if each.numbers.get("operator") == name]
    return said or [f"{outcome.policy} gave no reason for it alone"]


def _tried(outcome: Outcome, i: int) -> list[str]:
    """What the same with one instance fewer did, where it was run."""
    point = list(outcome.best.parallelism.values())
    point[i] -= 1
    trials = trials_at(outcome, tuple(point))
    return [f"with {point[i]}, {_measured(outcome, tuple(point), trials)}"] if trials else []


# --- why not one fewer ------------------------------------------------------------------------------------------------


def _fewer(outcome: Outcome, i: int) -> str:
    point, name = list(outcome.best.parallelism.values()), list(outcome.best.parallelism)[i]
    if point[i] <= outcome.job.topology.operators[name].minimum:
        return f"it may not have fewer than {point[i]}"
    point[i] -= 1
    fewer = tuple(point)
    if trials := trials_at(outcome, fewer):
        return f"with {point[i]}, {_measured(outcome, fewer, trials)}"
    if (short := _falls_short(outcome, fewer)) is not None:
        return f"with {point[i]}, {short}"
    if fewer[i] < outcome.floor[name]:
        return f"{point[i]} was not run, {_below_the_floor(outcome, i, point[i])}"
    return f"with {point[i]}, {_expected(outcome, fewer)}"


def _falls_short(outcome: Outcome, point: Point) -> str | None:
    """Below the floor: by what was measured, the job would fall behind."""
    if outcome.sizing is None or (busy := outcome.sizing.busy(point)) <= 1 + 1e-9:
        return None
    if outcome.sizing.execution == "micro-batch":
        return f"it would fall behind: batches as long as may be would take {format_percent(busy)} of their time"
    return f"it would fall behind: its instances would have to be busy {format_percent(busy)} of the time"


def _below_the_floor(outcome: Outcome, i: int, k: int) -> str:
    """The floor is sized anew after each of its trials, and the last may have measured a little more than those."""
    name = list(outcome.best.parallelism)[i]
    less = {each: k if each == name else outcome.floor[each] for each in outcome.best.parallelism}
    if any(each.verdict is Verdict.CANNOT_KEEP_UP for each in trials_at(outcome, tuple(less.values()))):
        return f"being below the floor: {format_parallelism(less)} fell behind"
    load = None if outcome.sizing is None else outcome.sizing.load[i]
    if outcome.sizing is not None and outcome.sizing.execution == "pipelined" and load is not None and load <= k:
        return "being below the floor; by the last measurement it might just do"
    return "being below the floor"


def _measured(outcome: Outcome, point: Point, trials: Sequence[Evaluation]) -> str:
    starved = " on a starved machine" if any(each.shortage is not None for each in trials) else ""
    if any(each.verdict is Verdict.FAILED for each in trials):
        return f"it failed when run{starved}"
    if any(each.latency_seconds is None for each in trials):
        return f"it fell behind when run{starved}"
    latency, target = mean_latency(trials), outcome.job.target.latency_seconds
    if latency > target:
        return f"it took {format_seconds(latency)} when run{format_repeats(trials)}{starved}, beyond the target of {format_seconds(target)}"
    within = f"it was within the target when run{starved} ({format_seconds(latency)}{format_repeats(trials, ', ')})"
    return within + _distrust(outcome, point)


def _distrust(outcome: Outcome, point: Point) -> str:
    chance = probability_met_at(outcome, point)
    if chance is None or chance >= outcome.confidence:
        return ""
    return (
        f", but is not trusted: it meets {format_seconds(outcome.job.target.latency_seconds)} with {format_probability(chance)}"
        f" probability, {format_percent(outcome.confidence)} is asked"
    )


def _expected(outcome: Outcome, point: Point) -> str:
    """What the model says of a point that was not run."""
    chance, model = probability_met_at(outcome, point), outcome.model
    if chance is None or model is None:
        return "nothing was measured"
    target = outcome.job.target.latency_seconds
    mean, std = model.log_ratio([point])
    latency = target * float(np.exp(mean[0]))
    spread = format_seconds(latency * float(np.sinh(std[0])))
    text = f"{format_seconds(latency)} ± {spread} is expected (not run): within the target with {format_probability(chance)} probability"
    if not outcome.met_target:
        return text
    if chance >= outcome.confidence:
        return f"{text}, but the search ends at the first that it can trust"
    return f"{text}, {format_percent(outcome.confidence)} is asked"


# --- what holds up a run that missed ----------------------------------------------------------------------------------


def _more(outcome: Outcome, i: int) -> str:
    point, name = list(outcome.best.parallelism.values()), list(outcome.best.parallelism)[i]
    if point[i] >= outcome.job.upper[i]:
        return f"{point[i]} is all that it may have (P_max)"
    point[i] += 1
    more = tuple(point)
    if trials := trials_at(outcome, more):
        return f"with {point[i]}, {_measured(outcome, more, trials)}"
    known = outcome.model is not None and outcome.model.kind == "latency" and point[i] > outcome.floor[name]
    return f"with {point[i]}, {_expected(outcome, more)}" if known else ""


# --- what others say too ----------------------------------------------------------------------------------------------


def probability_met_at(outcome: Outcome, point: Point) -> float | None:
    """P, where there is a model of latency."""
    if outcome.model is None or outcome.model.kind != "latency":
        return None
    return float(probability_met(*outcome.model.log_ratio([point]))[0])


def trials_at(outcome: Outcome, point: Point) -> list[Evaluation]:
    return [each for each in outcome.evaluations if tuple(each.parallelism.values()) == point]


def mean_latency(trials: Sequence[Evaluation]) -> float:
    """Averaged in the logarithm, where the noise of a latency is even."""
    known = [math.log(each.latency_seconds) for each in trials if each.latency_seconds is not None]
    return math.exp(sum(known) / len(known))


def format_repeats(trials: Sequence[Evaluation], before: str = " ") -> str:
    return "" if len(trials) == 1 else f"{before}{len(trials)} times"


def format_parallelism(parallelism: Mapping[str, int], most: int = 1000) -> str:
    """`flatmap 6, count 14`: never a vector whose order one has to know."""
    return join_names((f"{name} {k}" for name, k in parallelism.items()), most)


def format_probability(chance: float) -> str:
    if chance > SURE:
        return "over 99%"
    return "under 1%" if chance < 0.01 else f"{chance:.0%}"
