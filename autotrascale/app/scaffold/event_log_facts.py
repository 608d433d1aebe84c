"""What an event log says of the application that wrote it, as far as a job file wants to know it: its name, its queries
with their rates and how long their batches take, and the executors that it has."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from autotrascale.domain.errors import InputError
from autotrascale.monitor.eventlog import events
from autotrascale.monitor.eventlog.decoding import decode_rare_event
from autotrascale.monitor.eventlog.lines import Text, blocks
from autotrascale.monitor.eventlog.log_files import LogFile, find_files, pieces

_LAST = 200  # batches of a query whose length counts


@dataclass
class QueryFacts:
    """`rate` in records per second of its latest batches, and how long the middle one of them took."""

    name: str
    batches: int = 0
    rates: list[float] = field(default_factory=list)
    durations: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float | None:
        return statistics.fmean(self.rates[-_LAST:]) if self.rates else None

    @property
    def batch_seconds(self) -> float | None:
        return statistics.median(self.durations[-_LAST:]) if self.durations else None


@dataclass
class ApplicationFacts:
    name: str = ""
    queries: dict[str, QueryFacts] = field(default_factory=dict)
    executors: int = 0  # the most at a time
    cores: int = 0  # of one
    master: str = ""


def read_application_facts(path: str) -> ApplicationFacts:
    """Of several applications the one that comes last by its name, which is the newest where Spark names them."""
    files, _ = find_files([path])
    newest = max(file.log for file in files)
    seen, there = ApplicationFacts(), set[str]()
    for event in _events([file for file in files if file.log == newest]):
        _take(event, seen, there)
    if not seen.queries:
        raise InputError(
            path,
            "holds no streaming query",
            seen=seen.name or Path(path).name,
            remedy="give the event log of a streaming application that has run a batch",
        )
    return seen


def _events(files: list[LogFile]) -> Iterator[object]:
    for piece in pieces(files):
        for block in blocks(Text(piece), piece):
            for line in block:
                if line.startswith(events.TASK_END):
                    continue
                try:
                    event = decode_rare_event(line)
                except ValueError:  # a line that is damaged, or still being written
                    continue
                if event is not None:
                    yield event


def _take(event: object, seen: ApplicationFacts, there: set[str]) -> None:
    match event:
        case events.ApplicationStart():
            seen.name = event.name
        case events.Environment():
            seen.master = event.properties.get("spark.master", seen.master)
        case events.ExecutorChange():
            if event.info is None:
                there.discard(event.executor)
            else:
                there.add(event.executor)
                seen.cores = event.info.cores
            seen.executors = max(seen.executors, len(there))
        case events.QueryStarted():
            _query(seen, event.name, event.id or event.runId)
        case events.QueryProgress():
            _progress(seen, event.progress)


def _progress(seen: ApplicationFacts, progress: events.ProgressRecord) -> None:
    query = _query(seen, progress.name, progress.id or progress.runId)
    rates = [rate for source in progress.sources if (rate := _number(source.inputRowsPerSecond)) is not None]
    records = sum(source.numInputRows for source in progress.sources)
    if not records:
        return
    query.batches += 1
    query.rates.append(math.fsum(rates))
    took = progress.batchDuration or progress.durationMs.get("triggerExecution")
    if took:
        query.durations.append(took / 1000)


def _query(seen: ApplicationFacts, name: str | None, key: str) -> QueryFacts:
    """One that is started again is the same; without a name it is told by its number, as `autotrascale run` does."""
    if key not in seen.queries:
        seen.queries[key] = QueryFacts(name or f"query-{len(seen.queries) + 1}")
    return seen.queries[key]


def _number(rate: float | str | None) -> float | None:
    """Some versions write what is no number as a text."""
    return rate if isinstance(rate, float) and math.isfinite(rate) else None
