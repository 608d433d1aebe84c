"""One run of a query from the event log: its batches, the batch in flight, and its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from autotrascale.analyze.facts import BatchFact, BatchStarted, Fact, QueryRunEnded
from autotrascale.analyze.joiner import Joiner
from autotrascale.analyze.stability import BatchSample, RunningBatch
from autotrascale.monitor.eventlog.follower import Follower


class FactStream:
    """The facts of one running application. Damaged lines are counted and left out."""

    def __init__(
        self, follower: Follower, *, every_stage: bool = False, also: Callable[[Struct], None] | None = None
    ) -> None:
        """Follow a log. `also` is called with every event. `every_stage` is explained at `Joiner`."""
        self._follower, self._joiner, self._also = follower, Joiner(every_stage=every_stage), also

    @property
    def damaged(self) -> int:
        """Lines that are no whole event, or make no sense."""
        return self._follower.damaged

    def facts(self) -> Iterator[Fact]:
        """Yield the facts since the last call."""
        return self._follower.read(self._take)

    def _take(self, event: Struct) -> Sequence[Fact]:
        if self._also is not None:
            self._also(event)
        return self._joiner.take(event)


class QueryRun:
    """The batches of one run of a query."""

    def __init__(self, run: str = "") -> None:
        self.run = run
        self.batches: list[BatchFact] = []
        self.started: BatchStarted | None = None
        self.ended: QueryRunEnded | None = None

    def take(self, fact: Fact) -> None:
        match fact:
            case BatchFact():
                self.batches.append(fact)
            case BatchStarted():
                self.started = fact
            case QueryRunEnded():
                self.ended = fact

    def since(self, at_ms: float) -> list[BatchFact]:
        """Return the batches that were triggered at this moment or later."""
        return [batch for batch in self.batches if batch.started_ms >= at_ms]

    def forget(self, before_ms: float) -> None:
        """Drop batches triggered before this moment, except the last one: a job may run for months."""
        self.batches[:-1] = [batch for batch in self.batches[:-1] if batch.started_ms >= before_ms]

    def in_flight(self, now_ms: float) -> RunningBatch | None:
        """Return the batch whose tasks run now. It covers the arrivals since the trigger before it."""
        if self.started is None or not self.batches or self.started.batch <= self.batches[-1].batch:
            return None
        before = self.batches[-1]
        return RunningBatch(
            covered=max(0.0, (self.started.at_ms - before.started_ms) / 1000),
            seconds=max(0.0, (now_ms - self.started.at_ms) / 1000),
        )


class QueryWatch(QueryRun):
    """Watches one run of a query. Facts of other runs are ignored: the log still gets lines of a stopped query."""

    def __init__(self, follower: Follower, also: Callable[[Struct], None] | None = None) -> None:
        """Follow a log. `also` is called with every event."""
        super().__init__()
        self._stream = FactStream(follower, also=also)

    def follow(self, run: str) -> None:
        """Watch this run from now on."""
        super().__init__(run)

    def poll(self) -> None:
        """Read the new lines of the log."""
        for fact in self._stream.facts():
            if isinstance(fact, BatchFact | BatchStarted | QueryRunEnded) and fact.run == self.run:
                self.take(fact)

    @property
    def damaged(self) -> int:
        return self._stream.damaged


def make_samples(batches: Sequence[BatchFact], load_began_ms: float) -> list[BatchSample]:
    """Return the samples of batches. Each covers the time since the last trigger, the first since `load_began_ms`."""
    triggers = [load_began_ms, *(batch.started_ms for batch in batches)]
    return [
        BatchSample(covered=max(0.0, (batch.started_ms - before) / 1000), seconds=batch.seconds, lag=measure_lag(batch))
        for before, batch in zip(triggers, batches, strict=False)
    ]


def measure_lag(batch: BatchFact) -> float:
    """Return the age of the newest record at the trigger, in seconds. It grows when a source holds records back."""
    newest = [mark.last for mark in batch.marks.values() if mark.last is not None]
    return max(0.0, batch.started_ms / 1000 - max(newest)) if newest else 0.0
