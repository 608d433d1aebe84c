"""A simulated job for the control loop: a `LiveJob` with a clock of its own, which `wait` moves forward."""

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
STEP_SECONDS = 10.0  # length of a step, in which the rate is constant
_FILE = "simulated-job.json"


class SimulatedLiveJob(Closeable):
    """A running simulated job."""

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
        """Prepare the job.

        Args:
            job: the job.
            topology: its operators.
            source_rates: mix of the sources.
            schedule: rate of all sources together over time.
            p_max: upper bound of each operator.
            seed: seed of the noise.
            name: name of the job.
            home: folder in which a later process finds the time, the backlog and the parallelism.
            witness: called with each step and the parallelism that ran: the truth, which no control loop sees.
        """
        self.name, self.topology, self.p_max = name, topology, p_max
        self._job, self._mix, self._schedule, self._seed = job, dict(source_rates), schedule, seed
        self._home, self._witness = home, witness
        self._fluid: FluidJob | None = None
        self._unseen = 0.0  # seconds since the last observation or change
        self._running = False
        self._why_down = "the job was never started"

    def start(self, parallelism: Parallelism) -> Observation:
        """Start the job if it is down, and return an observation. A job in the home continues where it was left."""
        if not self._running:
            k = self._vector(parallelism)
            self._fluid = self._fluid or self._read_home() or self._make_fluid_job(k)
            self._running = True
            self._write_home()
        return self.observe()

    def observe(self) -> Observation:
        """Return the state of the job, measured since the last observation or change."""
        fluid = self._fluid
        if fluid is None or not self._running:
            return Observation(0.0 if fluid is None else fluid.time, None, None, detail=self._why_down)
        running = self.topology.named(fluid.parallelism)
        if self._unseen == 0:
            return Observation(fluid.time, running, None, detail="no time has passed since the last observation")
        self._unseen = 0.0
        expected = self._expect_rescale_time(fluid.parallelism)
        return Observation(fluid.time, running, fluid.snapshot(), measured_at=fluid.time, rescale=expected)

    def rescale(self, parallelism: Parallelism) -> RescaleResult:
        """Change the parallelism. The time of the rescale passes meanwhile."""
        k = self._vector(parallelism)
        fluid = self._started()
        if not self._running:
            return RescaleResult(fluid.time, False, None, detail=self._why_down)
        both = 0.0 if k == fluid.parallelism else self._job.rescale.both_seconds
        self._advance(both, beside=k)
        standstill = fluid.rescale(k)
        self._advance(standstill)
        self._discard_standstill()
        self._write_home()
        return RescaleResult(
            fluid.time, True, self.topology.named(k), standstill, {"standstill": standstill}, overlap_seconds=both
        )

    def _expect_rescale_time(self, k: tuple[int, ...]) -> RescaleTime:
        return RescaleTime(rescale_seconds(self._job, self.topology, k), self._job.rescale.both_seconds)

    def wait(self, seconds: float) -> None:
        """Let `seconds` of simulated time pass."""
        checks.non_negative("seconds", seconds)
        self._started()
        self._advance(seconds)

    def kill(self, why: str = "the simulated job was killed") -> None:
        """Stop the job like a failed machine: nothing is processed, and new records wait."""
        self._running, self._why_down = False, why

    def close(self) -> None:
        if self._running:
            self._write_home()
        self._running, self._why_down = False, "the job was closed"

    def _advance(self, seconds: float, beside: tuple[int, ...] = ()) -> None:
        """Let time pass in steps. `beside` is a second parallelism that runs at the same time for a later takeover."""
        fluid, left = self._started(), seconds
        while left > 1e-9:
            piece = min(left, STEP_SECONDS - fluid.time % STEP_SECONDS or STEP_SECONDS)
            if not self._running:
                fluid.standstill_left = max(fluid.standstill_left, piece)
            step = fluid.step(piece, float(self._schedule(fluid.time)))
            left -= piece
            self._unseen += piece
            if self._witness is not None:
                self._witness(step, (*fluid.parallelism, *beside))

    def _started(self) -> FluidJob:
        if self._fluid is None:
            raise EngineError("the simulated job was never started")
        return self._fluid

    def _discard_standstill(self) -> None:
        if self._unseen:
            self._started().snapshot()
        self._unseen = 0.0

    def _make_fluid_job(self, k: tuple[int, ...]) -> FluidJob:
        return FluidJob(self._job, self.topology, self._mix, k, p_max=self.p_max, seed=self._seed, name=self.name)

    def _vector(self, parallelism: Parallelism) -> tuple[int, ...]:
        check_parallelism(self.topology, parallelism, self.p_max)
        return self.topology.vector(parallelism)

    # -- the home ------------------------------------------------------------------------------------------------------

    def _write_home(self) -> None:
        if self._home is None or self._fluid is None:
            return
        record = {
            "time": self._fluid.time,
            "backlog": self._fluid.backlog,
            "parallelism": self.topology.named(self._fluid.parallelism),
        }
        self._home.mkdir(parents=True, exist_ok=True)
        write_atomically(self._home / _FILE, json.dumps(record))

    def _read_home(self) -> FluidJob | None:
        """Return the job that an earlier process left; None if there is none that fits and can be read."""
        path = None if self._home is None else self._home / _FILE
        if path is None or not path.exists():
            return None
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            fluid = self._make_fluid_job(self._vector(record["parallelism"]))
            fluid.time, fluid.backlog = float(record["time"]), float(record["backlog"])
        except (ValueError, KeyError, TypeError):
            return None
        return fluid
