"""Reports on batches, from progress records."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from autotrascale.analyze.facts import MarkFact
from autotrascale.analyze.progress_records import BatchReport, read_report
from autotrascale.monitor.eventlog import events


def progress(**changes: Any) -> BatchReport:
    record = {"runId": "r", "batchId": 3, "timestamp": "2026-11-18T09:12:07.466Z", "sources": [], **changes}
    return read_report(msgspec.json.decode(msgspec.json.encode(record), type=events.ProgressRecord))


def test_a_report_on_a_batch() -> None:
    field = [{"name": name} for name in ("n", "first", "mean", "last")]
    told = progress(
        durationMs={"addBatch": 5, "triggerExecution": 1500},
        sources=[{"numInputRows": 30, "inputRowsPerSecond": 10.0}, {"numInputRows": 8, "inputRowsPerSecond": 0.0}],
        observedMetrics={
            "op:a": {"values": [30, 2_000_000, 2.5e6, None], "schema": {"fields": field}},
            "mine": {"values": ["x"], "schema": {"fields": [{"name": "n"}]}},
        },
    )
    marks = {"a": MarkFact(30, 2.0, 2.5, None)}
    assert told == BatchReport("r", 3, True, 1794993127466, 1.5, 38, 3.0, None, marks)
    assert progress(timestamp="2026-11-18T09:12:07.466").started_ms == 1794993127466
    assert progress(batchDuration=250).seconds == 0.25
    assert progress().seconds is progress().offered_seconds is None


@pytest.mark.parametrize(
    "changes", [{"timestamp": "1026-11-18T09:12:07Z"}, {"timestamp": "9026-11-18T09:12:07Z"}, {"batchDuration": 2**47}]
)
def test_a_batch_of_an_impossible_time_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="impossible time"):
        progress(**changes)


@pytest.mark.parametrize("n", ["many", 2**63, 2.5, None, True, -1])
def test_a_mark_that_counts_nothing_is_not_believed(n: object) -> None:
    told = progress(observedMetrics={"op:a": {"values": [n], "schema": {"fields": [{"name": "n"}]}}})
    assert told.marks == {}


def kafka(ended: Any, newest: Any = None, mean: str | None = None) -> int | None:
    source = {"numInputRows": 1, "endOffset": ended, "latestOffset": newest}
    told = {**source, "metrics": {} if mean is None else {"avgOffsetsBehindLatest": mean}}
    return progress(sources=[told]).behind


def test_records_that_a_source_held_back() -> None:
    text = '{"shop":{"0":17,"1":4}}'
    assert kafka(text, '{"shop":{"0":20,"1":4}}') == 3
    assert kafka(json.loads(text), {"shop": {"0": 20, "1": 104}}) == 103
    assert kafka(text, None, "2.5") == 5
    assert kafka(text, '{"shop":{"0":20,"1":4}}', "99.0") == 3, "offsets are exact, means are rounded"
    assert kafka(text) is kafka(None, None, "2.5") is kafka(text, None, "NaN") is kafka(text, None, "x") is None
    assert kafka('{"logOffset":3}', '{"logOffset":9}') is None, "files, not records"
    both = {"numInputRows": 1, "endOffset": text, "latestOffset": text}
    assert progress(sources=[both, both]).behind == 0
    assert progress(sources=[both, {"numInputRows": 1}]).behind is progress(sources=[]).behind is None


@pytest.mark.parametrize("rate", ["NaN", "Infinity", 0.0, None, -1.0])
def test_a_rate_that_is_no_number_is_ignored(rate: object) -> None:
    assert progress(sources=[{"numInputRows": 30, "inputRowsPerSecond": rate}]).offered_seconds is None


def test_a_progress_record_outside_of_a_log_has_its_marks_by_name() -> None:
    told = progress(observedMetrics={"op:a": {"n": 30, "first": 2_000_000, "mean": 2.5e6, "last": 3_000_000}})
    assert told.marks == {"a": MarkFact(30, 2.0, 2.5, 3.0)}
