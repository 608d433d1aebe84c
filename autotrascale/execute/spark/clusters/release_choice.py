"""Choose executors to release: idle executors first, then executors whose release empties a worker, then the youngest.

A worker without executors can be shut down. The youngest executor has the least state and compiled code to lose.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from autotrascale.execute.spark.clusters.registered_executors import RegisteredExecutor


def choose_executors_to_release(executors: Iterable[RegisteredExecutor], count: int) -> tuple[str, ...]:
    """Return the ids of `count` executors that are not leaving yet, or of all such executors if there are fewer."""
    left = [each for each in executors if not each.leaving]
    chosen: list[str] = []
    while left and len(chosen) < count:
        on_host = Counter(each.host for each in left)
        best = min(left, key=lambda each: _rank(each, on_host[each.host], count - len(chosen)))
        left.remove(best)
        chosen.append(best.id)
    return tuple(chosen)


def _rank(executor: RegisteredExecutor, on_host: int, wanted: int) -> tuple[bool, bool, int, float, str]:
    # Among workers that can be emptied, the worker with the fewest executors comes first, until it is empty.
    is_idle, empties_worker = executor.active_tasks == 0, bool(executor.host) and on_host <= wanted
    return not is_idle, not empties_worker, on_host if empties_worker else 0, -executor.since, executor.id
