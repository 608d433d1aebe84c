"""One step of the control loop, pure: a state and what happened give the next state, an entry, and what to do.

Monitor   what runs? can the look be believed?                                        `looks/belief.py`
Analyse   what does it teach? did it bring what was predicted?                        `autoscaling/memory.py`
Plan      what should run: a policy, when and within which bounds   `autoscaling/policy.py`, `manager/`
Execute   rescale it, start it again, keep what was learned
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from autotrascale.domain.decision import Decision, Number, Reason
from autotrascale.domain.observation import Observation, RescaleResult, RescaleTime
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.topology import Topology
from autotrascale.plan.control import apply_commands, rescale_budget, rescale_time
from autotrascale.plan.control.autoscaling.autoscaling_memory import LoadCondition, learn_from_observation
from autotrascale.plan.control.autoscaling.autoscaling_plan import AutoscalingPlan
from autotrascale.plan.control.autoscaling.autoscaling_policy import AUTOSCALE, AutoscalingPolicy
from autotrascale.plan.control.autoscaling.prediction import LatencyPrediction
from autotrascale.plan.control.autoscaling.readings_by_rate import round_rate
from autotrascale.plan.control.commands import LoopCommand
from autotrascale.plan.control.loop_state import (
    MAX_CHECKED_PREDICTIONS,
    CheckedPrediction,
    DecisionEntry,
    Parallelism,
    PastRescale,
    PolicyMemory,
    Rules,
    State,
)
from autotrascale.plan.control.manager import scaling_manager
from autotrascale.plan.control.observations import observation_checks, slow_services
from autotrascale.plan.control.observations.not_scalable import check_critical_path
from autotrascale.plan.control.observations.observation_history import ObservationContext
from autotrascale.plan.policies import Policy, memory_of, with_memory
from autotrascale.plan.policies.base import hold
from autotrascale.plan.sizing.sizing import count_slots

EXPECTED_HOLDS = ("hold-no-input", "hold-paused")  # nothing to decide, as opposed to: it could not be decided
MIN_BACKLOG_SECONDS = 0.1  # seconds of input: less is on its way


@dataclass(frozen=True)
class ObservationTaken:
    look: Observation
    services: Mapping[str, float] = field(default_factory=dict)  # latency of services that the job calls
    slots_left: int | None = None  # of a quota that jobs share, this job's own included; None: they share none
    orders: tuple[LoopCommand, ...] = ()  # of people, that the journal holds and no look has taken in yet

    @property
    def at(self) -> float:
        return self.look.at


@dataclass(frozen=True)
class RescaleEnded:
    """A rescale was carried out, or failed."""

    rescaled: RescaleResult

    @property
    def at(self) -> float:
        return self.rescaled.at


Event = ObservationTaken | RescaleEnded


@dataclass(frozen=True)
class RescaleJob:
    parallelism: Parallelism


@dataclass(frozen=True)
class StartJob:
    """The job does not run. None: it never did, so as whoever began it wanted."""

    parallelism: Parallelism | None


@dataclass(frozen=True)
class KeepModel:
    """What was learned at one rate is worth keeping."""

    rate: float


Instruction = RescaleJob | StartJob | KeepModel | DecisionEntry
StepResult = tuple[State, list[Instruction]]


def step(rules: Rules, state: State, event: Event, now: float) -> StepResult:
    """`now` is the job's own clock, which may jump."""
    clock, odd = state.clock.tick(now, rules.knobs.interval_seconds)
    passed = clock.now - state.clock.now
    state, notes = replace(state, clock=clock, number=state.number + 1), [odd] if odd else []
    match event:
        case RescaleEnded(rescaled):
            return _rescaled(rules, state, rescaled, passed, notes)
        case ObservationTaken(look):
            state, asked = apply_commands.accept_new_commands(state, event.orders)
            notes += asked
            if look.running is None:
                return _down(rules, state, look, passed, notes)
            return _looked(rules, state, event, passed, notes)


