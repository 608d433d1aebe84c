"""The snapshot of a simulated job over one window, with seeded measurement noise.

| symbol | meaning | unit |
|---|---|---|
| x | processed records over the records that the compiled job's rates bring in the window | |
| R_in, R_out, T_u | records in and out, and useful time, of one instance | records, s |
| H | load of the hottest instance over the mean | |

Counts are exact: offered = processed + backlog. Times have noise. The useful time of an instance is at most the window.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from autotrascale.domain.snapshot import Latency, OperatorMetrics, Snapshot, Work
from autotrascale.domain.topology import Topology
from autotrascale.execute.simulator.steady_state import CompiledJob, Floats, SteadyState, hottest_share

QUANTILES = (0.50, 0.95, 0.99)
LN2, LN20, LN100 = (-math.log(1 - quantile) for quantile in QUANTILES)  # quantiles of an exponential wait with mean 1
BINDING = 1 - 1e-6  # an external limit blocks its operator from this utilisation on


@dataclass(frozen=True)
class Window:
    """A stretch of time at one parallelism. `share` is x; `backlog_records` waited at its end at all sources."""

    seconds: float
    source_rates: Mapping[str, float]
    share: float
    backlog_records: float
    latency_seconds: Latency


def make_snapshot(
    name: str,
    topology: Topology,
    compiled: CompiledJob,
    k: tuple[int, ...],
    window: Window,
    p_max: int,
    rng: np.random.Generator,
) -> Snapshot:
    """Return the snapshot of job `name` at parallelism `k` over `window`, with noise from `rng`."""
    state = compiled.steady(k)
    batch = compiled.job.batch
    micro = compiled.job.execution == "micro-batch"
    return Snapshot(
        job=name,
        window_seconds=window.seconds,
        p_max=p_max,
        source_rates=dict(window.source_rates),
        operators=_operators(topology, compiled, state, k, window, rng),
        execution=compiled.job.execution,
        overhead_share=min(1.0, float(state.overhead_seconds[0]) / batch.longest_seconds) if micro else 0.0,
        batch_seconds=batch.longest_seconds if micro else None,
        throughput=compiled.offered * window.share,
        latency_seconds=window.latency_seconds,
        backlog_records=window.backlog_records,
        slots=batch.slots if micro else None,
    )


def _operators(
    topology: Topology,
    compiled: CompiledJob,
    state: SteadyState,
    k: tuple[int, ...],
    window: Window,
    rng: np.random.Generator,
) -> dict[str, OperatorMetrics]:
    share = hottest_share(compiled, np.asarray([k], dtype=np.float64))[0]
    pressure = backpressure(compiled, state, window.share)
    operators = {}
    for i, (name, declared) in enumerate(topology.operators.items()):
        simulated = compiled.job.operators[name]
        records = _spread_records(compiled.demand[i] * window.share * window.seconds, k[i], share[i])
        noise = np.exp(compiled.job.noise * rng.standard_normal(k[i]))
        useful = records * state.service[0, i] * noise
        if compiled.external[i] * window.share >= BINDING:
            useful = np.full(k[i], window.seconds)  # every instance waits for the external service
        useful = np.minimum(useful, window.seconds)
        pairs = zip(records, useful, strict=True)
        operators[name] = OperatorMetrics(
            parallelism=k[i],
            upstream=declared.upstream,
            stateful=declared.stateful,
            minimum=declared.minimum,
            maximum=declared.maximum,
            instances=tuple(_work(r, r * simulated.selectivity, u, window.seconds) for r, u in pairs),
            backpressure=pressure[i],
            backlog_records=_backlog(compiled, window, name),
            arrival_cv2=simulated.arrival_cv2,
            service_cv2=simulated.service_cv2,
            stage_seconds=_measure_stage(compiled, float(state.utilisation[0, i]), window, float(noise.mean())),
        )
    return operators


def _measure_stage(compiled: CompiledJob, utilisation: float, window: Window, noise: float) -> float | None:
    """Return the time of an operator's stage in micro-batches, with the noise of its tasks. None for pipelined jobs."""
    if compiled.job.execution != "micro-batch":
        return None
    return min(utilisation * window.share * window.seconds * noise, window.seconds)


def _work(records_in: float, records_out: float, useful: float, window: float) -> Work:
    return Work(
        records_in=float(records_in),
        records_out=float(records_out),
        useful_seconds=float(useful),
        waiting_seconds=float(window - useful),
    )


def _spread_records(records: float, k: int, hot: float) -> Floats:
    """Return the records of each instance: the first has `hot` times the mean, the rest is spread evenly."""
    mean = records / k
    rest = (records - hot * mean) / (k - 1) if k > 1 else 0.0
    return np.array([hot * mean, *[rest] * (k - 1)])


def _backlog(compiled: CompiledJob, window: Window, name: str) -> float | None:
    """Return the backlog before an operator: back-pressure keeps waiting records at the sources.

    Elsewhere the backlog is unknown, or 0 for micro-batches, which leave no records behind.
    """
    if name not in window.source_rates:
        return 0.0 if compiled.job.execution == "micro-batch" else None
    offered = sum(window.source_rates.values())
    return window.backlog_records * window.source_rates[name] / offered if offered else 0.0


def backpressure(compiled: CompiledJob, state: SteadyState, share: float) -> tuple[float, ...]:
    """Return the share of the window in which each operator could not push.

    Pipelined: while the bottleneck is saturated, the operators before it are busy or blocked. Micro-batch: the input is
    held up while the batch before takes longer than the input that it covers; the longest stage is the cause.
    """
    tightness = np.maximum(state.utilisation[0], compiled.external) * share
    blocked = [0.0] * len(tightness)
    if compiled.job.execution == "micro-batch":
        for i in _find_upstream(compiled, int(tightness.argmax())):
            blocked[i] = float(np.clip(1 - share, 0.0, 1.0))
        return tuple(blocked)
    if tightness.max() < BINDING - 0.01:
        return tuple(blocked)
    for i in _find_upstream(compiled, int(tightness.argmax())):
        blocked[i] = float(np.clip(1 - tightness[i], 0.0, 1.0))
    return tuple(blocked)


def _find_upstream(compiled: CompiledJob, i: int) -> set[int]:
    """Return all operators upstream of operator i."""
    found: set[int] = set()
    waiting = list(compiled.upstream[i])
    while waiting:
        up = waiting.pop()
        if up not in found:
            found.add(up)
            waiting.extend(compiled.upstream[up])
    return found


def steady_latency(compiled: CompiledJob, state: SteadyState, factor: float) -> Latency:
    """Return mean and quantiles of the record latency in the steady state, multiplied by `factor`.

    Pipelined: a fixed part plus a roughly exponential wait. Micro-batch: uniform between b and 2b, as records arrive at
    any moment of a batch.
    """
    mean, prompt = float(state.latency[0]) * factor, float(state.prompt[0]) * factor
    if not np.isfinite(mean) or compiled.offered == 0:  # no steady state, or no records
        return Latency()
    if compiled.job.execution == "micro-batch":
        return Latency(mean, *(prompt * (1 + quantile) for quantile in QUANTILES))
    return Latency(mean, *(float(prompt + (mean - prompt) * z) for z in (LN2, LN20, LN100)))
