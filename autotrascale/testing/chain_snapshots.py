"""Snapshots of a chain of operators with the true rates that a test wants, and a policy that says what a test wants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autotrascale.domain.decision import Decision, Reason
from autotrascale.domain.snapshot import OperatorMetrics, Snapshot
from autotrascale.plan.policies.base import hold

WINDOW = 60.0


def chain_snapshot(
    parallelism: Mapping[str, int],
    capacity: Mapping[str, float],
    rate: float,
    *,
    selectivity: Mapping[str, float] | None = None,
    operators: Mapping[str, Mapping[str, Any]] | None = None,
    **fields: Any,
) -> Snapshot:
    """A snapshot in which one instance of each operator has the given capacity, in records per second of useful time.

    The operators read from one another in the order of `parallelism`. One without a capacity has no metrics at all.
    `operators` adds fields to single operators, `fields` to the snapshot.
    """
    names = list(parallelism)
    metrics = {
        name: OperatorMetrics(
            upstream=tuple(names[max(i - 1, 0) : i]),
            parallelism=parallelism[name],
            **_work(parallelism[name], capacity.get(name), (selectivity or {}).get(name, 1.0)),
            **(operators or {}).get(name, {}),
        )
        for i, name in enumerate(names)
    }
    given = {"job": "test", "window_seconds": WINDOW, "p_max": 64, "source_rates": {names[0]: rate}}
    return Snapshot(operators=metrics, **{**given, **fields})


def _work(instances: int, capacity: float | None, selectivity: float) -> dict[str, Any]:
    if capacity is None:
        return {}
    useful = WINDOW * instances
    records = capacity * useful
    return {"records_in": records, "records_out": records * selectivity, "useful_seconds": useful}


@dataclass
class ScriptedPolicy:
    """Answers what it was told to, one answer after the other and the last one for ever. None makes it hold.
    `shown` keeps the snapshots it was asked about."""

    answers: Sequence[Mapping[str, int] | None]
    name: str = "scripted"
    shown: list[Snapshot] = field(default_factory=list)

    def decide(self, snapshot: Snapshot) -> Decision:
        wanted = self.answers[min(len(self.shown), len(self.answers) - 1)]
        self.shown.append(snapshot)
        running = snapshot.parallelism
        if wanted is None:
            return hold(self.name, snapshot, [Reason("hold-scripted", "told to hold")])
        return Decision.between(self.name, running, {**running, **wanted}, Reason("scripted", "told to want this"))
