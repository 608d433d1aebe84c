"""One step of the control loop as a pure function: a state and an event give the next state and instructions.

    Monitor    record the running parallelism; trust the observation?   `observations/observation_checks.py`
    Analyse    learn from it, and compare the last prediction           `autoscaling/autoscaling_memory.py`
    Plan       ask a policy; when and within which bounds to act        `autoscaling/`, `manager/`
    Execute    rescale, start again, store the model                    `loop.py` carries it out

Stored events and rules replay to the same decisions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from autotrascale.domain.decision import Decision, Reason
from autotrascale.domain.observation import Observation, RescaleTime
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.topology import Topology
from autotrascale.plan.control import apply_commands, rescale_budget, rescale_time
from autotrascale.plan.control.autoscaling.autoscaling_memory import LoadCondition, learn_from_observation
from autotrascale.plan.control.autoscaling.autoscaling_plan import AutoscalingPlan
from autotrascale.plan.control.autoscaling.autoscaling_policy import AUTOSCALE, AutoscalingPolicy
from autotrascale.plan.control.autoscaling.prediction import LatencyPrediction
from autotrascale.plan.control.autoscaling.readings_by_rate import round_rate
from autotrascale.plan.control.end_rescale import end_rescale
from autotrascale.plan.control.events import (
    Event,
    Instruction,
    KeepModel,
    ObservationTaken,
    RescaleEnded,
    RescaleJob,
    StartJob,
)
from autotrascale.plan.control.loop_state import (
    MAX_CHECKED_PREDICTIONS,
    CheckedPrediction,
    DecisionEntry,
    LoopAction,
    Parallelism,
    PolicyMemory,
    Rules,
    State,
)
from autotrascale.plan.control.manager import scaling_manager
from autotrascale.plan.control.observations import not_scalable
from autotrascale.plan.control.observations.observation_checks import check_observation, is_valid_parallelism
from autotrascale.plan.control.observations.observation_history import ObservationContext
from autotrascale.plan.policies.base import Policy, hold, memory_of, with_memory
from autotrascale.plan.sizing.sizing import count_slots

EXPECTED_HOLDS = ("hold-no-input", "hold-paused")  # there was nothing to decide; any other hold could not decide
MIN_BACKLOG_SECONDS = 0.1  # of input; a smaller backlog is just in transit


StepResult = tuple[State, list[Instruction]]


def step(rules: Rules, state: State, event: Event, now: float) -> StepResult:
    """Return the next state and the instructions that follow from `event`.

    Args:
        rules: what does not change while the loop runs.
        state: the state that the previous step returned.
        event: an observation, or the result of a rescale.
        now: seconds on the job's own clock, which may jump.
    """
    clock, odd = state.clock.tick(now, rules.knobs.interval_seconds)
    passed = clock.now - state.clock.now
    state, notes = replace(state, clock=clock, number=state.number + 1), [odd] if odd else []
    match event:
        case RescaleEnded(rescaled):
            state, entry = end_rescale(rules, state, rescaled, passed, notes)
            return state, [entry]
        case ObservationTaken(observation):
            state, command_reasons = apply_commands.accept_new_commands(state, event.commands)
            notes += command_reasons
            if observation.running is None:
                return _restart(rules, state, observation, passed, notes)
            return _decide(rules, state, event, passed, notes)


def _decide(rules: Rules, state: State, taken: ObservationTaken, passed: float, notes: list[Reason]) -> StepResult:
    observation = taken.observation
    # Monitor
    state, distrust = _monitor(rules, state, observation)
    if distrust is not None or observation.snapshot is None:
        return _hold(rules, state, taken, [*notes, *([distrust] if distrust else [])], passed)
    state = replace(state, measured_at=_measured_at(state, observation))
    snapshot = _sort_operators(observation.snapshot, rules.topology)
    is_within = _is_within_target(rules, snapshot)
    state = replace(state, totals=state.totals.add_time(passed, is_within, state.observed))
    # Analyse
    state, checked = _analyse(rules, state, snapshot, taken.services)
    # Plan
    bounded = _bound_rules(rules, state, snapshot, taken.slots_left)
    state, pinned = apply_commands.decide_by_pins(bounded, state, snapshot)
    if pinned is not None:
        decision, predicted = pinned, None
    else:
        state, decision, predicted = _plan(bounded, state, snapshot, is_within, observation.rescale)
    state = replace(state, slots=_claimed_slots(rules, state, snapshot, decision))
    # Execute
    return _execute(rules, state, snapshot, decision, predicted, checked, notes)


# --- Monitor ----------------------------------------------------------------------------------------------------------


def _monitor(rules: Rules, state: State, observation: Observation) -> tuple[State, Reason | None]:
    """Record the running parallelism. Return why the observation cannot be trusted, or None."""
    totals = replace(state.totals, observations=state.totals.observations + 1)
    context = ObservationContext(
        observation,
        rules.settings.target,
        rules.max_age_seconds,
        state.history,
        rules.topology,
        watched_seconds=state.clock.now,
    )
    history, distrust = check_observation(context)
    state = replace(state, totals=totals, history=history)
    if observation.running is not None and is_valid_parallelism(observation.running, rules.topology):
        state = _see_running(state, rules.sort_operators(observation.running))
    return state, distrust


def _see_running(state: State, running: Parallelism) -> State:
    if state.observed is not None and running != state.observed:  # rescaled from outside of the loop
        memory = replace(state.memory.start_anew(), sized_for=None)
        state = replace(state, memory=memory, predicted=None, changed_at=state.clock.now)
    engine_fixed = {name: k for name, k in state.engine_fixed.items() if running.get(name) == k}
    return replace(state, observed=running, down=False, starts=0, engine_fixed=engine_fixed)


def _is_within_target(rules: Rules, snapshot: Snapshot) -> bool | None:
    latency = snapshot.latency_seconds.of(rules.settings.target.statistic)
    return None if latency is None else latency <= rules.settings.target.latency_seconds


def _measured_at(state: State, observation: Observation) -> float:
    """Return the time of the newest metrics as `Clock.passed`; now if it is unknown."""
    age = 0.0 if observation.measured_at is None else observation.at - observation.measured_at
    return state.clock.passed - max(0.0, age)


def _hold(rules: Rules, state: State, taken: ObservationTaken, reasons: list[Reason], passed: float) -> StepResult:
    """Decide nothing on an observation that is not trusted. Users' pins need no trust, so they are carried out."""
    totals = state.totals.add_time(passed, None, state.observed)
    state = replace(state, totals=totals.add_hold(reasons[-1]))
    running = state.observed
    entry = DecisionEntry(state.number, state.clock.now, "stay", running, running, tuple(reasons), hold=True)
    seen = taken.observation.running
    knows_running = seen is not None and is_valid_parallelism(seen, rules.topology)
    has_quota = taken.slots_left is not None or rules.knobs.quota is not None
    pins = apply_commands.compute_pins(rules, state) if knows_running and not has_quota else {}
    if running is None or not apply_commands.pins_need_rescale(rules, state, pins):
        return state, [entry]
    wanted = {**running, **pins}
    state = replace(state, planned=wanted, manager=replace(state.manager, requested=wanted))
    if not state.acts(rules):
        return state, [replace(entry, action="would-rescale", wanted=wanted)]
    return state, [replace(entry, action="rescale", wanted=wanted), RescaleJob(wanted)]


