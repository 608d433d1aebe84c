"""Bins of keys, their owners, and the moves from one assignment to another (Hoffmann, Megaphone, §5.1.1 and §5.2.1).

    symbol   meaning                                                                    unit, shape
    b        a bin: all keys whose hash has the same leading bits                       0 … B − 1
    s(b)     size of the state of a bin                                                 bytes
    C        a configuration: the owner of each bin                                     (B,)
    w        a worker, which owns bins                                                  0 … W − 1

differs: in Megaphone a bin moves at a logical time of its stream; here a plan assigns each move to a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autotrascale.domain import checks

Configuration = tuple[int, ...]
"""C."""


@dataclass(frozen=True)
class Move:
    """The transfer of one bin of `size` bytes from worker `giver` to worker `taker`."""

    bin: int
    giver: int
    taker: int
    size: float


def spread_bins(bins: int, workers: int) -> Configuration:
    """Return the configuration of a new job: bins are assigned to workers in turn.

    >>> spread_bins(5, 2)
    (0, 1, 0, 1, 0)
    """
    checks.count("bins", bins)
    checks.count("workers", workers)
    return tuple(b % workers for b in range(bins))


def rebalance(before: Configuration, workers: int) -> Configuration:
    """Return the most even configuration for `workers` that needs the fewest moves.

    Workers with too many bins give them to workers with too few. Larger shares stay with workers that have most bins.

    >>> rebalance((0, 1, 0, 1, 0), 3)
    (0, 1, 0, 1, 2)
    """
    checks.count("workers", workers)
    owned = [sum(owner == w for owner in before) for w in range(workers)]
    least, larger = divmod(len(before), workers)
    shares = [least] * workers
    for w in sorted(range(workers), key=lambda w: (-owned[w], w))[:larger]:
        shares[w] += 1
    after, unassigned = list(before), list[int]()
    for b, owner in enumerate(before):
        if owner < workers and shares[owner]:
            shares[owner] -= 1
        else:
            unassigned.append(b)
    takers = [w for w in range(workers) for _ in range(shares[w])]
    for b, taker in zip(unassigned, takers, strict=True):
        after[b] = taker
    return tuple(after)


def list_moves(before: Configuration, after: Configuration, sizes: Sequence[float]) -> tuple[Move, ...]:
    """Return the moves from one configuration to another; `sizes` are the bytes of each bin."""
    pairs = zip(before, after, sizes, strict=True)
    return tuple(Move(b, giver, taker, size) for b, (giver, taker, size) in enumerate(pairs) if giver != taker)
