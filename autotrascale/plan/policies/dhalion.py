"""Dhalion (Floratou et al., VLDB '17): back-pressure names one operator, which is scaled up and then watched.

| symbol | meaning                                                                               | unit |
|--------|---------------------------------------------------------------------------------------|------|
| s      | back-pressure the operator causes, summed over the operators it holds up, at most 999   | ms/s |
| n      | its instances now; new = ceil(n · (1 + min(4, s / (1000 − s))))                         |      |

The operator that causes back-pressure is the one that is not held up itself while its upstream is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from autotrascale.domain import checks
from autotrascale.domain.decision import Decision, Number, Reason
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.target import Target
from autotrascale.plan.policies import Options
from autotrascale.plan.policies.base import answer, hold, read_options
from autotrascale.plan.policies.reasons import unknown_signal
from autotrascale.plan.sizing.sizing import limits

_MOST_MS = 999.0  # 1000 would divide by zero
_MOST_GROWTH = 4.0


@dataclass(frozen=True)
class Action:
    """What was last asked for: to judge it, what the back-pressure was then, and from which parallelism."""

    operator: str
    before: int
    wanted: int
    pressure: float


@dataclass(frozen=True)
class Memory:
    """What one snapshot leaves for the next."""

    rates: Mapping[str, float] | None = None
    action: Action | None = None
    waited: int = 0
    blacklist: frozenset[str] = frozenset()


class Dhalion:
    """Remembers what it did last: one object belongs to one job. A snapshot that shows the action done starts the wait.
    An operator that causes as much back-pressure after it as before is blacklisted until the rates change."""

    name = "dhalion"

    def __init__(self, options: DhalionOptions | None = None) -> None:
        self.options = options or DhalionOptions()
        self.memory = Memory()

    def decide(self, snapshot: Snapshot) -> Decision:
        unknown = [
            name for name, metrics in snapshot.operators.items() if _silent(snapshot, name, metrics.backpressure)
        ]
        if unknown:
            return hold(self.name, snapshot, [unknown_signal("backpressure", "backpressure", unknown)])
        decision, self.memory = self._next(snapshot, _pressures(snapshot, self.options.noise_ms))
        return decision

    def _next(self, snapshot: Snapshot, pressures: Mapping[str, float]) -> tuple[Decision, Memory]:
        memory = self.memory
        reasons: list[Reason] = []
        if memory.rates is not None and memory.rates != snapshot.source_rates:
            memory = replace(memory, blacklist=frozenset())
        memory = replace(memory, rates=dict(snapshot.source_rates))
        if memory.action and snapshot.operators[memory.action.operator].parallelism == memory.action.wanted:
            if memory.waited < self.options.wait_windows:
                waiting = replace(memory, waited=memory.waited + 1)
                return hold(self.name, snapshot, [_waiting(memory.action, waiting.waited, self.options)]), waiting
            memory, reasons = _judge(memory, memory.action, pressures)
        return self._act(snapshot, pressures, memory, reasons)

    def _act(
        self, snapshot: Snapshot, pressures: Mapping[str, float], memory: Memory, reasons: list[Reason]
    ) -> tuple[Decision, Memory]:
        memory = replace(memory, action=None, waited=0)
        reasons = [*reasons, *(_blacklisted(name) for name in pressures if name in memory.blacklist)]
        able = [
            n
            for n in pressures
            if n not in memory.blacklist and snapshot.operators[n].parallelism < limits(snapshot, n)[1]
        ]
        if not able:
            return answer(self.name, snapshot, snapshot.parallelism, [*reasons, _nothing(snapshot, pressures)]), memory
        name = max(able, key=lambda candidate: pressures[candidate])
        n, pressure = snapshot.operators[name].parallelism, pressures[name]
        wanted = min(grown(n, pressure), limits(snapshot, name)[1])
        text = f"{name}: causes {pressure:.0f} ms of back-pressure per second: {n} → {wanted}"
        numbers: dict[str, Number] = {"operator": name, "backpressure_ms": pressure, "running": n, "wanted": wanted}
        decision = answer(
            self.name,
            snapshot,
            {**snapshot.parallelism, name: wanted},
            [*reasons, Reason("backpressure", text, numbers)],
        )
        return decision, replace(memory, action=Action(name, n, wanted, pressure))


@dataclass(frozen=True)
class DhalionOptions:
    wait_windows: int = 1  # snapshots left alone after an action was carried out
    noise_ms: float = 1.0  # back-pressure of less than this per second counts as none

    def __post_init__(self) -> None:
        checks.count("wait_windows", self.wait_windows, least=0)
        checks.non_negative("noise_ms", self.noise_ms)


def create(target: Target | None, options: Options) -> Dhalion:  # noqa: ARG001 - every policy is created alike
    return Dhalion(read_options(DhalionOptions, "dhalion", options))


def grown(instances: int, pressure: float) -> int:
    """`grown(1, 900)` is 5, `grown(5, 500)` is 10."""
    s = min(_MOST_MS, pressure)
    # A hair off before ceil: 5 · (1 + 500/500) must not become 11 by a rounding of s.
    return math.ceil(instances * (1 + min(_MOST_GROWTH, s / (1000 - s))) * (1 - 1e-9))


def _pressures(snapshot: Snapshot, noise: float) -> dict[str, float]:
    """s for every operator that causes back-pressure: it is not held up, and operators before it are."""
    held = {name: 1000 * (metrics.backpressure or 0.0) for name, metrics in snapshot.operators.items()}
    summed = {
        name: min(_MOST_MS, sum(held[upstream] for upstream in metrics.upstream))
        for name, metrics in snapshot.operators.items()
        if held[name] <= noise
    }
    return {name: pressure for name, pressure in summed.items() if pressure > noise}


def _silent(snapshot: Snapshot, name: str, backpressure: float | None) -> bool:
    """The last operators of a job push to nobody, so nobody can hold them up, and they need not say so."""
    return backpressure is None and any(name in metrics.upstream for metrics in snapshot.operators.values())


def _judge(memory: Memory, action: Action, pressures: Mapping[str, float]) -> tuple[Memory, list[Reason]]:
    now = pressures.get(action.operator, 0.0)
    if now < action.pressure:
        return memory, []
    text = (
        f"{action.operator}: {action.before} → {action.wanted} did not help, "
        f"back-pressure went from {action.pressure:.0f} to {now:.0f} ms per second"
    )
    numbers: dict[str, Number] = {"operator": action.operator, "before_ms": action.pressure, "after_ms": now}
    return replace(memory, blacklist=memory.blacklist | {action.operator}), [Reason("ineffective", text, numbers)]


def _waiting(action: Action, waited: int, options: DhalionOptions) -> Reason:
    text = (
        f"waiting for {action.operator} {action.before} → {action.wanted} to settle: {waited} of {options.wait_windows}"
    )
    return Reason("hold-waiting", text, {"operator": action.operator, "waited": waited, "wait": options.wait_windows})


def _blacklisted(name: str) -> Reason:
    return Reason("blacklisted", f"{name}: scaling it did not help at these rates, left alone", {"operator": name})


def _nothing(snapshot: Snapshot, pressures: Mapping[str, float]) -> Reason:
    if not pressures:
        return Reason("no-backpressure", "no operator causes back-pressure: nothing to do")
    names = ", ".join(f"{name} ({snapshot.operators[name].parallelism})" for name in pressures)
    return Reason("no-action-left", f"back-pressure remains, but no more can be done for {names}")
