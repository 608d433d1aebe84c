"""Do instances get slower where there are more of them? A machine short of cores shows so, and so does contention.

| symbol     | meaning                                                        | unit      |
|------------|----------------------------------------------------------------|-----------|
| v_i(k)     | what one instance of operator i does when it never waits, at k | records/s |
| slowdown   | median over the operators of v_i(few) / v_i(many)              |           |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from autotrascale.domain.snapshot import Snapshot
from autotrascale.plan.sizing.demand import measure_demand

NOTABLE = 1.5  # times: noise and a warm cache make less of a difference


@dataclass(frozen=True)
class Slowdown:
    """`factor`: an instance did so many times less a second with `many` instances in all than with `few`."""

    factor: float
    few: int
    many: int


class SlowdownDetector:
    """Keeps what each trial measured of the instances; the same operators throughout."""

    def __init__(self) -> None:
        self._seen: list[tuple[int, Mapping[str, float | None]]] = []

    def look(self, snapshot: Snapshot) -> None:
        instances = sum(metrics.parallelism for metrics in snapshot.operators.values())
        self._seen.append((instances, measure_demand(snapshot).capacity))

    @property
    def found(self) -> Slowdown | None:
        """Between the fewest and the most instances; None where they differ little, or nothing is known."""
        if not self._seen:
            return None
        few, many = min(self._seen, key=_instances), max(self._seen, key=_instances)
        factors = _factors(few[1], many[1])
        if few[0] == many[0] or not factors or (factor := median(factors)) < NOTABLE:
            return None
        return Slowdown(factor, few[0], many[0])


def _instances(seen: tuple[int, Mapping[str, float | None]]) -> int:
    return seen[0]


def _factors(few: Mapping[str, float | None], many: Mapping[str, float | None]) -> Sequence[float]:
    pairs = [(before, many.get(name)) for name, before in few.items()]
    return [before / after for before, after in pairs if before and after]
