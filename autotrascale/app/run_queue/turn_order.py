"""Whose turn it is: round-robin over jobs, first come, first served within a job. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from autotrascale.app.run_queue.run_requests import QueuedRun


def choose_next(waiting: Iterable[QueuedRun], busy: Set[str], served: Mapping[str, int]) -> QueuedRun | None:
    """`served`: when a job last had its turn, as a count of turns; a job that never had one goes first."""
    heads: dict[str, QueuedRun] = {}
    for entry in waiting:
        first = heads.get(entry.job)
        if entry.job not in busy and (first is None or _age(entry) < _age(first)):
            heads[entry.job] = entry
    return min(heads.values(), key=lambda entry: (served.get(entry.job, -1), _age(entry)), default=None)


def _age(entry: QueuedRun) -> tuple[int, str]:
    return entry.since, entry.run_id
