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

differs: workers that run every operator are one station, and one path (`stations`). A micro-batch has no queue in front
of each operator: `function` holds, and `path`, whose one path it is, looks at the latency of the batch (`batches`).
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
from autotrascale.plan.policies import Options, micro_batches
from autotrascale.plan.policies.base import answer, clip, hold, hold_for_gaps, read_options, require_target
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
_MOST_PATHS = 10_000


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
        in_batches = snapshot.execution == "micro-batch"
        if in_batches and self.scope == "function":
            return hold(self.name, snapshot, [_no_queues()])
        sized = size(snapshot, self.target)
        if isinstance(sized, Unsized):
            return hold_for_gaps(self.name, snapshot, sized)
        wanted, reasons = self._in_batches(snapshot, sized) if in_batches else self._in_queues(snapshot, sized)
        reasons = [*reasons, *explain_mean_only(self.target)]
        unmeasured = find_unmeasured_stations(snapshot, sized) if self.scope == "path" else ()
        return answer(self.name, snapshot, wanted, reasons, sized, unmeasured)

    def _in_batches(self, snapshot: Snapshot, sized: Sizing) -> tuple[dict[str, int], list[Reason]]:
        k, reasons = micro_batches.move_one_instance(snapshot, sized, self.target, self.alpha)
        return dict(zip(sized.operators, k, strict=True)), reasons

    def _in_queues(self, snapshot: Snapshot, sized: Sizing) -> tuple[dict[str, int], list[Reason]]:
        known = build_stations(snapshot, sized)
        rule = self._per_function if self.scope == "function" else self._per_path
        found, reasons = rule(snapshot, known)
        wanted = expand_to_operators(snapshot, found)
        behind = explain_still_behind(sized, tuple(wanted.values())) if self.scope == "path" else []
        kept, hot = explain_kept_sources(snapshot, sized), explain_hot_keys(snapshot, sized)
        return wanted, [*kept, *reasons, *behind, *hot, *explain_assumed_variability(snapshot, known)]

    def _per_function(self, snapshot: Snapshot, known: Stations) -> tuple[dict[str, int], list[Reason]]:  # noqa: ARG002
        found = {name: find_fewest(station, self.target.latency_seconds) for name, station in known.items()}
        return found, [self._explain(name, station, found[name]) for name, station in known.items()]

    def _explain(self, name: str, station: Station, k: int) -> Reason:
        reached = explain_latency(estimate_response(station, k), self.target, "more instances do not lower it enough")
        numbers = {"operator": name, "wanted": k, **reached.numbers}
        return Reason(reached.code, f"{name}: on {k} {reached.text}", numbers)

    def _per_path(self, snapshot: Snapshot, known: Stations) -> tuple[dict[str, int], list[Reason]]:
        k = count_instances(snapshot, known)
        now = {name: estimate_response(station, k[name]) for name, station in known.items()}
        grow, shrink = set[str](), set[str]()
        slowest_kept: dict[str, float] = {}  # the slowest path through an operator
        for path in [(WORKERS,)] if snapshot.execution == "shared" else list_paths(snapshot.topology):
            total = sum(now.get(name, 0.0) for name in path)
            for name in path:
                slowest_kept[name] = max(slowest_kept.get(name, 0.0), total)
            if total > self.target.latency_seconds:
                grow |= _slowest([name for name in path if name in known and k[name] < known[name].most], now)
            elif total < self.alpha * self.target.latency_seconds:
                shrink |= _fastest([name for name in path if name in known and k[name] > known[name].least], now)
        for name in sorted(shrink - grow):
            # differs: the paper gives back blindly. An instance that another path needs would come back at once.
            loss = estimate_response(known[name], k[name] - 1) - now[name]
            if slowest_kept[name] + loss > self.target.latency_seconds:
                shrink.remove(name)
        found = {name: own + (name in grow) - (name in shrink - grow) for name, own in k.items()}
        reasons = [_moved(name, k[name], found[name], now[name]) for name in now]
        return found, [*reasons, _slowest_path(max(slowest_kept.values()), self.target)]


def create(target: Target | None, options: Options) -> Queueing:
    name = "queueing-path" if options.get("scope") == "path" else "queueing"
    return read_options(Queueing, name, options, target=require_target(name, target))


def estimate_response(station: Station, k: int) -> float:
    """T in seconds on k instances; infinite when they are saturated."""
    return 1.0 / station.service + estimate_waiting(station.arrivals, station.service, k, station.variability)


def estimate_waiting(arrivals: float, service: float, k: int, variability: float = 2.0) -> float:
    """T_q ≈ (c_a² + c_s²)/(2k) · P_k / (μ(1 − ρ))  (Elastic Pulsar Eq. 1)."""
    rho = arrivals / (k * service)
    if rho >= 1:
        return math.inf
    return variability / (2 * k) * compute_waiting_probability(rho, k) / (service * (1 - rho))


def compute_waiting_probability(rho: float, k: int) -> float:
    """P_k (Eq. 2). differs: the paper prints the second exponent as a root of k + 1; it is (k + 1)/2."""
    return (rho**k + rho) / 2 if rho >= 0.7 else rho ** ((k + 1) / 2)


def find_fewest(station: Station, most_seconds: float) -> int:
    """The first k within the bounds with T ≤ R_max; the most it may have when there is none (§4.2.1)."""
    least, most = station.least, station.most
    if 1.0 / station.service > most_seconds or station.offered >= most:
        return most
    for k in range(clip(math.floor(station.offered) + 1, least, most), most):
        if estimate_response(station, k) <= most_seconds:
            return k
    return most


def list_paths(topology: Topology) -> list[tuple[str, ...]]:
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


def _no_queues() -> Reason:
    why = "a micro-batch has no queue in front of each operator, and no response time of its own for each"
    return explain_no_counterpart("micro-batch", why, ["queueing-path", "drs-true"])


def _slowest(able: Sequence[str], now: Mapping[str, float]) -> set[str]:
    return {max(able, key=lambda name: now[name])} if able else set()


def _fastest(able: Sequence[str], now: Mapping[str, float]) -> set[str]:
    return {min(able, key=lambda name: now[name])} if able else set()


def _moved(name: str, running: int, wanted: int, response: float) -> Reason:
    numbers: dict[str, Number] = {"operator": name, "running": running, "wanted": wanted}
    if math.isfinite(response):  # JSON cannot carry infinity
        numbers["response_seconds"] = response
    takes = f"takes {format_seconds(response)} on" if math.isfinite(response) else "is saturated on"
    if wanted == running:
        return Reason("kept", f"{name}: {takes} {running}, kept", numbers)
    code, word = ("slowest", "slow") if wanted > running else ("fastest", "quick")
    return Reason(code, f"{name}: {takes} {running}, the {code} of a {word} path → {wanted}", numbers)


def _slowest_path(expected: float, target: Target) -> Reason:
    numbers: dict[str, Number] = {"target_seconds": target.latency_seconds}
    if math.isinf(expected):
        return Reason("latency", "the slowest path is saturated as it runs", numbers)
    text = f"the slowest path takes {format_seconds(expected)} as it runs, the target is {format_seconds(target.latency_seconds)}"
    return Reason("latency", text, numbers | {"predicted_seconds": expected})
