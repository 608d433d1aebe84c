"""Operators as stations of a queueing network, for DRS and queueing.

| symbol     | meaning                                                              | unit      |
|------------|----------------------------------------------------------------------|-----------|
| λ_0        | records that enter the job, all sources together                      | records/s |
| λ_i, μ_i   | arrivals at operator i, service rate of one of its instances          | records/s |
| λ_i/λ_0    | visits: how often a record that enters passes operator i              |           |
| c_a², c_s² | squared coefficients of variation of inter-arrival and service times  |           |

differs: the papers assume operators that own their instances. Workers that run every operator (`shared`) are one
station here: a record that enters needs Σ (λ_i/λ_0)/μ_i seconds of one worker. Stages of micro-batches are no stations;
see `micro_batches`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from autotrascale.domain.decision import Reason
from autotrascale.domain.snapshot import OperatorMetrics, Snapshot
from autotrascale.plan.formatting import join_names
from autotrascale.plan.sizing.sizing import Sizing, get_bounds

# c², if unmeasured: Poisson arrivals and exponential service, which turns GI/G/1 into M/M/1.
UNMEASURED_CV2 = 1.0
WORKERS = "workers"  # the one station of shared execution


@dataclass(frozen=True)
class Station:
    """A station with `least` to `most` instances. Without arrivals nothing waits."""

    arrivals: float  # λ
    service: float  # μ
    variability: float = 2 * UNMEASURED_CV2  # c_a² + c_s²
    visits: float = 1.0
    least: int = 1
    most: int = 1

    @property
    def offered(self) -> float:
        """The offered load λ/μ."""
        return self.arrivals / self.service


def build_stations(snapshot: Snapshot, sized: Sizing) -> dict[str, Station]:
    """Return a station for each operator whose rates are known; with shared execution, one for the workers."""
    if snapshot.execution == "shared":
        return {WORKERS: _build_workers(snapshot, sized)}
    stations = {}
    for at, (name, metrics) in enumerate(snapshot.operators.items()):
        arrivals, service = sized.demand[at], sized.capacity[at]
        least, most = sized.lower[at], sized.upper[at]
        if arrivals == 0:
            stations[name] = Station(0.0, math.inf, visits=0.0, least=least, most=most)
        elif arrivals is not None and service is not None:
            visits = arrivals / snapshot.target_rate
            stations[name] = Station(arrivals, service, _sum_variability(metrics), visits, least, most)
    return stations


def find_unmeasured_stations(snapshot: Snapshot, sized: Sizing) -> list[str]:
    """Return the missing fields of operators that are no station. Their time is missing in the expected latency."""
    unknown = [name for name, load in sized.named_load.items() if load is None]
    return [f"useful_seconds of {name}" for name in unknown] if snapshot.execution == "pipelined" else []


def count_instances(snapshot: Snapshot, stations: Mapping[str, Station]) -> dict[str, int]:
    """Return the running instances of each station; with shared execution the maximum of all operators."""
    if snapshot.execution == "shared":
        return {WORKERS: max(snapshot.parallelism.values())}
    return {name: snapshot.operators[name].parallelism for name in stations}


def expand_to_operators(snapshot: Snapshot, by_station: Mapping[str, int]) -> dict[str, int]:
    """Return instances by operator. Operators without a station keep theirs; workers count for all operators."""
    if snapshot.execution == "shared":
        return dict.fromkeys(snapshot.operators, by_station[WORKERS])
    return {**snapshot.parallelism, **by_station}


def explain_assumed_variability(snapshot: Snapshot, stations: Mapping[str, Station]) -> list[Reason]:
    """Name stations whose variability was assumed because it was not measured."""
    busy = [name for name, station in stations.items() if station.arrivals]
    names = [name for name in busy if name not in snapshot.operators or _is_unmeasured(snapshot.operators[name])]
    if not names:
        return []
    text = f"Variability of {join_names(names)} is assumed: arrival_cv2 and service_cv2 of {UNMEASURED_CV2:g}."
    return [Reason("assumed-variability", text, {"operators": ", ".join(names), "assumed_cv2": UNMEASURED_CV2})]


def _build_workers(snapshot: Snapshot, sized: Sizing) -> Station:
    (least, *_), (most, *_) = get_bounds(snapshot)
    load, rate = sum(sized.known_loads), snapshot.target_rate
    if not load:
        return Station(0.0, math.inf, visits=0.0, least=least, most=most)
    return Station(rate, rate / load, least=least, most=most)


def _is_unmeasured(metrics: OperatorMetrics) -> bool:
    return metrics.arrival_cv2 is None or metrics.service_cv2 is None


def _sum_variability(metrics: OperatorMetrics) -> float:
    known = (metrics.arrival_cv2, metrics.service_cv2)
    return sum(UNMEASURED_CV2 if cv2 is None else cv2 for cv2 in known)
