"""Why a tuning run chose this parallelism, operator by operator: why not one instance fewer, with numbers.

Notation:
    k_i − 1   the configuration with one instance fewer of operator i: measured if it was run, else predicted
    P         probability that a configuration meets the target, from the benefit model
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

MAX_SHARE_OF_ONE = 0.95  # smaller loads are shown as a share of one instance
MAX_SHOWN_PROBABILITY = 0.995  # the digits of larger probabilities are not reliable

Point = tuple[int, ...]


@dataclass(frozen=True)
class OperatorExplanation:
    """The explanation of one operator. `load`: instances that its work keeps busy; None: unknown."""

    operator: str
    k: int
    floor: int
    load: float | None
    text: str


def explain_operators(outcome: Outcome) -> list[OperatorExplanation]:
    """Return an explanation for each operator.

    If the target is met, it says why one instance fewer is not enough; else, what one instance more gives. For a
    comparison policy it has the policy's own reasons.
    """
    explanations = []
    for i, (name, k) in enumerate(outcome.best.parallelism.items()):
        load = None if outcome.sizing is None else outcome.sizing.load[i]
        if outcome.policy == OURS:
            explain = _explain_one_fewer if outcome.met_target else _explain_one_more
            parts = [_explain_floor(outcome, name, load), explain(outcome, i)]
        else:
            parts = [*_list_policy_reasons(outcome, name), *_describe_one_fewer(outcome, i)]
        text = "; ".join(part for part in parts if part)
        explanations.append(OperatorExplanation(name, k, outcome.floor[name], load, text))
    return explanations


def _explain_floor(outcome: Outcome, name: str, load: float | None) -> str:
    floor = f"the floor is {outcome.floor[name]}" if outcome.floor_holds else ""
    return ", because ".join(part for part in (floor, _describe_load(load)) if part)


def _describe_load(load: float | None) -> str:
    if load is None:
        return ""
    if load < MAX_SHARE_OF_ONE:
        return f"its work keeps one instance busy {load:.1%} of the time"
    return f"its work keeps {format_load(load)} instances busy"


# --- reasons of a comparison policy ----------------------------------------------------------------------------------


def _list_policy_reasons(outcome: Outcome, name: str) -> list[str]:
    texts = [each.text for each in outcome.policy_reasons if each.numbers.get("operator") == name]
    return [text.removeprefix(f"{name}: ").removesuffix(".") for text in texts] or [
        f"{outcome.policy} gave no reason for this operator"
    ]


def _describe_one_fewer(outcome: Outcome, i: int) -> list[str]:
    point = list(outcome.best.parallelism.values())
    point[i] -= 1
    trials = trials_at(outcome, tuple(point))
    return [f"with {point[i]}: {_describe_measurement(outcome, tuple(point), trials)}"] if trials else []


# --- why not one instance fewer ---------------------------------------------------------------------------------------


def _explain_one_fewer(outcome: Outcome, i: int) -> str:
    point, name = list(outcome.best.parallelism.values()), list(outcome.best.parallelism)[i]
    if point[i] <= outcome.job.topology.operators[name].minimum:
        return f"{point[i]} is the minimum"
    point[i] -= 1
    fewer = tuple(point)
    if trials := trials_at(outcome, fewer):
        return f"with {point[i]}: {_describe_measurement(outcome, fewer, trials)}"
    if (behind := _explain_falling_behind(outcome, fewer)) is not None:
        return f"with {point[i]}: {behind}"
    if fewer[i] < outcome.floor[name]:
        return f"with {point[i]}: not run, because it is below the floor{_explain_below_floor(outcome, i, point[i])}"
    return f"with {point[i]}: {_describe_prediction(outcome, fewer)}"


def _explain_falling_behind(outcome: Outcome, point: Point) -> str | None:
    if outcome.sizing is None or (busy := outcome.sizing.busy(point)) <= 1 + 1e-9:
        return None
    if outcome.sizing.execution == "micro-batch":
        return f"the job would fall behind, because the longest batches would take {format_percent(busy)} of their time"
    return f"the job would fall behind, because its instances would be busy {format_percent(busy)} of the time"


def _explain_below_floor(outcome: Outcome, i: int, k: int) -> str:
    # The floor is computed anew after each trial, so that the last measurement may differ a little.
    name = list(outcome.best.parallelism)[i]
    less = {each: k if each == name else outcome.floor[each] for each in outcome.best.parallelism}
    if any(each.verdict is Verdict.CANNOT_KEEP_UP for each in trials_at(outcome, tuple(less.values()))):
        return f": {format_parallelism(less)} fell behind"
    load = None if outcome.sizing is None else outcome.sizing.load[i]
    if outcome.sizing is not None and outcome.sizing.execution == "pipelined" and load is not None and load <= k:
        return "; by the last measurement it may be just enough"
    return ""


def _describe_measurement(outcome: Outcome, point: Point, trials: Sequence[Evaluation]) -> str:
    overloaded = " on an overloaded machine" if any(each.shortage is not None for each in trials) else ""
    if any(each.verdict is Verdict.FAILED for each in trials):
        return f"the trial failed{overloaded}"
    if any(each.latency_seconds is None for each in trials):
        return f"the job fell behind{overloaded}"
    latency, target = mean_latency(trials), outcome.job.target.latency_seconds
    text = f"measured {format_seconds(latency)}{format_repeats(trials)}{overloaded}"
    if latency > target:
        return f"{text}, above the target of {format_seconds(target)}"
    return f"{text}, within the target{_describe_doubt(outcome, point)}"


def _describe_doubt(outcome: Outcome, point: Point) -> str:
    chance = probability_met_at(outcome, point)
    if chance is None or chance >= outcome.confidence:
        return ""
    return (
        f", but not confirmed: probability {format_probability(chance)}, required {format_percent(outcome.confidence)}"
    )


def _describe_prediction(outcome: Outcome, point: Point) -> str:
    chance, model = probability_met_at(outcome, point), outcome.model
    if chance is None or model is None:
        return "not measured"
    mean, std = model.log_ratio([point])
    latency = outcome.job.target.latency_seconds * float(np.exp(mean[0]))
    sd = format_seconds(latency * float(np.sinh(std[0])))
    text = f"predicted {format_seconds(latency)} ± {sd} (not run)"
    text += f", target met with probability {format_probability(chance)}"
    if not outcome.met_target:
        return text
    if chance >= outcome.confidence:
        return f"{text}, but the search ends at the first confirmed configuration"
    return f"{text}, required {format_percent(outcome.confidence)}"


# --- one instance more, after a miss ----------------------------------------------------------------------------------


def _explain_one_more(outcome: Outcome, i: int) -> str:
    point, name = list(outcome.best.parallelism.values()), list(outcome.best.parallelism)[i]
    if point[i] >= outcome.job.upper[i]:
        return f"{point[i]} is the maximum (P_max)"
    point[i] += 1
    more = tuple(point)
    if trials := trials_at(outcome, more):
        return f"with {point[i]}: {_describe_measurement(outcome, more, trials)}"
    is_known = outcome.model is not None and outcome.model.kind == "latency" and point[i] > outcome.floor[name]
    return f"with {point[i]}: {_describe_prediction(outcome, more)}" if is_known else ""


# --- shared with other texts ------------------------------------------------------------------------------------------


def probability_met_at(outcome: Outcome, point: Point) -> float | None:
    """Return the probability that a configuration meets the target, or None without a model of latency."""
    if outcome.model is None or outcome.model.kind != "latency":
        return None
    return float(probability_met(*outcome.model.log_ratio([point]))[0])


def trials_at(outcome: Outcome, point: Point) -> list[Evaluation]:
    return [each for each in outcome.evaluations if tuple(each.parallelism.values()) == point]


def mean_latency(trials: Sequence[Evaluation]) -> float:
    """Return the geometric mean of the latencies in seconds, because their noise is symmetric in the logarithm."""
    known = [math.log(each.latency_seconds) for each in trials if each.latency_seconds is not None]
    return math.exp(sum(known) / len(known))


def format_repeats(trials: Sequence[Evaluation]) -> str:
    return "" if len(trials) == 1 else f" ({len(trials)} times)"


def format_parallelism(parallelism: Mapping[str, int], most: int = 1000) -> str:
    """Return a parallelism as `flatmap 6, count 14`."""
    return join_names((f"{name} {k}" for name, k in parallelism.items()), most)


def format_probability(chance: float) -> str:
    if chance > MAX_SHOWN_PROBABILITY:
        return "over 99%"
    return "under 1%" if chance < 0.01 else f"{chance:.0%}"
