"""A simulated job over time: a fluid model with back-log, back-pressure and downtime, O(operators) for each step.

| symbol | meaning | unit |
|---|---|---|
| r | offered rate, all sources together, constant within a step | records/s |
| C(k) | capacity at k for the job's mix of sources; independent of r | records/s |
| Q | backlog: records that wait at the sources | records |
| d, a | downtime and working time within a step | s |

dQ/dt = r while the job stands still, r − C while Q > 0 or r > C, else 0. A record that finds Q records before it and
D seconds of downtime to go waits D + Q/C, first in first out, and then takes the steady latency of the rate at which
the job is running. differs from a real queue: the steady latency near saturation is taken at 98 % of C at most, since
what lies beyond is backlog here; batches reach their length at once. All sources keep their share of the rate.
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

FULL = 0.98  # of capacity: the most at which the steady latency is asked for


class FluidStep(NamedTuple):
    """What happened between `time − seconds` and `time`. `latency` is the mean over the records that arrived, `pressed`
    the share of the step in which the job ran at capacity."""

    time: float
    seconds: float
    offered: float  # records
    processed: float  # records
    backlog: float  # records, at the end
    latency: float  # s
    pressed: float
    down: float  # s of standstill

    @property
    def throughput(self) -> float:
        return self.processed / self.seconds


@dataclass(frozen=True, eq=False)
class Profile:
    """One parallelism vector, solved once; the latency at a rate is then a handful of multiplications.

    Pipelined waits: with u = r/C_i the utilisation of operator i, unit_i·u^e_i/(1 − u) for its own queue and
    outer_i·u'/(1 − u') for the limit behind it. `prompt` is what does not depend on the rate.
    """

    k: tuple[int, ...]
    capacity: float  # C(k)
    order: tuple[int, ...]
    upstream: tuple[tuple[int, ...], ...]
    sinks: tuple[int, ...]
    prompt: tuple[float, ...]
    path_prompt: float  # of the slowest path
    per_rate: tuple[float, ...]  # utilisation of i for each record/s
    unit: tuple[float, ...]
    exponent: tuple[float, ...]
    outer_per_rate: tuple[float, ...]
    outer_unit: tuple[float, ...]
    batch_overhead: float | None  # o(k), None where pipelined
    pressure: tuple[float, ...]  # back-pressure of each operator while the job runs at capacity

    def latency(self, rate: float) -> float:
        """Steady mean latency at `rate`, taken at 98 % of the capacity at most."""
        rate = min(rate, FULL * self.capacity)
        if self.batch_overhead is not None:
            return 1.5 * self.batch_overhead / (1 - rate / self.capacity)
        arrived = [0.0] * len(self.k)
        for i in self.order:
            before = max((arrived[up] for up in self.upstream[i]), default=0.0)
            arrived[i] = before + self.prompt[i] + self._wait(i, rate)
        return max([arrived[i] for i in self.sinks])

    def quantiles(self, rate: float) -> tuple[float, float, float]:
        """How far 50, 95 and 99 % of the steady latencies lie from their mean."""
        mean = self.latency(rate)
        low, middle, high = QUANTILES
        if self.batch_overhead is not None:  # evenly between b and 2b
            return mean * (low - 0.5) / 1.5, mean * (middle - 0.5) / 1.5, mean * (high - 0.5) / 1.5
        wait = mean - self.path_prompt
        return wait * (LN2 - 1), wait * (LN20 - 1), wait * (LN100 - 1)

    def _wait(self, i: int, rate: float) -> float:
        u, outer = self.per_rate[i] * rate, self.outer_per_rate[i] * rate
        own: float = self.unit[i] * u ** self.exponent[i] / (1 - u)  # float ** float is Any to a type checker
        return own + self.outer_unit[i] * outer / (1 - outer)


def solve_profile(compiled: CompiledJob, k: tuple[int, ...]) -> Profile:
    """Solves one vector. `compiled` gives the mix of sources: any rate above zero will do."""
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
    """A job that runs: `step` lets time pass, `rescale` changes the parallelism, `snapshot` is what a monitor saw.

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
        """`source_rates` give the mix of sources; each step says how much there is of it."""
        if sum(source_rates.values()) <= 0:
            raise InputError("source_rates", "are all zero", seen=dict(source_rates), remedy="give the mix of sources")
        self.job, self.topology, self.p_max = job, topology, p_max
        self.time = 0.0
        self.backlog = 0.0
        self.offered = 0.0  # records since the start
        self.processed = 0.0
        self.downtime_left = 0.0
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
        """`seconds` pass while the world offers `rate` records per second."""
        if seconds <= 0 or rate < 0:
            raise InputError("step", "needs time above zero and a rate of zero or more", seen=(seconds, rate))
        down = min(self.downtime_left, seconds)
        work = seconds - down
        capacity, before = self._profile.capacity, self.backlog
        offered = rate * seconds
        processed = min(capacity * work, before + offered)
        self.backlog = max(0.0, before + offered - processed)
        queued = _queued_seconds(before + rate * down, rate - capacity, work)
        latency = self._latency(rate, before, down, seconds, queued)
        self.downtime_left -= down
        self.time += seconds
        self.offered += offered
        self.processed += processed
        step = FluidStep(self.time, seconds, offered, processed, self.backlog, latency, queued[1] / seconds, down)
        self._window.add(step)
        return step

    def _latency(self, rate: float, before: float, down: float, seconds: float, queued: tuple[float, float]) -> float:
        """Mean over the arrivals of the step: the backlog in front of them, the downtime to go, and the steady part."""
        capacity = self._profile.capacity
        standing = down * (before + rate * down / 2)  # ∫Q dt while the job stands still
        remaining = down * (self.downtime_left - down / 2)  # ∫D dt
        wait = ((standing + queued[0]) / capacity + remaining) / seconds
        pressed = queued[1] / seconds
        calm = self._profile.latency(rate)
        return wait + (calm if pressed == 0 else pressed * self._profile.latency(capacity) + (1 - pressed) * calm)

    def rescale(self, parallelism: tuple[int, ...]) -> float:
        """Changes the parallelism; the job stands still for the seconds returned. Zero when it is there already."""
        if parallelism == self.parallelism:
            return 0.0
        self._profile = self._solve(parallelism)
        self.downtime_left = rescale_seconds(self.job, self.topology, parallelism)
        self._window = _Tally()  # one window speaks of one parallelism
        return self.downtime_left

    def backpressure(self, step: FluidStep) -> dict[str, float]:
        """Share of the step in which each operator could not push."""
        pressures = (step.pressed * pressure for pressure in self._profile.pressure)
        return dict(zip(self.topology, pressures, strict=True))

    def snapshot(self) -> Snapshot:
        """What the monitor saw since the last snapshot, or since the last rescale if that was later."""
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
        """The window's mean, and the quantiles as far from it as the steady state's are."""
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
            raise InputError("parallelism", f"must have {len(self.topology)} numbers", seen=k, remedy="one each")
        for name, instances in zip(self.topology, k, strict=True):
            checks.count(f"parallelism.{name}", instances)
            if instances > self.p_max:
                raise InputError(f"parallelism.{name}", f"is above p_max = {self.p_max}", seen=instances)


@dataclass
class _Tally:
    """Sums over the steps of a window."""

    seconds: float = 0.0
    offered: float = 0.0
    processed: float = 0.0
    latency: float = 0.0  # latency times the records that had it

    def add(self, step: FluidStep) -> None:
        self.seconds += step.seconds
        self.offered += step.offered
        self.processed += step.processed
        self.latency += step.latency * step.offered


def _queued_seconds(backlog: float, growth: float, work: float) -> tuple[float, float]:
    """∫Q dt over the working time, and how much of that time there is a queue; `growth` is r − C."""
    if work <= 0 or (backlog <= 0 and growth <= 0):
        return 0.0, 0.0
    if growth >= 0 or backlog + growth * work > 0:
        return work * (backlog + growth * work / 2), work
    drained = backlog / -growth
    return drained * backlog / 2, drained
