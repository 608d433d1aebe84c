"""Evaluations and explanations of the runs that clients look at, in memory."""

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
    """Values that are computed from runs. An entry is valid while its run has not changed."""

    def __init__(self, store: MlflowStore) -> None:
        self.store = store
        self._entries: OrderedDict[tuple[str, str], tuple[object, object]] = OrderedDict()
        self._lock = Lock()

    def evaluations(self, summary: RunSummary) -> tuple[Evaluation, ...]:
        """Return at least as many evaluations as the summary counts."""
        return self.get("evaluations", summary, lambda: self._read_evaluations(summary.run_id))

    def record(self, run_id: str) -> RunRecord:
        """Return everything that is stored about a run. Not cached."""
        return run_history.read_run(self.store, run_history.find_run(self.store, run_id))

    def get(self, kind: str, summary: RunSummary, compute: Callable[[], T]) -> T:
        """Return the cached value of this kind for the run, or compute it."""
        key, version = (kind, summary.run_id), (summary.state, summary.evaluations, summary.ended)
        with self._lock:
            known = self._entries.get(key)
        if known is not None and known[0] == version:
            return known[1]  # type: ignore[return-value]
        value = compute()
        with self._lock:
            self._entries[key] = version, value
            self._entries.move_to_end(key)
            while len(self._entries) > CACHED_ENTRIES:
                self._entries.popitem(last=False)
        return value

    def _read_evaluations(self, run_id: str) -> tuple[Evaluation, ...]:
        run = run_history.find_run(self.store, run_id)
        return tuple(each.evaluation for each in run_history.read_trials(self.store, run))
