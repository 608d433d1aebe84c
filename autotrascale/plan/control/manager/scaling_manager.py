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
from autotrascale.plan.control.manager import adjustments, gates, guards, rescale_feedback
from autotrascale.plan.control.manager.adjustments import Adjustment
from autotrascale.plan.control.manager.gates import Gate
from autotrascale.plan.control.manager.guards import Guard, Parallelism
from autotrascale.plan.control.manager.knobs import Knobs
from autotrascale.plan.control.manager.manager_state import ManagerContext, ManagerState, MeasuredRun
from autotrascale.plan.formatting import join_names
from autotrascale.plan.policies import Policy
from autotrascale.plan.policies.base import hold
from autotrascale.plan.sizing.demand import measure_demand

__all__ = ["Knobs", "ManagerState", "manage"]

GATES: tuple[Gate, ...] = (
    gates.check_paused,
    gates.check_interval,
    gates.check_warm_up,
    gates.check_settling,
    gates.check_garbage_collection,
)
ADJUSTMENTS: tuple[Adjustment, ...] = (
    adjustments.correct_capacity,
    adjustments.apply_utilisation,
    adjustments.add_backlog,
)
DOUBTS: tuple[Guard, ...] = (
    guards.require_activation,
    guards.allow_for_standstill,
    guards.stop_small_gains,
    guards.stop_ineffective_scale_ups,
    guards.apply_dead_band,
    guards.ignore_small_changes,
    guards.delay_scale_down,
    guards.hold_size_while_behind,
    guards.forbid_scale_down,
    guards.limit_step,
)
# A rollback passes through these only. The later one wins: a pin over an exclusion, a bound over a direction.
BOUNDS: tuple[Guard, ...] = (
    guards.limit_direction,
    guards.clamp_to_bounds,
    guards.align_to_divisors,
    guards.keep_excluded,
    guards.apply_pins,
    guards.limit_to_quota,
    guards.require_one_worker_count,
)
LAST: tuple[Guard, ...] = (guards.skip_rejected,)
CUTTING = frozenset((guards.limit_step, *BOUNDS))  # may leave an operator with less than it needs, and then it is said
DOWNTIMES = 9  # rescales that the restart time is learned from


class ManagerResult(NamedTuple):
    """What a step gives: `answer` is what the policy said, None where it was not asked."""

    state: ManagerState
    decision: Decision
    answer: Decision | None


def manage(
    knobs: Knobs, policy: Policy, state: ManagerState, snapshot: Snapshot, now: float, not_down: Reason | None = None
) -> ManagerResult:
    """One look at the job: `state, decision, _ = step(Knobs(), policy, State(), snapshot, now=0.0)`. `not_down`: why
    nothing may be given back now, whatever the policy says."""
    before = state.last
    situation = ManagerContext(knobs, record_running(knobs, state, snapshot, now), snapshot, now, before, not_down)
    check_knob_operators(situation)
    for gate in GATES:
        if reason := gate(situation):
            return ManagerResult(_ticked(situation, gate), hold(policy.name, snapshot, [reason]), None)
    situation, learned = rescale_feedback.learn_from_rescale(situation.after(asked_at=now))
    if situation.state.going_back and situation.state.requested:
        reasons = learned or [Reason("rollback", "the last rescale made things worse: still going back")]
        return ManagerResult(*_decide(situation, policy, situation.state.requested, reasons, BOUNDS), None)
    if situation.state.doubtful:
        return ManagerResult(situation.state, hold(policy.name, snapshot, learned), None)
    shown, seen_as = _adjusted(situation)
    answer = policy.decide(shown)
    reasons = [*learned, *seen_as, *answer.reasons]
    if answer.hold:
        return ManagerResult(replace(situation.state, votes=()), hold(policy.name, snapshot, reasons), answer)
    pipeline = (*DOUBTS, *BOUNDS, *LAST)
    return ManagerResult(
        *_decide(_remembering(situation, answer), policy, answer.parallelism, reasons, pipeline), answer
    )


def record_running(knobs: Knobs, state: ManagerState, snapshot: Snapshot, now: float) -> ManagerState:
    """What runs is what the snapshot says, whoever rescaled it. A rescale starts everything that waits for one."""
    running = snapshot.parallelism
    last = MeasuredRun(running, snapshot.throughput, snapshot.backlog_records, measure_demand(snapshot).capacity)
    if state.last is None:
        return replace(state, last=last, recommended=((now, running),))
    if running == state.last.parallelism:
        return replace(state, last=last)
    ours = running == state.requested and not state.going_back
    return replace(
        state,
        last=last,
        before_rescale=state.last if ours else None,
        doubtful=False,
        requested=None,
        going_back=False,
        rescaled_at=now,
        intervals_to_ignore=knobs.warm_up_intervals,
        votes=(),
        recommended=((now, running),),
    )


def record_standstill(state: ManagerState, seconds: float) -> ManagerState:
    """A rescale stopped the job for so long."""
    if not 0 < seconds < math.inf:
        return state
    return replace(state, standstills=(*state.standstills, seconds)[-DOWNTIMES:])


def check_knob_operators(situation: ManagerContext) -> None:
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


def _adjusted(situation: ManagerContext) -> tuple[Snapshot, list[Reason]]:
    shown, reasons = situation.snapshot, []
    for adjustment in ADJUSTMENTS:
        shown, reason = adjustment(situation, shown)
        reasons += [reason] if reason else []
    return shown, reasons


def _remembering(situation: ManagerContext, answer: Decision) -> ManagerContext:
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
    situation: ManagerContext,
    policy: Policy,
    wanted: Parallelism,
    reasons: Iterable[Reason],
    pipeline: tuple[Guard, ...],
) -> tuple[ManagerState, Decision]:
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
    each = join_names(f"{name} needs {needed[name]} and gets {given[name]} ({cut[name]})" for name in short)
    numbers = {"need": sum(needed[name] for name in short), "given": sum(given[name] for name in short)}
    return [Reason("below-need", f"less than is needed: {each}", numbers)]


def _ticked(situation: ManagerContext, gate: Gate) -> ManagerState:
    """An interval has passed unless it was the interval that held."""
    if gate is gates.check_interval:
        return situation.state
    return replace(
        situation.state, asked_at=situation.now, intervals_to_ignore=max(0, situation.state.intervals_to_ignore - 1)
    )
