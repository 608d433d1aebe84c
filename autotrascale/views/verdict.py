"""The verdict of a tuning run in a few sentences: what holds the target, or why nothing does and what to try.

Each sentence is made of what was measured. Where something is not known, nothing is said of it.
"""

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
from autotrascale.views.explanation import (
    format_parallelism,
    format_probability,
    format_repeats,
    mean_latency,
    probability_met_at,
    trials_at,
)
from autotrascale.views.machine_pressure import shortage_warning

LIKELIER_THAN_NOT = 0.5
NAMED = 2  # cheaper configurations
CLOSE = 0.9  # of the rate: a source or a window may round so much away
FAR = 2.0  # from here on a latency is so many times its target, below it is so many percent over

_ENDED: Mapping[str, str] = {
    "budget": "the trials of the budget are used up",
    "wall-clock": "the time is used up",
    "exhausted": "every configuration was run",
    "target-out-of-reach": "more trials could not change that",
}


def summarize_outcome(outcome: Outcome) -> str:
    """What to take away: one sentence, and what to know or to try beside it."""
    if outcome.policy != OURS:
        first = _of_a_policy(outcome)
    else:
        first = _held(outcome) if outcome.met_target else _missed(outcome)
    return " ".join([first, *(f"{each[0].upper()}{each[1:]}." for each in list_advice(outcome))])


def list_advice(outcome: Outcome) -> list[str]:
    """Of a machine that was starved before anything else: the rest was concluded from what it measured."""
    starved = shortage_warning(outcome.evaluations)
    return [*([] if starved is None else [starved]), *_of_the_job(outcome)]


def _of_the_job(outcome: Outcome) -> list[str]:
    if outcome.policy != OURS:
        return [*_of_the_whole(outcome), *_fixed_cost(outcome)]
    if outcome.met_target:
        return [*_beyond_the_rule(outcome), *_cheaper(outcome)]
    if limits := [*_fixed_cost(outcome), *_elsewhere(outcome)]:
        return limits
    return [*_slowed(outcome), *_rate(outcome), *_at_p_max(outcome), *_more_trials(outcome)]


# --- the target is held -----------------------------------------------------------------------------------------------


def _held(outcome: Outcome) -> str:
    best, top = outcome.best, dict(zip(outcome.job.topology, outcome.job.upper, strict=True))
    execution = _execution(outcome)
    used, naive = count_slots(execution, best.parallelism), count_slots(execution, top)
    slot = f"{used} slot{'' if used == 1 else 's'}"
    saved = f"{slot}; P_max everywhere would take {naive}" if used < naive else slot
    if execution == "micro-batch":
        saved += f", and {sum(top.values())} tasks a batch instead of {sum(best.parallelism.values())}"
    return f"{_at(outcome, 'holds')} with {format_parallelism(best.parallelism)}: {_reading(outcome)}, on {saved}."


def _reading(outcome: Outcome) -> str:
    """`measured 134 ms 2 times, within the target with over 99% probability`."""
    point, latency = tuple(outcome.best.parallelism.values()), outcome.best.latency_seconds
    chance = probability_met_at(outcome, point)
    measured = "an unknown latency" if latency is None else f"measured {format_seconds(latency)}"
    measured += format_repeats(trials_at(outcome, point))
    return (
        measured if chance is None else f"{measured}, within the target with {format_probability(chance)} probability"
    )


def _beyond_the_rule(outcome: Outcome) -> Iterator[str]:
    """How much more than the stop rule allows."""
    model = outcome.model
    if outcome.stop_reason == "target-met" or model is None:
        return
    resources = float(model.benefit.resources([list(outcome.best.parallelism.values())])[0])
    needed = math.ceil(100 * (1 / resources - 1)) / 100
    if needed > model.over_allocation:
        hopeless = outcome.stop_reason == "rule-unsatisfiable"
        met = "is likely to meet the target" if hopeless else "was found that can be trusted to meet the target"
        yield f"nothing that over_allocation {model.over_allocation:g} allows {met}: this takes {needed:.2f}"


def _cheaper(outcome: Outcome) -> Iterator[str]:
    """What was within the target with fewer instances, and why it is not the answer."""
    best = tuple(outcome.best.parallelism.values())
    points = {tuple(each.parallelism.values()) for each in outcome.evaluations}
    fewer = [(probability_met_at(outcome, point), point) for point in points if sum(point) < sum(best)]
    found = [(chance, point) for chance, point in fewer if chance is not None and chance >= LIKELIER_THAN_NOT]
    for chance, point in sorted(found, reverse=True)[:NAMED]:
        trials = trials_at(outcome, point)
        if chance >= outcome.confidence or any(each.latency_seconds is None for each in trials):
            continue
        yield (
            f"cheaper and likely, but not confirmed: {format_parallelism(outcome.job.topology.named(point))} took"
            f" {format_seconds(mean_latency(trials))}{format_repeats(trials)}, within the target with {format_probability(chance)} probability,"
            f" {format_percent(outcome.confidence)} is asked"
        )


