"""Functions that each take records from a topic of their own, simulated record by record, as Pulsar's functions do.

A function is one queue and k servers. Nothing holds up what is before it, topics hold as much as there is, and
instances come and go without a pause: an instance that goes finishes what it has begun.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

Record = tuple[float, float]  # when it is here, and when it came to the first topic


@dataclass
class Tally:
    """Of one window."""

    arrivals: list[float] = field(default_factory=list)
    services: list[float] = field(default_factory=list)  # of the records that were done


class Function:
    """Service times are gamma with this mean and squared coefficient of variation."""

    def __init__(self, mean: float, cv2: float, rng: np.random.Generator) -> None:
        self.k = 1
        self.tally = Tally()
        self._shape, self._scale, self._rng = 1 / cv2, mean * cv2, rng
        self._waiting: deque[Record] = deque()
        self._busy: list[tuple[float, float, float]] = []  # done at, came to the first topic at, takes
        self._now = 0.0

    @property
    def backlog(self) -> int:
        return len(self._waiting)

    def run(self, until: float, coming: Sequence[Record]) -> list[Record]:
        """Records that are done by then, in their order. `coming`: those that arrive meanwhile."""
        done: list[Record] = []
        self._begin()  # instances that came since
        for arrival in coming:
            self._finish(arrival[0], done)
            self._now = arrival[0]
            self.tally.arrivals.append(arrival[0])
            self._waiting.append(arrival)
            self._begin()
        self._finish(until, done)
        self._now = until
        return done

    def window(self) -> Tally:
        """What was counted since the last time."""
        tally, self.tally = self.tally, Tally()
        return tally

    def _finish(self, until: float, done: list[Record]) -> None:
        while self._busy and self._busy[0][0] <= until:
            at, origin, takes = self._busy[0]
            self._now = at
            heapq.heappop(self._busy)
            self.tally.services.append(takes)
            done.append((at, origin))
            self._begin()

    def _begin(self) -> None:
        while self._waiting and len(self._busy) < self.k:
            _, origin = self._waiting.popleft()
            takes = float(self._rng.gamma(self._shape, self._scale))
            heapq.heappush(self._busy, (self._now + takes, origin, takes))
