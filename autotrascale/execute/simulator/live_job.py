"""A simulated job that runs by itself: its clock is its own, and `wait` moves it.

What the world offers is a schedule of that clock. With a `home`, a file there keeps where the job was left, so that a
later process finds it: a simulated job stands still while nobody simulates it. `witness` is shown every step, with the
parallelism that ran: what happened in truth, which no loop is told.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from autotrascale.atomic_files import write_atomically
from autotrascale.closeable import Closeable
from autotrascale.domain import checks
from autotrascale.domain.errors import EngineError
from autotrascale.domain.observation import Observation, RescaleResult, RescaleTime
from autotrascale.domain.topology import Topology, check_parallelism
from autotrascale.execute.simulator.engine import rescale_seconds
from autotrascale.execute.simulator.fluid_job import FluidJob, FluidStep
from autotrascale.execute.simulator.rate_functions import RateFunction
from autotrascale.execute.simulator.simulated_job import SimulatedJob

Parallelism = Mapping[str, int]
Witness = Callable[[FluidStep, tuple[int, ...]], None]
STEP_SECONDS = 10.0  # rates are taken as constant for so long
_FILE = "simulated-job.json"


class SimulatedLiveJob(Closeable):
    simulated = True

    def __init__(
        self,
        job: SimulatedJob,
        topology: Topology,
        source_rates: Mapping[str, float],
        schedule: RateFunction,
        *,
        p_max: int,
        seed: int = 0,
        name: str = "simulated",
        home: Path | None = None,
        witness: Witness | None = None,
    ) -> None:
        """`schedule` gives the rate of all sources together, `source_rates` their mix."""
        self.name, self.topology, self.p_max = name, topology, p_max
        self._job, self._mix, self._schedule, self._seed = job, dict(source_rates), schedule, seed
        self._home, self._witness = home, witness
        self._fluid: FluidJob | None = None
        self._unseen = 0.0  # seconds since the look before, or the last change
        self._running = False
        self._why_down = "the job was never started"

    def start(self, parallelism: Parallelism) -> Observation:
        if not self._running:
            k = self._vector(parallelism)
            self._fluid = self._fluid or self._left() or self._fluid_job(k)
            self._running = True
            self._keep()
        return self.observe()

    def observe(self) -> Observation:
        fluid = self._fluid
        if fluid is None or not self._running:
            return Observation(0.0 if fluid is None else fluid.time, None, None, detail=self._why_down)
        running = self.topology.named(fluid.parallelism)
        if self._unseen == 0:
            return Observation(fluid.time, running, None, detail="no time has passed since the last look")
        self._unseen = 0.0
        expected = self._rescale_time(fluid.parallelism)
        return Observation(fluid.time, running, fluid.snapshot(), measured_at=fluid.time, rescale=expected)

    def rescale(self, parallelism: Parallelism) -> RescaleResult:
        k = self._vector(parallelism)
        fluid = self._started()
        if not self._running:
            return RescaleResult(fluid.time, False, None, detail=self._why_down)
        both = 0.0 if k == fluid.parallelism else self._job.rescale.both_seconds
        self._pass(both, beside=k)
        downtime = fluid.rescale(k)
        self._pass(downtime)
        self._forget()
        self._keep()
        return RescaleResult(
            fluid.time, True, self.topology.named(k), downtime, {"standstill": downtime}, overlap_seconds=both
        )

    def _rescale_time(self, k: tuple[int, ...]) -> RescaleTime:
        return RescaleTime(rescale_seconds(self._job, self.topology, k), self._job.rescale.both_seconds)

    def wait(self, seconds: float) -> None:
        checks.non_negative("seconds", seconds)
        self._started()
        self._pass(seconds)

    def kill(self, why: str = "the simulated job was killed") -> None:
        """As a machine that fails would: nothing is processed any more, and what arrives waits."""
        self._running, self._why_down = False, why

    def close(self) -> None:
        if self._running:
            self._keep()
        self._running, self._why_down = False, "the job was closed"

    def _pass(self, seconds: float, beside: tuple[int, ...] = ()) -> None:
        """`beside` runs too, and takes nothing from the job: it is made ready to take over from it."""
        fluid, left = self._started(), seconds
        while left > 1e-9:
            piece = min(left, STEP_SECONDS - fluid.time % STEP_SECONDS or STEP_SECONDS)
            if not self._running:
                fluid.downtime_left = max(fluid.downtime_left, piece)
            step = fluid.step(piece, float(self._schedule(fluid.time)))
            left -= piece
            self._unseen += piece
            if self._witness is not None:
                self._witness(step, (*fluid.parallelism, *beside))

    def _started(self) -> FluidJob:
        if self._fluid is None:
            raise EngineError("the simulated job was never started")
        return self._fluid

    def _forget(self) -> None:
        """A standstill is no measurement."""
        if self._unseen:
            self._started().snapshot()
        self._unseen = 0.0

    def _fluid_job(self, k: tuple[int, ...]) -> FluidJob:
        return FluidJob(self._job, self.topology, self._mix, k, p_max=self.p_max, seed=self._seed, name=self.name)

    def _vector(self, parallelism: Parallelism) -> tuple[int, ...]:
        check_parallelism(self.topology, parallelism, self.p_max)
        return self.topology.vector(parallelism)

    # -- what a later process finds -----------------------------------------------------------------------------------

    def _keep(self) -> None:
        if self._home is None or self._fluid is None:
            return
        left = {
            "time": self._fluid.time,
            "backlog": self._fluid.backlog,
            "parallelism": self.topology.named(self._fluid.parallelism),
        }
        self._home.mkdir(parents=True, exist_ok=True)
        write_atomically(self._home / _FILE, json.dumps(left))

    def _left(self) -> FluidJob | None:
        """The job as an earlier process left it; of another shape, or unreadable, it is begun anew."""
        path = None if self._home is None else self._home / _FILE
        if path is None or not path.exists():
            return None
        try:
            left = json.loads(path.read_text(encoding="utf-8"))
            fluid = self._fluid_job(self._vector(left["parallelism"]))
            fluid.time, fluid.backlog = float(left["time"]), float(left["backlog"])
        except (ValueError, KeyError, TypeError):
            return None
        return fluid
