"""Partitions of a source with numbered records, such as Kafka: backlog and rate of each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Partition:
    """One partition of a topic.

    Args:
        topic: name of the topic.
        number: number of the partition in the topic.
        waiting: records that wait in it.
        rate: records per second that arrive; None without two batches at different times that report its end.
    """

    topic: str
    number: str
    waiting: int
    rate: float | None


@dataclass(frozen=True)
class SourcePartitions:
    """All partitions of one source of a query. None means not known."""

    partitions: tuple[Partition, ...]

    @property
    def topics(self) -> tuple[str, ...]:
        """Names of the topics, each once."""
        return tuple(dict.fromkeys(each.topic for each in self.partitions))

    @property
    def waiting(self) -> int:
        """Records that wait in all partitions."""
        return sum(each.waiting for each in self.partitions)

    @property
    def rate(self) -> float | None:
        """Records per second of all partitions; None when the rate of one is not known."""
        rates = [each.rate for each in self.partitions if each.rate is not None]
        return sum(rates) if len(rates) == len(self.partitions) else None

    @property
    def lag_seconds(self) -> float | None:
        """Backlog in seconds of input: Σ waiting / Σ rate."""
        if not self.waiting:
            return 0.0
        return self.waiting / self.rate if self.rate else None

    @property
    def skew(self) -> float | None:
        """Rate of the busiest partition over the mean rate."""
        return (self.busiest.rate or 0.0) * len(self.partitions) / self.rate if self.rate else None

    @property
    def busiest(self) -> Partition:
        """The partition with the highest rate."""
        return max(self.partitions, key=lambda each: each.rate or 0.0)
