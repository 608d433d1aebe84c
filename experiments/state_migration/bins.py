"""Bins of keys, who has them, and which of them have to move (Hoffmann, Megaphone, §5.1.1 and §5.2.1).

    symbol   meaning                                                                    unit, shape
    b        a bin: all keys whose hash has the same leading bits, so that keys need
             no routing of their own                                                    0 … B - 1
    s(b)     size of its state                                                          bytes
    C        a configuration: the owner of each bin                                     (B,)
    w        a worker, the owner of bins: a partition of state                          0 … W - 1

differs: Megaphone says when a bin moves by a logical time of its stream; here a plan says in which step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autotrascale.domain import checks

Configuration = tuple[int, ...]
"""C."""


@dataclass(frozen=True)
class Move:
    """One bin, from its owner to another."""

    bin: int
    giver: int
    taker: int
    size: float


def spread_bins(bins: int, workers: int) -> Configuration:
    """As a job starts: in turn.

    >>> spread(5, 2)
    (0, 1, 0, 1, 0)
    """
    checks.count("bins", bins)
    checks.count("workers", workers)
    return tuple(b % workers for b in range(bins))


def rebalance(before: Configuration, workers: int) -> Configuration:
    """As even as it gets, by the fewest moves: who has too many gives them to who has too few. The larger shares stay
    with those who have most already.

    >>> rebalanced((0, 1, 0, 1, 0), 3)
    (0, 1, 0, 1, 2)
    """
    checks.count("workers", workers)
    had = [sum(owner == w for owner in before) for w in range(workers)]
    least, larger = divmod(len(before), workers)
    shares = [least] * workers
    for w in sorted(range(workers), key=lambda w: (-had[w], w))[:larger]:
        shares[w] += 1
    kept, homeless = list(before), list[int]()
    for b, owner in enumerate(before):
        if owner < workers and shares[owner]:
            shares[owner] -= 1
        else:
            homeless.append(b)
    takers = [w for w in range(workers) for _ in range(shares[w])]
    for b, taker in zip(homeless, takers, strict=True):
        kept[b] = taker
    return tuple(kept)


def list_moves(before: Configuration, after: Configuration, sizes: Sequence[float]) -> tuple[Move, ...]:
    """What it takes from one to the other."""
    pairs = zip(before, after, sizes, strict=True)
    return tuple(Move(b, giver, taker, size) for b, (giver, taker, size) in enumerate(pairs) if giver != taker)
