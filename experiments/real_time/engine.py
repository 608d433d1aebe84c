"""The query in real-time mode as an engine: policies and tuning runs ask it as they ask any other.

| symbol | meaning                                                                            | unit    |
|--------|------------------------------------------------------------------------------------|---------|
| a, z   | when a record was put into the first topic, and arrived in the second                | ms      |
| s, s'  | when `split` began with it, and ended                                                | ns      |
| c, c'  | when `count` began with it, and ended                                                | ns      |
| λ      | records that arrived for each second of the window                                   | 1/s     |

Useful times are Σ (s' − s) and Σ (c' − c) over the window's records. What waits in front of an operator follows from
how long a record waits there (Little): λ · mean(c − s') for `count`; for `split`, of which only the broker's clock
knows when its wait began, λ · mean((z − a) − (c' − s)), which has the way to and from the topics in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import numpy as np

from autotrascale.domain.snapshot import Latency, OperatorMetrics, Snapshot
from autotrascale.domain.topology import Operator, Topology
from autotrascale.domain.trial import Trial, Verdict
from experiments.real_time.query import HELD, P_MAX, Load, Queries

# The task that reads the topic is no operator: it is one whatever is asked for, as the topic has one partition, and how
# long it works nobody knows. A policy that is told of an operator without useful time gives nothing back.
TOPOLOGY = Topology({"split": Operator(), "count": Operator(("split",))})


class RealTimeEngine:
    """A trial is a query of its own, with the rate of `split` put into its topic."""

    simulated = False

    def __init__(self, queries: Queries, load: Load) -> None:
        self._queries, self._load = queries, load

    def run(self, parallelism: Mapping[str, int], source_rates: Mapping[str, float]) -> Trial:
        load = replace(self._load, rate=round(source_rates["split"]))
        times = self._queries.run("real-time", (parallelism["split"], parallelism["count"]), load)
        return trial(times, parallelism, load)

    def close(self) -> None:
        """The session is the caller's."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def trial(times: Any, parallelism: Mapping[str, int], load: Load) -> Trial:
    """What the records' times say of one run. A job that fell behind has no steady latency."""
    end = times[:, 0].min() + 1000 * load.seconds
    seen = times[times[:, 1] <= end]
    within = seen[seen[:, 1] > end - 1000 * load.window_seconds]
    if len(within) == 0:
        return Trial(dict(parallelism), Verdict.CANNOT_KEEP_UP, detail="nothing arrived within the window")
    steady = len(seen) >= HELD * load.rate * load.seconds
    verdict = Verdict.STABLE if steady else Verdict.CANNOT_KEEP_UP
    return Trial(dict(parallelism), verdict, _snapshot(within, len(seen), parallelism, load))


def _snapshot(within: Any, arrived: int, parallelism: Mapping[str, int], load: Load) -> Snapshot:
    late = (within[:, 1] - within[:, 0]) / 1000
    s0, s1, c0, c1 = (within[:, i] / 1e9 for i in range(2, 6))
    rate = len(within) / load.window_seconds
    p50, p95, p99 = (float(each) for each in np.quantile(late, [0.5, 0.95, 0.99]))
    operators = {
        "split": _operator((), parallelism["split"], s1 - s0, rate * (late - (c1 - s0)).mean(), load),
        "count": _operator(("split",), parallelism["count"], c1 - c0, rate * (c0 - s1).mean(), load),
    }
    return Snapshot(
        "real-time",
        load.window_seconds,
        P_MAX,
        {"split": float(load.rate)},
        operators,
        execution="pipelined",
        throughput=rate,
        latency_seconds=Latency(float(late.mean()), p50, p95, p99),
        backlog_records=float(load.rate * load.seconds - arrived),
    )


def _operator(upstream: tuple[str, ...], k: int, took: Any, waits: float, load: Load) -> OperatorMetrics:
    """`took`: for each record of the window."""
    useful = float(took.sum())
    return OperatorMetrics(
        parallelism=k,
        upstream=upstream,
        records_in=float(len(took)),
        records_out=float(len(took)),
        useful_seconds=useful,
        waiting_seconds=max(0.0, k * load.window_seconds - useful),
        backlog_records=max(0.0, float(waits)),
        service_cv2=float(took.var() / took.mean() ** 2),
    )
