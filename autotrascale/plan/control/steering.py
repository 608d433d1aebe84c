"""What orders of people do in a step of the loop: they are taken in with a look, and a pin is carried out whatever the
policy thinks of it. What an order means is in `orders.py`; a pause and an apply are `State.acts`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from autotrascale.domain.decision import Decision, Reason
from autotrascale.domain.snapshot import Snapshot
from autotrascale.plan.control import orders, pace
from autotrascale.plan.control.autoscaling.policy import NAME
from autotrascale.plan.control.loop_state import Parallelism, Rules, State
from autotrascale.plan.control.manager import manager
from autotrascale.plan.control.orders import Bounds, Order
from autotrascale.plan.words import moves


def ordered(state: State, asked: Iterable[Order]) -> tuple[State, list[Reason]]:
    """What was asked for since the last look, and what stands. Who pins an operator anew means it: what its engine made
    of it the last time is tried again."""
    asked = [order for order in asked if order.number > state.orders.taken]
    anew = {name for order in asked for name in order.parallelism}
    in_force, reasons = orders.taken(state.orders, asked)
    fixed = {name: k for name, k in state.fixed.items() if name not in anew}
    return replace(state, orders=in_force, fixed=fixed), [*reasons, *in_force.reasons()]


def pins(rules: Rules, state: State, snapshot: Snapshot | None = None) -> dict[str, int]:
    """What people pinned, within the job's bounds; operators whose engine decides for itself are not asked again."""
    bounds = Bounds(rules.knobs, rules.topology, rules.p_max, snapshot)
    within = orders.pinned_within(state.orders.pinned, state.observed or {}, bounds)
    return {name: k for name, k in within.items() if name not in state.fixed}


def run_otherwise(rules: Rules, state: State, pinned: Parallelism) -> bool:
    """Something else runs, and it is the moment to change that: only a rescale that just failed is waited for."""
    running = state.observed or {}
    return any(running[name] != k for name, k in pinned.items()) and pace.after_a_failure(state, rules.knobs) is None


def to_the_pins(rules: Rules, state: State, snapshot: Snapshot) -> tuple[State, Decision | None]:
    """A pin is not asked whether it is wise, nor whether this is the moment."""
    pinned = pins(rules, state, snapshot)
    if not run_otherwise(rules, state, pinned):
        return state, None
    running: Mapping[str, int] = snapshot.parallelism
    wanted = {**running, **pinned}
    managed = manager.observe(rules.knobs, state.manager, snapshot, state.clock.now)
    reason = Reason("pinned", f"pinned, so it is brought there: {moves(running, wanted)}")
    return replace(state, manager=replace(managed, requested=wanted)), Decision.between(NAME, running, wanted, reason)


def pinning(rules: Rules, state: State, snapshot: Snapshot) -> Rules:
    """What people pin counts for more than what the job file pins, or excludes."""
    knobs, pinned = rules.knobs, pins(rules, state, snapshot)
    excluded = tuple(name for name in knobs.excluded if name not in pinned)
    return replace(rules, knobs=replace(knobs, excluded=excluded, pinned={**knobs.pinned, **pinned}))


def nothing_to_apply(state: State, decision: Decision) -> tuple[Reason, ...]:
    if state.orders.applying is None or decision.changed:
        return ()
    return (Reason("nothing-to-apply", "what runs is what it recommends: nothing to carry out"),)
