"""Decide whether a rescale waits for the open batch, or interrupts it and repeats it at the new parallelism.

    symbol   meaning                                                                                    unit
    d        expected batch time: as the previous batch, or less in proportion if it covers less        s
    a        time that the batch has run                                                                s
    k, k'    tasks of an operator's stage before and after                                              1, 2, …
    s        share of d that the batch takes at the new parallelism                                     0 …
    c        cost of an interruption: another start, and a copy of the checkpoint                       s
    p        longest wait for the batch before it is stopped anyway                                     s

The rescale cannot begin before the batch ends: a wait of d − a. Interrupted, the batch is repeated from its start:
c + s · d. An operator's stage then takes k / k' of its time; time outside the stages stays the same. So a batch is not
interrupted for less or equal parallelism, nor when it runs longer than expected, because its end is unknown.

A sink may receive an interrupted batch twice. So only a batch that would be stopped anyway is interrupted: d − a > p.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_INTERRUPTION_SECONDS = 1.0  # c


@dataclass(frozen=True)
class StageDuration:
    """The duration of a stage in a committed batch."""

    operator: str
    tasks: int
    seconds: float


@dataclass(frozen=True)
class OpenBatch:
    """A batch that is not committed yet, and the previous batch.

    Args:
        seconds: a.
        covered: seconds of input that the batch covers; 0 when not known.
        before_seconds: duration of the previous batch.
        before_covered: seconds of input that the previous batch covered; 0 when not known.
        before: stages of the previous batch.
    """

    seconds: float
    covered: float
    before_seconds: float
    before_covered: float
    before: Sequence[StageDuration] = ()


def should_interrupt(batch: OpenBatch, parallelism: Mapping[str, int], patience: float) -> bool:
    """Return whether to interrupt the batch for a rescale to `parallelism`. `patience` is p in seconds.

    >>> count = OpenBatch(2.0, 30.0, 28.0, 30.0, [StageDuration("count", 2, 24.0)])  # 26 s left
    >>> [should_interrupt(count, {"count": k}, 15.0) for k in (8, 3, 2)]  # repeated in 10, 20 or 28 s, plus 1 s
    [True, True, False]
    >>> should_interrupt(count, {"count": 8}, 60.0)
    False
    """
    expected = batch.before_seconds
    if batch.before_covered > 0:
        expected *= min(1.0, batch.covered / batch.before_covered)
    repeated = _INTERRUPTION_SECONDS + repeated_share(batch.before_seconds, batch.before, parallelism) * expected
    return expected - batch.seconds > max(repeated, patience)


def repeated_share(seconds: float, stages: Sequence[StageDuration], parallelism: Mapping[str, int]) -> float:
    """Return s for a batch of `seconds`. Stages that ran in parallel count as sequential, scaled to the batch time."""
    if seconds <= 0:
        return 1.0
    within = sum(stage.seconds for stage in stages)
    scale = min(1.0, seconds / within) if within > 0 else 0.0
    then = sum(stage.seconds * stage.tasks / parallelism.get(stage.operator, stage.tasks) for stage in stages)
    return (seconds - scale * within + scale * then) / seconds
