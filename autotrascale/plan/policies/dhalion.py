"""The policy Dhalion (Floratou et al., VLDB '17): symptoms, a diagnosis, one action, and a check of its effect.

| symbol | meaning                                                                               | unit |
|--------|---------------------------------------------------------------------------------------|------|
| s      | back-pressure that the operator causes (`dhalion_symptoms`)                             | ms/s |
| n      | its running instances                                                                 |      |

    under-provisioned    new = ceil(n · (1 + min(4, s / (1000 − s))))                  up
    over-provisioned     new = floor(n · 0.8), at least one fewer                      down
    skewed, slow         no action: Dhalion would repartition keys or restart the instance, which no parallelism does

Dhalion takes one action at a time. After the action it waits, then judges the effect. An operator and direction that
did not help are blacklisted until the rates change.

differs: an operator that was scaled up at these rates is not scaled down at them, and a scale-down that brought
back-pressure is undone completely. On Heron the length of queues keeps the two from alternating for ever.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from autotrascale.domain import checks
from autotrascale.domain.decision import Decision, Number, Reason
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.target import Target
from autotrascale.plan.formatting import format_percent
from autotrascale.plan.policies.base import Options, answer, hold, read_options
from autotrascale.plan.policies.dhalion_memory import (
    DhalionAction,
    DhalionMemory,
    explain_blacklisted,
    explain_waiting,
    forget_at_new_rates,
    judge_scale_up,
    parse_memory,
)
from autotrascale.plan.policies.dhalion_symptoms import (
    MAX_BACKPRESSURE_MS,
    Symptoms,
    Thresholds,
    detect_symptoms,
    diagnose_symptoms,
    find_unknown_backpressure,
    measure_backpressure,
)
from autotrascale.plan.policies.reasons import explain_unknown_signal
from autotrascale.plan.sizing.sizing import get_bounds

_MAX_GROWTH = 4.0


@dataclass(frozen=True)
class DhalionOptions(Thresholds):
    """The options of the policy, thresholds of the detectors included."""

    wait_windows: int = 1  # snapshots without action after an action was carried out
    scale_down: float = 0.8  # share of its instances that an over-provisioned operator keeps; 1: never scale down
    rate_change: float = 0.1  # share by which a source's rate must change to forget what did not help

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.count("wait_windows", self.wait_windows, least=0)
        checks.share("scale_down", self.scale_down)
        checks.non_negative("rate_change", self.rate_change)


class Dhalion:
    """The policy for one job. A snapshot that shows the last action carried out starts the wait."""

    name = "dhalion"

    def __init__(self, options: DhalionOptions | None = None, memory: DhalionMemory | None = None) -> None:
        self.options = options or DhalionOptions()
        self.memory = memory or DhalionMemory()

    def get_memory(self) -> dict[str, object]:
        return asdict(self.memory)

    def with_memory(self, memory: Mapping[str, object]) -> Dhalion:
        return Dhalion(self.options, parse_memory(memory))

    def decide(self, snapshot: Snapshot) -> Decision:
        if unknown := find_unknown_backpressure(snapshot):
            return hold(self.name, snapshot, [explain_unknown_signal("backpressure", "backpressure", unknown)])
        memory = forget_at_new_rates(self.memory, snapshot, self.options.rate_change)
        decision, self.memory = self._decide(snapshot, memory)
        return decision

    def _decide(self, snapshot: Snapshot, memory: DhalionMemory) -> tuple[Decision, DhalionMemory]:
        action = memory.action
        if action is None or snapshot.parallelism.get(action.operator) != action.wanted:
            return self._act(snapshot, memory, [])  # an action that was not carried out cannot be judged
        if memory.waited < self.options.wait_windows:
            memory = replace(memory, waited=memory.waited + 1)
            reason = explain_waiting(action, memory.waited, self.options.wait_windows)
            return hold(self.name, snapshot, [reason]), memory
        caused = measure_backpressure(snapshot, self.options)
        if action.direction == "up":
            return self._act(snapshot, *judge_scale_up(memory, action, caused.get(action.operator, 0.0)))
        if not caused or not action.comparable:
            return self._act(snapshot, memory, [])
        return self._undo_scale_down(snapshot, memory, action, max(caused.values()))

    def _act(self, snapshot: Snapshot, memory: DhalionMemory, reasons: list[Reason]) -> tuple[Decision, DhalionMemory]:
        """Act on the worst diagnosis that has an action."""
        memory = replace(memory, action=None, waited=0)
        diagnosed = [
            (each, diagnose_symptoms(each, snapshot, self.options)) for each in detect_symptoms(snapshot, self.options)
        ]
        reasons += [_explain_no_action(each, what) for each, what in diagnosed if what in ("skewed", "slow-instance")]
        if pressed := [each for each, _ in diagnosed if each.pressure > 0]:
            reasons += [explain_blacklisted(each.operator) for each in pressed if each.operator in memory.up]
            growable = [
                each for each, what in diagnosed if what == "under-provisioned" and _may_grow(snapshot, each, memory)
            ]
            return self._scale_up(snapshot, memory, reasons, pressed, growable)
        if unknown := [each.operator for each, _ in diagnosed if each.pending is None]:  # may hold up other operators
            reasons.append(explain_unknown_signal("backlog", "backlog_records", unknown))
            return self._scale_down(snapshot, memory, reasons, [])
        spare = [
            each for each, what in diagnosed if what == "over-provisioned" and self._count_spare(snapshot, each, memory)
        ]
        return self._scale_down(snapshot, memory, reasons, spare)

    def _scale_up(
        self,
        snapshot: Snapshot,
        memory: DhalionMemory,
        reasons: list[Reason],
        pressed: list[Symptoms],
        growable: list[Symptoms],
    ) -> tuple[Decision, DhalionMemory]:
        if not growable:
            names = ", ".join(f"{each.operator} ({each.instances})" for each in pressed)
            reason = Reason("no-action-left", f"No change: back-pressure remains, but no action is left for {names}.")
            return answer(self.name, snapshot, snapshot.parallelism, [*reasons, reason]), memory
        worst = max(growable, key=lambda each: each.pressure)
        name, n, pressure = worst.operator, worst.instances, worst.pressure
        wanted = min(max(grow_by_backpressure(n, pressure), n + 1), _limits(snapshot, name)[1])
        text = f"{name}: {n} → {wanted}, it causes {pressure:.0f} ms of back-pressure per second."
        numbers: dict[str, Number] = {"operator": name, "backpressure_ms": pressure, "running": n, "wanted": wanted}
        reason = Reason("backpressure", text, numbers)
        decision = answer(self.name, snapshot, {**snapshot.parallelism, name: wanted}, [*reasons, reason])
        raised = tuple(dict.fromkeys([*memory.raised, name]))
        return decision, replace(memory, action=DhalionAction(name, n, wanted, pressure), raised=raised)

    def _scale_down(
        self, snapshot: Snapshot, memory: DhalionMemory, reasons: list[Reason], spare: list[Symptoms]
    ) -> tuple[Decision, DhalionMemory]:
        """Scale down the operator with most instances to spare."""
        if not spare:
            reason = Reason("no-backpressure", "No change: no operator causes back-pressure.")
            return answer(self.name, snapshot, snapshot.parallelism, [*reasons, reason]), memory
        most = max(spare, key=lambda each: self._count_spare(snapshot, each, memory))
        name, n = most.operator, most.instances
        wanted = n - self._count_spare(snapshot, most, memory)
        text = f"{name}: {n} → {wanted}, no records wait for it and no operator is held up."
        numbers: dict[str, Number] = {"operator": name, "pending": most.pending or 0.0, "running": n, "wanted": wanted}
        reason = Reason("over-provisioned", text, numbers)
        decision = answer(self.name, snapshot, _replace(snapshot, name, wanted), [*reasons, reason])
        return decision, replace(memory, action=DhalionAction(name, n, wanted, 0.0))

    def _undo_scale_down(
        self, snapshot: Snapshot, memory: DhalionMemory, action: DhalionAction, pressure: float
    ) -> tuple[Decision, DhalionMemory]:
        """Undo a scale-down that brought back-pressure, and blacklist it."""
        name, wanted = action.operator, action.before
        text = (
            f"{name}: back to {wanted}, since {action.before} → {action.wanted} brought {pressure:.0f} ms of "
            "back-pressure per second. No further scale-down at these rates."
        )
        numbers: dict[str, Number] = {"operator": name, "backpressure_ms": pressure, "wanted": wanted}
        decision = answer(self.name, snapshot, _replace(snapshot, name, wanted), [Reason("too-few", text, numbers)])
        down = tuple(dict.fromkeys([*memory.down, name]))
        undone = DhalionAction(name, action.wanted, wanted, pressure, comparable=False)  # known to help, not judged
        return decision, replace(memory, action=undone, waited=0, down=down)

    def _count_spare(self, snapshot: Snapshot, symptoms: Symptoms, memory: DhalionMemory) -> int:
        """Return how many instances an operator may give back."""
        name, n = symptoms.operator, symptoms.instances
        if name in memory.down or name in memory.raised or self.options.scale_down == 1:
            return 0
        wanted = min(n - 1, math.floor(n * self.options.scale_down + 1e-9))
        return max(0, n - max(wanted, _limits(snapshot, name)[0]))


def create(target: Target | None, options: Options) -> Dhalion:  # noqa: ARG001 - the signature of all factories
    return Dhalion(read_options(DhalionOptions, "dhalion", options))


def grow_by_backpressure(instances: int, pressure: float) -> int:
    """Return the new number of instances: `grow_by_backpressure(1, 900)` is 5, `grow_by_backpressure(5, 500)` is 10."""
    s = min(MAX_BACKPRESSURE_MS, pressure)
    # Slightly less before ceil: 5 · (1 + 500/500) must not become 11 by rounding.
    return math.ceil(instances * (1 + min(_MAX_GROWTH, s / (1000 - s))) * (1 - 1e-9))


def _limits(snapshot: Snapshot, name: str) -> tuple[int, int]:
    lower, upper = get_bounds(snapshot)
    at = list(snapshot.operators).index(name)
    return lower[at], upper[at]


def _may_grow(snapshot: Snapshot, symptoms: Symptoms, memory: DhalionMemory) -> bool:
    return symptoms.operator not in memory.up and symptoms.instances < _limits(snapshot, symptoms.operator)[1]


def _replace(snapshot: Snapshot, name: str, k: int) -> dict[str, int]:
    """Return the running parallelism with `k` for an operator. Workers that run every operator change for all."""
    return dict.fromkeys(snapshot.operators, k) if snapshot.execution == "shared" else {**snapshot.parallelism, name: k}


def _explain_no_action(symptoms: Symptoms, diagnosis: str | None) -> Reason:
    """Explain why more instances do not help a skewed or slow operator."""
    name, n = symptoms.operator, symptoms.instances
    numbers: dict[str, Number] = {"operator": name, "running": n, "backpressure_ms": symptoms.pressure}
    if diagnosis == "skewed":
        text = (
            f"{name}: no change, it causes back-pressure by a hot key. One of {n} instances takes in "
            f"{format_percent(symptoms.hot)} of the records beyond its even part; more instances do not divide one key."
        )
        return Reason("skewed", text, {**numbers, "hot_share": symptoms.hot})
    text = (
        f"{name}: no change, it causes back-pressure by {symptoms.slow} slow instances of {n}. "
        "Restart them on other hosts; more instances do not repair them."
    )
    return Reason("slow-instance", text, {**numbers, "slow": symptoms.slow})
