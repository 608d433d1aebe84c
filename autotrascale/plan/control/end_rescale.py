"""The end of a rescale in a step of the loop: its duration, and numbers that the engine set itself."""

from __future__ import annotations

from dataclasses import replace

from autotrascale.domain.decision import Number, Reason
from autotrascale.domain.observation import RescaleResult
from autotrascale.plan.control import rescale_budget, rescale_time
from autotrascale.plan.control.loop_state import DecisionEntry, PastRescale, Rules, State
from autotrascale.plan.control.manager import scaling_manager


def end_rescale(
    rules: Rules, state: State, rescaled: RescaleResult, passed: float, notes: list[Reason]
) -> tuple[State, DecisionEntry]:
    """Record the result of a rescale and return its journal entry.

    Args:
        rules: the rules of the loop.
        state: the state with the clock of this step.
        rescaled: the result.
        passed: seconds since the previous step.
        notes: reasons that the entry starts with.
    """
    now, before, wanted = state.clock.now, state.observed or {}, state.requested or {}
    running = None if rescaled.running is None else rules.sort_operators(rescaled.running)
    totals = state.totals.add_time(passed, None, before)
    past = PastRescale(state.clock.passed, sum((running or wanted).values()) - sum(before.values()))
    state = replace(
        state,
        totals=replace(totals, rescales=totals.rescales + 1),
        changed_at=now,
        rescales=(*state.rescales, past),
        commands=state.commands.end_apply(),
    )
    if not rescaled.done or running is None:
        reason = Reason("rescale-failed", f"The rescale failed: {rescaled.detail or 'no cause was reported'}.")
        state = replace(
            state,
            failed_at=now,
            predicted=None,
            observed=running or state.observed,
            down=running is None,
            manager=replace(state.manager, requested=None),
        )
        return state, DecisionEntry(state.number, now, "failed", running, wanted, (*notes, reason))
    other_than_asked = {name: k for name, k in wanted.items() if running.get(name, k) != k}
    state = replace(
        state,
        memory=state.memory.record_rescale(tuple(before.values()), tuple(running.values()), now),
        failed_at=None,
        manager=scaling_manager.record_standstill(state.manager, rescaled.standstill_seconds),
        rescale_times=rescale_time.remember_rescale_time(state, rescaled),
        engine_fixed={**state.engine_fixed, **{name: running[name] for name in other_than_asked}},
    )
    state = replace(state, observed=running, backoff=rescale_budget.next_backoff(state, rules.knobs))
    fixed = [_explain_engine_choice(name, running[name], k) for name, k in other_than_asked.items()]
    reasons = (*notes, *fixed, _explain_standstill(rescaled))
    return state, DecisionEntry(state.number, now, "rescaled", before, running, reasons)


def _explain_standstill(rescaled: RescaleResult) -> Reason:
    seconds = rescaled.standstill_seconds
    how = f" {rescaled.how}." if rescaled.how else ""
    numbers: dict[str, Number] = {"standstill_seconds": seconds, **(rescaled.phases or {})}
    return Reason("rescaled", f"Rescaled with {seconds:.1f} s of standstill.{how}", numbers)


def _explain_engine_choice(name: str, running: int, asked: int) -> Reason:
    text = f"{name} runs on {running} instead of {asked}: its engine sets the number. It is not asked for again."
    return Reason("engine-decides", text, {"operator": name, "asked": asked, "running": running})
