"""The control loop: it keeps a running job within its latency target while its rate goes up and down (§IV, MAPE).

`plan/control/step.py` decides, and is pure. `Loop` looks at the job, does what the step says, and writes it down.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Protocol

from autotrascale.domain.errors import EngineError, InputError, RunStoreError
from autotrascale.domain.observation import Observation, RescaleResult
from autotrascale.domain.snapshot import Snapshot
from autotrascale.execute.live_job import LiveJob
from autotrascale.plan.control.autoscaling.prediction import train_model
from autotrascale.plan.control.commands import LoopCommand
from autotrascale.plan.control.loop_state import DecisionEntry, Parallelism, Rules, State
from autotrascale.plan.control.step import (
    Event,
    Instruction,
    KeepModel,
    ObservationTaken,
    RescaleEnded,
    RescaleJob,
    StartJob,
    step,
)
from autotrascale.plan.search.benefit_model import BenefitModel

__all__ = [
    "Event",
    "Instruction",
    "KeepModel",
    "Loop",
    "LoopJournal",
    "ModelRecorder",
    "ObservationTaken",
    "RescaleEnded",
    "RescaleJob",
    "StartJob",
    "step",
]

ROUNDING = 1e-6  # seconds that are left over by rounding
MAX_FAILED_STARTS = 5  # starts in a row that failed: the engine is broken, and the loop cannot mend it


class LoopJournal(Protocol):
    def begin(self, rules: Rules) -> None:
        """From here on a process decides by these rules."""
        ...

    def record(self, state: State, entry: DecisionEntry, event: Event) -> None:
        """Kept when this returns. Where that is not possible it is spooled, and said."""
        ...


class ModelRecorder(Protocol):
    def keep(self, model: BenefitModel) -> None:
        """As `Journal.record`."""
        ...


Report = Callable[[State, DecisionEntry], None]


class Loop:
    """One job, kept until `seconds` of its time are over, or for ever; the job stays open, it is the caller's."""

    def __init__(
        self,
        live: LiveJob,
        rules: Rules,
        *,
        initial: Parallelism,
        state: State | None = None,
        journal: LoopJournal | None = None,
        library: ModelRecorder | None = None,
        report: Report = lambda _, __: None,
        services: Callable[[], Mapping[str, float]] = dict,
        slots_left: Callable[[], int | None] = lambda: None,
        seen: Callable[[Snapshot], None] = lambda _: None,
        check_ours: Callable[[bool], None] = lambda _: None,
        orders: Callable[[int], tuple[LoopCommand, ...]] = lambda _: (),
        rescaling: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self.live, self.initial, self.state = live, initial, state or State()
        rules = rules if rules.topology is not None else replace(rules, topology=live.topology)
        self.rules = rules if rules.p_max is not None else replace(rules, p_max=live.p_max)
        self.journal, self.library, self.report, self.services = journal, library, report, services
        self.slots_left = slots_left  # of a quota that jobs share, this one's own included
        self.seen = seen  # told of each snapshot
        self.check_ours = check_ours  # told whether the job is to be touched; raises when another process keeps it
        self.orders = orders  # of people, those that came after the one of this number
        self.rescaling = rescaling  # what has to be held while the job is rescaled
        if journal is not None:
            journal.begin(self.rules)

    def run(self, seconds: float | None = None) -> State:
        """The job as it is found, or as it was left; begun where it never ran. `seconds` are of the job's clock."""
        first = self.live.look() if self.rules.advise else self.live.start(self.state.observed or self.initial)
        self.happened(self._with_orders(ObservationTaken(first)))
        begun, interval = self.state.clock.now, self.rules.knobs.interval_seconds
        while (left := math.inf if seconds is None else begun + seconds - self.state.clock.now) > ROUNDING:
            self.live.wait(min(interval, left))
            self.turn()
        return self.state

    def turn(self) -> None:
        self.happened(self._with_orders(self._look()))

    def happened(self, event: Event) -> None:
        if isinstance(event, ObservationTaken) and event.look.snapshot is not None:
            self.seen(event.look.snapshot)
        self.state, instructions = step(self.rules, self.state, event, event.at)
        for instruction in instructions:
            self._do(instruction, event)

    def _with_orders(self, taken: ObservationTaken) -> ObservationTaken:
        return replace(taken, orders=self.orders(self.state.orders.taken))

    def _look(self) -> ObservationTaken:
        """An engine that cannot be reached, or a monitor that reports what cannot be, is a look without a snapshot:
        nothing is known, not even that the job stopped."""
        try:
            return ObservationTaken(self.live.look(), self.services(), self.slots_left())
        except (EngineError, InputError) as error:
            at = (self.state.clock.read or 0.0) + self.rules.knobs.interval_seconds
            return ObservationTaken(Observation(at, self.state.observed or self.initial, None, detail=str(error)))

    def _do(self, instruction: Instruction, event: Event) -> None:
        self.check_ours(not isinstance(instruction, DecisionEntry))
        match instruction:
            case DecisionEntry():
                if self.journal is not None:
                    self.journal.record(self.state, instruction, event)
                self.report(self.state, instruction)
            case RescaleJob(parallelism):
                self.happened(RescaleEnded(self._rescale(parallelism)))
            case StartJob(parallelism):
                self._start(parallelism or self.initial)
            case KeepModel(rate):
                self._keep(rate)

    def _rescale(self, parallelism: Parallelism) -> RescaleResult:
        """An engine that breaks over it is a rescale that failed; the next look says what is left of the job. So is one
        that somebody else has the right to, or that asks for what the engine cannot give."""
        try:
            with self.rescaling():
                return self.live.rescale(parallelism)
        except (EngineError, InputError, RunStoreError) as error:
            return RescaleResult(self.state.clock.read or 0.0, False, self.state.observed, detail=str(error))

    def _start(self, parallelism: Parallelism) -> None:
        try:
            self.live.start(parallelism)
        except EngineError:
            if self.state.starts >= MAX_FAILED_STARTS:
                raise

    def _keep(self, rate: float) -> None:
        if self.library is None:
            return
        model = train_model(self.rules.settings, self.state.memory.readings, rate)
        if model is not None:
            self.library.keep(model)
