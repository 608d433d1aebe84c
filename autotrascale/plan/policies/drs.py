"""The policy DRS (Fu et al.): an open Jackson network of M/M/k stations. Each next instance lowers latency most.

| symbol   | meaning                                                              | unit      |
|----------|----------------------------------------------------------------------|-----------|
| λ_0      | records that enter the job, all sources together                      | records/s |
| λ_i, μ_i | arrivals at operator i, service rate of one of its instances          | records/s |
| k_i      | instances of i                                                       | instances |
| a = λ/μ  | offered load, stable if a < k                                         | instances |
| B, C     | Erlang's probabilities of loss and of having to wait                  | [0, 1]    |
| E[T_i]   | expected sojourn at i, E[T_i] = 1/μ + C / (kμ − λ)                   | s         |
| E[T]     | expected total latency, E[T] = Σ (λ_i/λ_0) E[T_i]                    | s         |
| K_max    | maximum of Σ k_i, the option `slots`                                 | instances |

`true` takes μ from useful time, `observed` from elapsed time, as the two DRS rows of AuTraScale's Table II. If K_max is
too small for stable queues, each slot goes to the busiest station, so that most of the rate is carried.

differs: workers that run every operator are one station (`stations`). Micro-batches have no stations: there each next
instance lowers the latency of the batch most (`micro_batches`). Elapsed time includes the turns of other operators in
both cases, so `observed` holds.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from autotrascale.domain import checks
from autotrascale.domain.decision import Decision, Number, Reason
from autotrascale.domain.errors import InputError
from autotrascale.domain.snapshot import OperatorMetrics, Snapshot
from autotrascale.domain.target import Target
from autotrascale.plan.formatting import format_amount, format_seconds
from autotrascale.plan.policies import micro_batches
from autotrascale.plan.policies.base import Options, answer, hold, hold_for_gaps, read_options, require_target
from autotrascale.plan.policies.reasons import (
    explain_hot_keys,
    explain_kept_sources,
    explain_latency,
    explain_mean_only,
    explain_no_counterpart,
)
from autotrascale.plan.policies.stations import Station, build_stations, expand_to_operators, find_unmeasured_stations
from autotrascale.plan.sizing.sizing import Sizing, Unsized, size

Rates = Literal["true", "observed"]


@dataclass(frozen=True)
class DRS:
    """A policy for the least instances, found greedily, whose expected total latency is within the target."""

    target: Target
    rates: Rates = "true"
    slots: int | None = None

    def __post_init__(self) -> None:
        if self.slots is not None:
            checks.count("slots", self.slots)
        if self.rates not in ("true", "observed"):
            raise InputError("rates", "is not a kind of rate", seen=self.rates, remedy="use true or observed")

    @property
    def name(self) -> str:
        return f"drs-{self.rates}"

    def decide(self, snapshot: Snapshot) -> Decision:
        if self.rates == "observed" and snapshot.execution != "pipelined":
            why = "elapsed time includes the turns of other operators, so no parallelism would be enough"
            return hold(self.name, snapshot, [explain_no_counterpart(snapshot.execution, why, ["drs-true"])])
        sized = size(snapshot if self.rates == "true" else use_elapsed_time(snapshot), self.target)
        if isinstance(sized, Unsized):
            return hold_for_gaps(self.name, snapshot, sized)
        decide = self._decide_batches if snapshot.execution == "micro-batch" else self._decide_queues
        wanted, reasons = decide(snapshot, sized)
        reasons = [*reasons, *explain_mean_only(self.target)]
        return answer(self.name, snapshot, wanted, reasons, sized, find_unmeasured_stations(snapshot, sized))

    def _decide_queues(self, snapshot: Snapshot, sized: Sizing) -> tuple[dict[str, int], list[Reason]]:
        by_name = {name: Servers(station) for name, station in build_stations(snapshot, sized).items()}
        others = {name: k for name, k in snapshot.parallelism.items() if name not in by_name}
        kept = sum(others.values()) if snapshot.execution == "pipelined" else 0  # by sources of unknown rates
        slots = None if self.slots is None else max(0, self.slots - kept)
        _allocate(list(by_name.values()), self.target.latency_seconds, slots)
        is_used_up = slots is not None and sum(servers.k for servers in by_name.values()) >= slots
        stuck = f"all {self.slots} slots are used" if is_used_up else "more instances do not lower it enough"
        latency = explain_latency(_total_latency(by_name.values()), self.target, stuck)
        each = [_explain_station(name, servers) for name, servers in by_name.items()]
        reasons = [*explain_kept_sources(snapshot, sized), *each, *explain_hot_keys(snapshot, sized), latency]
        return expand_to_operators(snapshot, {name: servers.k for name, servers in by_name.items()}), reasons

    def _decide_batches(self, snapshot: Snapshot, sized: Sizing) -> tuple[dict[str, int], list[Reason]]:
        if self.slots is not None:  # stages take turns on the same slots
            most = tuple(max(least, min(u, self.slots)) for least, u in zip(sized.lower, sized.upper, strict=True))
            sized = replace(sized, upper=most, floor=tuple(map(min, sized.floor, most)))
        k = micro_batches.find_fewest(sized, self.target)
        reasons = micro_batches.explain_parallelism(snapshot, sized, k, self.target)
        return dict(zip(sized.operators, k, strict=True)), reasons


def create(target: Target | None, options: Options) -> DRS:
    name = f"drs-{options.get('rates', 'true')}"
    return read_options(DRS, name, options, target=require_target(name, target))


def erlang_b(servers: int, offered: float) -> float:
    """Return B(k) = aB(k−1) / (k + aB(k−1)), B(0) = 1. The recursion avoids factorials, which overflow near k = 170."""
    blocking = 1.0
    for k in range(1, servers + 1):
        blocking = _next_blocking(blocking, k, offered)
    return blocking


def erlang_c(servers: int, offered: float) -> float:
    """Return the probability that an arrival has to wait: `erlang_c(1, 0.5)` is 0.5."""
    return _waiting_probability(erlang_b(servers, offered), servers, offered)


def sojourn_seconds(arrivals: float, service: float, servers: int) -> float:
    """Return E[T_i] of M/M/k in seconds; infinite if the queue grows without end."""
    return Servers(Station(arrivals, service, least=servers, most=servers)).sojourn


@dataclass
class Servers:
    """The instances of one station while the greedy search adds to them. It starts at the fewest for a stable queue.

    B(k) is kept, so one more instance costs one multiplication.
    """

    station: Station
    k: int = field(init=False)
    blocking: float = field(init=False)  # B(k)

    def __post_init__(self) -> None:
        station = self.station
        stable = station.most if station.offered >= station.most else math.floor(station.offered) + 1
        self.set_instances(min(max(stable, station.least), station.most))

    def set_instances(self, k: int) -> None:
        self.k, self.blocking = k, erlang_b(k, self.station.offered)

    @property
    def sojourn(self) -> float:
        return self._sojourn(self.k, self.blocking)

    @property
    def gain(self) -> float:
        """The fall of E[T] with one more instance. It shrinks with k, so the greedy choice is optimal."""
        after = self._sojourn(self.k + 1, _next_blocking(self.blocking, self.k + 1, self.station.offered))
        return self.station.visits * (self.sojourn - after)

    @property
    def may_grow(self) -> bool:
        return self.k < self.station.most and self.station.visits > 0

    def grow(self) -> None:
        self.k += 1
        self.blocking = _next_blocking(self.blocking, self.k, self.station.offered)

    def _sojourn(self, k: int, blocking: float) -> float:
        spare = k * self.station.service - self.station.arrivals
        if spare <= 0:
            return math.inf
        return 1.0 / self.station.service + _waiting_probability(blocking, k, self.station.offered) / spare


def use_elapsed_time(snapshot: Snapshot) -> Snapshot:
    """Make every instance useful for the whole window. Then the true rates are the observed ones (DS2 Eq. 3–4)."""
    window = snapshot.window_seconds

    def make_busy(metrics: OperatorMetrics) -> OperatorMetrics:
        if metrics.instances:
            return replace(metrics, instances=tuple(replace(work, useful_seconds=window) for work in metrics.instances))
        return replace(metrics, useful_seconds=window * metrics.parallelism)

    return replace(snapshot, operators={name: make_busy(metrics) for name, metrics in snapshot.operators.items()})


def _allocate(servers: Sequence[Servers], target: float, slots: int | None) -> None:
    """Add the instance that lowers E[T] most, until E[T] is within the target, cannot fall, or no slot is left."""
    left = math.inf if slots is None else slots - sum(each.k for each in servers)
    if left < 0:
        _allocate_unstable(servers, slots or 0)
        return
    heap = [(-each.gain, i) for i, each in enumerate(servers) if each.may_grow]
    heapq.heapify(heap)
    total = _total_latency(servers)
    while total > target and math.isfinite(total) and heap and left > 0:
        loss, i = heap[0]
        if total + loss == total:
            break  # the gain is below the last digit of the total
        servers[i].grow()
        total += loss
        left -= 1
        if servers[i].may_grow:
            heapq.heapreplace(heap, (-servers[i].gain, i))
        else:
            heapq.heappop(heap)


def _allocate_unstable(servers: Sequence[Servers], slots: int) -> None:
    """Give each slot beyond the minima to the busiest station: the slots are too few for stable queues."""
    for each in servers:
        each.set_instances(each.station.least)
    for _ in range(slots - sum(each.k for each in servers)):
        busiest = max((each for each in servers if each.may_grow), key=lambda each: each.station.offered / each.k)
        busiest.grow()


def _total_latency(servers: Iterable[Servers]) -> float:
    return sum(each.station.visits * each.sojourn for each in servers if each.station.visits)


def _next_blocking(blocking: float, k: int, offered: float) -> float:
    return offered * blocking / (k + offered * blocking)


def _waiting_probability(blocking: float, k: int, offered: float) -> float:
    """Return C from B. At and above saturation every arrival waits."""
    busy = offered / k
    return 1.0 if busy >= 1 else blocking / (1.0 - busy * (1.0 - blocking))


def _explain_station(name: str, servers: Servers) -> Reason:
    station, k = servers.station, servers.k
    if not station.visits:
        return Reason("no-demand", f"{name}: no demand → {k}.", {"operator": name, "wanted": k})
    sojourn = format_seconds(servers.sojourn) if math.isfinite(servers.sojourn) else "a queue without end"
    text = (
        f"{name}: {format_amount(station.arrivals)}/s at {format_amount(station.service)}/s per instance, "
        f"{sojourn} on {k}."
    )
    numbers: dict[str, Number] = {
        "operator": name,
        "wanted": k,
        "utilisation": station.offered / k,
        "visits": station.visits,
    }
    if math.isfinite(servers.sojourn):
        numbers["sojourn_seconds"] = servers.sojourn
    return Reason("station", text, numbers)