def _looked(rules: Rules, state: State, taken: ObservationTaken, passed: float, notes: list[Reason]) -> StepResult:
    look = taken.look
    # Monitor
    state, doubt = _monitored(rules, state, look)
    if doubt is not None or look.snapshot is None:
        return _held(rules, state, taken, [*notes, *([doubt] if doubt else [])], passed)
    state = replace(state, measured_at=_made_at(state, look))
    snapshot = _in_order(look.snapshot, rules.topology)
    met = _met(rules, snapshot)
    state = replace(state, totals=state.totals.counted(passed, met, state.observed))
    # Analyse
    state, checked = _analysed(rules, state, snapshot, taken.services)
    # Plan
    bounded = _bounded(rules, state, snapshot, taken.slots_left)
    state, ordered = apply_commands.decide_by_pins(bounded, state, snapshot)
    if ordered:
        decision, predicted = ordered, None
    else:
        state, decision, predicted = _planned(bounded, state, snapshot, met, look.rescale)
    state = replace(state, slots=_slots(rules, state, snapshot, decision))
    # Execute
    return _executed(rules, state, snapshot, decision, predicted, checked, notes)


# --- Monitor ----------------------------------------------------------------------------------------------------------


def _monitored(rules: Rules, state: State, look: Observation) -> tuple[State, Reason | None]:
    """What runs, and why the look cannot be believed."""
    totals = replace(state.totals, looks=state.totals.looks + 1)
    target, now = rules.settings.target, state.clock.now
    beliefs, doubt = observation_checks.check_observation(
        ObservationContext(look, target, rules.oldest, state.beliefs, rules.topology, now)
    )
    state = replace(state, totals=totals, beliefs=beliefs)
    if look.running is not None and observation_checks.is_valid_parallelism(look.running, rules.topology):
        state = _seen_running(state, _named(look.running, rules.topology))
    return state, doubt


def _seen_running(state: State, running: Parallelism) -> State:
    if state.observed is not None and running != state.observed:  # somebody else rescaled it
        memory = replace(state.memory.at_another(), sized_for=None)
        state = replace(state, memory=memory, predicted=None, changed_at=state.clock.now)
    fixed = {name: k for name, k in state.fixed.items() if running.get(name) == k}
    return replace(state, observed=running, down=False, starts=0, fixed=fixed)


def _met(rules: Rules, snapshot: Snapshot) -> bool | None:
    """Whether the target is met; None while nobody knows."""
    latency = snapshot.latency_seconds.of(rules.settings.target.statistic)
    return None if latency is None else latency <= rules.settings.target.latency_seconds


def _made_at(state: State, look: Observation) -> float:
    """When the newest metrics were made; where nobody says, now."""
    ago = 0.0 if look.measured_at is None else look.at - look.measured_at
    return state.clock.passed - max(0.0, ago)


def _held(rules: Rules, state: State, taken: ObservationTaken, reasons: list[Reason], passed: float) -> StepResult:
    """A look that teaches nothing. What people pinned needs none of it, where it is seen what runs."""
    totals = state.totals.counted(passed, None, state.observed)
    state = replace(state, totals=totals.holding(reasons[-1]))
    running = state.observed
    entry = DecisionEntry(state.number, state.clock.now, "stay", running, running, tuple(reasons), hold=True)
    seen = taken.look.running is not None and observation_checks.is_valid_parallelism(
        taken.look.running, rules.topology
    )
    pins = (
        apply_commands.compute_pins(rules, state)
        if seen and taken.slots_left is None and rules.knobs.quota is None
        else {}
    )
    if running is None or not apply_commands.pins_need_rescale(rules, state, pins):
        return state, [entry]
    wanted = {**running, **pins}
    state = replace(state, planned=wanted, manager=replace(state.manager, requested=wanted))
    if not state.acts(rules):
        return state, [replace(entry, action="would-rescale", wanted=wanted)]
    return state, [replace(entry, action="rescale", wanted=wanted), RescaleJob(wanted)]