# --- Analyse ----------------------------------------------------------------------------------------------------------


def _analyse(
    rules: Rules, state: State, snapshot: Snapshot, services: Mapping[str, float]
) -> tuple[State, CheckedPrediction | None]:
    """Learn from a trusted snapshot. Once the job has settled without backlog, compare the last prediction."""
    condition, planning = _judge_load(rules, state, snapshot), rules.planning
    memory = learn_from_observation(
        rules.settings, planning.headroom, state.memory, snapshot, state.clock.now, condition, planning.horizon_seconds
    )
    state = replace(state, memory=memory, services=state.services.add(snapshot.backlog_records, services))
    return _check_prediction(rules, state, snapshot) if condition.is_calm else (state, None)


def _judge_load(rules: Rules, state: State, snapshot: Snapshot) -> LoadCondition:
    rate, since = snapshot.target_rate, state.changed_at
    backlog = snapshot.backlog_records
    if backlog is None:
        backlog = state.history.least_backlog
    least = max(rules.knobs.backlog_seconds, MIN_BACKLOG_SECONDS) * rate
    before = state.manager.last.backlog or 0.0 if state.manager.last else 0.0
    is_settled = since is None or state.clock.now - since >= rules.knobs.running_seconds
    has_backlog = backlog > least
    kept_up_rate = rate * (1 - rules.settings.target.throughput_tolerance)
    is_growing = has_backlog and backlog > before and (snapshot.throughput or 0.0) < kept_up_rate
    return LoadCondition(
        is_calm=is_settled and not has_backlog,
        is_behind=is_settled and is_growing,
        is_flat_out=is_settled and has_backlog and before > least,
    )


