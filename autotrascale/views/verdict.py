"""The verdict of a tuning run in a few sentences: the parallelism that holds the target, or why none does and what to
try. Every sentence is based on measurements. There is no sentence about unknown values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from autotrascale.domain.snapshot import Execution
from autotrascale.domain.trial import Verdict
from autotrascale.plan.control.observations.not_scalable import MIN_UNSCALABLE_SHARE, describe_critical_path
from autotrascale.plan.formatting import format_amount, format_load, format_percent, format_seconds, join_names
from autotrascale.plan.policies.registry import OURS
from autotrascale.plan.sizing.sizing import count_slots
from autotrascale.tuning import Outcome
from autotrascale.views.executor_cost import format_count
from autotrascale.views.explanation import (
    format_parallelism,
    format_probability,
    format_repeats,
    mean_latency,
    probability_met_at,
    trials_at,
)
from autotrascale.views.machine_pressure import shortage_warning

LIKELY = 0.5  # probability from which on a cheaper configuration is mentioned
MAX_CHEAPER = 2
NEARLY_SUSTAINED = 0.9  # share of the rate; less is lost by the rounding of sources and windows
MIN_RATIO = 2.0  # from here on an excess is shown as a multiple of the target, below in percent

_ENDED: Mapping[str, str] = {
    "budget": "the budget of trials is used up",
    "wall-clock": "the time is used up",
    "exhausted": "every configuration was run",
    "target-out-of-reach": "more trials could not change that",
}


def summarize_outcome(outcome: Outcome) -> str:
    """Return the verdict, followed by warnings and advice."""
    if outcome.policy != OURS:
        verdict = _describe_policy_result(outcome)
    else:
        verdict = _describe_success(outcome) if outcome.met_target else _describe_miss(outcome)
    return " ".join([verdict, *(_make_sentence(each) for each in list_advice(outcome))])


def list_advice(outcome: Outcome) -> list[str]:
    """Return warnings and advice. A warning about an overloaded machine comes first, because it affects all others."""
    warning = shortage_warning(outcome.evaluations)
    return [*([] if warning is None else [warning]), *_list_job_advice(outcome)]


def _list_job_advice(outcome: Outcome) -> list[str]:
    if outcome.policy != OURS:
        return [*_list_policy_remarks(outcome), *_advise_on_fixed_cost(outcome)]
    if outcome.met_target:
        return [*_warn_of_over_allocation(outcome), *_list_cheaper(outcome)]
    if limits := [*_advise_on_fixed_cost(outcome), *_advise_on_critical_path(outcome)]:
        return limits
    advice = (_advise_on_slowdown, _advise_on_rate, _advise_on_p_max, _advise_on_more_trials)
    return [text for advise in advice for text in advise(outcome)]


def _make_sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:].removesuffix('.')}."


# --- the target is met ------------------------------------------------------------------------------------------------


def _describe_success(outcome: Outcome) -> str:
    best, top = outcome.best, dict(zip(outcome.job.topology, outcome.job.upper, strict=True))
    execution = _find_execution(outcome)
    used, most = count_slots(execution, best.parallelism), count_slots(execution, top)
    slots = f"It uses {format_count(used, 'slot')}"
    slots += f"; P_max everywhere would use {most}" if used < most else ""
    if execution == "micro-batch":
        slots += f", and {sum(top.values())} tasks per batch instead of {sum(best.parallelism.values())}"
    head = f"{_format_head(outcome, 'holds')} with {format_parallelism(best.parallelism)}."
    return f"{head} {_describe_measurement(outcome)}. {slots}."


def _describe_measurement(outcome: Outcome) -> str:
    point, latency = tuple(outcome.best.parallelism.values()), outcome.best.latency_seconds
    chance = probability_met_at(outcome, point)
    measured = "The latency is unknown" if latency is None else f"Measured {format_seconds(latency)}"
    measured += format_repeats(trials_at(outcome, point))
    return measured if chance is None else f"{measured}, target met with probability {format_probability(chance)}"


def _warn_of_over_allocation(outcome: Outcome) -> Iterator[str]:
    model = outcome.model
    if outcome.stop_reason == "target-met" or model is None:
        return
    resources = float(model.benefit.resources([list(outcome.best.parallelism.values())])[0])
    needed = math.ceil(100 * (1 / resources - 1)) / 100
    if needed > model.over_allocation:
        is_hopeless = outcome.stop_reason == "rule-unsatisfiable"
        none = "no configuration is likely to meet" if is_hopeless else "no configuration was confirmed to meet"
        allowed = f"within over_allocation {model.over_allocation:g}"
        yield f"{allowed} {none} the target; this configuration needs {needed:.2f}"


def _list_cheaper(outcome: Outcome) -> Iterator[str]:
    best = tuple(outcome.best.parallelism.values())
    points = {tuple(each.parallelism.values()) for each in outcome.evaluations}
    fewer = [(probability_met_at(outcome, point), point) for point in points if sum(point) < sum(best)]
    likely = [(chance, point) for chance, point in fewer if chance is not None and chance >= LIKELY]
    for chance, point in sorted(likely, reverse=True)[:MAX_CHEAPER]:
        trials = trials_at(outcome, point)
        if chance >= outcome.confidence or any(each.latency_seconds is None for each in trials):
            continue
        yield (
            f"cheaper and likely, but not confirmed: {format_parallelism(outcome.job.topology.named(point))} measured"
            f" {format_seconds(mean_latency(trials))}{format_repeats(trials)}, target met with probability"
            f" {format_probability(chance)}, required {format_percent(outcome.confidence)}"
        )


# --- a comparison policy ----------------------------------------------------------------------------------------------

_POLICY_END: Mapping[str, str] = {
    "policy-settled": "settled",
    "policy-repeats": "repeated itself",
    "policy-held": "could not decide",
}


def _describe_policy_result(outcome: Outcome) -> str:
    best = outcome.best
    end = _POLICY_END.get(outcome.stop_reason, "stood")
    trials = format_count(len(outcome.evaluations), "trial")
    head = f"{_format_head(outcome, 'holds' if outcome.met_target else 'does not hold')}."
    slots = format_count(count_slots(_find_execution(outcome), best.parallelism), "slot")
    where = f"Policy {outcome.policy} {end} after {trials} at {format_parallelism(best.parallelism)} on {slots}"
    ended = _ENDED.get(outcome.stop_reason)
    verdict = f"{head} {where}: {_describe_policy_measurement(outcome)}."
    return verdict if ended is None else f"{verdict} {_make_sentence(ended)}"


def _describe_policy_measurement(outcome: Outcome) -> str:
    best, target = outcome.best, outcome.job.target.latency_seconds
    if best.latency_seconds is not None:
        excess = "" if best.latency_seconds <= target else f", {format_excess(best.latency_seconds, target)}"
        return f"measured {format_seconds(best.latency_seconds)}{excess}"
    if best.throughput is None:
        return "no throughput was measured"
    return f"processed {_format_throughput(outcome, best.throughput)} and fell behind"


def _list_policy_remarks(outcome: Outcome) -> Iterator[str]:
    general = [each.text for each in outcome.policy_reasons if each.numbers.get("operator") is None]
    yield from (f"{outcome.policy}: {text}" for text in general)


# --- the target is missed ---------------------------------------------------------------------------------------------


def _describe_miss(outcome: Outcome) -> str:
    if outcome.stop_reason == "no-metrics":
        detail = outcome.evaluations[-1].detail or "nothing"
        why = f"No trial gave metrics for the sizing. The last trial reported: {detail}."
        return f"{_format_head(outcome, 'does not hold')}. {why}"
    latency, target = outcome.best.latency_seconds, outcome.job.target.latency_seconds
    if latency is not None and latency <= target:
        head = _format_head(outcome, "is not shown to hold")
        return f"{head}. {_describe_unconfirmed(outcome, latency)}{_explain_end(outcome)}"
    if latency is None:
        return f"{_format_head(outcome, 'does not hold')}. {_describe_nearest_rate(outcome)}{_explain_end(outcome)}"
    trials = len(outcome.evaluations)
    which = "The only trial" if trials == 1 else f"The nearest of {trials} trials"
    with_k = format_parallelism(outcome.best.parallelism)
    near = f"{which} measured {format_seconds(latency)}, {format_excess(latency, target)}, with {with_k}."
    return f"{_format_head(outcome, 'does not hold')}. {near}{_explain_end(outcome)}"


def _describe_unconfirmed(outcome: Outcome, latency: float) -> str:
    point = tuple(outcome.best.parallelism.values())
    chance = probability_met_at(outcome, point)
    doubt = ""
    if chance is not None:
        doubt = f", but the probability is {format_probability(chance)}, required {format_percent(outcome.confidence)}"
    measured = f"{format_seconds(latency)}{format_repeats(trials_at(outcome, point))}"
    k = format_parallelism(outcome.best.parallelism)
    return f"With {k} it measured {measured}, within the target{doubt}."


def _describe_nearest_rate(outcome: Outcome) -> str:
    processed, k = outcome.best.throughput, format_parallelism(outcome.best.parallelism)
    if processed is None:
        return f"No trial measured a throughput; the last ran {k}."
    return f"No trial sustained the rate; the nearest processed {_format_throughput(outcome, processed)} with {k}."


def _format_throughput(outcome: Outcome, throughput: float) -> str:
    share = throughput / outcome.job.rate
    return f"{format_amount(throughput)} records/s" + (f" ({share:.1%})" if share < 1 else "")


def format_excess(latency: float, target: float) -> str:
    """Return `24.0% over the target` or `3.2 times the target`."""
    ratio = latency / target
    if ratio >= MIN_RATIO:
        return f"{format_amount(ratio)} times the target"
    return f"{max(ratio - 1, 0.001):.1%} over the target"


def _explain_end(outcome: Outcome) -> str:
    ended = _ENDED.get(outcome.stop_reason)
    if ended is None and outcome.stop_reason == "rate-out-of-reach":
        is_short = outcome.sizing is not None and not outcome.sizing.reachable
        ended = "P_max everywhere would not sustain it" if is_short else "more instances did not process more"
    if ended is None and outcome.stop_reason in ("running", "crashed", "interrupted", "failed", "queued"):
        ended = f"the run is {outcome.stop_reason}"
    return "" if ended is None else f" {_make_sentence(ended)}"


# --- advice after a miss ----------------------------------------------------------------------------------------------


def _advise_on_fixed_cost(outcome: Outcome) -> Iterator[str]:
    fixed, least = outcome.fixed_seconds, outcome.least_latency
    if fixed is not None and least is not None and least > outcome.job.target.latency_seconds:
        yield (
            f"a batch takes {format_seconds(fixed)} before its first record, so that no parallelism up to P_max gets"
            f" below {format_seconds(least)}: raise the target, or make batches cheaper (fewer stages, less state)"
        )


def _advise_on_critical_path(outcome: Outcome) -> Iterator[str]:
    critical = outcome.best.critical
    if critical is not None and critical.elsewhere >= MIN_UNSCALABLE_SHARE:
        yield describe_critical_path(critical)


def _advise_on_slowdown(outcome: Outcome) -> Iterator[str]:
    slowdown = outcome.slowdown
    if slowdown is not None:
        yield (
            f"an instance was {slowdown.factor:.1f} times slower with {slowdown.many} instances in total than with"
            f" {slowdown.few}: they share cores, or wait for each other or for a service; more instances help little"
        )


def _advise_on_rate(outcome: Outcome) -> Iterator[str]:
    sizing, job = outcome.sizing, outcome.job
    if outcome.stop_reason != "rate-out-of-reach" or sizing is None:
        return
    if not sizing.reachable:
        most = max(sizing.reach * job.rate, max(each.throughput or 0.0 for each in outcome.evaluations))
        yield f"about {format_amount(most)} records/s can be sustained: lower the rate (--rate), or raise p_max"
        loads = zip(sizing.operators, sizing.load, job.upper, strict=True)
        short = [
            f"{name} (its work keeps {format_load(load)} busy)" for name, load, top in loads if load and load > top
        ]
        if short and sizing.execution != "micro-batch":
            yield f"more instances than P_max are needed by {join_names(short)}"
        return
    yield (
        "parallelism does not limit this job: its source may deliver less than the rate, or a service may be slow;"
        " lower the rate (--rate), or remove the limit"
    )
    if (outcome.best.throughput or 0.0) >= NEARLY_SUSTAINED * job.rate:
        yield "to accept a little less than the rate, set target.throughput_tolerance"


def _advise_on_p_max(outcome: Outcome) -> Iterator[str]:
    job, best = outcome.job, outcome.best
    if outcome.stop_reason == "rate-out-of-reach" or best.latency_seconds is None:
        return
    at_top = [name for (name, k), top in zip(best.parallelism.items(), job.upper, strict=True) if k >= top]
    if at_top and best.latency_seconds > job.target.latency_seconds:
        yield f"at P_max already: {join_names(at_top)}; raise p_max if there are more slots"


def _advise_on_more_trials(outcome: Outcome) -> Iterator[str]:
    if outcome.stop_reason not in ("budget", "wall-clock"):
        return
    latency, target = outcome.best.latency_seconds, outcome.job.target.latency_seconds
    if latency is None and not any(each.verdict is Verdict.STABLE for each in outcome.evaluations):
        yield "no trial sustained the rate yet: allow more trials (--total-trials)"
    elif latency is not None and latency <= target:
        yield "more trials would settle it (--total-trials)"
    elif latency is not None and latency < MIN_RATIO * target:
        yield "more trials may find a configuration (--total-trials), or the target is too low for this job"


def _format_head(outcome: Outcome, verb: str) -> str:
    job, simulated = outcome.job, " (simulated)" if outcome.simulated else ""
    target, rate = format_seconds(job.target.latency_seconds), format_amount(job.rate)
    return f"{job.name}{simulated} {verb} {target} at {rate} records/s"


def _find_execution(outcome: Outcome) -> Execution | None:
    if outcome.model is not None and outcome.model.execution is not None:
        return outcome.model.execution
    return None if outcome.sizing is None else outcome.sizing.execution
