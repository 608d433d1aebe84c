"""The effect of users' commands in a step of the loop.

A pin is carried out without asking the policy. `commands.py` defines the commands. `State.acts` handles pause and
apply.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from autotrascale.domain.decision import Decision, Reason
from autotrascale.domain.snapshot import Snapshot
from autotrascale.plan.control import commands
from autotrascale.plan.control.autoscaling.autoscaling_policy import AUTOSCALE
from autotrascale.plan.control.commands import LoopCommand, PinBounds
from autotrascale.plan.control.loop_state import Parallelism, Rules, State
from autotrascale.plan.control.manager import scaling_manager
from autotrascale.plan.control.rescale_budget import check_pause_after_failure
from autotrascale.plan.formatting import format_changes


def accept_new_commands(state: State, asked: Iterable[LoopCommand]) -> tuple[State, list[Reason]]:
    """Return the state with new commands accepted, and a reason for each new command and each one in force.

    A new pin of an operator is tried again, even if its engine set another number the last time.
    """
    asked = [command for command in asked if command.number > state.commands.last_number]
    newly_pinned = {name for command in asked for name in command.parallelism}
    in_force, reasons = commands.accept_commands(state.commands, asked)
    engine_fixed = {name: k for name, k in state.engine_fixed.items() if name not in newly_pinned}
    return replace(state, commands=in_force, engine_fixed=engine_fixed), [*reasons, *in_force.explain()]


def compute_pins(rules: Rules, state: State, snapshot: Snapshot | None = None) -> dict[str, int]:
    """Return the pins in force, within the job's bounds, without operators whose number the engine sets itself."""
    bounds = PinBounds(rules.knobs, rules.topology, rules.p_max, snapshot)
    clamped = commands.clamp_pins(state.commands.pinned, state.observed or {}, bounds)
    return {name: k for name, k in clamped.items() if name not in state.engine_fixed}


def pins_need_rescale(rules: Rules, state: State, pins: Parallelism) -> bool:
    """Return whether the job runs at another parallelism than `pins`. Right after a failed rescale it is left alone."""
    running = state.observed or {}
    has_difference = any(running[name] != k for name, k in pins.items())
    return has_difference and check_pause_after_failure(state, rules.knobs) is None


def decide_by_pins(rules: Rules, state: State, snapshot: Snapshot) -> tuple[State, Decision | None]:
    """Return a decision that carries out the pins at once, or None if they run already."""
    pins = compute_pins(rules, state, snapshot)
    if not pins_need_rescale(rules, state, pins):
        return state, None
    running: Mapping[str, int] = snapshot.parallelism
    wanted = {**running, **pins}
    managed = scaling_manager.record_running(rules.knobs, state.manager, snapshot, state.clock.now)
    reason = Reason("pinned", f"{format_changes(running, wanted)}: pinned by a user.")
    decision = Decision.between(AUTOSCALE, running, wanted, reason)
    return replace(state, manager=replace(managed, requested=wanted)), decision


def add_pins_to_rules(rules: Rules, state: State, snapshot: Snapshot) -> Rules:
    """Return `rules` with users' pins, which overrule pins and exclusions of the job file."""
    knobs, pins = rules.knobs, compute_pins(rules, state, snapshot)
    excluded = tuple(name for name in knobs.excluded if name not in pins)
    return replace(rules, knobs=replace(knobs, excluded=excluded, pinned={**knobs.pinned, **pins}))


def explain_nothing_to_apply(state: State, decision: Decision) -> tuple[Reason, ...]:
    if state.commands.applying is None or decision.changed:
        return ()
    return (Reason("nothing-to-apply", "Nothing to apply: the job already runs as recommended."),)
