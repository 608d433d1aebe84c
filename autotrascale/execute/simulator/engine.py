"""The simulated trial engine: runs a simulated job for one window at a time and reports it like a real engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from autotrascale.closeable import Closeable
from autotrascale.domain import checks
from autotrascale.domain.errors import EngineError
from autotrascale.domain.topology import Topology, check_parallelism, check_source_rates
from autotrascale.domain.trial import Trial, Verdict
from autotrascale.execute.simulator.simulated_job import SimulatedJob
from autotrascale.execute.simulator.steady_state import CompiledJob, compile_job
from autotrascale.execute.simulator.window_snapshot import Window, make_snapshot, steady_latency

Failure = Callable[[Mapping[str, int]], str | None]
THROUGHPUT_NOISE = 0.2  # share of the noise of times: a sustained rate is an average over the whole window


class SimulatorEngine(Closeable):
    """An `Engine` for simulated jobs. The same seed and sequence of runs give the same trials.

    >>> engine = SimulatorEngine(case.job, case.topology, p_max=40, seed=0)
    >>> engine.run({"source": 3, "flatmap": 4}, {"source": 350_000}).snapshot.latency_seconds.mean
    """

    simulated = True

    def __init__(
        self,
        job: SimulatedJob,
        topology: Topology,
        *,
        p_max: int,
        seed: int = 0,
        name: str = "simulated",
        window_seconds: float = 60.0,
        fails: Failure | None = None,
    ) -> None:
        """Prepare the engine.

        Args:
            job: the job.
            topology: its operators.
            p_max: upper bound of each operator.
            seed: seed of the noise; each run draws its own noise from the seed and its number.
            name: name of the job in snapshots.
            window_seconds: length of a window.
            fails: returns the failure at a parallelism, or None; the trial then has the verdict `failed`.
        """
        job.check_fits(topology)
        checks.count("p_max", p_max)
        checks.count("seed", seed, least=0)
        checks.positive("window_seconds", window_seconds)
        self.job = job
        self.topology = topology
        self.p_max = p_max
        self.runs = 0
        self._seed = seed
        self._name = name
        self._window_seconds = window_seconds
        self._fails = fails
        self._running: tuple[int, ...] | None = None
        self._closed = False

    def run(self, parallelism: Mapping[str, int], source_rates: Mapping[str, float]) -> Trial:
        """Run one window at this parallelism and these source rates (records/s)."""
        if self._closed:
            raise EngineError("the simulated engine is closed: open a new one")
        k = self._vector(parallelism)
        check_source_rates(self.topology, source_rates)
        rng = np.random.default_rng([self._seed, self.runs])
        self.runs += 1
        standstill = self._rescale_to(k)
        problem = self._fails(parallelism) if self._fails else None
        if problem is not None:
            self._running = None
            return Trial(dict(parallelism), Verdict.FAILED, detail=problem, standstill_seconds=standstill)
        return self._measure(compile_job(self.job, self.topology, source_rates), k, source_rates, standstill, rng)

    def _measure(
        self,
        compiled: CompiledJob,
        k: tuple[int, ...],
        source_rates: Mapping[str, float],
        standstill: float,
        rng: np.random.Generator,
    ) -> Trial:
        state = compiled.steady(k)
        slow, busy = self.job.noise * rng.standard_normal(2)
        capacity = float(state.capacity[0])
        keeps_up = bool(np.isfinite(state.latency[0]))
        # Noise must not turn a job that falls behind into one that keeps up.
        share = 1.0 if keeps_up else min(capacity * float(np.exp(THROUGHPUT_NOISE * busy)), (1 + capacity) / 2)
        window = Window(
            seconds=self._window_seconds,
            source_rates=source_rates,
            share=share,
            backlog_records=compiled.offered * (1 - share) * self._window_seconds,
            latency_seconds=steady_latency(compiled, state, float(np.exp(slow))),
        )
        return Trial(
            parallelism=self.topology.named(k),
            verdict=Verdict.STABLE if keeps_up else Verdict.CANNOT_KEEP_UP,
            snapshot=make_snapshot(self._name, self.topology, compiled, k, window, self.p_max, rng),
            detail="" if keeps_up else f"simulated: processes {share:.1%} of the offered rate",
            standstill_seconds=standstill,
        )

    def _vector(self, parallelism: Mapping[str, int]) -> tuple[int, ...]:
        check_parallelism(self.topology, parallelism, self.p_max)
        return self.topology.vector(parallelism)

    def _rescale_to(self, k: tuple[int, ...]) -> float:
        """Return the seconds of standstill, 0 if the job has this parallelism already or was not running."""
        before, self._running = self._running, k
        return 0.0 if before is None or before == k else rescale_seconds(self.job, self.topology, k)

    def close(self) -> None:
        self._closed = True


def rescale_seconds(job: SimulatedJob, topology: Topology, k: tuple[int, ...]) -> float:
    """Return the standstill of a rescale to `k`: a fixed part, and a part for each state partition."""
    partitions = sum(n for n, operator in zip(k, topology.operators.values(), strict=True) if operator.stateful)
    return job.rescale.fixed_seconds + job.rescale.partition_seconds * partitions
