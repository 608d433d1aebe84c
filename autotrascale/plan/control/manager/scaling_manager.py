"""The scaling manager around a policy: DS2's manager (OSDI '18, §4.2) with the knobs that users ask for.

The manager is pure: time comes in as `now`, memory as `state`. One call of `manage` goes through:

    record_running        was the job rescaled since the last call?
    GATES                 is this the moment to ask? The first gate that objects holds
    learn_from_rescale    did the last rescale help? It may be rolled back
    ADJUSTMENTS           change the snapshot that the policy is shown
    policy                ask it once
    DOUBTS, BOUNDS        limit its answer

Each stage that changes something adds a reason. With default knobs no stage does, and the policy's answer passes
within the job's own bounds. A hold never changes a parallelism.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from autotrascale.domain.decision import Decision, Reason
from autotrascale.domain.errors import InputError
from autotrascale.domain.snapshot import Snapshot
from autotrascale.plan.control.manager import adjustments, gates, guards
from autotrascale.plan.control.manager.adjustments import Adjustment
from autotrascale.plan.control.manager.gates import Gate
from autotrascale.plan.control.manager.guards import Guard, Parallelism
from autotrascale.plan.control.manager.knobs import Knobs
from autotrascale.plan.control.manager.manager_state import ManagerContext, ManagerState, MeasuredRun
from autotrascale.plan.control.manager.rescale_feedback import learn_from_rescale
from autotrascale.plan.formatting import join_names
from autotrascale.plan.policies.base import Policy, hold
from autotrascale.plan.sizing.demand import measure_demand

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
# A rollback passes these guards only. A later guard wins: a pin over an exclusion, a bound over a direction.
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
CUTTING = frozenset((guards.limit_step, *BOUNDS))  # may leave an operator with less than it needs
MAX_STANDSTILLS = 9  # of the last rescales


class ManagerResult(NamedTuple):
    """The result of one call. `answer` is the policy's own answer; None: it was not asked."""

    state: ManagerState
    decision: Decision
    answer: Decision | None


def manage(
    knobs: Knobs,
    policy: Policy,
    state: ManagerState,
    snapshot: Snapshot,
    now: float,
    no_scale_down: Reason | None = None,
) -> ManagerResult:
    """Decide on one snapshot: `state, decision, _ = manage(Knobs(), policy, ManagerState(), snapshot, now=0.0)`.

    Args:
        knobs: when to act, and within which bounds.
        policy: asked at most once.
        state: the state that the previous call returned.
        snapshot: the measurements.
        now: seconds on any steady clock.
        no_scale_down: why nothing may be given back now.
    """
    recorded = record_running(knobs, state, snapshot, now)
    context = ManagerContext(knobs, recorded, snapshot, now, state.last, no_scale_down)
    check_knob_operators(context)
    for gate in GATES:
        if reason := gate(context):
            return ManagerResult(_count_interval(context, gate), hold(policy.name, snapshot, [reason]), None)
    context, feedback = learn_from_rescale(context.with_state(asked_at=now))
    if context.state.going_back and context.state.requested:
        reasons = feedback or [Reason("rollback", "The rollback of the last rescale is still under way.")]
        return ManagerResult(*_apply_guards(context, policy, context.state.requested, reasons, BOUNDS), None)
    if context.state.doubtful:
        return ManagerResult(context.state, hold(policy.name, snapshot, feedback), None)
    shown, adjusted = _adjust(context)
    answer = policy.decide(shown)
    reasons = [*feedback, *adjusted, *answer.reasons]
    if answer.hold:
        return ManagerResult(replace(context.state, votes=()), hold(policy.name, snapshot, reasons), answer)
    context, pipeline = _remember_answer(context, answer), (*DOUBTS, *BOUNDS, *LAST)
    return ManagerResult(*_apply_guards(context, policy, answer.parallelism, reasons, pipeline), answer)


def record_running(knobs: Knobs, state: ManagerState, snapshot: Snapshot, now: float) -> ManagerState:
    """Record the running parallelism. After a rescale, by us or from outside, waiting periods start again."""
    running = snapshot.parallelism
    last = MeasuredRun(running, snapshot.throughput, snapshot.backlog_records, measure_demand(snapshot).capacity)
    if state.last is None:
        return replace(state, last=last, recommended=((now, running),))
    if running == state.last.parallelism:
        return replace(state, last=last)
    is_ours = running == state.requested and not state.going_back
    return replace(
        state,
        last=last,
        before_rescale=state.last if is_ours else None,
        doubtful=False,
        requested=None,
        going_back=False,
        rescaled_at=now,
        intervals_to_ignore=knobs.warm_up_intervals,
        votes=(),
        recommended=((now, running),),
    )