# --- Analyse ----------------------------------------------------------------------------------------------------------


def _analysed(
    rules: Rules, state: State, snapshot: Snapshot, services: Mapping[str, float]
) -> tuple[State, CheckedPrediction | None]:
    """A job that has settled and has no backlog shows what its parallelism does at this rate."""
    shows = _shows(rules, state, snapshot)
    planning = rules.planning
    memory = learn_from_observation(
        rules.settings, planning.headroom, state.memory, snapshot, state.clock.now, shows, planning.horizon_seconds
    )
    state = replace(state, memory=memory, services=state.services.adding(snapshot.backlog_records, services))
    return _checked(rules, state, snapshot) if shows.calm else (state, None)


def _shows(rules: Rules, state: State, snapshot: Snapshot) -> LoadCondition:
    rate, since = snapshot.target_rate, state.changed_at
    named = snapshot.backlog_records
    backlog = state.beliefs.still_waiting if named is None else named
    least = max(rules.knobs.backlog_seconds, MIN_BACKLOG_SECONDS) * rate
    before = state.manager.last.backlog or 0.0 if state.manager.last else 0.0
    settled = since is None or state.clock.now - since >= rules.knobs.running_seconds
    waiting = backlog > least
    carried = rate * (1 - rules.settings.target.throughput_tolerance)
    growing = waiting and backlog > before and (snapshot.throughput or 0.0) < carried
    return LoadCondition(
        calm=settled and not waiting, behind=settled and growing, flat_out=settled and waiting and before > least
    )


def _checked(rules: Rules, state: State, snapshot: Snapshot) -> tuple[State, CheckedPrediction | None]:
    """Did the last rescale bring what was predicted? At another rate nothing was."""
    target, predicted = rules.settings.target, state.predicted
    latency = snapshot.latency_seconds.of(target.statistic)
    if latency is None or predicted is None or predicted.k != tuple(snapshot.parallelism.values()):
        return state, None
    state = replace(state, predicted=None)
    if snapshot.target_rate <= 0 or round_rate(snapshot.target_rate) != predicted.rate:
        return state, None
    seconds = target.latency_seconds
    came = CheckedPrediction(predicted.latency(seconds), predicted.spread(seconds), latency)
    return replace(state, checked=(*state.checked, came)[-MAX_CHECKED_PREDICTIONS:]), came


# --- Plan -------------------------------------------------------------------------------------------------------------


def _bounded(rules: Rules, state: State, snapshot: Snapshot, slots_left: int | None) -> Rules:
    """What jobs share bounds how far one may grow. What it has is its own: to take it back would make two jobs shrink
    and grow in turns. Operators that are not ours to move are not asked to."""
    knobs = rules.knobs
    quota = knobs.quota
    if slots_left is not None:
        most = max(slots_left, count_slots(snapshot.execution, snapshot.parallelism))
        quota = min(most, quota or most)
    rules = apply_commands.add_pins_to_rules(replace(rules, knobs=replace(knobs, quota=quota)), state, snapshot)
    knobs = rules.knobs
    fixed = tuple(name for name in state.fixed if name not in (*knobs.excluded, *knobs.pinned))
    return replace(rules, knobs=replace(knobs, excluded=(*knobs.excluded, *fixed)))


def _slots(rules: Rules, state: State, snapshot: Snapshot, decision: Decision) -> int:
    """What the job takes, or has asked for where that is more: others that share a quota with it go by this."""
    wanted = decision.parallelism if state.acts(rules) else snapshot.parallelism
    return max(count_slots(snapshot.execution, snapshot.parallelism), count_slots(snapshot.execution, wanted))