# --- another policy than ours -----------------------------------------------------------------------------------------


def _of_a_policy(outcome: Outcome) -> str:
    """Where it ended, what that does, and why it ended there."""
    best, execution = outcome.best, _execution(outcome)
    count, stood = len(outcome.evaluations), _STOOD.get(outcome.stop_reason, "stands")
    after = f"{stood} after {count} trial{'' if count == 1 else 's'}"
    used = count_slots(execution, best.parallelism)
    where = f"{format_parallelism(best.parallelism)}, on {used} slot{'' if used == 1 else 's'}"
    verb = "holds" if outcome.met_target else "does not hold"
    head = f"{_at(outcome, verb)} where the policy {outcome.policy} {after}"
    ended = _ENDED.get(outcome.stop_reason)
    return f"{head}: {where}, {_at_the_end(outcome)}{'' if ended is None else f'; {ended}'}."


_STOOD: Mapping[str, str] = {
    "policy-settled": "settles",
    "policy-repeats": "goes round in a circle",
    "policy-held": "cannot decide",
}


def _at_the_end(outcome: Outcome) -> str:
    best, target = outcome.best, outcome.job.target.latency_seconds
    if best.latency_seconds is not None:
        within = "" if best.latency_seconds <= target else f", {format_excess(best.latency_seconds, target)}"
        return f"measured {format_seconds(best.latency_seconds)}{within}"
    if best.throughput is None:
        return "which did not say what it carried"
    return f"which carried {format_amount(best.throughput)} records/s ({best.throughput / outcome.job.rate:.1%}) and fell behind"


def _of_the_whole(outcome: Outcome) -> Iterator[str]:
    """What the policy says of no operator alone."""
    yield from (
        f"what {outcome.policy} says: {each.text}" for each in outcome.said if each.numbers.get("operator") is None
    )


# --- it is not --------------------------------------------------------------------------------------------------------


def _missed(outcome: Outcome) -> str:
    if outcome.stop_reason == "no-metrics":
        said = outcome.evaluations[-1].detail or "nothing"
        return f"{_at(outcome, 'does not hold')}: no trial gave metrics to size it by, the last said: {said}."
    latency, target = outcome.best.latency_seconds, outcome.job.target.latency_seconds
    if latency is not None and latency <= target:
        return f"{_at(outcome, 'is not shown to hold')}: {_untrusted(outcome, latency)}{_why_ended(outcome)}."
    if latency is not None:
        count = len(outcome.evaluations)
        which = "the only trial" if count == 1 else f"the nearest of {count} trials"
        near = f"{which} took {format_seconds(latency)}, {format_excess(latency, target)}, with {format_parallelism(outcome.best.parallelism)}"
    else:
        near = _nearest_rate(outcome)
    return f"{_at(outcome, 'does not hold')}: {near}{_why_ended(outcome)}."


def _untrusted(outcome: Outcome, latency: float) -> str:
    point = tuple(outcome.best.parallelism.values())
    chance = probability_met_at(outcome, point)
    asked = f"{format_percent(outcome.confidence)} is asked"
    doubt = "" if chance is None else f", but meets it with {format_probability(chance)} probability only, {asked}"
    often = format_repeats(trials_at(outcome, point), ", ")
    return f"{format_parallelism(outcome.best.parallelism)} was within the target ({format_seconds(latency)}{often}){doubt}"


def _nearest_rate(outcome: Outcome) -> str:
    carried, k = outcome.best.throughput, format_parallelism(outcome.best.parallelism)
    if carried is None:
        return f"no trial said what it carried, the last ran {k}"
    share = carried / outcome.job.rate
    if share < 1:
        return f"no trial held the rate, the nearest carried {format_amount(carried)} records/s ({share:.1%}) with {k}"
    return f"no trial held the rate, the nearest fell behind at {format_amount(carried)} records/s with {k}"


def format_excess(latency: float, target: float) -> str:
    """`24% over the target`, `3.2 times the target`."""
    ratio = latency / target
    return (
        f"{format_amount(ratio)} times the target" if ratio >= FAR else f"{max(ratio - 1, 0.001):.1%} over the target"
    )


