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
from autotrascale.domain.look import Look, Rescaled
from autotrascale.domain.snapshot import Snapshot
from autotrascale.execute.live import LiveJob
from autotrascale.plan.control.autoscaling.prediction import trained
from autotrascale.plan.control.loop_state import Entry, Parallelism, Rules, State
from autotrascale.plan.control.orders import Order
from autotrascale.plan.control.step import Event, Instruction, Keep, LookTaken, Rescale, RescaleEnded, Start, step
from autotrascale.plan.search.benefit_model import BenefitModel

__all__ = [
    "Event",
    "Instruction",
    "Journal",
    "Keep",
    "Library",
    "LookTaken",
    "Loop",
    "Rescale",
    "RescaleEnded",
    "Start",
    "step",
]

ROUNDING = 1e-6  # seconds that are left over by rounding
HOPELESS = 5  # starts in a row that failed: the engine is broken, and the loop cannot mend it


class Journal(Protocol):
    def begin(self, rules: Rules) -> None:
        """From here on a process decides by these rules."""
        ...

    def record(self, state: State, entry: Entry, event: Event) -> None:
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
        self,
        live: LiveJob,
        rules: Rules,
        *,
        initial: Parallelism,
        state: State | None = None,
        journal: Journal | None = None,
        library: Library | None = None,
        report: Report = lambda _, __: None,
        services: Callable[[], Mapping[str, float]] = dict,
        slots_left: Callable[[], int | None] = lambda: None,
        seen: Callable[[Snapshot], None] = lambda _: None,
        check_ours: Callable[[bool], None] = lambda _: None,
        orders: Callable[[int], tuple[Order, ...]] = lambda _: (),
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
        self.happened(self._with_orders(LookTaken(first)))
        begun, interval = self.state.clock.now, self.rules.knobs.interval_seconds
        while (left := math.inf if seconds is None else begun + seconds - self.state.clock.now) > ROUNDING:
            self.live.wait(min(interval, left))
            self.turn()
        return self.state

    def turn(self) -> None:
        self.happened(self._with_orders(self._look()))

    def happened(self, event: Event) -> None:
        if isinstance(event, LookTaken) and event.look.snapshot is not None:
            self.seen(event.look.snapshot)
        self.state, instructions = step(self.rules, self.state, event, event.at)
        for instruction in instructions:
            self._do(instruction, event)

    def _with_orders(self, taken: LookTaken) -> LookTaken:
        return replace(taken, orders=self.orders(self.state.orders.taken))

    def _look(self) -> LookTaken:
        """An engine that cannot be reached, or a monitor that reports what cannot be, is a look without a snapshot:
        nothing is known, not even that the job stopped."""
        try:
            return LookTaken(self.live.look(), self.services(), self.slots_left())
        except (EngineError, InputError) as error:
            at = (self.state.clock.read or 0.0) + self.rules.knobs.interval_seconds
            return LookTaken(Look(at, self.state.observed or self.initial, None, detail=str(error)))

    def _do(self, instruction: Instruction, event: Event) -> None:
        self.check_ours(not isinstance(instruction, Entry))
        match instruction:
            case Entry():
                if self.journal is not None:
                    self.journal.record(self.state, instruction, event)
                self.report(self.state, instruction)
            case Rescale(parallelism):
                self.happened(RescaleEnded(self._rescale(parallelism)))
            case Start(parallelism):
                self._start(parallelism or self.initial)
            case Keep(rate):
                self._keep(rate)

    def _rescale(self, parallelism: Parallelism) -> Rescaled:
        """An engine that breaks over it is a rescale that failed; the next look says what is left of the job. So is one
        that somebody else has the right to, or that asks for what the engine cannot give."""
        try:
            with self.rescaling():
                return self.live.rescale(parallelism)
        except (EngineError, InputError, RunStoreError) as error:
            return Rescaled(self.state.clock.read or 0.0, False, self.state.observed, detail=str(error))

    def _start(self, parallelism: Parallelism) -> None:
        try:
            self.live.start(parallelism)
        except EngineError:
            if self.state.starts >= HOPELESS:
                raise

    def _keep(self, rate: float) -> None:
        if self.library is None:
            return
        model = trained(self.rules.settings, self.state.memory.readings, rate)
        if model is not None:
            self.library.keep(model)
