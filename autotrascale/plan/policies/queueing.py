"""Queueing (Elastic Pulsar §4.2): operators as GI/G/k stations, response times by the Allen–Cunneen approximation.

| symbol   | meaning                                                                     | unit      |
|----------|-----------------------------------------------------------------------------|-----------|
| λ, μ     | arrivals at the operator, service rate of one instance                       | records/s |
| ρ        | λ / (kμ), utilisation                                                        | [0, 1)    |
| c_a², c_s² | squared coefficients of variation of inter-arrival and service times        |           |
| P_k      | probability of having to wait                                                | [0, 1]    |
| T_q, T   | waiting time; response time, T = 1/μ + T_q                                   | s         |
| R_max    | what T may be: of each operator, or of each path from a source to a sink     | s         |
| α        | a path below α·R_max has something to give back                              | (0, 1)    |

`function` gives every operator the fewest instances with T ≤ R_max. `path` moves by one instance at a time: on each
path above R_max the slowest operator gets one more, on each below α·R_max the fastest gives one back.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from autotrascale.domain import checks
from autotrascale.domain.decision import Decision, Number, Reason
from autotrascale.domain.errors import InputError
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.target import Target
from autotrascale.domain.topology import Topology
from autotrascale.plan.policies import Options
from autotrascale.plan.policies.base import (
    answer,
    clip,
    hold_for_gaps,
    kept_sources,
    latency_reached,
    read_options,
    require_target,
    speaks_of_the_mean,
)
from autotrascale.plan.sizing.sizing import Sizing, Unsized, limits, size
from autotrascale.plan.words import amount

Scope = Literal["function", "path"]
_MOST_PATHS = 10_000
# c² where it was not measured: Poisson arrivals and exponential service, which makes GI/G/1 the plain M/M/1.
_UNMEASURED_CV2 = 1.0


@dataclass(frozen=True)
class Station:
    arrivals: float
    service: float
    variability: float = 2 * _UNMEASURED_CV2  # c_a² + c_s²

    def response(self, k: int) -> float:
        """T in seconds on k instances; infinite when they are saturated."""
        return 1.0 / self.service + waiting(self.arrivals, self.service, k, self.variability)


@dataclass(frozen=True)
class Queueing:
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
        sized = size(snapshot, self.target)
        if isinstance(sized, Unsized):
            return hold_for_gaps(self.name, snapshot, sized)
        stations = _stations(snapshot, sized)
        rule = self._per_function if self.scope == "function" else self._per_path
        wanted, reasons = rule(snapshot, stations)
        reasons = [*kept_sources(snapshot, sized), *reasons, *_assumed(snapshot, stations)]
        reasons += speaks_of_the_mean(self.target)
        return answer(self.name, snapshot, wanted, reasons)

    def _per_function(self, snapshot: Snapshot, stations: Mapping[str, Station]) -> tuple[dict[str, int], list[Reason]]:
        wanted = snapshot.parallelism | {
            name: fewest(station, self.target.latency_seconds, *limits(snapshot, name))
            for name, station in stations.items()
        }
        return wanted, [self._explain(name, station, wanted[name]) for name, station in stations.items()]

    def _explain(self, name: str, station: Station, k: int) -> Reason:
        reached = latency_reached(station.response(k), self.target, "more instances do not lower it enough")
        numbers = {"operator": name, "wanted": k, **reached.numbers}
        return Reason(reached.code, f"{name}: on {k} {reached.text}", numbers)

    def _per_path(self, snapshot: Snapshot, stations: Mapping[str, Station]) -> tuple[dict[str, int], list[Reason]]:
        running = snapshot.parallelism
        response = {name: station.response(running[name]) for name, station in stations.items()}
        grow, shrink = set[str](), set[str]()
        slowest_kept: dict[str, float] = {}  # the slowest path through an operator
        for path in paths(snapshot.topology):
            total = sum(response.get(name, 0.0) for name in path)
            for name in path:
                slowest_kept[name] = max(slowest_kept.get(name, 0.0), total)
            if total > self.target.latency_seconds:
                grow |= _slowest(path, response, snapshot)
            elif total < self.alpha * self.target.latency_seconds:
                shrink |= _fastest(path, response, snapshot)
        for name in sorted(shrink - grow):
            # differs: the paper gives back blindly. An instance that another path needs would come back at once.
            loss = stations[name].response(running[name] - 1) - response[name]
            if slowest_kept[name] + loss > self.target.latency_seconds:
                shrink.remove(name)
        wanted = {name: k + (name in grow) - (name in shrink - grow) for name, k in running.items()}
        reasons = [_moved(name, running[name], wanted[name], response[name]) for name in response]
        return wanted, [*reasons, _slowest_path(max(slowest_kept.values()), self.target)]


def create(target: Target | None, options: Options) -> Queueing:
    name = "queueing-path" if options.get("scope") == "path" else "queueing"
    return read_options(Queueing, name, options, target=require_target(name, target))


def waiting(arrivals: float, service: float, k: int, variability: float = 2.0) -> float:
    """T_q ≈ (c_a² + c_s²)/(2k) · P_k / (μ(1 − ρ))  (Elastic Pulsar Eq. 1)."""
    rho = arrivals / (k * service)
    if rho >= 1:
        return math.inf
    return variability / (2 * k) * must_wait(rho, k) / (service * (1 - rho))


def must_wait(rho: float, k: int) -> float:
    """P_k (Eq. 2). differs: the paper prints the second exponent as a root of k + 1; it is (k + 1)/2."""
    return (rho**k + rho) / 2 if rho >= 0.7 else rho ** ((k + 1) / 2)


def fewest(station: Station, most_seconds: float, least: int, most: int) -> int:
    """The first k from `least` on with T ≤ R_max; `most` when there is none (§4.2.1)."""
    offered = station.arrivals / station.service
    if 1.0 / station.service > most_seconds or offered >= most:
        return most
    for k in range(clip(math.floor(offered) + 1, least, most), most):
        if station.response(k) <= most_seconds:
            return k
    return most


def paths(topology: Topology) -> list[tuple[str, ...]]:
    """Every path from a source to a sink."""
    downstream: dict[str, list[str]] = {name: [] for name in topology}
    for name, operator in topology.operators.items():
        for upstream in operator.upstream:
            downstream[upstream].append(name)

    found = list(islice(_walk(topology.sources, downstream), _MOST_PATHS + 1))
    if len(found) > _MOST_PATHS:
        raise InputError(
            "policy queueing-path",
            f"looks at every path, and this job has more than {_MOST_PATHS:,}",
            remedy="use queueing, which looks at every operator",
        )
    return found


def _walk(starts: tuple[str, ...], downstream: Mapping[str, list[str]]) -> Iterator[tuple[str, ...]]:
    """Depth first with a stack of its own: a chain of a thousand operators is deeper than Python calls may nest."""
    stack: list[tuple[str, ...]] = [(name,) for name in reversed(starts)]
    while stack:
        path = stack.pop()
        if downstream[path[-1]]:
            stack += [(*path, name) for name in reversed(downstream[path[-1]])]
        else:
            yield path


def _stations(snapshot: Snapshot, sized: Sizing) -> dict[str, Station]:
    stations = {}
    for name, arrivals, service in zip(sized.operators, sized.demand, sized.capacity, strict=True):
        metrics = snapshot.operators[name]
        if arrivals == 0:
            stations[name] = Station(0.0, math.inf)  # nothing comes, nothing waits
        elif arrivals is not None and service is not None:
            arrival = _UNMEASURED_CV2 if metrics.arrival_cv2 is None else metrics.arrival_cv2
            each = _UNMEASURED_CV2 if metrics.service_cv2 is None else metrics.service_cv2
            stations[name] = Station(arrivals, service, arrival + each)
    return stations


def _slowest(path: tuple[str, ...], response: Mapping[str, float], snapshot: Snapshot) -> set[str]:
    able = [n for n in path if n in response and snapshot.operators[n].parallelism < limits(snapshot, n)[1]]
    return {max(able, key=lambda name: response[name])} if able else set()


def _fastest(path: tuple[str, ...], response: Mapping[str, float], snapshot: Snapshot) -> set[str]:
    able = [n for n in path if n in response and snapshot.operators[n].parallelism > limits(snapshot, n)[0]]
    return {min(able, key=lambda name: response[name])} if able else set()


def _moved(name: str, running: int, wanted: int, response: float) -> Reason:
    numbers: dict[str, Number] = {"operator": name, "running": running, "wanted": wanted}
    if math.isfinite(response):  # JSON cannot carry infinity
        numbers["response_seconds"] = response
    takes = f"takes {amount(response)} s on" if math.isfinite(response) else "is saturated on"
    if wanted == running:
        return Reason("kept", f"{name}: {takes} {running}, kept", numbers)
    code, word = ("slowest", "slow") if wanted > running else ("fastest", "quick")
    return Reason(code, f"{name}: {takes} {running}, the {code} of a {word} path → {wanted}", numbers)


def _slowest_path(seconds: float, target: Target) -> Reason:
    numbers: dict[str, Number] = {"target_seconds": target.latency_seconds}
    if math.isinf(seconds):
        return Reason("latency", "the slowest path is saturated as it runs", numbers)
    text = f"the slowest path takes {amount(seconds)} s as it runs, the target is {amount(target.latency_seconds)} s"
    return Reason("latency", text, numbers | {"predicted_seconds": seconds})


def _assumed(snapshot: Snapshot, stations: Mapping[str, Station]) -> list[Reason]:
    operators = snapshot.operators
    busy = [name for name, station in stations.items() if station.arrivals]
    names = [n for n in busy if operators[n].arrival_cv2 is None or operators[n].service_cv2 is None]
    if not names:
        return []
    text = f"variability not measured for {len(names)} of {len(operators)} operators: taken as {_UNMEASURED_CV2:g}"
    return [Reason("assumed-variability", text, {"operators": len(names), "assumed_cv2": _UNMEASURED_CV2})]