def _check_prediction(rules: Rules, state: State, snapshot: Snapshot) -> tuple[State, CheckedPrediction | None]:
    """Compare the prediction for the last rescale with the measured latency. It holds for its own rate only."""
    target, predicted = rules.settings.target, state.predicted
    latency = snapshot.latency_seconds.of(target.statistic)
    if latency is None or predicted is None or predicted.k != tuple(snapshot.parallelism.values()):
        return state, None
    state = replace(state, predicted=None)
    if snapshot.target_rate <= 0 or round_rate(snapshot.target_rate) != predicted.rate:
        return state, None
    seconds = target.latency_seconds
    checked = CheckedPrediction(predicted.latency(seconds), predicted.spread(seconds), latency)
    return replace(state, checked=(*state.checked, checked)[-MAX_CHECKED_PREDICTIONS:]), checked


# --- Plan -------------------------------------------------------------------------------------------------------------


def _bound_rules(rules: Rules, state: State, snapshot: Snapshot, slots_left: int | None) -> Rules:
    """Return `rules` limited by the shared quota and users' pins, without operators whose engine sets their number.

    Slots that the job already holds are never reclaimed; otherwise two jobs would oscillate.
    """
    quota = rules.knobs.quota
    if slots_left is not None:
        most = max(slots_left, count_slots(snapshot.execution, snapshot.parallelism))
        quota = min(most, quota or most)
    rules = replace(rules, knobs=replace(rules.knobs, quota=quota))
    rules = apply_commands.add_pins_to_rules(rules, state, snapshot)
    knobs = rules.knobs
    fixed = tuple(name for name in state.engine_fixed if name not in (*knobs.excluded, *knobs.pinned))
    return replace(rules, knobs=replace(knobs, excluded=(*knobs.excluded, *fixed)))


def _claimed_slots(rules: Rules, state: State, snapshot: Snapshot, decision: Decision) -> int:
    """Return the slots that the job takes or has asked for, if more. Jobs that share its quota read this number."""
    wanted = decision.parallelism if state.acts(rules) else snapshot.parallelism
    return max(count_slots(snapshot.execution, snapshot.parallelism), count_slots(snapshot.execution, wanted))


def _plan(
    rules: Rules, state: State, snapshot: Snapshot, is_within: bool | None, estimate: RescaleTime | None
) -> tuple[State, Decision, LatencyPrediction | None]:
    """Return the decision, and the latency predicted for it at the present rate."""
    now, is_missed = state.clock.now, is_within is not True
    backoff = rescale_budget.reset_backoff_when_quiet(state, rules.knobs)
    state = replace(state, backoff=backoff, rescales=rescale_budget.rescales_in_last_day(state))
    knobs = rescale_budget.apply_backoff(rules.knobs, state.backoff, target_missed=is_missed)
    if reason := _find_other_cause(rules, state, snapshot, is_missed):
        managed = scaling_manager.record_running(knobs, state.manager, snapshot, now)
        return replace(state, manager=managed), hold(AUTOSCALE, snapshot, [reason]), None
    price, settings = rescale_time.price_next_rescale(rules, state, estimate), rules.settings
    if price is not None:
        settings = replace(settings, confidence=price.required_confidence(settings.confidence))
    own = AutoscalingPolicy(settings, rules.planning, state.memory, now, snapshot, rules.models, price)
    no_scale_down = _explain_unknown_latency(rules) if is_within is None else None
    if no_scale_down is None:
        no_scale_down = rescale_budget.check_daily_budget(rules, state)
    other = _recall_policy(rules, state)
    managed, decision, answer = scaling_manager.manage(knobs, other or own, state.manager, snapshot, now, no_scale_down)
    state = replace(state, manager=managed)
    if other is not None and (memory := memory_of(other)):
        state = replace(state, policy_memory=PolicyMemory(other.name, memory))
    if not isinstance(answer, AutoscalingPlan):
        return state, decision, None
    if managed.rescales_stop_job and (wait := answer.wait_for_rest(snapshot.parallelism, decision.parallelism)):
        state = replace(state, manager=replace(managed, requested=None))
        reasons = (*decision.reasons, wait)
        decision = replace(decision, parallelism=snapshot.parallelism, changed=False, reasons=reasons)
    if not (decision.changed and state.acts(rules)):  # the plan was not carried out, so it was not in vain
        return replace(state, memory=answer.memory), decision, None
    predicted = own.predict(tuple(decision.parallelism.values()))
    return replace(state, memory=answer.memory_if_done()), decision, predicted


