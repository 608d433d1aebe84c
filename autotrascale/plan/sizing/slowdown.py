"""Detect instances that get slower when there are more of them: a lack of cores, or contention.

| symbol     | meaning                                                        | unit      |
|------------|----------------------------------------------------------------|-----------|
| v_i(k)     | rate of one instance of operator i that never waits, at k      | records/s |
| slowdown   | median over the operators of v_i(few) / v_i(many)              |           |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from autotrascale.domain.snapshot import Snapshot
from autotrascale.plan.sizing.demand import measure_demand

NOTABLE = 1.5  # noise and a warm cache have a smaller effect


@dataclass(frozen=True)
class Slowdown:
    """The rate of an instance with `few` instances in all is `factor` times the rate with `many`."""

    factor: float
    few: int
    many: int


class SlowdownDetector:
    """The capacities that each trial measured, for one set of operators."""

    def __init__(self) -> None:
        self._seen: list[tuple[int, Mapping[str, float | None]]] = []

    def observe(self, snapshot: Snapshot) -> None:
        """Add the capacities of one trial."""
        instances = sum(metrics.parallelism for metrics in snapshot.operators.values())
        self._seen.append((instances, measure_demand(snapshot).capacity))

    @property
    def slowdown(self) -> Slowdown | None:
        """The slowdown between the fewest and the most instances; None when it is small or not known."""
        if not self._seen:
            return None
        few, many = min(self._seen, key=lambda seen: seen[0]), max(self._seen, key=lambda seen: seen[0])
        factors = _list_factors(few[1], many[1])
        if few[0] == many[0] or not factors or (factor := median(factors)) < NOTABLE:
            return None
        return Slowdown(factor, few[0], many[0])


def _list_factors(few: Mapping[str, float | None], many: Mapping[str, float | None]) -> Sequence[float]:
    pairs = [(before, many.get(name)) for name, before in few.items()]
    return [before / after for before, after in pairs if before and after]