def _why_ended(outcome: Outcome) -> str:
    ended = _ENDED.get(outcome.stop_reason)
    if ended is None and outcome.stop_reason == "rate-out-of-reach":
        short = outcome.sizing is not None and not outcome.sizing.reachable
        ended = "P_max everywhere would not carry it" if short else "more instances carried no more"
    if ended is None and outcome.stop_reason in ("running", "crashed", "interrupted", "failed", "queued"):
        ended = f"the run is {outcome.stop_reason}"
    return "" if ended is None else f"; {ended}"


# --- and what to try --------------------------------------------------------------------------------------------------


def _fixed_cost(outcome: Outcome) -> Iterator[str]:
    """A batch that costs too much before it has a record in it: no parallelism shortens that."""
    fixed, least = outcome.fixed_seconds, outcome.least_latency
    if fixed is not None and least is not None and least > outcome.job.target.latency_seconds:
        yield (
            f"a batch costs {format_seconds(fixed)} before any record, so no parallelism up to P_max gets below"
            f" {format_seconds(least)}: raise the target, or make batches cheaper (fewer stages, less state)"
        )


def _elsewhere(outcome: Outcome) -> Iterator[str]:
    """A driver, commits, calls or a straggler, as the critical paths of the best trial's batches have it."""
    critical = outcome.best.critical
    if critical is not None and critical.elsewhere >= MIN_UNSCALABLE_SHARE:
        yield describe_critical_path(critical)


def _slowed(outcome: Outcome) -> Iterator[str]:
    """A machine short of cores, say."""
    slowdown = outcome.slowdown
    if slowdown is not None:
        yield (
            f"an instance did {slowdown.factor:.1f} times less a second with {slowdown.many} instances in all than with"
            f" {slowdown.few}: they share cores, or wait for each other or for what they call; more of them help little"
        )


def _rate(outcome: Outcome) -> Iterator[str]:
    sizing, job = outcome.sizing, outcome.job
    if outcome.stop_reason != "rate-out-of-reach" or sizing is None:
        return
    if not sizing.reachable:
        most = max(sizing.reach * job.rate, max(each.throughput or 0.0 for each in outcome.evaluations))
        yield f"about {format_amount(most)} records/s can be carried: ask for that (--rate), or raise p_max"
        loads = zip(sizing.operators, sizing.load, job.upper, strict=True)
        short = [
            f"{name} (its work keeps {format_load(load)} busy)" for name, load, top in loads if load and load > top
        ]
        if short and sizing.execution != "micro-batch":
            yield f"more instances than they may have are needed by {join_names(short)}"
        return
    yield (
        "something else than parallelism limits the job: a source that brings less than the rate, or a service that it"
        " calls; ask for a rate that was carried (--rate), or remove the limit"
    )
    if (outcome.best.throughput or 0.0) >= CLOSE * job.rate:
        yield "where so much is enough, set target.throughput_tolerance"


def _at_p_max(outcome: Outcome) -> Iterator[str]:
    job, best = outcome.job, outcome.best
    if outcome.stop_reason == "rate-out-of-reach" or best.latency_seconds is None:
        return
    at = [name for (name, k), top in zip(best.parallelism.items(), job.upper, strict=True) if k >= top]
    if at and best.latency_seconds > job.target.latency_seconds:
        yield f"{join_names(at)} {'has' if len(at) == 1 else 'have'} all that P_max allows: raise p_max, if there is more"


def _more_trials(outcome: Outcome) -> Iterator[str]:
    if outcome.stop_reason not in ("budget", "wall-clock"):
        return
    latency, target = outcome.best.latency_seconds, outcome.job.target.latency_seconds
    if latency is None and not any(each.verdict is Verdict.STABLE for each in outcome.evaluations):
        yield "nothing has held the rate yet: give it more trials (--total-trials)"
    elif latency is not None and latency <= target:
        yield "more trials would settle it (--total-trials)"
    elif latency is not None and latency < FAR * target:
        yield "more trials may find one (--total-trials), or the target may be too low for this job"


def _at(outcome: Outcome, verb: str) -> str:
    job, where = outcome.job, " (simulated)" if outcome.simulated else ""
    return (
        f"{job.name}{where} {verb} {format_seconds(job.target.latency_seconds)} at {format_amount(job.rate)} records/s"
    )


def _execution(outcome: Outcome) -> Execution | None:
    if outcome.model is not None and outcome.model.execution is not None:
        return outcome.model.execution
    return None if outcome.sizing is None else outcome.sizing.execution
