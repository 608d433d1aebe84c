"""When to act on what a policy says: DS2's scaling manager (OSDI '18, §4.2) with the knobs that operators ask for.

One stage around any policy, and pure: time comes in as `now`, memory as `state`. The whole of it:

    observe   was the job rescaled since the last look?
    GATES     is this the moment to ask? The first that says no holds everything
    learn     what did the last rescale bring? It may be taken back
    LENSES    what the policy is shown
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
from autotrascale.plan import guards, lessons
from autotrascale.plan.guards import Gate, Guard, Lens, Parallelism
from autotrascale.plan.knobs import Knobs
from autotrascale.plan.policies import Policy
from autotrascale.plan.policies.base import is_hold
from autotrascale.plan.scene import Scene, State

__all__ = ["Knobs", "State", "step"]

GATES: tuple[Gate, ...] = (guards.paused, guards.interval, guards.warm_up, guards.settling, guards.garbage)
LENSES: tuple[Lens, ...] = (guards.corrected, guards.utilised, guards.with_backlog, guards.with_restart)
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
    scene = Scene(knobs, observe(knobs, state, snapshot, now), snapshot, now)
    check_operators(scene)
    for gate in GATES:
        if reason := gate(scene):
            return _ticked(scene, gate), _hold(policy, snapshot, [reason])
    scene, learned = lessons.learn(scene.after(asked_at=now))
    if scene.state.going_back and scene.state.requested:
        reasons = learned or [Reason("rollback", "the last rescale made things worse: still going back")]
        return _decide(scene, policy, scene.state.requested, reasons, BOUNDS)
    shown, seen_as = _through_lenses(scene)
    answer = policy.decide(shown)
    reasons = [*learned, *seen_as, *answer.reasons]
    if is_hold(answer):
        return replace(scene.state, votes=()), _hold(policy, snapshot, reasons)
    return _decide(_remembering(scene, answer), policy, answer.parallelism, reasons, (*DOUBTS, *BOUNDS, *LAST))


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


def check_operators(scene: Scene) -> None:
    """Knobs name operators; a job has them or it does not."""
    for knob, name in scene.knobs.named_operators:
        if name not in scene.running:
            known = ", ".join(scene.running)
            raise InputError(f"{knob}.{name}", "names an operator that does not exist", remedy=f"use one of {known}")
        least, most = scene.bounds(name)
        if least > most:
            raise InputError(f"{knob}.{name}", f"leaves no parallelism: {least} or more, {most} at most")
        pin = scene.knobs.pinned.get(name, least)
        if not least <= pin <= most:
            raise InputError(f"pinned.{name}", f"is outside of {least} to {most}", seen=pin, remedy="pin it within")


def _through_lenses(scene: Scene) -> tuple[Snapshot, list[Reason]]:
    shown, reasons = scene.snapshot, []
    for lens in LENSES:
        shown, reason = lens(scene, shown)
        reasons += [reason] if reason else []
    return shown, reasons


def _remembering(scene: Scene, answer: Decision) -> Scene:
    state, knobs = scene.state, scene.knobs
    recent = [wish for wish in state.wishes if scene.now - wish[0] < knobs.scale_down_delay_seconds]
    return scene.after(
        votes=(*state.votes, answer.parallelism)[-knobs.activation_intervals :],
        wishes=(*recent, (scene.now, answer.parallelism)),
    )


def _decide(
    scene: Scene, policy: Policy, wanted: Parallelism, reasons: Iterable[Reason], pipeline: tuple[Guard, ...]
) -> tuple[State, Decision]:
    reasons = list(reasons)
    for guard in pipeline:
        guarded, reason = guard(scene, wanted)
        if dict(guarded) != dict(wanted):
            reasons.append(reason)
        wanted = guarded
    decision = Decision.between(policy.name, scene.running, wanted, *reasons)
    requested = decision.parallelism if decision.changed else None
    return replace(scene.state, requested=requested, going_back=scene.state.going_back and decision.changed), decision


def _hold(policy: Policy, snapshot: Snapshot, reasons: Iterable[Reason]) -> Decision:
    return Decision.between(policy.name, snapshot.parallelism, snapshot.parallelism, *reasons)


def _ticked(scene: Scene, gate: Gate) -> State:
    """An interval has passed unless it was the interval that held."""
    if gate is guards.interval:
        return scene.state
    return replace(scene.state, asked_at=scene.now, intervals_to_ignore=max(0, scene.state.intervals_to_ignore - 1))
