"""How large a heap has to be for its collections to take little, by what they take now and took before it was raised.

    symbol   meaning                                                                    unit
    g        share of the tasks' time in which their JVM collected garbage              [0, 1]
    r        that time to their other time, g / (1 − g)                                 –
    H, L     the heap; what of it lives: the least that was seen of it in use           MB
    F        what is free, H − L                                                        MB
    p        r falls as F to the −p

p is 1 where each collection costs the same: half as many are done of twice the room. Near L a heap is collected again
and again, and a little more takes off a lot (p of 2 to 3 was seen); and where young objects survive, copying them costs
the same in any heap (p near 0).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from autotrascale.domain.executor_window import ExecutorWindow
from autotrascale.plan.executor_size.evidence import Evidence, Rules

_STEEPEST = 3.0  # of p: the two readings that it is known by are noisy
_IN_VAIN = 0.9  # of r is left
_AS_BEFORE = 1.25  # times r, or L: no more than that is noise


def heap_for(rules: Rules, evidence: Evidence) -> int:
    """In which g would be what is aimed at. By at most one step, and no more than the last time where g is near; by at
    least what is worth a restart."""
    now, windows, before = evidence.sizes.heap_mb, _settled(rules, evidence.windows), _settled(rules, evidence.before)
    alive, r = min(_alive([*windows, *before]) or 0.0, now), _collected(windows)
    times = r * (1 - rules.gc_aim) / rules.gc_aim
    wanted = alive + (now - alive) * math.pow(times, 1 / _falls(now, alive, windows, before))
    least, most = 1 + 2 * rules.worth, rules.factor
    if before and before[-1].sizes.heap_mb < now and _near(rules, r):
        most = min(most, max(least, now / before[-1].sizes.heap_mb))
    return math.ceil(min(max(wanted, least * now), most * now))


def raised_in_vain(rules: Rules, evidence: Evidence) -> bool:
    """The last raise took next to nothing off r, as much lives as before, and g is not far from what is allowed."""
    windows, before = _settled(rules, evidence.windows), _settled(rules, evidence.before)
    lives, lived = _alive(windows), _alive(before)
    if not before or before[-1].sizes.heap_mb >= evidence.sizes.heap_mb or not lives or not lived:
        return False
    r, was = _collected(windows), _collected(before)
    return _near(rules, r) and 1 / _AS_BEFORE <= lives / lived <= _AS_BEFORE and _IN_VAIN * was <= r <= _AS_BEFORE * was


def _near(rules: Rules, r: float) -> bool:
    """g is not far from what is allowed."""
    return r / (1 + r) < 2 * rules.gc_most


def _settled(rules: Rules, windows: Sequence[ExecutorWindow]) -> Sequence[ExecutorWindow]:
    """Some more than P1 looks at, which are the worst of them, but not those in which the executor started."""
    return windows[-min(4 * rules.recent, max(rules.recent, len(windows) - rules.recent)) :]


def _alive(windows: Sequence[ExecutorWindow]) -> float | None:
    """L."""
    return min((window.heap_least_mb for window in windows if window.heap_least_mb is not None), default=None)


def _collected(windows: Sequence[ExecutorWindow]) -> float:
    """r."""
    share = min(0.99, statistics.mean(window.gc_share or 0.0 for window in windows))
    return share / (1 - share)


def _falls(now: int, alive: float, windows: Sequence[ExecutorWindow], before: Sequence[ExecutorWindow]) -> float:
    """p, at least 1: so that no raise is larger for what another took off."""
    then = before[-1].sizes.heap_mb if before else now
    if not alive < then < now or (was := _collected(before)) <= (r := _collected(windows)) or not r:
        return 1.0
    return min(max(math.log(was / r) / math.log((now - alive) / (then - alive)), 1.0), _STEEPEST)
