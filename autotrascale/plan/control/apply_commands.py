"""What orders of people do in a step of the loop: they are taken in with a look, and a pin is carried out whatever the
policy thinks of it. What an order means is in `orders.py`; a pause and an apply are `State.acts`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from autotrascale.domain.decision import Decision, Reason
from autotrascale.domain.snapshot import Snapshot
from autotrascale.plan.control import commands, rescale_budget
from autotrascale.plan.control.autoscaling.autoscaling_policy import AUTOSCALE
from autotrascale.plan.control.commands import LoopCommand, PinBounds
from autotrascale.plan.control.loop_state import Parallelism, Rules, State
from autotrascale.plan.control.manager import scaling_manager
from autotrascale.plan.formatting import format_changes


def accept_new_commands(state: State, asked: Iterable[LoopCommand]) -> tuple[State, list[Reason]]:
    """What was asked for since the last look, and what stands. Who pins an operator anew means it: what its engine made
    of it the last time is tried again."""
    asked = [order for order in asked if order.number > state.orders.taken]
    anew = {name for order in asked for name in order.parallelism}
    in_force, reasons = commands.accept_commands(state.orders, asked)
    fixed = {name: k for name, k in state.fixed.items() if name not in anew}
    return replace(state, orders=in_force, fixed=fixed), [*reasons, *in_force.reasons()]


def compute_pins(rules: Rules, state: State, snapshot: Snapshot | None = None) -> dict[str, int]:
    """What people pinned, within the job's bounds; operators whose engine decides for itself are not asked again."""
    bounds = PinBounds(rules.knobs, rules.topology, rules.p_max, snapshot)
    within = commands.clamp_pins(state.orders.pinned, state.observed or {}, bounds)
    return {name: k for name, k in within.items() if name not in state.fixed}


def pins_need_rescale(rules: Rules, state: State, pinned: Parallelism) -> bool:
    """Something else runs, and it is the moment to change that: only a rescale that just failed is waited for."""
    running = state.observed or {}
    return (
        any(running[name] != k for name, k in pinned.items())
        and rescale_budget.check_pause_after_failure(state, rules.knobs) is None
    )


def decide_by_pins(rules: Rules, state: State, snapshot: Snapshot) -> tuple[State, Decision | None]:
    """A pin is not asked whether it is wise, nor whether this is the moment."""
    pinned = compute_pins(rules, state, snapshot)
    if not pins_need_rescale(rules, state, pinned):
        return state, None
    running: Mapping[str, int] = snapshot.parallelism
    wanted = {**running, **pinned}
    managed = scaling_manager.record_running(rules.knobs, state.manager, snapshot, state.clock.now)
    reason = Reason("pinned", f"pinned, so it is brought there: {format_changes(running, wanted)}")
    return replace(state, manager=replace(managed, requested=wanted)), Decision.between(
        AUTOSCALE, running, wanted, reason
    )


def add_pins_to_rules(rules: Rules, state: State, snapshot: Snapshot) -> Rules:
    """What people pin counts for more than what the job file pins, or excludes."""
    knobs, pinned = rules.knobs, compute_pins(rules, state, snapshot)
    excluded = tuple(name for name in knobs.excluded if name not in pinned)
    return replace(rules, knobs=replace(knobs, excluded=excluded, pinned={**knobs.pinned, **pinned}))


def explain_nothing_to_apply(state: State, decision: Decision) -> tuple[Reason, ...]:
    if state.orders.applying is None or decision.changed:
        return ()
    return (Reason("nothing-to-apply", "what runs is what it recommends: nothing to carry out"),)
