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

from collections.abc import Iterable
from dataclasses import replace

from autotrascale.domain.decision import Decision, Reason
from autotrascale.domain.errors import InputError
from autotrascale.domain.snapshot import Snapshot
from autotrascale.plan.control import guards, lessons
from autotrascale.plan.control.guards import Adjustment, Gate, Guard, Parallelism
from autotrascale.plan.control.knobs import Knobs
from autotrascale.plan.control.situation import Situation, State
from autotrascale.plan.policies import Policy
from autotrascale.plan.policies.base import is_hold

__all__ = ["Knobs", "State", "step"]

GATES: tuple[Gate, ...] = (guards.paused, guards.interval, guards.warm_up, guards.settling, guards.garbage)
ADJUSTMENTS: tuple[Adjustment, ...] = (guards.corrected, guards.utilised, guards.with_backlog, guards.with_restart)
DOUBTS: tuple[Guard, ...] = (
    guards.activation,
    guards.enough_small_gains,
    guards.effective_only,
    guards.dead_band,
    guards.ignore_small,
    guards.delayed_down,
    guards.not_down_while_behind,
    guards.max_step,
)
# A rollback passes through these only. The later one wins: a pin over an exclusion, a bound over a direction.
BOUNDS: tuple[Guard, ...] = (
    guards.one_direction,
    guards.bounded,
    guards.aligned,
    guards.without_excluded,
    guards.pinned,
    guards.one_worker_count,
)
LAST: tuple[Guard, ...] = (guards.not_rejected,)


def step(knobs: Knobs, policy: Policy, state: State, snapshot: Snapshot, now: float) -> tuple[State, Decision]:
    """One look at the job: `state, decision = step(Knobs(), policy, State(), snapshot, now=0.0)`."""
    situation = Situation(knobs, observe(knobs, state, snapshot, now), snapshot, now)
    check_operators(situation)
    for gate in GATES:
        if reason := gate(situation):
            return _ticked(situation, gate), _hold(policy, snapshot, [reason])
    situation, learned = lessons.learn(situation.after(asked_at=now))
    if situation.state.going_back and situation.state.requested:
        reasons = learned or [Reason("rollback", "the last rescale made things worse: still going back")]
        return _decide(situation, policy, situation.state.requested, reasons, BOUNDS)
    shown, seen_as = _adjusted(situation)
    answer = policy.decide(shown)
    reasons = [*learned, *seen_as, *answer.reasons]
    if is_hold(answer):
        return replace(situation.state, votes=()), _hold(policy, snapshot, reasons)
    return _decide(_remembering(situation, answer), policy, answer.parallelism, reasons, (*DOUBTS, *BOUNDS, *LAST))


def observe(knobs: Knobs, state: State, snapshot: Snapshot, now: float) -> State:
    """What runs is what the snapshot says, whoever rescaled it. A rescale starts everything that waits for one."""
    running = snapshot.parallelism
    if state.seen is None:
        return replace(state, seen=snapshot, wishes=((now, running),))
    if running == state.seen.parallelism:
        return replace(state, seen=snapshot)
    ours = running == state.requested and not state.going_back
    return replace(
        state,
        seen=snapshot,
        unjudged=state.seen if ours else None,
        requested=None,
        going_back=False,
        rescaled_at=now,
        intervals_to_ignore=knobs.warm_up_intervals,
        votes=(),
        wishes=((now, running),),
    )


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
    state, knobs = situation.state, situation.knobs
    recent = [wish for wish in state.wishes if situation.now - wish[0] < knobs.scale_down_delay_seconds]
    return situation.after(
        votes=(*state.votes, answer.parallelism)[-knobs.activation_intervals :],
        wishes=(*recent, (situation.now, answer.parallelism)),
    )


def _decide(
    situation: Situation, policy: Policy, wanted: Parallelism, reasons: Iterable[Reason], pipeline: tuple[Guard, ...]
) -> tuple[State, Decision]:
    reasons = list(reasons)
    for guard in pipeline:
        guarded, reason = guard(situation, wanted)
        if dict(guarded) != dict(wanted):
            reasons.append(reason)
        wanted = guarded
    decision = Decision.between(policy.name, situation.running, wanted, *reasons)
    requested = decision.parallelism if decision.changed else None
    return replace(
        situation.state, requested=requested, going_back=situation.state.going_back and decision.changed
    ), decision


def _hold(policy: Policy, snapshot: Snapshot, reasons: Iterable[Reason]) -> Decision:
    return Decision.between(policy.name, snapshot.parallelism, snapshot.parallelism, *reasons)


def _ticked(situation: Situation, gate: Gate) -> State:
    """An interval has passed unless it was the interval that held."""
    if gate is guards.interval:
        return situation.state
    return replace(
        situation.state, asked_at=situation.now, intervals_to_ignore=max(0, situation.state.intervals_to_ignore - 1)
    )
