"""Snapshots of a chain of operators with chosen true rates, and a policy with chosen answers."""

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
    """Return a snapshot of operators that read from one another in the order of `parallelism`.

    Args:
        parallelism: instances of each operator.
        capacity: records per second of useful time of one instance; an operator without a capacity has no metrics.
        rate: rate of the source in records per second.
        selectivity: records out for each record in, default 1.
        operators: further fields of single operators.
        fields: further fields of the snapshot.
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
    """A policy that gives `answers` in turn and then repeats the last answer. None means to hold.

    `shown` has the snapshots that it was asked about.
    """

    answers: Sequence[Mapping[str, int] | None]
    name: str = "scripted"
    shown: list[Snapshot] = field(default_factory=list)

    def decide(self, snapshot: Snapshot) -> Decision:
        wanted = self.answers[min(len(self.shown), len(self.answers) - 1)]
        self.shown.append(snapshot)
        running = snapshot.parallelism
        if wanted is None:
            return hold(self.name, snapshot, [Reason("hold-scripted", "scripted to hold")])
        return Decision.between(self.name, running, {**running, **wanted}, Reason("scripted", "scripted to change"))
