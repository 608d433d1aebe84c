"""The policies "queueing" and "queueing-path" (Elastic Pulsar §4.2): operators as GI/G/k stations.

| symbol     | meaning                                                                   | unit      |
|------------|---------------------------------------------------------------------------|-----------|
| λ, μ       | arrivals at the operator, service rate of one instance                     | records/s |
| ρ          | λ / (kμ), utilisation                                                      | [0, 1)    |
| c_a², c_s² | squared coefficients of variation of inter-arrival and service times       |           |
| P_k        | probability of having to wait                                              | [0, 1]    |
| T_q, T     | waiting time; response time, T = 1/μ + T_q                                 | s         |
| R_max      | maximum of T, of each operator or of each path from a source to a sink     | s         |
| α          | a path below α·R_max may give instances back                               | (0, 1)    |

Response times follow the Allen–Cunneen approximation. `function` gives every operator the fewest instances with
T ≤ R_max. `path` moves one instance at a time: on each path above R_max the slowest operator gets one more, on each
path below α·R_max the fastest gives one back.

differs: workers that run every operator are one station and one path (`stations`). A micro-batch has no queue in front
of each operator: `function` holds, and `path` uses the latency of the batch, its one path (`micro_batches`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from autotrascale.domain import checks
from autotrascale.domain.decision import Decision, Number, Reason
from autotrascale.domain.errors import InputError
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.target import Target
from autotrascale.domain.topology import Topology
from autotrascale.plan.formatting import format_seconds
from autotrascale.plan.policies import micro_batches
from autotrascale.plan.policies.base import Options, answer, clip, hold, hold_for_gaps, read_options, require_target
from autotrascale.plan.policies.reasons import (
    explain_hot_keys,
    explain_kept_sources,
    explain_latency,
    explain_mean_only,
    explain_no_counterpart,
    explain_still_behind,
)
from autotrascale.plan.policies.stations import (
    WORKERS,
    Station,
    build_stations,
    count_instances,
    expand_to_operators,
    explain_assumed_variability,
    find_unmeasured_stations,
)
from autotrascale.plan.sizing.sizing import Sizing, Unsized, size

Scope = Literal["function", "path"]
Stations = Mapping[str, Station]
_MAX_PATHS = 10_000


@dataclass(frozen=True)
class Queueing:
    """A policy that keeps response times of operators, or of paths, within the target."""

    target: Target
    scope: Scope = "function"
    alpha: float = 0.5

    def __post_init__(self) -> None:
        if self.scope not in ("function", "path"):
            raise InputError("scope", "is not one of the two", seen=self.scope, remedy="use function or path")
        checks.share("alpha", self.alpha)

    @property
    def name(self) -> str:
        return "queueing" if self.scope == "function" else "queueing-path"

    def decide(self, snapshot: Snapshot) -> Decision:
        is_batched = snapshot.execution == "micro-batch"
        if is_batched and self.scope == "function":
            why = "a micro-batch has no queue in front of each operator, and no response time for each"
            return hold(
                self.name, snapshot, [explain_no_counterpart("micro-batch", why, ["queueing-path", "drs-true"])]
            )
        sized = size(snapshot, self.target)
        if isinstance(sized, Unsized):
            return hold_for_gaps(self.name, snapshot, sized)
        wanted, reasons = self._decide_batches(snapshot, sized) if is_batched else self._decide_queues(snapshot, sized)
        reasons = [*reasons, *explain_mean_only(self.target)]
        unmeasured = find_unmeasured_stations(snapshot, sized) if self.scope == "path" else ()
        return answer(self.name, snapshot, wanted, reasons, sized, unmeasured)

    def _decide_batches(self, snapshot: Snapshot, sized: Sizing) -> tuple[dict[str, int], list[Reason]]:
        k, reasons = micro_batches.move_one_instance(snapshot, sized, self.target, self.alpha)
        return dict(zip(sized.operators, k, strict=True)), reasons

    def _decide_queues(self, snapshot: Snapshot, sized: Sizing) -> tuple[dict[str, int], list[Reason]]:
        stations = build_stations(snapshot, sized)
        if self.scope == "function":
            by_station, reasons = self._decide_functions(stations)
        else:
            by_station, reasons = self._decide_paths(snapshot, stations)
        wanted = expand_to_operators(snapshot, by_station)
        behind = explain_still_behind(sized, tuple(wanted.values())) if self.scope == "path" else []
        kept, hot = explain_kept_sources(snapshot, sized), explain_hot_keys(snapshot, sized)
        return wanted, [*kept, *reasons, *behind, *hot, *explain_assumed_variability(snapshot, stations)]

    def _decide_functions(self, stations: Stations) -> tuple[dict[str, int], list[Reason]]:
        found = {name: find_fewest(station, self.target.latency_seconds) for name, station in stations.items()}
        return found, [self._explain_station(name, station, found[name]) for name, station in stations.items()]

    def _explain_station(self, name: str, station: Station, k: int) -> Reason:
        stuck = "more instances do not lower it enough"
        reason = explain_latency(estimate_response(station, k), self.target, stuck)
        numbers = {"operator": name, "wanted": k, **reason.numbers}
        return Reason(reason.code, f"{name}: {k} instances. {reason.text}", numbers)

    def _decide_paths(self, snapshot: Snapshot, stations: Stations) -> tuple[dict[str, int], list[Reason]]:
        k = count_instances(snapshot, stations)
        responses = {name: estimate_response(station, k[name]) for name, station in stations.items()}
        grow, shrink = set[str](), set[str]()
        slowest_through: dict[str, float] = {}  # seconds of the slowest path through an operator
        for path in [(WORKERS,)] if snapshot.execution == "shared" else list_paths(snapshot.topology):
            total = sum(responses.get(name, 0.0) for name in path)
            for name in path:
                slowest_through[name] = max(slowest_through.get(name, 0.0), total)
            known = [name for name in path if name in stations]
            if total > self.target.latency_seconds:
                grow |= _slowest([name for name in known if k[name] < stations[name].most], responses)
            elif total < self.alpha * self.target.latency_seconds:
                shrink |= _fastest([name for name in known if k[name] > stations[name].least], responses)
        for name in sorted(shrink - grow):
            # differs: the paper does not check whether another path needs the instance, which would come back at once.
            loss = estimate_response(stations[name], k[name] - 1) - responses[name]
            if slowest_through[name] + loss > self.target.latency_seconds:
                shrink.remove(name)
        found = {name: own + (name in grow) - (name in shrink - grow) for name, own in k.items()}
        reasons = [_explain_move(name, k[name], found[name], responses[name]) for name in responses]
        return found, [*reasons, _explain_slowest_path(max(slowest_through.values()), self.target)]


def create(target: Target | None, options: Options) -> Queueing:
    name = "queueing-path" if options.get("scope") == "path" else "queueing"
    return read_options(Queueing, name, options, target=require_target(name, target))


def estimate_response(station: Station, k: int) -> float:
    """Return T on `k` instances in seconds; infinite if they are saturated."""
    return 1.0 / station.service + estimate_waiting(station.arrivals, station.service, k, station.variability)


def estimate_waiting(arrivals: float, service: float, k: int, variability: float = 2.0) -> float:
    """Return T_q ≈ (c_a² + c_s²)/(2k) · P_k / (μ(1 − ρ)) in seconds."""  # Eq. 1
    rho = arrivals / (k * service)
    if rho >= 1:
        return math.inf
    return variability / (2 * k) * compute_waiting_probability(rho, k) / (service * (1 - rho))


def compute_waiting_probability(rho: float, k: int) -> float:
    """Return P_k. differs: the paper prints the second exponent as a root of k + 1; it is (k + 1)/2."""  # Eq. 2
    return (rho**k + rho) / 2 if rho >= 0.7 else rho ** ((k + 1) / 2)


def find_fewest(station: Station, most_seconds: float) -> int:
    """Return the first k within the bounds with T ≤ R_max, or the maximum if there is none (§4.2.1)."""
    least, most = station.least, station.most
    if 1.0 / station.service > most_seconds or station.offered >= most:
        return most
    for k in range(clip(math.floor(station.offered) + 1, least, most), most):
        if estimate_response(station, k) <= most_seconds:
            return k
    return most


def list_paths(topology: Topology) -> list[tuple[str, ...]]:
    """Return every path from a source to a sink. Raise `InputError` if there are too many."""
    downstream: dict[str, list[str]] = {name: [] for name in topology}
    for name, operator in topology.operators.items():
        for upstream in operator.upstream:
            downstream[upstream].append(name)
    paths = list(islice(_walk_paths(topology.sources, downstream), _MAX_PATHS + 1))
    if len(paths) > _MAX_PATHS:
        raise InputError(
            "policy queueing-path",
            f"needs every path, and this job has more than {_MAX_PATHS:,}",
            remedy="use queueing, which needs every operator",
        )
    return paths


def _walk_paths(starts: tuple[str, ...], downstream: Mapping[str, list[str]]) -> Iterator[tuple[str, ...]]:
    """Walk depth first with an explicit stack: a chain of a thousand operators is too deep for recursion."""
    stack: list[tuple[str, ...]] = [(name,) for name in reversed(starts)]
    while stack:
        path = stack.pop()
        if downstream[path[-1]]:
            stack += [(*path, name) for name in reversed(downstream[path[-1]])]
        else:
            yield path


def _slowest(names: Sequence[str], responses: Mapping[str, float]) -> set[str]:
    return {max(names, key=lambda name: responses[name])} if names else set()


def _fastest(names: Sequence[str], responses: Mapping[str, float]) -> set[str]:
    return {min(names, key=lambda name: responses[name])} if names else set()


def _explain_move(name: str, running: int, wanted: int, response: float) -> Reason:
    numbers: dict[str, Number] = {"operator": name, "running": running, "wanted": wanted}
    if math.isfinite(response):  # JSON has no infinity
        numbers["response_seconds"] = response
    takes = f"{format_seconds(response)} on {running}" if math.isfinite(response) else f"saturated on {running}"
    if wanted == running:
        return Reason("kept", f"{name}: {takes}, no change.", numbers)
    code, word = ("slowest", "slow") if wanted > running else ("fastest", "quick")
    return Reason(code, f"{name} {running} → {wanted}: {takes}, the {code} of a {word} path.", numbers)


def _explain_slowest_path(expected: float, target: Target) -> Reason:
    numbers: dict[str, Number] = {"target_seconds": target.latency_seconds}
    if math.isinf(expected):
        return Reason("latency", "The slowest path is saturated at the running parallelism.", numbers)
    text = (
        f"Latency of the slowest path at the running parallelism {format_seconds(expected)} "
        f"(target {format_seconds(target.latency_seconds)})."
    )
    return Reason("latency", text, numbers | {"predicted_seconds": expected})
