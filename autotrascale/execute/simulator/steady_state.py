"""The noise-free steady state of a simulated job, for many parallelism vectors at once.

| symbol | meaning | unit | shape |
|---|---|---|---|
| K, k_i | parallelism vectors | instances | (n, N) |
| λ_i | demand: the rate at operator i if no operator is a bottleneck | records/s | (N,) |
| S_i(k) | useful time of a record under contention | s | (n, N) |
| ρ_i | utilisation of the hottest instance of i | | (n, N) |
| B | records that travel and queue together | records | |
| o, b | fixed cost and length of a micro-batch | s | (n,) |

The useful time follows the Universal Scalability Law on a shared machine with contention γ:
S_i(k) = s_i · (1 + σ_i (k_i − 1) + κ_i k_i (k_i − 1)) · (1 + γ max(0, Σk / cores − 1)), and grows further once a limit
of memory is exceeded.

Pipelined: the latency is the longest path through the operators, each with hop + channels + B·S + wait, plus the
coordination cost of all instances. The wait is that of a GI/G/k queue: Allen–Cunneen's factor (c_a² + c_s²)/2 on
Sakasegawa's M/M/k formula. With `partitioned` queueing it is that of k queues with one server each.

Micro-batch: stages run one after the other, b = o(k) / (1 − Σ load_i/k_i), and the mean latency is 1.5·b.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from autotrascale.domain.topology import Topology, check_source_rates
from autotrascale.execute.simulator.simulated_job import SimulatedJob

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SteadyState:
    """The steady state at each vector.

    Attributes:
        latency: mean latency in seconds, inf where the job cannot keep up; shape (n,).
        prompt: latency without waiting in queues, in seconds; (n,).
        throughput: sustained records/s of all sources together; (n,).
        capacity: share of the offered rate that the job can process, above 1 for spare capacity; (n,).
        service: S_i(k) in seconds; (n, N).
        load: λ_i · S_i(k), the instances that DS2's rule asks for; (n, N).
        utilisation: of the hottest instance (pipelined), or share of the batch (micro-batch); (n, N).
        batch_seconds: length of a batch, 0 for a pipelined job; (n,).
        overhead_seconds: o(k), 0 for a pipelined job; (n,).
    """

    latency: Floats
    prompt: Floats
    throughput: Floats
    capacity: Floats
    service: Floats
    load: Floats
    utilisation: Floats
    batch_seconds: Floats
    overhead_seconds: Floats


@dataclass(frozen=True, eq=False)
class Stations:
    """Pipelined operators as queues: latency = prompt + unit·ρ^exponent/(1 − ρ) + outer_unit·ρ'/(1 − ρ').

    The last term is the queue before the external limit of the operator.
    """

    prompt: Floats  # (n, N) s, hop + channels + service of one buffer
    unit: Floats  # (n, N) s
    exponent: Floats  # (n, N)
    outer_unit: Floats  # (N,) s


@dataclass(frozen=True, eq=False)
class CompiledJob:
    """A job as arrays in the order of its topology. `upstream[i]` has positions; `order` is a topological order."""

    job: SimulatedJob
    order: tuple[int, ...]
    upstream: tuple[tuple[int, ...], ...]
    sinks: tuple[int, ...]
    demand: Floats
    service: Floats
    hop: Floats
    coherency: Floats
    crosstalk: Floats
    skew: Floats
    hot_share: Floats
    straggling: Floats
    state: Floats
    limit_seconds: Floats  # 1 / L_i, zero without a limit
    external: Floats  # λ_i / L_i
    variability: Floats  # (c_a² + c_s²) / 2
    commit: Floats
    offered: float

    def steady(self, K: ArrayLike) -> SteadyState:
        """Return the steady state at each row of K (n, N), or at one vector (N,)."""
        k = np.atleast_2d(np.asarray(K, dtype=np.float64))
        return _batches(self, k) if self.job.execution == "micro-batch" else _pipeline(self, k)

    def latency(self, K: ArrayLike) -> Floats:
        """Return the mean latency at each row of K in seconds, inf where the job cannot keep up."""
        return self.steady(K).latency

    def slowed(self, factor: float) -> CompiledJob:
        """Return the job with all service times multiplied by `factor`."""
        return replace(self, service=self.service * factor)

    def stations(self, k: Floats, service: Floats) -> Stations:
        """Return the queues at k (n, N), given the useful times under contention."""
        unit = self.variability * self.job.buffer_records * service
        pooled = self.job.queueing == "pooled"
        ways = self.hop + self.job.channel_seconds * k * _fan_in(self, k)
        if self.job.coordination_seconds:  # added once on each path, at its sink
            ways[:, list(self.sinks)] += self.job.coordination_seconds * k.sum(axis=1, keepdims=True)
        return Stations(
            prompt=ways + self.job.buffer_records * service,
            unit=unit / k if pooled else unit,
            exponent=np.sqrt(2 * (k + 1)) - 1 if pooled else np.ones_like(k),  # Sakasegawa, or one server each
            outer_unit=self.variability * self.job.buffer_records * self.limit_seconds,
        )


def compile_job(job: SimulatedJob, topology: Topology, source_rates: Mapping[str, float]) -> CompiledJob:
    """Return the job as arrays, for many calls. Raise `InputError` if job, topology and rates do not fit."""
    job.check_fits(topology)
    check_source_rates(topology, source_rates)
    names = list(topology)
    place = {name: i for i, name in enumerate(names)}
    operators = [job.operators[name] for name in names]
    demand = compute_demands(job, topology, source_rates)
    fed = {upstream for operator in topology.operators.values() for upstream in operator.upstream}
    limit_seconds = np.array([0.0 if op.external_limit is None else 1 / op.external_limit for op in operators])
    return CompiledJob(
        job=job,
        order=tuple(place[name] for name in topology.order),
        upstream=tuple(tuple(place[up] for up in topology.operators[name].upstream) for name in names),
        sinks=tuple(place[name] for name in names if name not in fed),
        demand=demand,
        service=np.array([op.service_seconds for op in operators]),
        hop=np.array([op.hop_seconds for op in operators]),
        coherency=np.array([op.coherency for op in operators]),
        crosstalk=np.array([op.crosstalk for op in operators]),
        skew=np.array([op.skew for op in operators]),
        hot_share=np.array([op.hot_share for op in operators]),
        straggling=np.array([op.straggling for op in operators]),
        state=np.array([op.state for op in operators]),
        limit_seconds=limit_seconds,
        external=demand * limit_seconds,
        variability=np.array([(op.arrival_cv2 + op.service_cv2) / 2 for op in operators]),
        commit=np.array([op.commit_seconds for op in operators]),
        offered=float(sum(source_rates.values())),
    )


def compute_demands(job: SimulatedJob, topology: Topology, source_rates: Mapping[str, float]) -> Floats:
    """Return λ_i, the rate at each operator, by one walk in topological order (DS2 §3.2)."""
    arriving: dict[str, float] = {}
    for name in topology.order:
        upstream = topology.operators[name].upstream
        if not upstream:
            arriving[name] = float(source_rates[name])
        else:
            arriving[name] = sum(arriving[up] * job.operators[up].selectivity for up in upstream)
    return np.array([arriving[name] for name in topology])


def steady_state(job: SimulatedJob, topology: Topology, K: ArrayLike, source_rates: Mapping[str, float]) -> SteadyState:
    """Return the steady state of `job` at each row of K (n, N), or at one vector (N,)."""
    return compile_job(job, topology, source_rates).steady(K)


def _contended_service(c: CompiledJob, k: Floats, running: Floats, present: Floats) -> Floats:
    """Return S_i(k) for `running` instances of each operator at a time and `present` instances on the machine."""
    own = 1 + (running - 1) * (c.coherency + c.crosstalk * running)
    shared = 1 + c.job.machine.contention * np.maximum(0.0, present / c.job.machine.cores - 1)
    return np.asarray(c.service * own * shared * _memory_factor(c, k, present))


def _memory_factor(c: CompiledJob, k: Floats, present: Floats) -> Floats:
    memory, factor = c.job.memory, np.ones_like(k)
    if memory.room is not None:
        factor = factor * np.where(c.state / k > memory.room, 1 + memory.spilling, 1.0)
    if memory.instances is not None:
        factor = factor * np.where(present > memory.instances, 1 + memory.crowding, 1.0)
    return factor


def hottest_share(c: CompiledJob, k: Floats) -> Floats:
    """Return the load of the hottest instance over the mean. It is at most k."""
    return np.maximum(np.minimum(c.skew, k), np.maximum(1.0, c.hot_share * k))


def slowest_share(c: CompiledJob, k: Floats) -> Floats:
    """Return the time of the slowest instance over the mean, by hot keys and by straggling."""
    return hottest_share(c, k) * (1 + c.straggling * np.log(k))


def _pipeline(c: CompiledJob, k: Floats) -> SteadyState:
    service = _contended_service(c, k, k, k.sum(axis=1, keepdims=True))
    load = c.demand * service
    rho = load / k * slowest_share(c, k)
    tightest = np.maximum(rho, c.external).max(axis=1)
    keeps_up = tightest < 1
    # Saturated rows are computed as idle and then overwritten, which avoids warnings and branches.
    calm = np.where(keeps_up[:, None], rho, 0.0)
    stations = c.stations(k, service)
    total = _slowest_path(c, stations.prompt + _waits(c, stations, calm))
    capacity = 1 / np.maximum(tightest, 1e-12)  # keep the capacity of an idle job finite
    zero = np.zeros(len(k))
    return SteadyState(
        latency=np.where(keeps_up, total, np.inf),
        prompt=_slowest_path(c, stations.prompt),
        throughput=c.offered * np.minimum(1.0, capacity),
        capacity=capacity,
        service=service,
        load=load,
        utilisation=rho,
        batch_seconds=zero,
        overhead_seconds=zero,
    )


def _waits(c: CompiledJob, stations: Stations, rho: Floats) -> Floats:
    """Return the waiting time before each operator and before its external limit."""
    outer = np.minimum(c.external, 1 - 1e-9)  # rows beyond the limit are saturated
    own = stations.unit * rho**stations.exponent / (1 - rho)
    return np.asarray(own + stations.outer_unit * outer / (1 - outer))


def _fan_in(c: CompiledJob, k: Floats) -> Floats:
    """Return the number of upstream instances of each operator."""
    if c.job.channel_seconds == 0:
        return np.zeros_like(k)
    return np.stack([k[:, list(up)].sum(axis=1) if up else np.zeros(len(k)) for up in c.upstream], axis=1)


def _slowest_path(c: CompiledJob, each: Floats) -> Floats:
    """Return the longest path from a source to a sink: a join waits for its slower branch."""
    arrived: dict[int, Floats] = {}
    for i in c.order:
        before = [arrived[up] for up in c.upstream[i]]
        arrived[i] = each[:, i] + (np.maximum.reduce(before) if before else 0.0)
    return np.asarray(np.maximum.reduce([arrived[i] for i in c.sinks]))


def _batches(c: CompiledJob, k: Floats) -> SteadyState:
    batch = c.job.batch
    running = np.minimum(k, batch.slots)
    service = _contended_service(c, k, running, running)
    load = c.demand * service
    # A stage ends with its slowest task, or with its last wave of tasks.
    stage = np.maximum(load / k * np.maximum(slowest_share(c, k), np.ceil(k / batch.slots)), c.external)
    busy = stage.sum(axis=1)
    keeps_up = busy < 1
    fixed = batch.planning_seconds + (k * (batch.task_seconds + c.commit)).sum(axis=1) + c.hop.sum()
    length = np.where(keeps_up, fixed / np.where(keeps_up, 1 - busy, 1.0), np.inf)
    return SteadyState(
        latency=1.5 * length,
        prompt=length,
        throughput=c.offered * np.minimum(1.0, 1 / np.maximum(busy, 1e-12)),
        capacity=1 / np.maximum(busy, 1e-12),
        service=service,
        load=load,
        utilisation=stage,
        batch_seconds=length,
        overhead_seconds=fixed,
    )
