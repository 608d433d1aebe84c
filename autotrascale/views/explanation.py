"""Why this parallelism, operator by operator, with the numbers it was decided on, and what it saves.

k_i ± 1     the neighbours: what one instance fewer or more would do, by the benefit model
slots       what the job occupies: Σ k_i where every operator owns its instances, max k_i where the stages of a
            batch take turns on the same slots
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from autotrascale.plan.search.benefit_model import BenefitModel
from autotrascale.plan.words import amount, percent
from autotrascale.tuning import Evaluation, Outcome

HARDLY_BUSY = 0.05  # instances


@dataclass(frozen=True)
class Why:
    operator: str
    k: int
    floor: int
    load: float | None
    text: str


def slots(parallelism: Mapping[str, int], execution: str | None) -> int:
    return max(parallelism.values()) if execution == "micro-batch" else sum(parallelism.values())


def why(outcome: Outcome) -> list[Why]:
    """One answer for each operator to "why 7?"."""
    model, answers = outcome.model, []
    for i, (name, k) in enumerate(outcome.best.parallelism.items()):
        floor = outcome.floor[name]
        load = None if outcome.sizing is None else outcome.sizing.load[i]
        parts = [_floor_part(k, floor, load)]
        if model is not None and model.kind == "latency":
            parts += _neighbour_parts(outcome, model, i, k, floor)
        answers.append(Why(name, k, floor, load, "; ".join(parts)))
    return answers


def _floor_part(k: int, floor: int, load: float | None) -> str:
    holds = f"the floor that holds the rate is {floor}{_needs(load)}"
    return f"{holds}, and latency asks for no more" if k == floor else holds


def _needs(load: float | None) -> str:
    if load is None:
        return ""
    if load < HARDLY_BUSY:  # it would read 0.0, as if nothing was measured
        return f" (its work would keep one instance busy for {load:.1%} of the time)"
    return f" (its load is {load:.1f} instances at full use)"


def _neighbour_parts(outcome: Outcome, model: BenefitModel, i: int, k: int, floor: int) -> list[str]:
    parts = []
    if k > floor:
        parts.append(f"with {k - 1} {_expected(outcome, model, i, k - 1)}")
    if k < model.p_max[i]:
        parts.append(f"{k + 1} {_expected(outcome, model, i, k + 1)}, for one instance more")
    return parts


def _expected(outcome: Outcome, model: BenefitModel, i: int, k: int) -> str:
    point = list(outcome.best.parallelism.values())
    point[i] = k
    target = outcome.job.target.latency_seconds
    measured = _measured(outcome, tuple(point))
    if measured is not None:
        if measured.latency_seconds is None:
            return f"it {measured.verdict.value.replace('-', ' ')} when run"
        return f"it took {seconds(measured.latency_seconds)} when run{_verdict(measured.latency_seconds, target)}"
    mean, std = model.log_ratio([point])
    latency = target * float(np.exp(mean[0]))
    spread = latency * float(np.sinh(std[0]))
    return f"the model expects {seconds(latency)} ± {seconds(spread)}{_verdict(latency, target)}"


def _verdict(latency: float, target: float) -> str:
    return f", beyond the target of {seconds(target)}" if latency > target else ""


def _measured(outcome: Outcome, point: tuple[int, ...]) -> Evaluation | None:
    for evaluation in reversed(outcome.evaluations):
        if tuple(evaluation.parallelism.values()) == point:
            return evaluation
    return None


def seconds(value: float) -> str:
    if value >= 0.9995:  # what would round to 1000 ms
        return f"{value:.2f} s"
    return f"{value * 1000:.0f} ms" if value >= 0.01 else f"{value * 1000:.2g} ms"


def summary(outcome: Outcome) -> str:
    """The one sentence to take away."""
    job, best = outcome.job, outcome.best
    rate, target = f"{amount(job.rate)} records/s", seconds(job.target.latency_seconds)
    where = " (simulated)" if outcome.simulated else ""
    if not outcome.met_target:
        return f"{job.name}{where} does not hold {target} at {rate}: {_why_not(outcome)}."
    top = dict(zip(job.topology, job.upper, strict=True))
    execution = None if outcome.model is None else outcome.model.execution
    used, naive = slots(best.parallelism, execution), slots(top, execution)
    tasks = sum(best.parallelism.values()), sum(top.values())
    saved = f"{used} slot{'' if used == 1 else 's'} instead of {naive}, {percent(1 - used / naive)} fewer"
    if execution == "micro-batch":
        saved += f", and {tasks[0]} tasks a batch instead of {tasks[1]}"
    latency = "an unknown latency" if best.latency_seconds is None else seconds(best.latency_seconds)
    k = ", ".join(f"{name} {k}" for name, k in best.parallelism.items())
    return f"{job.name}{where} holds {target} at {rate} with {k}: measured {latency}, on {saved} at P_max everywhere."


def _why_not(outcome: Outcome) -> str:
    match outcome.stop_reason:
        case "rate-out-of-reach":
            reached = outcome.best.throughput or 0.0
            return f"no parallelism up to P_max carried the rate, the best reached {amount(reached)} records/s"
        case "no-metrics":
            return f"no trial gave metrics to size it by, the last said: {outcome.evaluations[-1].detail or 'nothing'}"
        case "budget":
            return f"none of the {len(outcome.evaluations)} trials of the budget was good enough to accept"
        case "wall-clock":
            return f"none of the {len(outcome.evaluations)} trials that its time allowed was good enough to accept"
        case reason:
            return f"the search ended with {reason}"
