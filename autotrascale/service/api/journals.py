"""What single runs measured and why they ended where they did, kept for the few that are being looked at."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import TypeVar

from autotrascale.knowledge import history
from autotrascale.knowledge.history import Record, Summary
from autotrascale.knowledge.store import Store
from autotrascale.tuning import Evaluation

T = TypeVar("T")

KEPT = 64


class Journals:
    def __init__(self, store: Store) -> None:
        self.store = store
        self._kept: OrderedDict[tuple[str, str], tuple[object, object]] = OrderedDict()
        self._lock = Lock()

    def evaluations(self, summary: Summary) -> tuple[Evaluation, ...]:
        """As many as the summary counts, or more."""
        return self.kept("evaluations", summary, lambda: self._evaluations(summary.run_id))

    def record(self, run_id: str) -> Record:
        return history.read_run(self.store, history.find_run(self.store, run_id))

    def kept(self, what: str, summary: Summary, make: Callable[[], T]) -> T:
        """What was made of a run, for as long as the run is as it was."""
        key, version = (what, summary.run_id), (summary.state, summary.evaluations, summary.ended)
        with self._lock:
            known = self._kept.get(key)
        if known is not None and known[0] == version:
            return known[1]  # type: ignore[return-value]
        made = make()
        with self._lock:
            self._kept[key] = version, made
            self._kept.move_to_end(key)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return made

    def _evaluations(self, run_id: str) -> tuple[Evaluation, ...]:
        run = history.find_run(self.store, run_id)
        return tuple(each.evaluation for each in history.read_trials(self.store, run))
