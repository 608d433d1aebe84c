"""DRS (Fu et al.): an open Jackson network of M/M/k stations, and always the next instance that lowers latency most.

| symbol   | meaning                                                              | unit      |
|----------|----------------------------------------------------------------------|-----------|
| λ_0      | records that enter the job, all sources together                      | records/s |
| λ_i, μ_i | arrivals at operator i, service rate of one of its instances          | records/s |
| k_i      | instances of i                                                       | instances |
| a = λ/μ  | offered load, stable when a < k                                      | instances |
| B, C     | Erlang's probabilities of loss and of having to wait                  | [0, 1]    |
| E[T_i]   | expected sojourn at i, E[T_i] = 1/μ + C / (kμ − λ)                   | s         |
| E[T]     | expected total latency, E[T] = Σ (λ_i/λ_0) E[T_i]                    | s         |

`true` takes μ from useful time, `observed` from elapsed time, as the two DRS rows of AuTraScale's Table II do.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from autotrascale.domain.decision import Decision, Number, Reason
from autotrascale.domain.errors import InputError
from autotrascale.domain.snapshot import OperatorMetrics, Snapshot
from autotrascale.domain.target import Target
from autotrascale.plan.policies import Options
from autotrascale.plan.policies.base import (
    answer,
    hold_for_gaps,
    kept_sources,
    latency_reached,
    read_options,
    require_target,
    speaks_of_the_mean,
)
from autotrascale.plan.sizing.sizing import Sizing, Unsized, limits, size
from autotrascale.plan.words import amount

Rates = Literal["true", "observed"]


@dataclass(frozen=True)
class DRS:
    """Least instances, greedily, whose expected total latency is within the target."""

    target: Target
    rates: Rates = "true"

    def __post_init__(self) -> None:
        if self.rates not in ("true", "observed"):
            raise InputError("rates", "is not a kind of rate", seen=self.rates, remedy="use true or observed")

    @property
    def name(self) -> str:
        return f"drs-{self.rates}"

    def decide(self, snapshot: Snapshot) -> Decision:
        sized = size(snapshot if self.rates == "true" else as_observed(snapshot), self.target)
        if isinstance(sized, Unsized):
            return hold_for_gaps(self.name, snapshot, sized)
        stations = _stations(snapshot, sized)
        _allocate(list(stations.values()), self.target.latency_seconds)
        wanted = {name: stations[name].k if name in stations else k for name, k in snapshot.parallelism.items()}
        reasons = kept_sources(snapshot, sized) + [_explain(name, station) for name, station in stations.items()]
        reached = latency_reached(_total(stations.values()), self.target, "more instances would not lower it enough")
        return answer(self.name, snapshot, wanted, [*reasons, reached, *speaks_of_the_mean(self.target)])


def create(target: Target | None, options: Options) -> DRS:
    name = f"drs-{options.get('rates', 'true')}"
    return read_options(DRS, name, options, target=require_target(name, target))


def erlang_b(servers: int, offered: float) -> float:
    """B(k) = aB(k−1) / (k + aB(k−1)), B(0) = 1. Powers and factorials, which overflow near k = 170, do not appear."""
    blocking = 1.0
    for k in range(1, servers + 1):
        blocking = _one_more(blocking, k, offered)
    return blocking


def erlang_c(servers: int, offered: float) -> float:
    """Probability that an arrival has to wait: `erlang_c(1, 0.5)` is 0.5."""
    return _waits(erlang_b(servers, offered), servers, offered)


def sojourn(arrivals: float, service: float, servers: int) -> float:
    """E[T_i] of M/M/k in seconds; infinite when the queue grows without end."""
    return Station(arrivals, service, 1.0, servers, servers).sojourn


@dataclass
class Station:
    """One operator while instances are handed out. Keeps B(k), so that one more instance costs one multiplication."""

    arrivals: float
    service: float
    visits: float  # λ_i / λ_0
    k: int
    most: int
    blocking: float = field(init=False)

    def __post_init__(self) -> None:
        self.blocking = erlang_b(self.k, self.offered)

    @property
    def offered(self) -> float:
        return self.arrivals / self.service

    @property
    def sojourn(self) -> float:
        return self._sojourn(self.k, self.blocking)

    @property
    def gain(self) -> float:
        """By how much E[T] falls with one more instance. It shrinks with k, so the greedy choice is optimal."""
        after = self._sojourn(self.k + 1, _one_more(self.blocking, self.k + 1, self.offered))
        return self.visits * (self.sojourn - after)

    def grow(self) -> None:
        self.k += 1
        self.blocking = _one_more(self.blocking, self.k, self.offered)

    def _sojourn(self, k: int, blocking: float) -> float:
        spare = k * self.service - self.arrivals
        if spare <= 0:
            return math.inf
        return 1.0 / self.service + _waits(blocking, k, self.offered) / spare


def as_observed(snapshot: Snapshot) -> Snapshot:
    """Every instance useful for the whole window: then the true rates are the observed ones (DS2 Eq. 3–4)."""
    return replace(snapshot, operators={n: _busy(m, snapshot.window_seconds) for n, m in snapshot.operators.items()})


def _busy(metrics: OperatorMetrics, window: float) -> OperatorMetrics:
    if metrics.instances:
        return replace(metrics, instances=tuple(replace(work, useful_seconds=window) for work in metrics.instances))
    return replace(metrics, useful_seconds=window * metrics.parallelism)


def _stations(snapshot: Snapshot, sized: Sizing) -> dict[str, Station]:
    """Every operator whose rates are known, at the fewest instances with which its queue is stable."""
    stations = {}
    for name, arrivals, service in zip(sized.operators, sized.demand, sized.capacity, strict=True):
        least, most = limits(snapshot, name)
        if arrivals == 0:
            stations[name] = Station(0.0, 1.0, 0.0, least, most)
        elif arrivals is not None and service is not None:
            stable = most if arrivals / service >= most else math.floor(arrivals / service) + 1
            visits = arrivals / snapshot.target_rate
            stations[name] = Station(arrivals, service, visits, min(max(stable, least), most), most)
    return stations


def _allocate(stations: list[Station], target: float) -> None:
    """Add the instance that lowers E[T] most until it is within the target or nothing lowers it any more."""
    heap = [(-station.gain, i) for i, station in enumerate(stations) if station.k < station.most and station.visits]
    heapq.heapify(heap)
    total = _total(stations)
    while total > target and math.isfinite(total) and heap:
        loss, i = heap[0]
        if total + loss == total:
            break  # what is left to gain is below the last digit of the total
        stations[i].grow()
        total += loss
        if stations[i].k < stations[i].most:
            heapq.heapreplace(heap, (-stations[i].gain, i))
        else:
            heapq.heappop(heap)


def _total(stations: Iterable[Station]) -> float:
    return sum(station.visits * station.sojourn for station in stations if station.visits)


def _one_more(blocking: float, k: int, offered: float) -> float:
    return offered * blocking / (k + offered * blocking)


def _waits(blocking: float, k: int, offered: float) -> float:
    """C from B. At and above saturation everybody waits."""
    busy = offered / k
    return 1.0 if busy >= 1 else blocking / (1.0 - busy * (1.0 - blocking))


def _explain(name: str, station: Station) -> Reason:
    if not station.visits:
        return Reason("no-demand", f"{name}: no demand → {station.k}", {"operator": name, "wanted": station.k})
    busy = station.offered / station.k
    text = (
        f"{name}: {amount(station.arrivals)}/s over {amount(station.service)}/s per instance, "
        f"{amount(station.sojourn)} s on {station.k}"
    )
    numbers: dict[str, Number] = {"operator": name, "wanted": station.k, "utilisation": busy, "visits": station.visits}
    if math.isfinite(station.sojourn):
        numbers["sojourn_seconds"] = station.sojourn
    return Reason("station", text, numbers)
