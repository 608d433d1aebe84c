"""How large a heap has to be for its collections to take little, by what they take, and took before it was raised.

    symbol   meaning                                                                    unit
    g        share of the tasks' time in which their JVM collected garbage              [0, 1]
    r        that time to their other time, g / (1 − g)                                 –
    H, L     the heap; what of it lives: the least that was seen of it in use           MB
    F        what is free, H − L                                                        MB

r falls as F rises: as 1 / F, where each collection costs the same, since half as many are done of twice the room. Near
L a heap is collected again and again, and a little more takes off far more than that; and where young objects survive,
copying them costs the same in any heap.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from autotrascale.domain.executor_window import ExecutorWindow
from autotrascale.plan.executor_size.size_evidence import ExecutorSizeRules, SizeEvidence

_IN_VAIN = 0.9  # of r is left
_AS_BEFORE = 1.25  # times r, or L: no more than that is noise


def choose_heap(rules: ExecutorSizeRules, evidence: SizeEvidence) -> int:
    """In which g would be little, by at most one step; by the least that is worth a restart where a raise has brought g
    near what is allowed, as more may take nothing off."""
    now, windows = evidence.sizes.heap_mb, _settled(rules, evidence.windows)
    least, r = (1 + 2 * rules.worth) * now, _collected(windows)
    if _raised(evidence) and _near(rules, r):
        return math.ceil(least)
    alive = min(_alive(windows) or 0.0, now)
    wanted = alive + (now - alive) * r * (1 - rules.gc_little) / rules.gc_little
    return math.ceil(min(max(wanted, least), rules.factor * now))


def is_raise_in_vain(rules: ExecutorSizeRules, evidence: SizeEvidence) -> bool:
    """The last raise took next to nothing off r, as much lives as before, and g is not far from what is allowed."""
    windows, before = _settled(rules, evidence.windows), _settled(rules, evidence.before)
    lives, lived = _alive(windows), _alive(before)
    if not _raised(evidence) or not lives or not lived:
        return False
    r, was = _collected(windows), _collected(before)
    return _near(rules, r) and 1 / _AS_BEFORE <= lives / lived <= _AS_BEFORE and _IN_VAIN * was <= r <= _AS_BEFORE * was


def _raised(evidence: SizeEvidence) -> bool:
    """It had a smaller heap before."""
    return bool(evidence.before) and evidence.before[-1].sizes.heap_mb < evidence.sizes.heap_mb


def _near(rules: ExecutorSizeRules, r: float) -> bool:
    """g is not far from what is allowed."""
    return r / (1 + r) < 2 * rules.gc_most


def _settled(rules: ExecutorSizeRules, windows: Sequence[ExecutorWindow]) -> Sequence[ExecutorWindow]:
    """Some more than P1 looks at, which are the worst of them, but not those in which the executor started."""
    return windows[-min(4 * rules.recent, max(rules.recent, len(windows) - rules.recent)) :]


def _alive(windows: Sequence[ExecutorWindow]) -> float | None:
    """L."""
    return min((window.heap_least_mb for window in windows if window.heap_least_mb is not None), default=None)


def _collected(windows: Sequence[ExecutorWindow]) -> float:
    """r."""
    share = min(0.99, statistics.mean(window.gc_share or 0.0 for window in windows))
    return share / (1 - share)
