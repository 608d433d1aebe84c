"""A simulated job over time: a fluid model with backlog, back-pressure and standstill, O(operators) for each step.

| symbol | meaning | unit |
|---|---|---|
| r | offered rate of all sources together, constant within a step | records/s |
| C(k) | capacity at k for the mix of sources; independent of r | records/s |
| Q | backlog: records that wait at the sources | records |
| d, a | standstill and working time within a step | s |
| D | remaining standstill | s |

dQ/dt = r during a standstill, r − C while Q > 0 or r > C, and 0 otherwise. A record waits D + Q/C, first in, first out,
and then has the steady latency at the present rate. differs: a real queue has no such limit, but the steady latency is
taken at 98 % of C at most, since more load is backlog here; batches reach their length at once; all sources keep their
share of the rate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from autotrascale.domain import checks
from autotrascale.domain.errors import InputError
from autotrascale.domain.snapshot import Latency, Snapshot
from autotrascale.domain.topology import Topology
from autotrascale.execute.simulator.engine import rescale_seconds
from autotrascale.execute.simulator.simulated_job import SimulatedJob
from autotrascale.execute.simulator.steady_state import CompiledJob, compile_job
from autotrascale.execute.simulator.window_snapshot import (
    LN2,
    LN20,
    LN100,
    QUANTILES,
    Window,
    backpressure,
    make_snapshot,
)

FULL = 0.98  # share of the capacity up to which the steady latency is computed


class FluidStep(NamedTuple):
    """The course of the job between `time − seconds` and `time`.

    Attributes:
        time: end of the step in seconds.
        seconds: length of the step.
        offered: records that arrived.
        processed: records that were processed.
        backlog: records that wait at the end.
        latency: mean latency of the records that arrived, in seconds.
        pressed: share of the step in which the job ran at capacity.
        down: seconds of standstill.
    """

    time: float
    seconds: float
    offered: float
    processed: float
    backlog: float
    latency: float
    pressed: float
    down: float

    @property
    def throughput(self) -> float:
        return self.processed / self.seconds


@dataclass(frozen=True, eq=False)
class Profile:
    """The solution of one parallelism vector, which gives the latency at a rate in a few multiplications.

    A pipelined operator with utilisation u = r/C_i waits unit_i·u^e_i/(1 − u) in its own queue and outer_i·u'/(1 − u')
    before its external limit. `prompt` does not depend on the rate.
    """

    k: tuple[int, ...]
    capacity: float  # C(k)
    order: tuple[int, ...]
    upstream: tuple[tuple[int, ...], ...]
    sinks: tuple[int, ...]
    prompt: tuple[float, ...]
    path_prompt: float  # prompt of the longest path
    per_rate: tuple[float, ...]  # utilisation of i per record/s
    unit: tuple[float, ...]
    exponent: tuple[float, ...]
    outer_per_rate: tuple[float, ...]
    outer_unit: tuple[float, ...]
    batch_overhead: float | None  # o(k), None for a pipelined job
    pressure: tuple[float, ...]  # back-pressure of each operator while the job runs at capacity

    def latency(self, rate: float) -> float:
        """Return the steady mean latency at `rate`, or at 98 % of the capacity for a higher rate."""
        rate = min(rate, FULL * self.capacity)
        if self.batch_overhead is not None:
            return 1.5 * self.batch_overhead / (1 - rate / self.capacity)
        arrived = [0.0] * len(self.k)
        for i in self.order:
            before = max((arrived[up] for up in self.upstream[i]), default=0.0)
            arrived[i] = before + self.prompt[i] + self._wait(i, rate)
        return max([arrived[i] for i in self.sinks])

    def quantiles(self, rate: float) -> tuple[float, float, float]:
        """Return the distance of the 50, 95 and 99 % quantiles of the steady latency from its mean."""
        mean = self.latency(rate)
        low, middle, high = QUANTILES
        if self.batch_overhead is not None:  # uniform between b and 2b
            return mean * (low - 0.5) / 1.5, mean * (middle - 0.5) / 1.5, mean * (high - 0.5) / 1.5
        wait = mean - self.path_prompt
        return wait * (LN2 - 1), wait * (LN20 - 1), wait * (LN100 - 1)

    def _wait(self, i: int, rate: float) -> float:
        u, outer = self.per_rate[i] * rate, self.outer_per_rate[i] * rate
        own: float = self.unit[i] * u ** self.exponent[i] / (1 - u)  # float ** float is Any to a type checker
        return own + self.outer_unit[i] * outer / (1 - outer)


def solve_profile(compiled: CompiledJob, k: tuple[int, ...]) -> Profile:
    """Return the profile of one vector. The rates in `compiled` only give the mix of sources."""
    rate = compiled.offered
    state = compiled.steady(k)
    capacity = float(state.capacity[0]) * rate
    stations = compiled.stations(np.asarray([k], dtype=np.float64), state.service)
    micro = compiled.job.execution == "micro-batch"
    return Profile(
        k=k,
        capacity=capacity,
        order=compiled.order,
        upstream=compiled.upstream,
        sinks=compiled.sinks,
        prompt=_floats(stations.prompt[0]),
        path_prompt=float(state.prompt[0]),
        per_rate=_floats(state.utilisation[0] / rate),
        unit=_floats(stations.unit[0]),
        exponent=_floats(stations.exponent[0]),
        outer_per_rate=_floats(compiled.external / rate),
        outer_unit=_floats(stations.outer_unit),
        batch_overhead=float(state.overhead_seconds[0]) if micro else None,
        pressure=backpressure(compiled, state, capacity / rate),
    )


def _floats(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


class FluidJob:
    """A running job: `step` lets time pass, `rescale` changes the parallelism, `snapshot` measures.

    >>> running = FluidJob(case.job, case.topology, case.source_rates, (3, 4, 12, 10), p_max=40)
    >>> running.step(10.0, 350_000.0).backlog
    0.0
    """

    def __init__(
        self,
        job: SimulatedJob,
        topology: Topology,
        source_rates: Mapping[str, float],
        parallelism: tuple[int, ...],
        *,
        p_max: int,
        seed: int = 0,
        name: str = "simulated",
    ) -> None:
        """Start the job.

        Args:
            job: the job.
            topology: its operators.
            source_rates: mix of the sources; each step gives the rate of all together.
            parallelism: first vector, in the order of the topology.
            p_max: upper bound of each operator.
            seed: seed of the noise.
            name: name of the job in snapshots.
        """
        if sum(source_rates.values()) <= 0:
            raise InputError("source_rates", "are all zero", seen=dict(source_rates), remedy="give the mix of sources")
        self.job, self.topology, self.p_max = job, topology, p_max
        self.time = 0.0
        self.backlog = 0.0
        self.offered = 0.0  # records since the start
        self.processed = 0.0
        self.standstill_left = 0.0
        self._name = name
        self._seed = seed
        self._mix = dict(source_rates)
        self._compiled = compile_job(job, topology, source_rates)
        self._profiles: dict[tuple[int, ...], Profile] = {}
        self._profile = self._solve(parallelism)
        self._window = _Tally()
        self._windows = 0

    @property
    def parallelism(self) -> tuple[int, ...]:
        return self._profile.k

    @property
    def capacity(self) -> float:
        return self._profile.capacity

    def step(self, seconds: float, rate: float) -> FluidStep:
        """Let `seconds` pass at `rate` records per second, and return the course."""
        if seconds <= 0 or rate < 0:
            raise InputError("step", "needs time above zero and a rate of zero or more", seen=(seconds, rate))
        down = min(self.standstill_left, seconds)
        work = seconds - down
        capacity, before = self._profile.capacity, self.backlog
        offered = rate * seconds
        processed = min(capacity * work, before + offered)
        self.backlog = max(0.0, before + offered - processed)
        queued = _integrate_queue(before + rate * down, rate - capacity, work)
        latency = self._latency(rate, before, down, seconds, queued)
        self.standstill_left -= down
        self.time += seconds
        self.offered += offered
        self.processed += processed
        step = FluidStep(self.time, seconds, offered, processed, self.backlog, latency, queued[1] / seconds, down)
        self._window.add(step)
        return step

    def _latency(self, rate: float, before: float, down: float, seconds: float, queued: tuple[float, float]) -> float:
        """Return the mean latency over the arrivals of the step: backlog, remaining standstill, and steady latency."""
        capacity = self._profile.capacity
        standing = down * (before + rate * down / 2)  # ∫Q dt during the standstill
        remaining = down * (self.standstill_left - down / 2)  # ∫D dt
        wait = ((standing + queued[0]) / capacity + remaining) / seconds
        pressed = queued[1] / seconds
        calm = self._profile.latency(rate)
        return wait + (calm if pressed == 0 else pressed * self._profile.latency(capacity) + (1 - pressed) * calm)

    def rescale(self, parallelism: tuple[int, ...]) -> float:
        """Change the parallelism and return the seconds of standstill, 0 if nothing changes."""
        if parallelism == self.parallelism:
            return 0.0
        self._profile = self._solve(parallelism)
        self.standstill_left = rescale_seconds(self.job, self.topology, parallelism)
        self._window = _Tally()  # a window has one parallelism
        return self.standstill_left

    def backpressure(self, step: FluidStep) -> dict[str, float]:
        """Return the share of the step in which each operator could not push."""
        pressures = (step.pressed * pressure for pressure in self._profile.pressure)
        return dict(zip(self.topology, pressures, strict=True))

    def snapshot(self) -> Snapshot:
        """Return the snapshot since the last snapshot or rescale. Raise `InputError` if no time has passed."""
        tally, self._window = self._window, _Tally()
        if tally.seconds == 0:
            raise InputError("window", "is empty", seen=0.0, remedy="let time pass before a snapshot")
        rng = np.random.default_rng([self._seed, self._windows])
        self._windows += 1
        reference = self._compiled.offered
        rates = {name: rate * tally.offered / tally.seconds / reference for name, rate in self._mix.items()}
        window = Window(
            seconds=tally.seconds,
            source_rates=rates,
            share=tally.processed / tally.seconds / reference,
            backlog_records=self.backlog,
            latency_seconds=self._latencies(tally, float(np.exp(self.job.noise * rng.standard_normal()))),
        )
        return make_snapshot(self._name, self.topology, self._compiled, self.parallelism, window, self.p_max, rng)

    def _latencies(self, tally: _Tally, factor: float) -> Latency:
        """Return the mean of the window, and quantiles at the same distances as in the steady state."""
        if tally.offered == 0:
            return Latency()
        mean = tally.latency / tally.offered
        away = self._profile.quantiles(tally.offered / tally.seconds)
        return Latency(mean * factor, *(max(0.0, mean + each) * factor for each in away))

    def _solve(self, k: tuple[int, ...]) -> Profile:
        if k not in self._profiles:
            self._check(k)
            self._profiles[k] = solve_profile(self._compiled, k)
        return self._profiles[k]

    def _check(self, k: tuple[int, ...]) -> None:
        if len(k) != len(self.topology):
            raise InputError(
                "parallelism", f"must have {len(self.topology)} numbers", seen=k, remedy="give one for each operator"
            )
        for name, instances in zip(self.topology, k, strict=True):
            checks.count(f"parallelism.{name}", instances)
            if instances > self.p_max:
                raise InputError(f"parallelism.{name}", f"is above p_max = {self.p_max}", seen=instances)


@dataclass
class _Tally:
    """The sums over the steps of a window."""

    seconds: float = 0.0
    offered: float = 0.0
    processed: float = 0.0
    latency: float = 0.0  # sum of latency × records

    def add(self, step: FluidStep) -> None:
        self.seconds += step.seconds
        self.offered += step.offered
        self.processed += step.processed
        self.latency += step.latency * step.offered


def _integrate_queue(backlog: float, growth: float, work: float) -> tuple[float, float]:
    """Return ∫Q dt over the working time, and the part of that time with a queue. `growth` is r − C."""
    if work <= 0 or (backlog <= 0 and growth <= 0):
        return 0.0, 0.0
    if growth >= 0 or backlog + growth * work > 0:
        return work * (backlog + growth * work / 2), work
    drained = backlog / -growth
    return drained * backlog / 2, drained
