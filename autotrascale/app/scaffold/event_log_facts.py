"""Facts from an event log for a job file: name, queries with rate and batch duration, and executors."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from autotrascale.domain.errors import InputError
from autotrascale.monitor.eventlog import events
from autotrascale.monitor.eventlog.archived_log import ArchivedLog
from autotrascale.monitor.eventlog.decoding import decode_line_without_tasks
from autotrascale.monitor.eventlog.log_files import find_logs

RECENT_BATCHES = 200


@dataclass
class QueryFacts:
    """A query of the application. `rates` are records/s and `durations` seconds, one value for each batch."""

    name: str
    batches: int = 0
    rates: list[float] = field(default_factory=list)
    durations: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float | None:
        """Mean input rate of the recent batches, records/s."""
        return statistics.fmean(self.rates[-RECENT_BATCHES:]) if self.rates else None

    @property
    def batch_seconds(self) -> float | None:
        """Median duration of the recent batches."""
        return statistics.median(self.durations[-RECENT_BATCHES:]) if self.durations else None


@dataclass
class ApplicationFacts:
    """The application. `executors` is the largest number at one time, `cores` that of one executor."""

    name: str = ""
    queries: dict[str, QueryFacts] = field(default_factory=dict)
    executors: int = 0
    cores: int = 0
    master: str = ""


def read_application_facts(path: str) -> ApplicationFacts:
    """Return facts of the application in an event log. Of several, the last by id is the newest.

    Raises:
        InputError: the log has no streaming query.
    """
    logs, _ = find_logs([path])
    facts, running = ApplicationFacts(), set[str]()
    for _ in ArchivedLog(logs[-1], decode_line_without_tasks).read(partial(_add_event, facts=facts, running=running)):
        pass
    if not facts.queries:
        raise InputError(
            path,
            "has no streaming query",
            seen=facts.name or Path(path).name,
            remedy="give the event log of a streaming application that has run a batch",
        )
    return facts


def _add_event(event: object, facts: ApplicationFacts, running: set[str]) -> None:
    """Add an event. `running` are the ids of running executors."""
    match event:
        case events.ApplicationStart():
            facts.name = event.name
        case events.Environment():
            facts.master = event.properties.get("spark.master", facts.master)
        case events.ExecutorChange():
            if event.info is None:
                running.discard(event.executor)
            else:
                running.add(event.executor)
                facts.cores = event.info.cores
            facts.executors = max(facts.executors, len(running))
        case events.QueryStarted():
            _find_query(facts, event.name, event.id or event.runId)
        case events.QueryProgress():
            _add_progress(facts, event.progress)


def _add_progress(facts: ApplicationFacts, progress: events.ProgressRecord) -> None:
    query = _find_query(facts, progress.name, progress.id or progress.runId)
    # Some versions of Spark write a rate that is not a number as text.
    rates = [source.inputRowsPerSecond for source in progress.sources]
    finite = [rate for rate in rates if isinstance(rate, float) and math.isfinite(rate)]
    if not sum(source.numInputRows for source in progress.sources):
        return
    query.batches += 1
    query.rates.append(math.fsum(finite))
    duration_ms = progress.batchDuration or progress.durationMs.get("triggerExecution")
    if duration_ms:
        query.durations.append(duration_ms / 1000)


def _find_query(facts: ApplicationFacts, name: str | None, query_id: str) -> QueryFacts:
    # A query without a name gets its number, as in `autotrascale run`.
    if query_id not in facts.queries:
        facts.queries[query_id] = QueryFacts(name or f"query-{len(facts.queries) + 1}")
    return facts.queries[query_id]
