"""Operators as stations of a queueing network: what DRS and queueing both start from.

| symbol   | meaning                                                              | unit      |
|----------|----------------------------------------------------------------------|-----------|
| λ_0      | records that enter the job, all sources together                      | records/s |
| λ_i, μ_i | arrivals at operator i, service rate of one of its instances          | records/s |
| λ_i/λ_0  | visits: how often a record that enters comes by operator i            |           |
| c_a², c_s² | squared coefficients of variation of inter-arrival and service times |           |

differs: the papers know operators that own their instances. Workers that run every operator (`shared`) are one station
instead: a record that enters needs Σ (λ_i/λ_0)/μ_i seconds of one of them. Stages of micro-batches are no stations at
all; see `batches`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from autotrascale.domain.decision import Reason
from autotrascale.domain.snapshot import OperatorMetrics, Snapshot
from autotrascale.plan.formatting import join_names
from autotrascale.plan.sizing.sizing import Sizing, get_bounds

# c² where it was not measured: Poisson arrivals and exponential service, which makes GI/G/1 the plain M/M/1.
UNMEASURED_CV2 = 1.0
WORKERS = "workers"  # the one station of shared execution


@dataclass(frozen=True)
class Station:
    """`least` and `most` instances it may have. Without arrivals nothing waits, whatever `service` is."""

    arrivals: float
    service: float
    variability: float = 2 * UNMEASURED_CV2  # c_a² + c_s²
    visits: float = 1.0
    least: int = 1
    most: int = 1

    @property
    def offered(self) -> float:
        return self.arrivals / self.service


def build_stations(snapshot: Snapshot, sized: Sizing) -> dict[str, Station]:
    """Every operator whose rates are known; with shared execution, the workers."""
    if snapshot.execution == "shared":
        return {WORKERS: _workers(snapshot, sized)}
    found = {}
    for at, (name, metrics) in enumerate(snapshot.operators.items()):
        arrivals, service = sized.demand[at], sized.capacity[at]
        least, most = sized.lower[at], sized.upper[at]
        if arrivals == 0:
            found[name] = Station(0.0, math.inf, visits=0.0, least=least, most=most)
        elif arrivals is not None and service is not None:
            visits = arrivals / snapshot.target_rate
            found[name] = Station(arrivals, service, _variability(metrics), visits, least, most)
    return found


def find_unmeasured_stations(snapshot: Snapshot, sized: Sizing) -> list[str]:
    """Fields without which the way of a record is longer than it looks: a source that does not say how long it works
    is no station, and its time is in no sum. What operators share, `Sizing.unmeasured` names."""
    unknown = [name for name, load in sized.named_load.items() if load is None]
    return [f"useful_seconds of {name}" for name in unknown] if snapshot.execution == "pipelined" else []


def count_instances(snapshot: Snapshot, known: Mapping[str, Station]) -> dict[str, int]:
    """What each station runs on; with shared execution the most that any operator reports."""
    if snapshot.execution == "shared":
        return {WORKERS: max(snapshot.parallelism.values())}
    return {name: snapshot.operators[name].parallelism for name in known}


def expand_to_operators(snapshot: Snapshot, found: Mapping[str, int]) -> dict[str, int]:
    """Instances by operator: what is no station keeps what it has, and the workers run all of them."""
    if snapshot.execution == "shared":
        return dict.fromkeys(snapshot.operators, found[WORKERS])
    return {**snapshot.parallelism, **found}


def explain_assumed_variability(snapshot: Snapshot, known: Mapping[str, Station]) -> list[Reason]:
    """Variability that nobody measured, and what it was taken for."""
    busy = [name for name, station in known.items() if station.arrivals]
    names = [name for name in busy if name not in snapshot.operators or _unmeasured(snapshot.operators[name])]
    if not names:
        return []
    text = f"variability (arrival_cv2, service_cv2) not measured for {join_names(names)}: taken as {UNMEASURED_CV2:g}"
    return [Reason("assumed-variability", text, {"operators": ", ".join(names), "assumed_cv2": UNMEASURED_CV2})]


def _workers(snapshot: Snapshot, sized: Sizing) -> Station:
    (least, *_), (most, *_) = get_bounds(snapshot)
    load, rate = sum(sized.known_loads), snapshot.target_rate
    if not load:
        return Station(0.0, math.inf, visits=0.0, least=least, most=most)
    return Station(rate, rate / load, least=least, most=most)


def _unmeasured(metrics: OperatorMetrics) -> bool:
    return metrics.arrival_cv2 is None or metrics.service_cv2 is None


def _variability(metrics: OperatorMetrics) -> float:
    known = (metrics.arrival_cv2, metrics.service_cv2)
    return sum(UNMEASURED_CV2 if cv2 is None else cv2 for cv2 in known)
