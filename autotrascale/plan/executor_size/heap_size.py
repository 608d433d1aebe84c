"""The heap that makes collections rare, from the time that collections take now and took before the last raise.

    symbol   meaning                                                                    unit
    g        share of the tasks' time in which their JVM collected garbage              [0, 1]
    r        that time over their other time, g / (1 − g)                               –
    H, L     the heap; its live part: the minimum of the used heap                       MB
    F        the free part, H − L                                                        MB

r falls as F rises. If each collection costs the same, r ~ 1 / F: twice the free space means half the collections. Near
L a heap is collected again and again, and a little more space saves far more. If young objects survive, copying them
costs the same in any heap.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from autotrascale.domain.executor_window import ExecutorWindow
from autotrascale.plan.executor_size.size_evidence import ExecutorSizeRules, SizeEvidence

_USELESS_RATIO = 0.9  # r after over before a raise; above, the raise was useless
_NOISE_RATIO = 1.25  # of r or L; a smaller change is noise


def choose_heap(rules: ExecutorSizeRules, evidence: SizeEvidence) -> int:
    """Return the heap in MB at which g would be little, at most one step larger.

    If a raise brought g near the threshold, the answer is only the least raise that is worth a restart, since more
    space may save nothing.
    """
    now, windows = evidence.sizes.heap_mb, _settled_windows(rules, evidence.windows)
    least, r = (1 + 2 * rules.worth) * now, _collection_ratio(windows)
    if _has_been_raised(evidence) and _is_near_threshold(rules, r):
        return math.ceil(least)
    live = min(_live_heap(windows) or 0.0, now)
    wanted = live + (now - live) * r * (1 - rules.gc_little) / rules.gc_little
    return math.ceil(min(max(wanted, least), rules.factor * now))


def is_raise_in_vain(rules: ExecutorSizeRules, evidence: SizeEvidence) -> bool:
    """Return whether the last raise hardly lowered r, although L is as before and g is near the threshold."""
    windows, before = _settled_windows(rules, evidence.windows), _settled_windows(rules, evidence.before)
    live, lived = _live_heap(windows), _live_heap(before)
    if not _has_been_raised(evidence) or not live or not lived:
        return False
    r, was = _collection_ratio(windows), _collection_ratio(before)
    is_same_live_heap = 1 / _NOISE_RATIO <= live / lived <= _NOISE_RATIO
    return _is_near_threshold(rules, r) and is_same_live_heap and _USELESS_RATIO * was <= r <= _NOISE_RATIO * was


def _has_been_raised(evidence: SizeEvidence) -> bool:
    return bool(evidence.before) and evidence.before[-1].sizes.heap_mb < evidence.sizes.heap_mb


def _is_near_threshold(rules: ExecutorSizeRules, r: float) -> bool:
    return r / (1 + r) < 2 * rules.gc_most


def _settled_windows(rules: ExecutorSizeRules, windows: Sequence[ExecutorWindow]) -> Sequence[ExecutorWindow]:
    """Return more windows than P1 looks at, which are the worst, without those in which the executor started."""
    return windows[-min(4 * rules.recent, max(rules.recent, len(windows) - rules.recent)) :]


def _live_heap(windows: Sequence[ExecutorWindow]) -> float | None:
    """Return L."""
    return min((window.heap_least_mb for window in windows if window.heap_least_mb is not None), default=None)


def _collection_ratio(windows: Sequence[ExecutorWindow]) -> float:
    """Return r."""
    share = min(0.99, statistics.mean(window.gc_share or 0.0 for window in windows))
    return share / (1 - share)