def _planned(
    rules: Rules, state: State, snapshot: Snapshot, met: bool | None, told: RescaleTime | None
) -> tuple[State, Decision, LatencyPrediction | None]:
    """The decision, and what is expected of it at the rate of now."""
    now, missed = state.clock.now, met is not True
    state = replace(
        state,
        pace=rescale_budget.reset_backoff_when_quiet(state, rules.knobs),
        rescales=rescale_budget.rescales_in_last_day(state),
    )
    knobs = rescale_budget.apply_backoff(rules.knobs, state.pace, missed)
    if reason := _not_parallelism(rules, state, snapshot, missed):
        managed = scaling_manager.record_running(knobs, state.manager, snapshot, now)
        return replace(state, manager=managed), hold(AUTOSCALE, snapshot, [reason]), None
    price, settings = rescale_time.price_next_rescale(rules, state, told), rules.settings
    if price is not None:
        settings = replace(settings, confidence=price.confidence(settings.confidence))
    ours = AutoscalingPolicy(settings, rules.planning, state.memory, now, snapshot, rules.models, price)
    not_down = _latency_unknown(rules) if met is None else rescale_budget.check_daily_budget(rules, state)
    other = _remembering(rules, state)
    managed, decision, answer = scaling_manager.manage(knobs, other or ours, state.manager, snapshot, now, not_down)
    state = replace(state, manager=managed)
    if other is not None and memory_of(other):
        state = replace(state, policy=PolicyMemory(other.name, memory_of(other)))
    if not isinstance(answer, AutoscalingPlan):
        return state, decision, None
    waits = answer.waits_for_the_rest(snapshot.parallelism, decision.parallelism) if managed.stands_still else None
    if waits:
        state = replace(state, manager=replace(managed, requested=None))
        decision = replace(
            decision, parallelism=snapshot.parallelism, changed=False, reasons=(*decision.reasons, waits)
        )
    if not (decision.changed and state.acts(rules)):  # what is not carried out was not in vain
        return replace(state, memory=answer.memory), decision, None
    return replace(state, memory=answer.taken()), decision, ours.expects(tuple(decision.parallelism.values()))


def _remembering(rules: Rules, state: State) -> Policy | None:
    """Another policy than ours, as its last look left it. What one remembers says nothing to another."""
    if rules.policy is None:
        return None
    return with_memory(rules.policy, state.policy.memory if state.policy.policy == rules.policy.name else {})


def _not_parallelism(rules: Rules, state: State, snapshot: Snapshot, missed: bool) -> Reason | None:
    """What more instances would not mend, or not now."""
    if missed and (
        reason := state.services.slow() or slow_services.check_skew(snapshot) or check_critical_path(snapshot)
    ):
        return reason
    return rescale_budget.check_pause_after_failure(state, rules.knobs)


def _latency_unknown(rules: Rules) -> Reason:
    text = f"no {rules.settings.target.statistic} latency was measured: nothing is given back"
    return Reason("latency-unknown", text)


# --- Execute ----------------------------------------------------------------------------------------------------------


def _executed(
    rules: Rules,
    state: State,
    snapshot: Snapshot,
    decision: Decision,
    predicted: LatencyPrediction | None,
    checked: CheckedPrediction | None,
    notes: list[Reason],
) -> StepResult:
    """What is to be done, and the entry that says so."""
    running, wanted, rate = snapshot.parallelism, decision.parallelism, snapshot.target_rate
    reasons = (
        *notes,
        *decision.reasons,
        *slow_services.find_hot_keys(snapshot),
        *slow_services.find_narrow_sources(snapshot, wanted, decision.reasons),
    )
    totals = state.totals.holding(decision.reasons[0]) if decision.hold else state.totals.not_holding()
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
        return (state if decision.hold else replace(state, orders=state.orders.applied())), [entry]
    if not state.acts(rules):
        requested = state.manager.requested if rules.advise else None  # what was paused was not asked for
        state = replace(state, manager=replace(state.manager, requested=requested))
        return state, [replace(entry, action="would-rescale")]
    keep = [KeepModel(round_rate(rate))] if rules.policy is None and rate > 0 else []
    entry = replace(entry, action="rescale", predicted=predicted)
    return replace(state, predicted=predicted), [entry, RescaleJob(wanted), *keep]


