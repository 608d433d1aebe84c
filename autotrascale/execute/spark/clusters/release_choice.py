"""Which executors to give back: idle ones first, then those that empty a worker, then the youngest.

A worker without executors can be shut down, and the youngest executor has the least state and compiled code to lose.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from autotrascale.execute.spark.clusters.registered_executors import RegisteredExecutor


def choose_executors_to_release(executors: Iterable[RegisteredExecutor], count: int) -> tuple[str, ...]:
    """The ids of as many as asked for, of those that are not leaving already; all of them where there are no more."""
    left = [each for each in executors if not each.leaving]
    chosen: list[str] = []
    while left and len(chosen) < count:
        on_host = Counter(each.host for each in left)
        best = min(left, key=lambda each: _reluctance(each, on_host[each.host], count - len(chosen)))
        left.remove(best)
        chosen.append(best.id)
    return tuple(chosen)


def _reluctance(executor: RegisteredExecutor, on_host: int, wanted: int) -> tuple[bool, bool, int, float, str]:
    """A worker that can be emptied comes before one that cannot, and one with fewer executors before one with more: so
    the rest of a worker that was begun with goes next."""
    idle, empties = executor.active_tasks == 0, bool(executor.host) and on_host <= wanted
    return not idle, not empties, on_host if empties else 0, -executor.since, executor.id
