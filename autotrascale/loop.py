"""The control loop: it keeps a running job within its latency target while its rate goes up and down (§IV, MAPE).

    Monitor   look at the job
    Analyse   what runs, can it be believed, did it do what was predicted?           `plan/signals.py`
    Plan      what should run: a policy with a memory, within the manager's guards   `plan/pilot.py`, `plan/manager.py`
    Execute   rescale it, start it again, keep what was learned

`step` is pure: a state and what happened give the next state and what to do. `Loop` does it. What was planned, what
was requested and what is observed are three things.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from autotrascale.domain.decision import Decision, Number, Reason
from autotrascale.domain.errors import EngineError
from autotrascale.domain.snapshot import Snapshot
from autotrascale.execute.live import LiveJob, Look, Rescaled
from autotrascale.plan.control import autoscaling, loop_state, manager, signals
from autotrascale.plan.control.autoscaling import AutoscalingPolicy
from autotrascale.plan.control.loop_state import Action, Entry, Parallelism, Rules, State
from autotrascale.plan.control.prediction import grid_rate, trained
from autotrascale.plan.search.benefit_model import BenefitModel

DAY = 86_400.0
TINY = 1e-6  # seconds that are none
HOPELESS = 5  # starts in a row that failed: the engine is broken, and the loop cannot mend it


@dataclass(frozen=True)
class Looked:
    look: Look
    services: Mapping[str, float] = field(default_factory=dict)  # latency of services that the job calls


@dataclass(frozen=True)
class Changed:
    """A rescale was carried out, or failed."""

    rescaled: Rescaled


Event = Looked | Changed


@dataclass(frozen=True)
class Rescale:
    parallelism: Parallelism


@dataclass(frozen=True)
class Start:
    """The job does not run. None: it never did, so as whoever began it wanted."""

    parallelism: Parallelism | None


@dataclass(frozen=True)
class Keep:
    """What was learned at one rate is worth keeping."""

    rate: float


Instruction = Rescale | Start | Keep | Entry
Stepped = tuple[State, list[Instruction]]


# --- the pure step ----------------------------------------------------------------------------------------------------


def step(rules: Rules, state: State, event: Event, now: float) -> Stepped:
    """`now` is the job's own clock, which may jump."""
    clock, odd = state.clock.tick(now, rules.knobs.interval_seconds)
    draft = _Draft(rules, replace(state, clock=clock, number=state.number + 1), clock.now - state.clock.now)
    draft.note(odd)
    match event:
        case Changed(rescaled):
            return draft.changed(rescaled)
        case Looked(look, _) if look.running is None:
            return draft.down(look)
        case Looked(look, services):
            return draft.looked(look, services)