def record_standstill(state: ManagerState, seconds: float) -> ManagerState:
    """Record the standstill of a rescale."""
    if not 0 < seconds < math.inf:
        return state
    return replace(state, standstills=(*state.standstills, seconds)[-MAX_STANDSTILLS:])


def check_knob_operators(context: ManagerContext) -> None:
    """Check that knobs name existing operators and leave each a possible parallelism. Raise `InputError` if not."""
    for knob, name in context.knobs.named_operators:
        if name not in context.running:
            known = ", ".join(context.running)
            raise InputError(f"{knob}.{name}", "names an operator that does not exist", remedy=f"use one of {known}")
        least, most = context.get_bounds(name)
        if least > most:
            raise InputError(f"{knob}.{name}", f"leaves no parallelism: {least} or more, {most} at most")
        pin = context.knobs.pinned.get(name, least)
        if not least <= pin <= most:
            raise InputError(f"pinned.{name}", f"is outside of {least} to {most}", seen=pin, remedy="pin it within")


def _adjust(context: ManagerContext) -> tuple[Snapshot, list[Reason]]:
    shown, reasons = context.snapshot, []
    for adjustment in ADJUSTMENTS:
        shown, reason = adjustment(context, shown)
        reasons += [reason] if reason else []
    return shown, reasons


def _remember_answer(context: ManagerContext, answer: Decision) -> ManagerContext:
    """Add an answer to the votes and recommendations.

    Each recommendation is kept once, at its latest time. The largest within a span stays the same, and a day of
    recommendations stays small.
    """
    state, knobs = context.state, context.knobs
    recent = {
        tuple(k.values()): (at, k) for at, k in state.recommended if context.now - at < knobs.scale_down_delay_seconds
    }
    recent[tuple(answer.parallelism.values())] = (context.now, answer.parallelism)
    return context.with_state(
        votes=(*state.votes, answer.parallelism)[-knobs.activation_intervals :],
        recommended=tuple(sorted(recent.values(), key=lambda each: each[0])),
    )


def _apply_guards(
    context: ManagerContext, policy: Policy, needed: Parallelism, reasons: Iterable[Reason], pipeline: Iterable[Guard]
) -> tuple[ManagerState, Decision]:
    reasons, wanted = list(reasons), needed
    cut_by: dict[str, str] = {}  # reason code of the last guard that cut an operator
    for guard in pipeline:
        guarded, reason = guard(context, wanted)
        if reason is not None and dict(guarded) != dict(wanted):
            reasons.append(reason)
            if guard in CUTTING:
                cut_by |= {name: reason.code for name, k in guarded.items() if k < wanted[name]}
        wanted = guarded
    reasons += _explain_below_need(needed, wanted, cut_by)
    decision = Decision.between(policy.name, context.running, wanted, *reasons)
    requested = decision.parallelism if decision.changed else None
    going_back = context.state.going_back and decision.changed
    return replace(context.state, requested=requested, going_back=going_back), decision


def _explain_below_need(needed: Parallelism, given: Parallelism, cut_by: Mapping[str, str]) -> list[Reason]:
    """Explain which operators get less than the policy asked for because of a bound."""
    short = [name for name in cut_by if given[name] < needed[name]]
    if not short:
        return []
    each = join_names(f"{name} needs {needed[name]} and gets {given[name]} ({cut_by[name]})" for name in short)
    numbers = {"need": sum(needed[name] for name in short), "given": sum(given[name] for name in short)}
    return [Reason("below-need", f"Less than needed: {each}.", numbers)]


def _count_interval(context: ManagerContext, gate: Gate) -> ManagerState:
    """Return the state after a gate held. An interval has passed, unless the interval gate itself held."""
    if gate is gates.check_interval:
        return context.state
    left = max(0, context.state.intervals_to_ignore - 1)
    return replace(context.state, asked_at=context.now, intervals_to_ignore=left)
