"""Progress records and job properties: the two places where Spark writes facts of a batch, read in one way."""

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

LATEST_MS = 10**14  # the year 5138: a later time is a fault of the log
_MOST = 1 << 48
_MOST_OFFSET_BYTES = 1 << 20
_MOST_PARTS, _LONGEST_NAME = 1000, 1000  # sources, marks, phases, states of one query
_BATCH = re.compile(r"batch = (\d{1,15})\b")
_BEHIND = "avgOffsetsBehindLatest"  # Kafka's mean over the partitions of all topics


class BatchReport(Struct, frozen=True):
    """One progress record.

    `executed` is false for idle time, which Spark reports under the number of the next batch. `seconds` is the time
    from trigger to commit. `offered_seconds` is the input time that the batch covers. `behind` counts the records that
    the sources held back when the batch was planned.
    """

    run: str
    batch: int
    executed: bool
    started_ms: int
    seconds: float | None
    input_records: int
    offered_seconds: float | None
    behind: int | None
    marks: Mapping[str, MarkFact] = {}


def read_report(progress: ProgressRecord) -> BatchReport:
    """Return the report of a progress record.

    Raises `ValueError` for a record with more parts than a query has, or with an impossible time.
    """
    _check_parts(progress)
    took_ms = progress.durationMs.get("triggerExecution", progress.batchDuration)
    started_ms = _milliseconds(progress.timestamp)
    if not (started_ms >= 0 and started_ms + max(0, took_ms or 0) <= LATEST_MS):
        raise ValueError("the batch has an impossible time")
    return BatchReport(
        run=progress.runId,
        batch=progress.batchId,
        executed="addBatch" in progress.durationMs,
        started_ms=started_ms,
        seconds=None if took_ms is None else took_ms / 1000,
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
        raise ValueError("the progress record has more parts than a query")


def read_phases(progress: ProgressRecord) -> dict[str, float]:
    """Return the seconds of each phase by Spark's names, without the whole trigger."""
    return {name: ms / 1000 for name, ms in progress.durationMs.items() if name != "triggerExecution"}


def read_output_records(progress: ProgressRecord) -> int | None:
    """Return the records that the sink took, None where the sink does not count."""
    count = None if progress.sink is None else progress.sink.numOutputRows
    return None if count is None or count < 0 else count


def read_states(progress: ProgressRecord) -> tuple[StateFact, ...]:
    """Return the stateful operators of a progress record."""
    return tuple(
        StateFact(
            state.numRowsTotal, state.memoryUsedBytes, None if state.commitTimeMs is None else state.commitTimeMs / 1000
        )
        for state in progress.stateOperators or ()
    )


def find_batch(properties: Properties | None) -> tuple[str, int] | None:
    """Return the query run and the batch that a job belongs to, None for a job of no stream.

    Before Spark 2.3 only the job's description holds the number of the batch.
    """
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
    """Return the input time of the busiest source. The first batch of a run covers an unknown time."""
    spans = [
        source.numInputRows / rate
        for source in sources
        if isinstance(rate := source.inputRowsPerSecond, float) and math.isfinite(rate) and rate > 0
    ]
    return max(spans, default=None)


def _behind(sources: Sequence[SourceProgress]) -> int | None:
    """Return the records held back by all sources, None unless each source reports its own."""
    each = [_held_back(source) for source in sources]
    return None if not each or None in each else sum(count or 0 for count in each)


def _held_back(source: SourceProgress) -> int | None:
    """Return the records between the batch's end and the newest offset, partition by partition, as Kafka numbers them.

    Without such offsets, return the source's own mean times the number of partitions.
    """
    ended = offsets_by_partition(decode_offset(source.endOffset))
    newest = offsets_by_partition(decode_offset(source.latestOffset))
    if ended and newest and ended.keys() <= newest.keys():
        return sum(max(0, offset - ended.get(partition, offset)) for partition, offset in newest.items())
    try:
        mean = float((source.metrics or {})[_BEHIND])
    except (KeyError, TypeError, ValueError):
        return None
    return round(mean * len(ended)) if ended and math.isfinite(mean) and 0 <= mean < _MOST else None


def decode_offset(offset: msgspec.Raw) -> Any:
    """Return an offset in the source's own form, None where it is larger than any source's partitions need."""
    return None if len(bytes(offset)) > _MOST_OFFSET_BYTES else msgspec.json.decode(offset)


def offsets_by_partition(offset: Any) -> dict[tuple[str, str], int] | None:
    """Return {("topic", "0"): 17} for {"topic": {"0": 17}}, None for any other form."""
    if isinstance(offset, str):
        try:
            offset = json.loads(offset)
        except (ValueError, RecursionError):
            return None
    if not isinstance(offset, dict) or not all(isinstance(topic, dict) for topic in offset.values()):
        return None
    found = {(topic, part): at for topic, parts in offset.items() for part, at in parts.items()}
    return found if all(type(at) is int and abs(at) < 1 << 62 for at in found.values()) else None


def _marks(observed: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, MarkFact]]:
    """Yield the marks with a plausible count."""
    for name, row in observed.items():
        if not name.startswith(MARK):
            continue
        values = _columns(row)
        count = values.get(COUNT)
        if type(count) is int and 0 <= count < _MOST:
            yield name[len(MARK) :], MarkFact(count, *(_seconds(values.get(each)) for each in (FIRST, MEAN, LAST)))


def _columns(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a row by column name. In the event log, values and schema of a row are apart."""
    if "schema" not in row:
        return row
    names = [column["name"] for column in row["schema"]["fields"]]
    return dict(zip(names, row["values"], strict=False))


def _seconds(micros: Any) -> float | None:
    return micros / 1e6 if isinstance(micros, int | float) and math.isfinite(micros) else None
