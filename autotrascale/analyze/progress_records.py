"""What Spark says of a batch, in its progress records and in the properties of its jobs: one reading of both."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct

from autotrascale.analyze.facts import MarkFact, StateFact
from autotrascale.monitor.eventlog.events import ProgressRecord, Properties, SourceProgress
from autotrascale.monitor.marks import COUNT, FIRST, LAST, MARK, MEAN

_MOST = 1 << 48
_MOST_OFFSET = 1 << 20  # bytes
_MOST_PARTS, _LONGEST_NAME = 1000, 1000  # sources, marks, phases, states of one query
_BATCH = re.compile(r"batch = (\d{1,15})\b")
_BEHIND = "avgOffsetsBehindLatest"  # Kafka's, over the partitions of all topics


class BatchReport(Struct, frozen=True):
    """One progress record. `executed` is false of idle time, which Spark reports under the number of the batch to
    come. `seconds` is trigger to commit, `offered_seconds` the input time covered, `behind` what the sources had and
    did not give when the batch was planned."""

    run: str
    batch: int
    executed: bool
    query: str | None
    started_ms: int
    seconds: float | None
    input_records: int
    offered_seconds: float | None
    behind: int | None
    marks: Mapping[str, MarkFact] = {}


def read_report(progress: ProgressRecord) -> BatchReport:
    """Raises `ValueError` for one that tells of more than a query has."""
    _check_parts(progress)
    took = progress.durationMs.get("triggerExecution", progress.batchDuration)
    return BatchReport(
        run=progress.runId,
        batch=progress.batchId,
        executed="addBatch" in progress.durationMs,
        query=progress.name,
        started_ms=_milliseconds(progress.timestamp),
        seconds=None if took is None else took / 1000,
        input_records=sum(source.numInputRows for source in progress.sources),
        offered_seconds=_offered_seconds(progress.sources),
        behind=_behind(progress.sources),
        marks=dict(_marks(progress.observedMetrics or {})),
    )


def _check_parts(progress: ProgressRecord) -> None:
    named = (progress.observedMetrics or {}, progress.durationMs)
    counts = [len(each) for each in (progress.sources, progress.stateOperators or (), *named)]
    names = [progress.runId, progress.name or "", *(name for each in named for name in each)]
    if max(counts) > _MOST_PARTS or max(map(len, names)) > _LONGEST_NAME:
        raise ValueError("a progress record tells of more than a query has")


def read_phases(progress: ProgressRecord) -> dict[str, float]:
    """Seconds by Spark's names, but for the whole."""
    return {name: ms / 1000 for name, ms in progress.durationMs.items() if name != "triggerExecution"}


def read_output_records(progress: ProgressRecord) -> int | None:
    """Those that the sink took; None where it does not count."""
    said = None if progress.sink is None else progress.sink.numOutputRows
    return None if said is None or said < 0 else said


def read_states(progress: ProgressRecord) -> tuple[StateFact, ...]:
    return tuple(
        StateFact(
            state.numRowsTotal, state.memoryUsedBytes, None if state.commitTimeMs is None else state.commitTimeMs / 1000
        )
        for state in progress.stateOperators or ()
    )


def find_batch(properties: Properties | None) -> tuple[str, int] | None:
    """Which batch of which run a job belongs to; None for a job of no stream. Before 2.3 only the text that describes
    the job has the batch's number."""
    if properties is None or properties.group is None:
        return None
    if properties.batch is not None:
        return properties.group, properties.batch
    described = properties.description or ""
    found = _BATCH.search(described) if properties.group in described else None
    return (properties.group, int(found[1])) if found else None


def _milliseconds(timestamp: str) -> int:
    when = datetime.fromisoformat(timestamp)
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return round(when.timestamp() * 1000)


def _offered_seconds(sources: Sequence[SourceProgress]) -> float | None:
    """Of the busiest source. The first batch of a run covers no time that one knows of."""
    spans = [
        source.numInputRows / rate
        for source in sources
        if isinstance(rate := source.inputRowsPerSecond, float) and math.isfinite(rate) and rate > 0
    ]
    return max(spans, default=None)


def _behind(sources: Sequence[SourceProgress]) -> int | None:
    """Known only if every source says so."""
    each = [_waiting(source) for source in sources]
    return None if not each or None in each else sum(waiting or 0 for waiting in each)


def _waiting(source: SourceProgress) -> int | None:
    """Records of a source by partition, as Kafka numbers them, from where the batch ended to the newest; else the mean
    that the source itself gives, times the partitions."""
    ended, newest = (
        offsets_by_partition(decode_offset(source.endOffset)),
        offsets_by_partition(decode_offset(source.latestOffset)),
    )
    if ended and newest and ended.keys() <= newest.keys():
        return sum(max(0, offset - ended.get(partition, offset)) for partition, offset in newest.items())
    try:
        mean = float((source.metrics or {})[_BEHIND])
    except (KeyError, TypeError, ValueError):
        return None
    return round(mean * len(ended)) if ended and math.isfinite(mean) and 0 <= mean < _MOST else None


def decode_offset(told: msgspec.Raw) -> Any:
    """As the source made it; None where that is more than any source's partitions take."""
    return None if len(bytes(told)) > _MOST_OFFSET else msgspec.json.decode(told)


def offsets_by_partition(told: Any) -> dict[tuple[str, str], int] | None:
    """{"topic": {"0": 17}} → its numbers; None of any other form."""
    if isinstance(told, str):
        try:
            told = json.loads(told)
        except (ValueError, RecursionError):
            return None
    if not isinstance(told, dict) or not all(isinstance(topic, dict) for topic in told.values()):
        return None
    found = {(topic, part): at for topic, parts in told.items() for part, at in parts.items()}
    return found if all(type(at) is int and abs(at) < 1 << 62 for at in found.values()) else None


def _marks(observed: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, MarkFact]]:
    """Those that count: a number that is none, or beyond all bounds, is not believed."""
    for name, row in observed.items():
        if not name.startswith(MARK):
            continue
        values = _columns(row)
        count = values.get(COUNT)
        if type(count) is int and 0 <= count < _MOST:
            yield name[len(MARK) :], MarkFact(count, *(_seconds(values.get(each)) for each in (FIRST, MEAN, LAST)))


def _columns(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """In the event log a row comes apart from its schema; in a progress record by itself, name by name."""
    if "schema" not in row:
        return row
    names = [column["name"] for column in row["schema"]["fields"]]
    return dict(zip(names, row["values"], strict=False))


def _seconds(micros: Any) -> float | None:
    return micros / 1e6 if isinstance(micros, int | float) and math.isfinite(micros) else None
