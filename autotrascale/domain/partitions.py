"""The partitions of a source that numbers its records, as Kafka does: what waits in each, and how fast it comes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Partition:
    """`rate` is None where two batches at different times did not both say how far it was."""

    topic: str
    number: str
    waiting: int
    rate: float | None


@dataclass(frozen=True)
class SourcePartitions:
    """Of one source of a query. None: not known."""

    partitions: tuple[Partition, ...]

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.topic for each in self.partitions))

    @property
    def waiting(self) -> int:
        return sum(each.waiting for each in self.partitions)

    @property
    def rate(self) -> float | None:
        rates = [each.rate for each in self.partitions if each.rate is not None]
        return sum(rates) if len(rates) == len(self.partitions) else None

    @property
    def lag_seconds(self) -> float | None:
        """How much input that is: Σ waiting / Σ rate."""
        if not self.waiting:
            return 0.0
        return self.waiting / self.rate if self.rate else None

    @property
    def skew(self) -> float | None:
        """The busiest partition's rate over the mean."""
        return (self.busiest.rate or 0.0) * len(self.partitions) / self.rate if self.rate else None

    @property
    def busiest(self) -> Partition:
        return max(self.partitions, key=lambda each: each.rate or 0.0)
