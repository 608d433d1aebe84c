"""The control loop: it keeps a running job within its latency target while the input rate changes (§IV, MAPE-K).

Each turn has three steps: observe the job, decide with the pure `plan/control/step.py`, execute the decision.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Protocol

from autotrascale.domain.errors import EngineError, InputError, RunStoreError
from autotrascale.domain.observation import Observation, RescaleResult
from autotrascale.domain.snapshot import Snapshot
from autotrascale.execute.live_job import LiveJob
from autotrascale.plan.control.autoscaling.prediction import train_model
from autotrascale.plan.control.commands import LoopCommand
from autotrascale.plan.control.events import (
    Event,
    Instruction,
    KeepModel,
    ObservationTaken,
    RescaleEnded,
    RescaleJob,
    StartJob,
)
from autotrascale.plan.control.loop_state import DecisionEntry, Parallelism, Rules, State
from autotrascale.plan.control.step import step
from autotrascale.plan.search.benefit_model import BenefitModel

ROUNDING_SECONDS = 1e-6  # a remaining time below this is a rounding error
MAX_FAILED_STARTS = 5  # in a row; then the engine is broken, and the loop gives up


class LoopJournal(Protocol):
    """The journal of a loop's decisions. Users' commands arrive through it, too."""

    def begin(self, rules: Rules) -> None:
        """Record that this process decides by `rules` from now on."""
        ...

    def record(self, state: State, entry: DecisionEntry, event: Event) -> None:
        """Store one step. The data is durable on return; if the store is away, it is spooled and reported."""
        ...

    def commands_after(self, number: int) -> tuple[LoopCommand, ...]:
        """Return the users' commands with a higher number than `number`."""
        ...


class ModelRecorder(Protocol):
    """The store of trained benefit models."""

    def keep(self, model: BenefitModel) -> None:
        """Store `model`. If the store is away, the model is spooled and the failure reported."""
        ...


class LoopInputs:
    """Inputs of a decision beside the observation. The defaults: no watched services, no shared quota."""

    def service_latencies(self) -> Mapping[str, float]:
        """Return the latency in seconds of each service that the job calls."""
        return {}

    def slots_left(self) -> int | None:
        """Return the slots of a shared quota that other jobs leave, this job's own included. None: no quota."""
        return None


class LoopLease:
    """The right to change the job. The default never refuses."""

    def check(self, *, is_change: bool) -> None:
        """Raise if another process took over the job. `is_change`: the job is about to be changed."""

    def for_rescale(self) -> AbstractContextManager[object]:
        """Return a context that holds the right during one rescale."""
        return nullcontext()


class LoopListener:
    """A receiver of the loop's results. The default ignores them."""

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """Receive each snapshot, before it is decided on."""

    def on_entry(self, state: State, entry: DecisionEntry) -> None:
        """Receive each journal entry, after it is recorded."""


@dataclass(frozen=True)
class LoopCollaborators:
    """The objects around a loop. With the defaults a loop runs without a store, a lease or an audience."""

    journal: LoopJournal | None = None
    models: ModelRecorder | None = None
    inputs: LoopInputs = field(default_factory=LoopInputs)
    lease: LoopLease = field(default_factory=LoopLease)
    listener: LoopListener = field(default_factory=LoopListener)


class Loop:
    """The control loop of one job. The job stays open; closing it is the caller's task.

    Args:
        live: the job.
        rules: what does not change while the loop runs. Topology and `p_max` default to the job's own.
        initial: the parallelism for the first start of a job that never ran.
        state: the state that an earlier process left; default: a new one.
        around: journal, models, inputs, lease and listener.
    """

    def __init__(
        self,
        live: LiveJob,
        rules: Rules,
        *,
        initial: Parallelism,
        state: State | None = None,
        around: LoopCollaborators | None = None,
    ) -> None:
        self.live, self.initial, self.state = live, initial, state or State()
        rules = rules if rules.topology is not None else replace(rules, topology=live.topology)
        self.rules = rules if rules.p_max is not None else replace(rules, p_max=live.p_max)
        self.around = around or LoopCollaborators()
        if self.around.journal is not None:
            self.around.journal.begin(self.rules)

    def run(self, seconds: float | None = None) -> State:
        """Start the job if needed, control it for `seconds` of its own clock (None: for ever), and return the state.

        A loop that only advises starts nothing.
        """
        first = self.live.observe() if self.rules.advise else self.live.start(self.state.observed or self.initial)
        self.process_event(self._add_commands(ObservationTaken(first)))
        begun, interval = self.state.clock.now, self.rules.knobs.interval_seconds
        while (left := math.inf if seconds is None else begun + seconds - self.state.clock.now) > ROUNDING_SECONDS:
            self.live.wait(min(interval, left))
            self.run_once()
        return self.state

    def run_once(self) -> None:
        """Observe the job once, decide, and execute the decision."""
        self.process_event(self._add_commands(self._observe()))

    def process_event(self, event: Event) -> None:
        """Decide on `event` and execute the decision."""
        if isinstance(event, ObservationTaken) and event.observation.snapshot is not None:
            self.around.listener.on_snapshot(event.observation.snapshot)
        self.state, instructions = step(self.rules, self.state, event, event.at)
        for instruction in instructions:
            self._execute(instruction, event)

    # -- observe -----------------------------------------------------------------------------------------------------

    def _observe(self) -> ObservationTaken:
        """Observe the job. If the engine cannot be reached, or reports nonsense, the observation has no snapshot.

        Such an observation does not say that the job stopped: it repeats the parallelism seen last.
        """
        try:
            inputs = self.around.inputs
            return ObservationTaken(self.live.observe(), inputs.service_latencies(), inputs.slots_left())
        except (EngineError, InputError) as error:
            at = (self.state.clock.read or 0.0) + self.rules.knobs.interval_seconds
            return ObservationTaken(Observation(at, self.state.observed or self.initial, None, detail=str(error)))

    def _add_commands(self, taken: ObservationTaken) -> ObservationTaken:
        journal = self.around.journal
        if journal is None:
            return taken
        return replace(taken, commands=journal.commands_after(self.state.commands.last_number))

    # -- execute -----------------------------------------------------------------------------------------------------

    def _execute(self, instruction: Instruction, event: Event) -> None:
        self.around.lease.check(is_change=not isinstance(instruction, DecisionEntry))
        match instruction:
            case DecisionEntry():
                if self.around.journal is not None:
                    self.around.journal.record(self.state, instruction, event)
                self.around.listener.on_entry(self.state, instruction)
            case RescaleJob(parallelism):
                self.process_event(RescaleEnded(self._rescale(parallelism)))
            case StartJob(parallelism):
                self._start(parallelism or self.initial)
            case KeepModel(rate):
                self._store_model(rate)

    def _rescale(self, parallelism: Parallelism) -> RescaleResult:
        """Rescale the job. An error is a failed rescale; the next observation shows the state of the job.

        Errors: the engine breaks or cannot provide `parallelism`, or another process holds the right to rescale.
        """
        try:
            with self.around.lease.for_rescale():
                return self.live.rescale(parallelism)
        except (EngineError, InputError, RunStoreError) as error:
            return RescaleResult(self.state.clock.read or 0.0, False, self.state.observed, detail=str(error))

    def _start(self, parallelism: Parallelism) -> None:
        try:
            self.live.start(parallelism)
        except EngineError:
            if self.state.starts >= MAX_FAILED_STARTS:
                raise

    def _store_model(self, rate: float) -> None:
        if self.around.models is None:
            return
        model = train_model(self.rules.settings, self.state.memory.readings, rate)
        if model is not None:
            self.around.models.keep(model)
