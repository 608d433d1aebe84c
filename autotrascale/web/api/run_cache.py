"""What single runs measured and why they ended where they did, kept for the few that are being looked at."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import TypeVar

from autotrascale.knowledge import run_history
from autotrascale.knowledge.mlflow_store import MlflowStore
from autotrascale.knowledge.run_history import RunRecord, RunSummary
from autotrascale.tuning import Evaluation

T = TypeVar("T")

CACHED_ENTRIES = 64


class RunCache:
    def __init__(self, store: MlflowStore) -> None:
        self.store = store
        self._kept: OrderedDict[tuple[str, str], tuple[object, object]] = OrderedDict()
        self._lock = Lock()

    def evaluations(self, summary: RunSummary) -> tuple[Evaluation, ...]:
        """As many as the summary counts, or more."""
        return self.kept("evaluations", summary, lambda: self._evaluations(summary.run_id))

    def record(self, run_id: str) -> RunRecord:
        return run_history.read_run(self.store, run_history.find_run(self.store, run_id))

    def kept(self, what: str, summary: RunSummary, make: Callable[[], T]) -> T:
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
            while len(self._kept) > CACHED_ENTRIES:
                self._kept.popitem(last=False)
        return made

    def _evaluations(self, run_id: str) -> tuple[Evaluation, ...]:
        run = run_history.find_run(self.store, run_id)
        return tuple(each.evaluation for each in run_history.read_trials(self.store, run))
