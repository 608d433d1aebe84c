"""Whether a batch in flight is waited for, or cut short and run again at the new parallelism.

    symbol   meaning                                                                                    unit
    d        what the batch takes: as long as the one before, or less in proportion if it covers less   s
    a        how long it has run                                                                        s
    k, k'    tasks of an operator's stage before and after                                              1, 2, …
    s        share of d that the batch takes at the new parallelism                                     0 …
    c        what cutting costs: another start, and a copy of the checkpoint                            s
    p        how long it would be waited for at most, and then cut off                                  s

Until the batch has ended nothing else can begin: d - a. Cut short, it is done again from its start: c + s · d. An
operator's stage takes k / k' of its time, what is no stage takes as long as before. So with less parallelism, or as
much, no batch is cut short; nor is one that has run longer than expected, of which nobody knows how long it has left.

A sink may see a batch twice that is run twice. So only what would be cut off anyway is: d - a > p.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_CUTTING_SECONDS = 1.0  # c


@dataclass(frozen=True)
class StageDuration:
    """A stage of a batch that is committed."""

    operator: str
    tasks: int
    seconds: float


@dataclass(frozen=True)
class OpenBatch:
    """`before` is the batch before it, by its stages; both cover the input of so many seconds (0: not known)."""

    seconds: float  # a
    covered: float
    before_seconds: float
    before_covered: float
    before: Sequence[StageDuration] = ()


def should_interrupt(batch: OpenBatch, parallelism: Mapping[str, int], patience: float) -> bool:
    """`patience` is p.

    >>> count = InFlight(2.0, 30.0, 28.0, 30.0, [Part("count", 2, 24.0)])  # 26 s left
    >>> [is_worth_cutting(count, {"count": k}, 15.0) for k in (8, 3, 2)]  # 10, 20 or 28 s again, and 1
    [True, True, False]
    >>> is_worth_cutting(count, {"count": 8}, 60.0)
    False
    """
    expected = batch.before_seconds
    if batch.before_covered > 0:
        expected *= min(1.0, batch.covered / batch.before_covered)
    again = _CUTTING_SECONDS + repeated_share(batch.before_seconds, batch.before, parallelism) * expected
    return expected - batch.seconds > max(again, patience)


def repeated_share(seconds: float, parts: Sequence[StageDuration], parallelism: Mapping[str, int]) -> float:
    """s. Stages that ran side by side count as if they had run one after the other, within the batch."""
    if seconds <= 0:
        return 1.0
    within = sum(part.seconds for part in parts)
    scale = min(1.0, seconds / within) if within > 0 else 0.0
    then = sum(part.seconds * part.tasks / parallelism.get(part.operator, part.tasks) for part in parts)
    return (seconds - scale * within + scale * then) / seconds
