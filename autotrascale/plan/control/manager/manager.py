"""When to act on what a policy says: DS2's scaling manager (OSDI '18, §4.2) with the knobs that operators ask for.

One stage around any policy, and pure: time comes in as `now`, memory as `state`. The whole of it:

    observe   was the job rescaled since the last look?
    GATES     is this the moment to ask? The first that says no holds everything
    learn     what did the last rescale bring? It may be taken back
    ADJUSTMENTS    what the policy is shown
    policy    asked once
    GUARDS    what becomes of its answer: first those that doubt it, then those that bound it

Every one that acts adds a reason. With `Knobs()` none does, and the policy's answer comes through, within the job's
own bounds. A hold, of a gate or of the policy itself, never changes a parallelism.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from autotrascale.domain.decision import Decision, Reason
from autotrascale.domain.errors import InputError
from autotrascale.domain.snapshot import Snapshot
from autotrascale.plan.control.manager import adjustments, gates, guards, lessons
from autotrascale.plan.control.manager.adjustments import Adjustment
from autotrascale.plan.control.manager.gates import Gate
from autotrascale.plan.control.manager.guards import Guard, Parallelism
from autotrascale.plan.control.manager.knobs import Knobs
from autotrascale.plan.control.manager.situation import Measured, Situation, State
from autotrascale.plan.policies import Policy
from autotrascale.plan.policies.base import hold
from autotrascale.plan.sizing.demand import measure_demand
from autotrascale.plan.words import listing

__all__ = ["Knobs", "State", "step"]

GATES: tuple[Gate, ...] = (gates.paused, gates.interval, gates.warm_up, gates.settling, gates.garbage)
ADJUSTMENTS: tuple[Adjustment, ...] = (adjustments.corrected, adjustments.utilised, adjustments.with_backlog)
DOUBTS: tuple[Guard, ...] = (
    guards.activation,
    guards.for_a_restart,
    guards.enough_small_gains,
    guards.effective_only,
    guards.dead_band,
    guards.ignore_small,
    guards.delayed_down,
    guards.not_down_while_behind,
    guards.not_down,
    guards.max_step,
)
# A rollback passes through these only. The later one wins: a pin over an exclusion, a bound over a direction.
BOUNDS: tuple[Guard, ...] = (
    guards.one_direction,
    guards.bounded,
    guards.aligned,
    guards.without_excluded,
    guards.pinned,
    guards.quota,
    guards.one_worker_count,
)
LAST: tuple[Guard, ...] = (guards.not_rejected,)
CUTTING = frozenset((guards.max_step, *BOUNDS))  # may leave an operator with less than it needs, and then it is said
DOWNTIMES = 9  # rescales that the restart time is learned from


class Managed(NamedTuple):
    """What a step gives: `answer` is what the policy said, None where it was not asked."""

    state: State
    decision: Decision
    answer: Decision | None


def step(
    knobs: Knobs, policy: Policy, state: State, snapshot: Snapshot, now: float, not_down: Reason | None = None
) -> Managed:
    """One look at the job: `state, decision, _ = step(Knobs(), policy, State(), snapshot, now=0.0)`. `not_down`: why
    nothing may be given back now, whatever the policy says."""
    before = state.last
    situation = Situation(knobs, observe(knobs, state, snapshot, now), snapshot, now, before, not_down)
    check_operators(situation)
    for gate in GATES:
        if reason := gate(situation):
            return Managed(_ticked(situation, gate), hold(policy.name, snapshot, [reason]), None)
    situation, learned = lessons.learn(situation.after(asked_at=now))
    if situation.state.going_back and situation.state.requested:
        reasons = learned or [Reason("rollback", "the last rescale made things worse: still going back")]
        return Managed(*_decide(situation, policy, situation.state.requested, reasons, BOUNDS), None)
    if situation.state.doubtful:
        return Managed(situation.state, hold(policy.name, snapshot, learned), None)
    shown, seen_as = _adjusted(situation)
    answer = policy.decide(shown)
    reasons = [*learned, *seen_as, *answer.reasons]
    if answer.hold:
        return Managed(replace(situation.state, votes=()), hold(policy.name, snapshot, reasons), answer)
    pipeline = (*DOUBTS, *BOUNDS, *LAST)
    return Managed(*_decide(_remembering(situation, answer), policy, answer.parallelism, reasons, pipeline), answer)


def observe(knobs: Knobs, state: State, snapshot: Snapshot, now: float) -> State:
    """What runs is what the snapshot says, whoever rescaled it. A rescale starts everything that waits for one."""
    running = snapshot.parallelism
    last = Measured(running, snapshot.throughput, snapshot.backlog_records, measure_demand(snapshot).capacity)
    if state.last is None:
        return replace(state, last=last, recommended=((now, running),))
    if running == state.last.parallelism:
        return replace(state, last=last)
    ours = running == state.requested and not state.going_back
    return replace(
        state,
        last=last,
        before_ours=state.last if ours else None,
        doubtful=False,
        requested=None,
        going_back=False,
        rescaled_at=now,
        intervals_to_ignore=knobs.warm_up_intervals,
        votes=(),
        recommended=((now, running),),
    )


def stood_still(state: State, seconds: float) -> State:
    """A rescale stopped the job for so long."""
    if not 0 < seconds < math.inf:
        return state
    return replace(state, downtimes=(*state.downtimes, seconds)[-DOWNTIMES:])


def check_operators(situation: Situation) -> None:
    """Knobs name operators; a job has them or it does not."""
    for knob, name in situation.knobs.named_operators:
        if name not in situation.running:
            known = ", ".join(situation.running)
            raise InputError(f"{knob}.{name}", "names an operator that does not exist", remedy=f"use one of {known}")
        least, most = situation.bounds(name)
        if least > most:
            raise InputError(f"{knob}.{name}", f"leaves no parallelism: {least} or more, {most} at most")
        pin = situation.knobs.pinned.get(name, least)
        if not least <= pin <= most:
            raise InputError(f"pinned.{name}", f"is outside of {least} to {most}", seen=pin, remedy="pin it within")


def _adjusted(situation: Situation) -> tuple[Snapshot, list[Reason]]:
    shown, reasons = situation.snapshot, []
    for adjustment in ADJUSTMENTS:
        shown, reason = adjustment(situation, shown)
        reasons += [reason] if reason else []
    return shown, reasons


def _remembering(situation: Situation, answer: Decision) -> Situation:
    """Each recommendation once, at its latest time: the largest of a time span stays so, and a day fits a page."""
    state, knobs = situation.state, situation.knobs
    recent = {
        tuple(k.values()): (at, k) for at, k in state.recommended if situation.now - at < knobs.scale_down_delay_seconds
    }
    recent[tuple(answer.parallelism.values())] = (situation.now, answer.parallelism)
    return situation.after(
        votes=(*state.votes, answer.parallelism)[-knobs.activation_intervals :],
        recommended=tuple(sorted(recent.values(), key=lambda each: each[0])),
    )


def _decide(
    situation: Situation, policy: Policy, wanted: Parallelism, reasons: Iterable[Reason], pipeline: tuple[Guard, ...]
) -> tuple[State, Decision]:
    reasons, needed = list(reasons), wanted
    cut: dict[str, str] = {}
    for guard in pipeline:
        guarded, reason = guard(situation, wanted)
        if dict(guarded) != dict(wanted):
            reasons.append(reason)
            if guard in CUTTING:
                cut |= {name: reason.code for name, k in guarded.items() if k < wanted[name]}
        wanted = guarded
    reasons += _below_need(needed, wanted, cut)
    decision = Decision.between(policy.name, situation.running, wanted, *reasons)
    requested = decision.parallelism if decision.changed else None
    return replace(
        situation.state, requested=requested, going_back=situation.state.going_back and decision.changed
    ), decision


def _below_need(needed: Parallelism, given: Parallelism, cut: Mapping[str, str]) -> list[Reason]:
    """What the policy asked for and did not get, because of a bound and not because of a doubt."""
    short = [name for name in cut if given[name] < needed[name]]
    if not short:
        return []
    each = listing(f"{name} needs {needed[name]} and gets {given[name]} ({cut[name]})" for name in short)
    numbers = {"need": sum(needed[name] for name in short), "given": sum(given[name] for name in short)}
    return [Reason("below-need", f"less than is needed: {each}", numbers)]


def _ticked(situation: Situation, gate: Gate) -> State:
    """An interval has passed unless it was the interval that held."""
    if gate is gates.interval:
        return situation.state
    return replace(
        situation.state, asked_at=situation.now, intervals_to_ignore=max(0, situation.state.intervals_to_ignore - 1)
    )