class _Draft:
    """One step in the making: what it decides goes into `entry`, what it asks for into the instructions."""

    def __init__(self, rules: Rules, state: State, passed: float) -> None:
        self.rules, self.state, self.passed = rules, state, passed
        self.reasons: list[Reason] = []
        self.facts: dict[str, object] = {}

    def note(self, *reasons: Reason | None) -> None:
        self.reasons += [reason for reason in reasons if reason is not None]

    def end(
        self, action: Action, running: Parallelism | None, wanted: Parallelism | None, *then: Instruction
    ) -> Stepped:
        entry = Entry(
            self.state.number, self.state.clock.now, action, running, wanted, tuple(self.reasons), **self.facts  # type: ignore[arg-type]
        )  # fmt: skip
        return self.state, [entry, *then]

    def count(self, met: bool | None, running: Parallelism | None) -> None:
        self.state = replace(self.state, totals=loop_state.counted(self.state.totals, self.passed, met, running))

    # -- Monitor, Analyse ---------------------------------------------------------------------------------------------

    def looked(self, look: Look, services: Mapping[str, float]) -> Stepped:
        running, rules = dict(look.running or {}), self.rules
        if self.state.observed is not None and running != dict(self.state.observed):  # somebody else rescaled it
            memory = replace(self.state.memory, sized_for=None)
            self.state = replace(self.state, memory=memory, awaiting=None, changed_at=self.state.clock.now)
        self.state = replace(self.state, observed=running, good=running, requested=None, starts=0)
        stale = signals.too_old(look.at, look.measured_at, rules.stale_seconds or 3 * rules.knobs.interval_seconds)
        if look.snapshot is None or stale:
            self.note(stale or Reason("hold-blind", f"nothing was measured: {look.detail}"))
            self.count(None, running)
            return self.end("stay", running, running)
        latency = look.snapshot.latency_seconds.of(rules.settings.target.statistic)
        met = None if latency is None else latency <= rules.settings.target.latency_seconds
        self.count(met, running)
        self.facts |= {"rate": look.snapshot.target_rate, "latency_seconds": latency,
                       "backlog_records": look.snapshot.backlog_records}  # fmt: skip
        self._learn(look.snapshot, latency, services)
        return self._act(look.snapshot, met is not True)

    def _learn(self, snapshot: Snapshot, latency: float | None, services: Mapping[str, float]) -> None:
        """A job that has settled and has no backlog shows what its parallelism does at this rate."""
        state, rules, rate = self.state, self.rules, snapshot.target_rate
        backlog, since = snapshot.backlog_records or 0.0, state.changed_at
        waiting = backlog > max(rules.knobs.backlog_seconds, 0.1) * rate
        least = rate * (1 - rules.settings.target.throughput_tolerance)
        settled = since is None or state.clock.now - since >= rules.knobs.running_seconds
        growing = waiting and backlog > state.backlog and (snapshot.throughput or 0.0) < least
        calm, behind = settled and not waiting, settled and growing
        memory = autoscaling.observed(
            rules.settings, rules.planning, state.memory, snapshot, state.clock.now, calm=calm, behind=behind
        )
        self.state = replace(
            state, memory=memory, backlog=backlog, services=state.services.seen(snapshot.backlog_records, services)
        )
        if calm and latency is not None:
            self.state, self.facts["judged"] = loop_state.judged(self.state, rules.settings.target, snapshot, latency)

    # -- Plan ---------------------------------------------------------------------------------------------------------

    def _act(self, snapshot: Snapshot, missing: bool) -> Stepped:
        decision, mind = self._decide(snapshot, missing)
        self.note(*decision.reasons)
        self.state = replace(self.state, planned=decision.parallelism)
        running = snapshot.parallelism
        if not decision.changed:
            return self.end("stay", running, running)
        if self.rules.advise:
            return self.end("would-rescale", running, decision.parallelism)
        predicted = autoscaling.expected(mind, snapshot, tuple(decision.parallelism.values())) if mind else None
        self.facts["predicted"] = predicted
        self.state = replace(self.state, requested=decision.parallelism, awaiting=predicted)
        learned = [Keep(grid_rate(snapshot.target_rate))] if mind and snapshot.target_rate > 0 else []
        return self.end("rescale", running, decision.parallelism, Rescale(decision.parallelism), *learned)

    def _decide(self, snapshot: Snapshot, missing: bool) -> tuple[Decision, AutoscalingPolicy | None]:
        state, rules, now = self.state, self.rules, self.state.clock.now
        state = replace(state, pace=loop_state.usual_pace(state, rules.knobs))
        knobs = loop_state.paced(rules.knobs, state.pace, missing)
        lie = (missing and (state.services.slow() or signals.skewed(snapshot))) or loop_state.failing(
            state, rules.knobs
        )
        if lie:
            self.state = replace(state, manager=manager.observe(knobs, state.manager, snapshot, now))
            return Decision.between(autoscaling.NAME, snapshot.parallelism, snapshot.parallelism, lie), None
        recent = tuple(each for each in state.rescales if now - each[0] < DAY)
        may_go_down = len(recent) < rules.rescales_per_day - 2
        mind = AutoscalingPolicy(rules.settings, rules.planning, state.memory, now, rules.models, may_go_down)
        managed, decision = manager.step(knobs, rules.policy or mind, state.manager, snapshot, now)
        if waits := autoscaling.half_way(decision, snapshot.parallelism):
            managed = replace(managed, requested=None)
            decision = Decision.between(decision.policy, snapshot.parallelism, snapshot.parallelism,
                                        *decision.reasons, waits)  # fmt: skip
        managed = replace(managed, wishes=loop_state.latest(managed.wishes))
        memory = autoscaling.kept(state.memory, mind, decision)
        self.state = replace(state, manager=managed, memory=memory, rescales=recent)
        return decision, None if rules.policy else replace(mind, memory=memory)

    # -- Execute: what came of it -------------------------------------------------------------------------------------

    def changed(self, rescaled: Rescaled) -> Stepped:
        state, now = self.state, self.state.clock.now
        before, wanted = state.observed or {}, state.requested or {}
        self.count(None, before)
        growth = sum((rescaled.running or wanted).values()) - sum(before.values())
        totals = replace(self.state.totals, rescales=state.totals.rescales + 1)
        state = replace(
            self.state, totals=totals, requested=None, changed_at=now, rescales=(*state.rescales, (now, growth))
        )
        if not rescaled.done or rescaled.running is None:
            self.note(Reason("rescale-failed", f"the rescale failed: {rescaled.detail or 'no reason was given'}"))
            self.state = replace(state, failed_at=now, awaiting=None, observed=rescaled.running,
                                 manager=replace(state.manager, requested=None))  # fmt: skip
            return self.end("failed", rescaled.running, wanted)
        running = dict(rescaled.running)
        memory = autoscaling.rescaled(state.memory, tuple(running.values()), now)
        self.state = replace(state, memory=memory, observed=running, good=running, failed_at=None,
                             pace=loop_state.back_off(state, self.rules.knobs))  # fmt: skip
        numbers: dict[str, Number] = {"downtime_seconds": rescaled.downtime_seconds, **(rescaled.phases or {})}
        self.note(Reason("rescaled", f"stood still for {rescaled.downtime_seconds:.1f} s", numbers))
        return self.end("rescaled", before, running)

    def down(self, look: Look) -> Stepped:
        """It does not run, and it should: at what it was last seen to run with, its state kept."""
        self.count(False if self.state.observed else None, None)
        again = self.state.good
        then = "" if self.rules.advise else ": started again"
        self.note(Reason("down", f"the job does not run ({look.detail or 'no reason was given'}){then}"))
        totals = replace(self.state.totals, starts=self.state.totals.starts + 1)
        self.state = replace(
            self.state, requested=None, observed=None, awaiting=None, totals=totals, starts=self.state.starts + 1,
            changed_at=self.state.clock.now,
        )  # fmt: skip
        if self.rules.advise:
            return self.end("stay", None, again)
        return self.end("start", None, again, Start(again))


