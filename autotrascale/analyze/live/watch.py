"""One run of a query as the event log tells it: its batches, the one in flight, and its end."""

from __future__ import annotations

from collections.abc import Sequence

from autotrascale.analyze.facts import BatchFact, BatchStarted, QueryEnded
from autotrascale.analyze.live.joining import Follower, Joiner
from autotrascale.analyze.stability import Running, Sample


class Watch:
    """`poll` reads on. Facts of other runs are passed over: a query that was stopped still has lines to come."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._joiner = Joiner()
        self._run = ""
        self.batches: list[BatchFact] = []
        self.started: BatchStarted | None = None
        self.ended: QueryEnded | None = None

    def follow(self, run: str) -> None:
        """From now on, this run."""
        self._run = run
        self.batches, self.started, self.ended = [], None, None

    def poll(self) -> None:
        for line in self._follower.lines():
            for fact in self._joiner.feed(line):
                if fact.run == self._run:
                    self._take(fact)

    def since(self, at_ms: float) -> list[BatchFact]:
        """The batches that were triggered at this moment or later."""
        return [batch for batch in self.batches if batch.started_ms >= at_ms]

    def forget(self, before_ms: float) -> None:
        """Batches triggered before this moment, but the last one: a job may run for months."""
        self.batches[:-1] = [batch for batch in self.batches[:-1] if batch.started_ms >= before_ms]

    def in_flight(self, now_ms: float) -> Running | None:
        """The batch whose tasks run now. It covers what arrived since the one before it was triggered."""
        if self.started is None or not self.batches or self.started.batch <= self.batches[-1].batch:
            return None
        before = self.batches[-1]
        return Running(
            covered=max(0.0, (self.started.at_ms - before.started_ms) / 1000),
            seconds=max(0.0, (now_ms - self.started.at_ms) / 1000),
        )

    def _take(self, fact: BatchFact | BatchStarted | QueryEnded) -> None:
        match fact:
            case BatchFact():
                self.batches.append(fact)
            case BatchStarted():
                self.started = fact
            case QueryEnded():
                self.ended = fact


def samples(batches: Sequence[BatchFact], load_began_ms: float) -> list[Sample]:
    """Each batch covers the input from the trigger before it to its own; the first one, from the load's begin."""
    triggers = [load_began_ms, *(batch.started_ms for batch in batches)]
    return [
        Sample(covered=max(0.0, (batch.started_ms - before) / 1000), seconds=batch.seconds, lag=lag(batch))
        for before, batch in zip(triggers, batches, strict=False)
    ]


def lag(batch: BatchFact) -> float:
    """How old the newest record was when its batch was triggered: it grows when a source holds records back."""
    newest = [mark.last for mark in batch.marks.values() if mark.last is not None]
    return max(0.0, batch.started_ms / 1000 - max(newest)) if newest else 0.0