def _rescaled(rules: Rules, state: State, rescaled: RescaleResult, passed: float, notes: list[Reason]) -> StepResult:
    """What came of a rescale."""
    now, before, wanted = state.clock.now, state.observed or {}, state.requested or {}
    running = None if rescaled.running is None else _named(rescaled.running, rules.topology)
    done = rescaled.done and running is not None
    totals = replace(state.totals.counted(passed, None, before), rescales=state.totals.rescales + 1)
    past = PastRescale(state.clock.passed, sum((running or wanted).values()) - sum(before.values()))
    state = replace(
        state, totals=totals, changed_at=now, rescales=(*state.rescales, past), orders=state.orders.applied()
    )
    if not done or running is None:
        reason = Reason("rescale-failed", f"the rescale failed: {rescaled.detail or 'no reason was given'}")
        state = replace(
            state,
            failed_at=now,
            predicted=None,
            observed=running or state.observed,
            down=running is None,
            manager=replace(state.manager, requested=None),
        )
        return state, [DecisionEntry(state.number, now, "failed", running, wanted, (*notes, reason))]
    memory = state.memory.rescaled(tuple(before.values()), tuple(running.values()), now)
    managed = scaling_manager.record_standstill(state.manager, rescaled.standstill_seconds)
    state = replace(
        state,
        memory=memory,
        observed=running,
        failed_at=None,
        manager=managed,
        taken=rescale_time.remember_rescale_time(state, rescaled),
    )
    state = replace(state, pace=rescale_budget.next_backoff(state, rules.knobs))
    apart = {name: k for name, k in wanted.items() if running.get(name, k) != k}
    state = replace(state, fixed={**state.fixed, **{name: running[name] for name in apart}})
    notes = [*notes, *(_engine_decides(name, running[name], k) for name, k in apart.items())]
    numbers: dict[str, Number] = {"standstill_seconds": rescaled.standstill_seconds, **(rescaled.phases or {})}
    how = f"; {rescaled.how}" if rescaled.how else ""
    reason = Reason("rescaled", f"stood still for {rescaled.standstill_seconds:.1f} s{how}", numbers)
    return state, [DecisionEntry(state.number, now, "rescaled", before, running, (*notes, reason))]


def _engine_decides(name: str, ran: int, asked: int) -> Reason:
    text = f"{name} runs on {ran}, not on the {asked} asked for: its engine decides that, so it is left as it is"
    return Reason("engine-decides", text, {"operator": name, "asked": asked, "running": ran})


def _down(rules: Rules, state: State, look: Observation, passed: float, notes: list[Reason]) -> StepResult:
    """It does not run, and it should: at what it was last seen to run with, its state kept."""
    ran, again = state.observed is not None and not state.down, state.observed
    totals = state.totals.counted(passed, False if ran else None, None)
    then = "" if rules.advise else ": started again"
    reason = Reason("down", f"the job does not run ({look.detail or 'no reason was given'}){then}")
    state = replace(
        state,
        down=True,
        predicted=None,
        totals=replace(totals, starts=totals.starts + 1),
        starts=state.starts + 1,
        changed_at=state.clock.now,
        manager=replace(state.manager, requested=None),
    )
    entry = DecisionEntry(
        state.number, state.clock.now, "stay" if rules.advise else "start", None, again, (*notes, reason)
    )
    return state, [entry] if rules.advise else [entry, StartJob(again)]


# --- the order of operators, which vectors rely on -------------------------------------------------------------------


def _named(running: Parallelism, topology: Topology | None) -> dict[str, int]:
    return {name: running[name] for name in topology or running if name in running}


def _in_order(snapshot: Snapshot, topology: Topology | None) -> Snapshot:
    if topology is None or list(snapshot.operators) == list(topology):
        return snapshot
    return replace(snapshot, operators={name: snapshot.operators[name] for name in topology})