# --- the driver -------------------------------------------------------------------------------------------------------


class Journal(Protocol):
    def record(self, state: State, entry: Entry) -> None:
        """Kept when this returns. Where that is not possible it is spooled, and said."""
        ...


class Library(Protocol):
    def keep(self, model: BenefitModel) -> None:
        """As `Journal.record`."""
        ...


Report = Callable[[State, Entry], None]


class Loop:
    """One job, kept until `seconds` of its time are over, or for ever; the job stays open, it is the caller's."""

    def __init__(
        self, live: LiveJob, rules: Rules, *, initial: Parallelism, state: State | None = None,
        journal: Journal | None = None, library: Library | None = None, report: Report = lambda _, __: None,
        services: Callable[[], Mapping[str, float]] = dict, seen: Callable[[Snapshot], None] = lambda _: None,
    ) -> None:  # fmt: skip
        self.live, self.rules, self.initial, self.state = live, rules, initial, state or State()
        self.journal, self.library, self.report, self.services = journal, library, report, services
        self.seen = seen  # told of each snapshot

    def run(self, seconds: float | None = None) -> State:
        """The job as it is found, or as it was left; begun where it never ran. `seconds` are of the job's clock."""
        first = self.live.look() if self.rules.advise else self.live.start(self.state.good or self.initial)
        self.happened(Looked(first), first.at)
        begun, interval = self.state.clock.now, self.rules.knobs.interval_seconds
        while (left := math.inf if seconds is None else begun + seconds - self.state.clock.now) > TINY:
            self.live.wait(min(interval, left))
            self.turn()
        return self.state

    def turn(self) -> None:
        try:
            look, services = self.live.look(), self.services()
        except EngineError as error:  # nothing is known, not even that it stopped
            at = (self.state.clock.read or 0.0) + self.rules.knobs.interval_seconds
            look, services = Look(at, self.state.observed or self.initial, None, detail=str(error)), {}
        self.happened(Looked(look, services), look.at)

    def happened(self, event: Event, now: float) -> None:
        if isinstance(event, Looked) and event.look.snapshot is not None:
            self.seen(event.look.snapshot)
        self.state, instructions = step(self.rules, self.state, event, now)
        for instruction in instructions:
            self._do(instruction)

    def _do(self, instruction: Instruction) -> None:
        match instruction:
            case Entry():
                if self.journal is not None:
                    self.journal.record(self.state, instruction)
                self.report(self.state, instruction)
            case Rescale(parallelism):
                rescaled = self._rescale(parallelism)
                self.happened(Changed(rescaled), rescaled.at)
            case Start(parallelism):
                self._start(parallelism or self.initial)
            case Keep(rate):
                self._keep(rate)

    def _rescale(self, parallelism: Parallelism) -> Rescaled:
        """An engine that breaks over it is a rescale that failed; the next look says what is left of the job."""
        try:
            return self.live.rescale(parallelism)
        except EngineError as error:
            return Rescaled(self.state.clock.read or 0.0, False, self.state.observed, detail=str(error))

    def _start(self, parallelism: Parallelism) -> None:
        try:
            self.live.start(parallelism)
        except EngineError:
            if self.state.starts >= HOPELESS:
                raise

    def _keep(self, rate: float) -> None:
        cell = self.state.memory.readings.at(rate)
        model = None if self.library is None or cell is None else trained(self.rules.settings, cell)
        if self.library is not None and model is not None:
            self.library.keep(model)
