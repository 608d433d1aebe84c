"""Share a quota of slots among the operators of a job, or among the jobs of a controller.

| symbol | meaning                                             | unit  |
|--------|-----------------------------------------------------|-------|
| w_i    | slots that i asks for                               | slots |
| n_i    | slots that i needs to keep up, n_i ≤ w_i            | slots |
| Q      | the quota                                           | slots |

    Σ w ≤ Q           each i gets w_i
    Σ n ≤ Q < Σ w     n_i, and a share of the rest in proportion to w_i − n_i
    Q < Σ n           a share of Q in proportion to n_i, at least one slot; `short` names those below n_i
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class QuotaShares:
    """The slots `given` by name. `cut` names those with less than they asked for, `short` those below their need."""

    given: Mapping[str, int]
    cut: tuple[str, ...] = ()
    short: tuple[str, ...] = ()


def apply_quota(wanted: Mapping[str, int], need: Mapping[str, int], quota: int) -> QuotaShares:
    """Return the shares of `quota` slots.

    >>> dict(apply_quota({"a": 8, "b": 4}, {"a": 4, "b": 4}, 10).given)
    {'a': 6, 'b': 4}
    """
    if sum(wanted.values()) <= quota:
        return QuotaShares(dict(wanted))
    least = {name: min(need.get(name, 1), w) for name, w in wanted.items()}
    if sum(least.values()) > quota:
        base = {name: min(1, n) for name, n in least.items()}
        given = share_out(base, {name: n - base[name] for name, n in least.items()}, quota)
    else:
        given = share_out(least, {name: w - least[name] for name, w in wanted.items()}, quota)
    cut = tuple(name for name, w in wanted.items() if given[name] < w)
    return QuotaShares(given, cut, tuple(name for name in cut if given[name] < need.get(name, 1)))


def share_out(base: Mapping[str, int], more: Mapping[str, int], quota: int) -> dict[str, int]:
    """Return `base` plus the rest of the quota in proportion to `more`, in whole slots, largest remainders first."""
    left, whole = max(0, quota - sum(base.values())), sum(more.values())
    if not whole:
        return dict(base)
    exact = {name: left * m / whole for name, m in more.items()}
    given = {name: base[name] + int(exact[name]) for name in base}
    by_remainder = sorted(exact, key=lambda name: exact[name] - int(exact[name]), reverse=True)
    for name in by_remainder[: left - sum(int(each) for each in exact.values())]:
        given[name] += 1
    return given
