"""Dhalion (Floratou et al., VLDB '17): symptoms, a diagnosis, one action, and a look at whether it helped.

| symbol | meaning                                                                               | unit |
|--------|---------------------------------------------------------------------------------------|------|
| s      | back-pressure the operator causes (`symptoms`)                                          | ms/s |
| n      | its instances now                                                                     |      |

    under-provisioned    new = ceil(n · (1 + min(4, s / (1000 − s))))                 up
    over-provisioned     new = floor(n · 0.8), one fewer at least                      down
    skewed, slow         Dhalion would divide keys anew, or start the instance again. No parallelism does that: it is
                         said, and the operator is left alone

One action at a time. After it was carried out the policy waits, then judges: what did not help is blacklisted, the
operator and the direction, until the rates change.

differs: what was scaled up at these rates is not given back at them, and a scale-down that brought back-pressure is
taken back whole. On Heron the length of queues keeps the two from following each other for ever.
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
from autotrascale.plan.policies import Options
from autotrascale.plan.policies.base import answer, hold, read_options
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

_MOST_GROWTH = 4.0


@dataclass(frozen=True)
class DhalionOptions(Thresholds):
    wait_windows: int = 1  # snapshots left alone after an action was carried out
    scale_down: float = 0.8  # share of its instances that an over-provisioned operator keeps; 1: never scale down
    rate_change: float = 0.1  # of any source: from here on these are other rates

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.count("wait_windows", self.wait_windows, least=0)
        checks.share("scale_down", self.scale_down)
        checks.non_negative("rate_change", self.rate_change)


class Dhalion:
    """One object belongs to one job. A snapshot that shows the last action done starts the wait."""

    name = "dhalion"

    def __init__(self, options: DhalionOptions | None = None, memory: DhalionMemory | None = None) -> None:
        self.options = options or DhalionOptions()
        self.memory = memory or DhalionMemory()

    def remembered(self) -> dict[str, object]:
        return asdict(self.memory)

    def remembering(self, memory: Mapping[str, object]) -> Dhalion:
        return Dhalion(self.options, parse_memory(memory))

    def decide(self, snapshot: Snapshot) -> Decision:
        if unknown := find_unknown_backpressure(snapshot):
            return hold(self.name, snapshot, [explain_unknown_signal("backpressure", "backpressure", unknown)])
        memory = forget_at_new_rates(self.memory, snapshot, self.options.rate_change)
        decision, self.memory = self._next(snapshot, memory)
        return decision

    def _next(self, snapshot: Snapshot, memory: DhalionMemory) -> tuple[Decision, DhalionMemory]:
        action = memory.action
        if action is None or snapshot.parallelism.get(action.operator) != action.wanted:
            return self._act(snapshot, memory, [])  # what was not carried out cannot be judged
        if memory.waited < self.options.wait_windows:
            memory = replace(memory, waited=memory.waited + 1)
            reason = explain_waiting(action, memory.waited, self.options.wait_windows)
            return hold(self.name, snapshot, [reason]), memory
        caused = measure_backpressure(snapshot, self.options)
        if action.direction == "up":
            return self._act(snapshot, *judge_scale_up(memory, action, caused.get(action.operator, 0.0)))
        if not caused or not action.comparable:
            return self._act(snapshot, memory, [])
        return self._taken_back(snapshot, memory, action, max(caused.values()))

    def _act(self, snapshot: Snapshot, memory: DhalionMemory, reasons: list[Reason]) -> tuple[Decision, DhalionMemory]:
        """The action against the worst diagnosis for which there is one."""
        memory = replace(memory, action=None, waited=0)
        found = [
            (each, diagnose_symptoms(each, snapshot, self.options)) for each in detect_symptoms(snapshot, self.options)
        ]
        reasons = [*reasons, *(_said(each, what) for each, what in found if what in ("skewed", "slow-instance"))]
        if pressed := [each for each, _ in found if each.pressure > 0]:
            reasons += [explain_blacklisted(each.operator) for each in pressed if each.operator in memory.up]
            able = [each for each, what in found if what == "under-provisioned" and _may_grow(snapshot, each, memory)]
            return self._up(snapshot, memory, reasons, pressed, able)
        if unknown := [each.operator for each, _ in found if each.pending is None]:  # perhaps it holds up the others
            reasons.append(explain_unknown_signal("backlog", "backlog_records", unknown))
            return self._down(snapshot, memory, reasons, [])
        spare = [each for each, what in found if what == "over-provisioned" and self._fewer(snapshot, each, memory)]
        return self._down(snapshot, memory, reasons, spare)

    def _up(
        self,
        snapshot: Snapshot,
        memory: DhalionMemory,
        reasons: list[Reason],
        pressed: list[Symptoms],
        able: list[Symptoms],
    ) -> tuple[Decision, DhalionMemory]:
        if not able:
            return answer(self.name, snapshot, snapshot.parallelism, [*reasons, _no_action_left(pressed)]), memory
        worst = max(able, key=lambda each: each.pressure)
        name, n, pressure = worst.operator, worst.instances, worst.pressure
        wanted = min(max(grow_by_backpressure(n, pressure), n + 1), _limits(snapshot, name)[1])
        text = f"{name}: causes {pressure:.0f} ms of back-pressure per second: {n} → {wanted}"
        numbers: dict[str, Number] = {"operator": name, "backpressure_ms": pressure, "running": n, "wanted": wanted}
        decision = answer(
            self.name,
            snapshot,
            {**snapshot.parallelism, name: wanted},
            [*reasons, Reason("backpressure", text, numbers)],
        )
        raised = tuple(dict.fromkeys([*memory.raised, name]))
        return decision, replace(memory, action=DhalionAction(name, n, wanted, pressure), raised=raised)

    def _down(
        self, snapshot: Snapshot, memory: DhalionMemory, reasons: list[Reason], spare: list[Symptoms]
    ) -> tuple[Decision, DhalionMemory]:
        """From whoever has most to give back."""
        if not spare:
            text = "no operator causes back-pressure: nothing to do"
            return answer(
                self.name, snapshot, snapshot.parallelism, [*reasons, Reason("no-backpressure", text)]
            ), memory
        most = max(spare, key=lambda each: self._fewer(snapshot, each, memory))
        name, n = most.operator, most.instances
        wanted = n - self._fewer(snapshot, most, memory)
        text = f"{name}: nothing waits for it and no operator is held up: {n} → {wanted}"
        numbers: dict[str, Number] = {"operator": name, "pending": most.pending or 0.0, "running": n, "wanted": wanted}
        reason = Reason("over-provisioned", text, numbers)
        decision = answer(self.name, snapshot, _moved(snapshot, name, wanted), [*reasons, reason])
        return decision, replace(memory, action=DhalionAction(name, n, wanted, 0.0))

    def _taken_back(
        self, snapshot: Snapshot, memory: DhalionMemory, action: DhalionAction, pressure: float
    ) -> tuple[Decision, DhalionMemory]:
        """The scale-down brought back-pressure: as before, and not again at these rates."""
        name, wanted = action.operator, action.before
        text = (
            f"{name}: {action.before} → {action.wanted} brought {pressure:.0f} ms of back-pressure per second: back to"
            f" {wanted}, and no fewer at these rates"
        )
        numbers: dict[str, Number] = {"operator": name, "backpressure_ms": pressure, "wanted": wanted}
        decision = answer(self.name, snapshot, _moved(snapshot, name, wanted), [Reason("too-few", text, numbers)])
        down = tuple(dict.fromkeys([*memory.down, name]))
        undone = DhalionAction(name, action.wanted, wanted, pressure, comparable=False)  # that it helps is known
        return decision, replace(memory, action=undone, waited=0, down=down)

    def _fewer(self, snapshot: Snapshot, symptoms: Symptoms, memory: DhalionMemory) -> int:
        """How many instances an operator may give back."""
        name, n = symptoms.operator, symptoms.instances
        if name in memory.down or name in memory.raised or self.options.scale_down == 1:
            return 0
        wanted = min(n - 1, math.floor(n * self.options.scale_down + 1e-9))
        return max(0, n - max(wanted, _limits(snapshot, name)[0]))


def create(target: Target | None, options: Options) -> Dhalion:  # noqa: ARG001 - every policy is created alike
    return Dhalion(read_options(DhalionOptions, "dhalion", options))


def grow_by_backpressure(instances: int, pressure: float) -> int:
    """`grown(1, 900)` is 5, `grown(5, 500)` is 10."""
    s = min(MAX_BACKPRESSURE_MS, pressure)
    # A hair off before ceil: 5 · (1 + 500/500) must not become 11 by a rounding of s.
    return math.ceil(instances * (1 + min(_MOST_GROWTH, s / (1000 - s))) * (1 - 1e-9))


def _limits(snapshot: Snapshot, name: str) -> tuple[int, int]:
    lower, upper = get_bounds(snapshot)
    at = list(snapshot.operators).index(name)
    return lower[at], upper[at]


def _may_grow(snapshot: Snapshot, symptoms: Symptoms, memory: DhalionMemory) -> bool:
    return symptoms.operator not in memory.up and symptoms.instances < _limits(snapshot, symptoms.operator)[1]


def _moved(snapshot: Snapshot, name: str, k: int) -> dict[str, int]:
    """Workers that run every operator are given back for all of them."""
    return dict.fromkeys(snapshot.operators, k) if snapshot.execution == "shared" else {**snapshot.parallelism, name: k}


def _said(symptoms: Symptoms, diagnosis: str | None) -> Reason:
    """What more instances do not mend."""
    name, n = symptoms.operator, symptoms.instances
    numbers: dict[str, Number] = {"operator": name, "running": n, "backpressure_ms": symptoms.pressure}
    if diagnosis == "skewed":
        text = (
            f"{name}: causes back-pressure, and one of {n} instances takes in {format_percent(symptoms.hot)} of the records"
            " beside its even part: more instances do not divide one key, so it is left alone"
        )
        return Reason("skewed", text, {**numbers, "hot_share": symptoms.hot})
    text = (
        f"{name}: causes back-pressure, and {symptoms.slow} of {n} instances need far longer than the others for as"
        " many records: more instances do not mend that, so it is left alone; start those again elsewhere"
    )
    return Reason("slow-instance", text, {**numbers, "slow": symptoms.slow})


def _no_action_left(pressed: list[Symptoms]) -> Reason:
    names = ", ".join(f"{each.operator} ({each.instances})" for each in pressed)
    return Reason("no-action-left", f"back-pressure remains, but no more can be done for {names}")
