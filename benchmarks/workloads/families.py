"""Seeded families of random tuning problems: three for development, three held out for judging.

`draw_case(family, seed)` always returns the same case. Each case has a reachable floor and a latency target that the
stop rule can meet. A share φ of the frugal points (mean(k'/k) ≥ 1/(1 + w)) meets the target, φ drawn log-uniformly
between 3 % and 70 %.

| family | jobs | difficulty |
|---|---|---|
| contention | chains of 3–5, pipelined | useful times grow early with k_i and with Σk |
| dominant | chains of 3–5, pipelined | one operator has nearly all the load |
| micro-batch | chains of 3–5, batches | Σ load/k against per-task and commit costs |
| diamond (held out) | two sources, a join, 4–6 operators | slowest path; channels k_up·k_i; a queue per instance |
| skewed (held out) | chains of 3–5 with selectivity | the hottest instance saturates first; a hot key at every k |
| stateful-micro-batch (held out) | chains of 3–4, batches | heavy commits, and fewer slots than P_max |
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from autotrascale.domain.errors import InputError
from autotrascale.domain.topology import Operator, Topology
from autotrascale.execute.simulator.simulated_job import MicroBatch, SharedMachine, SimulatedJob, SimulatedOperator
from benchmarks.workloads.case import Case, find_throughput_floor
from benchmarks.workloads.lattice import sample_frugal

P_MAX = 40
# Some frugal point beats the target by this much: two standard deviations of a reading. For a closer target, no
# reasonable number of runs could tell whether a configuration meets it.
MARGIN = 0.10
FEASIBLE_SHARE = (0.03, 0.70)  # φ
SLOWEST_TARGET = 6.0  # multiple of the least latency among the frugal points: easier targets teach nothing
FLOOR_MAY_MEET = 0.05  # share of the draws in which the floor may meet the target already
SAMPLES = 2000
REDRAWS = 500

Rng = np.random.Generator
Drawn = tuple[SimulatedJob, Topology, dict[str, float]]


def draw_case(family: str, seed: int) -> Case:
    """Return a case of a family, the same for the same seed."""
    if family not in FAMILIES:
        raise InputError("family", "is not known", seen=family, remedy=f"use one of {', '.join(FAMILIES)}")
    rng = np.random.default_rng([zlib.crc32(family.encode()), seed])
    for _ in range(REDRAWS):
        case = _attempt(family, seed, rng)
        if case is not None:
            return case
    raise InputError("seed", f"gives no valid case of {family} in {REDRAWS} draws", seen=seed, remedy="take another")


def _attempt(family: str, seed: int, rng: Rng) -> Case | None:
    job, topology, rates = RECIPES[family](rng)
    floor = find_throughput_floor(job, topology, rates, P_MAX)
    if floor is None or max(floor) > 0.75 * P_MAX:
        return None
    case = Case(family, seed, job, topology, rates, floor, latency_target=1.0, p_max=P_MAX)
    frugal = sample_frugal(floor, P_MAX, case.resource_limit, SAMPLES, rng)
    share = _log_uniform(rng, *FEASIBLE_SHARE)
    latency = case.latency(frugal)
    target = max(float(np.quantile(latency, share, method="inverted_cdf")), float(latency.min()) / (1 - MARGIN))
    lenient = rng.random() < FLOOR_MAY_MEET
    if target > SLOWEST_TARGET * latency.min() or (case.latency(floor)[0] <= target and not lenient):
        return None
    case = replace(case, latency_target=float(f"{target:.4g}"))
    return case if case.is_reachable() else None


def _contention(rng: Rng) -> Drawn:
    topology, rates, loads = _chain(rng, int(rng.integers(3, 6)), (0.6, 9.0))
    extras = [
        {
            "coherency": rng.uniform(0.01, 0.05),
            "crosstalk": _log_uniform(rng, 2e-4, 2e-3),
            "hop_seconds": rng.uniform(0.002, 0.015),
        }
        for _ in loads
    ]
    machine = SharedMachine(cores=int(rng.integers(32, 97)), contention=rng.uniform(0.05, 0.4))
    return _pipelined(rng, topology, rates, loads, extras, machine=machine), topology, rates


def _dominant(rng: Rng) -> Drawn:
    topology, rates, loads = _chain(rng, int(rng.integers(3, 6)), (0.2, 1.6))
    loads[int(rng.integers(1, len(loads)))] = rng.uniform(6.0, 16.0)
    extras = [
        {
            "coherency": rng.uniform(0.0, 0.01),
            "crosstalk": _log_uniform(rng, 2e-5, 3e-4),
            "hop_seconds": rng.uniform(0.001, 0.006),
        }
        for _ in loads
    ]
    machine = SharedMachine(cores=96, contention=rng.uniform(0.0, 0.15))
    return _pipelined(rng, topology, rates, loads, extras, machine=machine), topology, rates


def _micro_batch(rng: Rng) -> Drawn:
    topology, rates, loads = _chain(rng, int(rng.integers(3, 6)), (0.2, 4.0))
    stateful = int(rng.integers(1, len(loads)))
    extras = [
        {"coherency": rng.uniform(0.0, 0.01), "commit_seconds": rng.uniform(0.005, 0.03) if i == stateful else 0.0}
        for i in range(len(loads))
    ]
    batch = MicroBatch(
        planning_seconds=rng.uniform(0.1, 0.4),
        task_seconds=rng.uniform(0.001, 0.006),
        slots=P_MAX,
        longest_seconds=rng.uniform(3.0, 10.0),
    )
    return _batched(rng, topology, rates, loads, extras, batch=batch), topology, rates


def _diamond(rng: Rng) -> Drawn:
    topology = _DIAMONDS[int(rng.integers(len(_DIAMONDS)))]
    rates = {name: _rate(rng) for name in topology.sources}
    loads = [_log_uniform(rng, 0.6, 7.0) for _ in topology]
    extras = [
        {
            "crosstalk": _log_uniform(rng, 1e-5, 3e-4),
            "hop_seconds": rng.uniform(0.001, 0.02),
            "selectivity": rng.uniform(0.3, 1.5),
            "service_cv2": rng.uniform(0.2, 3.0),
        }
        for _ in loads
    ]
    channel = _log_uniform(rng, 5e-6, 1.5e-4)
    job = _pipelined(rng, topology, rates, loads, extras, queueing="partitioned", channel_seconds=channel)
    return job, topology, rates


def _skewed(rng: Rng) -> Drawn:
    topology, rates, loads = _chain(rng, int(rng.integers(3, 6)), (0.6, 7.0))
    extras = [
        {
            "coherency": rng.uniform(0.0, 0.02),
            "hop_seconds": rng.uniform(0.002, 0.03),
            "selectivity": _log_uniform(rng, 0.2, 5.0),
            "skew": rng.uniform(1.0, 1.6),
            "hot_share": rng.uniform(0.0, 0.8) / load,  # above 1/load, the instance of the hot key could not keep up
        }
        for load in loads
    ]
    extras = [{**extra, "hot_share": min(1.0, extra["hot_share"])} for extra in extras]
    machine = SharedMachine(cores=64, contention=rng.uniform(0.0, 0.5))
    job = _pipelined(rng, topology, rates, loads, extras, queueing="partitioned", machine=machine)
    return job, topology, rates


def _stateful_micro_batch(rng: Rng) -> Drawn:
    topology, rates, loads = _chain(rng, int(rng.integers(3, 5)), (0.3, 4.0))
    extras = [
        {
            "crosstalk": _log_uniform(rng, 1e-5, 3e-4),
            "commit_seconds": rng.uniform(0.0, 0.08),
            "skew": rng.uniform(1.0, 1.3),
        }
        for _ in loads
    ]
    batch = MicroBatch(
        planning_seconds=rng.uniform(0.2, 1.0),
        task_seconds=rng.uniform(0.002, 0.012),
        slots=int(rng.integers(12, 33)),
        longest_seconds=rng.uniform(5.0, 20.0),
    )
    machine = SharedMachine(cores=int(rng.integers(8, 33)), contention=rng.uniform(0.0, 0.3))
    return _batched(rng, topology, rates, loads, extras, batch=batch, machine=machine), topology, rates


def _chain(rng: Rng, operators: int, loads: tuple[float, float]) -> tuple[Topology, dict[str, float], list[float]]:
    """Return a chain, its input rate, and the busy instances of each operator on an idle machine."""
    names = ("source", "parse", "enrich", "aggregate", "sink")
    topology = Topology.chain(*names[: operators - 1], "sink")
    return topology, {"source": _rate(rng)}, [_log_uniform(rng, *loads) for _ in range(operators)]


def _pipelined(
    rng: Rng,
    topology: Topology,
    rates: Mapping[str, float],
    loads: Sequence[float],
    extras: Sequence[Mapping[str, float]],
    **settings: Any,
) -> SimulatedJob:
    """Return a job whose operators hold a buffer for 2–20 ms, so that waits and hops have a similar size."""
    operators = _operators(topology, rates, loads, extras)
    mean = float(np.mean([operator.service_seconds for operator in operators.values()]))
    buffer = max(1.0, _log_uniform(rng, 0.002, 0.02) / mean)
    return SimulatedJob(operators, buffer_records=buffer, **settings)


def _batched(
    rng: Rng,
    topology: Topology,
    rates: Mapping[str, float],
    loads: Sequence[float],
    extras: Sequence[Mapping[str, float]],
    **settings: Any,
) -> SimulatedJob:
    operators = _operators(topology, rates, loads, extras)
    return SimulatedJob(operators, execution="micro-batch", noise=rng.uniform(0.03, 0.08), **settings)


def _operators(
    topology: Topology, rates: Mapping[str, float], loads: Sequence[float], extras: Sequence[Mapping[str, float]]
) -> dict[str, SimulatedOperator]:
    """Return operators with these loads at these rates: s_i = load_i / λ_i, selectivities included."""
    wanted = dict(zip(topology, zip(loads, extras, strict=True), strict=True))
    operators: dict[str, SimulatedOperator] = {}
    arriving: dict[str, float] = {}
    for name in topology.order:
        upstream = topology.operators[name].upstream
        arriving[name] = sum(arriving[up] * operators[up].selectivity for up in upstream) if upstream else rates[name]
        load, extra = wanted[name]
        if not upstream:
            extra = {**extra, "selectivity": 1.0}
        operators[name] = SimulatedOperator(service_seconds=load / arriving[name], **extra)
    return {name: operators[name] for name in topology}


def _log_uniform(rng: Rng, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def _rate(rng: Rng) -> float:
    return float(round(_log_uniform(rng, 5_000, 400_000), -2))


def _graph(**upstream: tuple[str, ...]) -> Topology:
    return Topology({name: Operator(upstream=before) for name, before in upstream.items()})


_DIAMONDS = (
    _graph(bids=(), auctions=(), join=("bids", "auctions"), sink=("join",)),
    _graph(bids=(), auctions=(), filter=("bids",), join=("filter", "auctions"), sink=("join",)),
    _graph(events=(), left=("events",), right=("events",), join=("left", "right"), sink=("join",)),
    _graph(bids=(), people=(), filter=("bids",), clean=("people",), join=("filter", "clean"), sink=("join",)),
)

RECIPES: Mapping[str, Callable[[Rng], Drawn]] = {
    "contention": _contention,
    "dominant": _dominant,
    "micro-batch": _micro_batch,
    "diamond": _diamond,
    "skewed": _skewed,
    "stateful-micro-batch": _stateful_micro_batch,
}
FAMILIES = tuple(RECIPES)
DEVELOPMENT = FAMILIES[:3]
HELD_OUT = FAMILIES[3:]
