"""The control loops that keep their journal beside this store: since when each has looked, and whether it holds."""

from __future__ import annotations

import time

from autotrascale.domain.errors import AuTraScaleError
from autotrascale.knowledge.decisions.journal import Decisions, Past
from autotrascale.service.api.schemas import LoopHealth

LOOK_SECONDS = 10.0


class Loops:
    """`now` is what was read last: asking costs nothing, reading is for the thread that keeps up with the store."""

    def __init__(self, decisions: Decisions | None) -> None:
        self.decisions = decisions
        self.now: tuple[LoopHealth, ...] = ()
        self._looked = -LOOK_SECONDS

    def look(self) -> None:
        if self.decisions is None or time.monotonic() - self._looked < LOOK_SECONDS:
            return
        self._looked = time.monotonic()
        try:
            self.now = tuple(_health(past) for past in self.decisions.sessions() if past.lives)
        except AuTraScaleError:  # the journal is away: what was known of its loops is not known any more
            self.now = ()


def _health(past: Past) -> LoopHealth:
    totals = past.state.totals
    return LoopHealth(
        job=past.opening.job, session=past.id, advises=past.opening.advise,
        written_seconds_ago=round(max(0.0, time.time() - past.written), 3), looks=totals.looks,
        held_in_a_row=totals.held_in_a_row, holds_for=totals.holds_for if totals.held_in_a_row else None,
    )  # fmt: skip