def _recall_policy(rules: Rules, state: State) -> Policy | None:
    """Return the configured policy with its memory; None: AuTraScale's own. A policy never gets another's memory."""
    if rules.policy is None:
        return None
    remembered = state.policy_memory
    return with_memory(rules.policy, remembered.memory if remembered.policy == rules.policy.name else {})


def _find_other_cause(rules: Rules, state: State, snapshot: Snapshot, is_missed: bool) -> Reason | None:
    """Return why more instances would not help, or may not be asked for right after a failed rescale."""
    if is_missed:
        reason = (
            state.services.find_slow_service()
            or not_scalable.check_skew(snapshot)
            or not_scalable.check_critical_path(snapshot)
        )
        if reason is not None:
            return reason
    return rescale_budget.check_pause_after_failure(state, rules.knobs)


def _explain_unknown_latency(rules: Rules) -> Reason:
    text = f"No scale-down: no {rules.settings.target.statistic} latency was measured."
    return Reason("latency-unknown", text)


# --- Execute ----------------------------------------------------------------------------------------------------------


def _execute(
    rules: Rules,
    state: State,
    snapshot: Snapshot,
    decision: Decision,
    predicted: LatencyPrediction | None,
    checked: CheckedPrediction | None,
    notes: list[Reason],
) -> StepResult:
    """Return the journal entry of a decision, and the instructions that carry it out."""
    running, wanted, rate = snapshot.parallelism, decision.parallelism, snapshot.target_rate
    hints = [
        *not_scalable.find_hot_keys(snapshot),
        *not_scalable.find_narrow_sources(snapshot, wanted, decision.reasons),
    ]
    reasons = (*notes, *decision.reasons, *hints)
    totals = state.totals.add_hold(decision.reasons[0]) if decision.hold else state.totals.end_hold()
    state = replace(state, planned=wanted, totals=totals)
    if not decision.hold or decision.reasons[0].code in EXPECTED_HOLDS:
        state = replace(state, decided_at=state.clock.passed)
    if not decision.hold:
        reasons += apply_commands.explain_nothing_to_apply(state, decision)
    entry = DecisionEntry(
        state.number,
        state.clock.now,
        "stay",
        running,
        wanted,
        reasons,
        decision.hold,
        rate,
        snapshot.latency_seconds.of(rules.settings.target.statistic),
        snapshot.backlog_records,
        checked=checked,
    )
    if not decision.changed:
        return (state if decision.hold else replace(state, commands=state.commands.end_apply())), [entry]
    if not state.acts(rules):
        requested = state.manager.requested if rules.advise else None  # while paused, nothing is asked of the job
        state = replace(state, manager=replace(state.manager, requested=requested))
        return state, [replace(entry, action="would-rescale")]
    models = [KeepModel(round_rate(rate))] if rules.policy is None and rate > 0 else []
    entry = replace(entry, action="rescale", predicted=predicted)
    return replace(state, predicted=predicted), [entry, RescaleJob(wanted), *models]


def _restart(rules: Rules, state: State, observation: Observation, passed: float, notes: list[Reason]) -> StepResult:
    """Start a job that is down, with its state, at the parallelism that was seen last."""
    had_run, parallelism = state.observed is not None and not state.down, state.observed
    totals = state.totals.add_time(passed, False if had_run else None, None)
    next_step = "" if rules.advise else " It is started again."
    cause = observation.detail or "no cause was reported"
    reason = Reason("down", f"The job does not run: {cause}.{next_step}")
    state = replace(
        state,
        down=True,
        predicted=None,
        totals=replace(totals, starts=totals.starts + 1),
        starts=state.starts + 1,
        changed_at=state.clock.now,
        manager=replace(state.manager, requested=None),
    )
    action: LoopAction = "stay" if rules.advise else "start"
    reasons = (*notes, reason)
    entry = DecisionEntry(state.number, state.clock.now, action, None, parallelism, reasons)
    return state, [entry] if rules.advise else [entry, StartJob(parallelism)]


def _sort_operators(snapshot: Snapshot, topology: Topology | None) -> Snapshot:
    """Return `snapshot` with operators in the topology's order, which vectors rely on."""
    if topology is None or list(snapshot.operators) == list(topology):
        return snapshot
    return replace(snapshot, operators={name: snapshot.operators[name] for name in topology})
