"""Rows of rarer events, and patterns: the same stages, whatever numbers Spark had come to."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import chain
from typing import Any

import msgspec
import pytest
from record import LOGS

from autotrascale.analyze.archive import rows
from autotrascale.analyze.naming import shorten_plan
from autotrascale.analyze.plan_tree import Stage
from autotrascale.analyze.stage_to_operator import SparkJob, StageRole, assign_roles
from autotrascale.monitor.eventlog import events
from autotrascale.monitor.eventlog.decoding import decode_rare_event
from autotrascale.monitor.eventlog.lines import Text, blocks
from autotrascale.monitor.eventlog.log_files import find_files, pieces


def events_of(application: str) -> list[tuple[dict[str, Any], msgspec.Struct]]:
    """Each with the whole event as JSON has it."""
    found = []
    for piece in pieces(find_files([str(LOGS / application)])[0]):
        for line in chain.from_iterable(blocks(Text(piece), piece)):
            if not line.startswith(events.TASK_END) and (event := decode_rare_event(line)):
                found.append((json.loads(line), event))
    return found


def text(pattern: object) -> str:
    return msgspec.json.encode(pattern).decode()


@pytest.mark.parametrize("application", ["marked", "filters", "plain", "queries"])
def test_stages_made_of_patterns_have_the_roles_of_the_event_itself(application: str) -> None:
    told = events_of(application)
    plans = {event.execution: (whole, event) for whole, event in told if isinstance(event, events.ExecutionStart)}
    jobs = [(whole, event) for whole, event in told if isinstance(event, events.JobStart)]
    assert jobs
    for whole, event in jobs:
        execution = event.properties.execution if event.properties else None
        plan = plans.get(-1 if execution is None else execution)
        pattern, (first_stage, first_rdd, first_shuffle) = rows.stages_pattern(event)
        tree, plan_shuffle = rows.plan_pattern(plan[1]) if plan else (None, 0)
        start = (first_stage, first_rdd, (first_shuffle or 0) - plan_shuffle)
        made = SparkJob.of(text(pattern), text(tree) if tree else None, start)
        tree = msgspec.convert(plan[0]["sparkPlanInfo"], events.Node) if plan else None
        if tree is not None:
            shorten_plan(tree)
        assert len(event.stages) == len(whole["Stage Infos"])
        assert assign_roles([made]) == assign_roles([SparkJob([Stage.listed(stage) for stage in event.stages], tree)])


def test_batches_of_one_query_have_one_pattern() -> None:
    told = [event for _, event in events_of("marked")]
    plans = {event.execution: rows.plan_pattern(event) for event in told if isinstance(event, events.ExecutionStart)}
    forms, first = set(), []
    for event in told:
        if isinstance(event, events.JobStart) and event.properties and event.properties.batch:
            pattern, at = rows.stages_pattern(event)
            plan, shuffle = plans[event.properties.execution or 0]
            forms.add((text(pattern), text(plan), (at[2] or 0) - shuffle))
            first.append(at[0])
    assert len(first) > len(forms) == 1
    assert len(set(first)) == len(first)


def test_a_job_that_starts_later_has_its_stages_later() -> None:
    stages = text([[0, "start", [], [[0, "MapPartitionsRDD", "Scan", None]]], [1, "start", [0], []]])
    found = assign_roles([SparkJob.of(stages, None, (40, 7, 0))])
    assert [(role.stage, role.upstream) for role in found] == [(40, ()), (41, ("scan",))]
    assert [replace(role, stage=role.stage - 40) for role in found] == assign_roles([SparkJob.of(stages, None)])
    assert all(isinstance(role, StageRole) for role in found)


def progress(**changes: Any) -> dict[str, Any]:
    told = {"runId": "r", "batchId": 3, "timestamp": "2026-11-18T09:12:07.466Z", "sources": [], **changes}
    return dict(
        zip(
            rows.PROGRESS,
            rows.progress(msgspec.json.decode(msgspec.json.encode(told), type=events.ProgressRecord)),
            strict=True,
        )
    )


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
    assert told == {
        "run": "r",
        "batch": 3,
        "executed": True,
        "query": None,
        "started_ms": 1794993127466,
        "seconds": 1.5,
        "input_records": 38,
        "offered_seconds": 3.0,
        "behind": None,
        "marks": [("a", (30, 2.0, 2.5, None))],
    }
    assert progress(timestamp="2026-11-18T09:12:07.466")["started_ms"] == 1794993127466
    assert progress(batchDuration=250)["seconds"] == 0.25
    assert progress()["seconds"] is progress()["offered_seconds"] is None


@pytest.mark.parametrize("n", ["many", 2**63, 2.5, None, True, -1])
def test_a_mark_that_counts_nothing_is_not_believed(n: object) -> None:
    told = progress(observedMetrics={"op:a": {"values": [n], "schema": {"fields": [{"name": "n"}]}}})
    assert told["marks"] == []


def kafka(ended: Any, newest: Any = None, mean: str | None = None) -> int | None:
    source = {"numInputRows": 1, "endOffset": ended, "latestOffset": newest}
    told = {**source, "metrics": {} if mean is None else {"avgOffsetsBehindLatest": mean}}
    behind: int | None = progress(sources=[told])["behind"]
    return behind


def test_what_a_source_has_and_did_not_give() -> None:
    text = '{"shop":{"0":17,"1":4}}'
    assert kafka(text, '{"shop":{"0":20,"1":4}}') == 3
    assert kafka(json.loads(text), {"shop": {"0": 20, "1": 104}}) == 103
    assert kafka(text, None, "2.5") == 5
    assert kafka(text, '{"shop":{"0":20,"1":4}}', "99.0") == 3, "offsets are exact, means are rounded"
    assert kafka(text) is kafka(None, None, "2.5") is kafka(text, None, "NaN") is kafka(text, None, "x") is None
    assert kafka('{"logOffset":3}', '{"logOffset":9}') is None, "files, not records"
    both = {"numInputRows": 1, "endOffset": text, "latestOffset": text}
    assert progress(sources=[both, both])["behind"] == 0
    assert progress(sources=[both, {"numInputRows": 1}])["behind"] is progress(sources=[])["behind"] is None


@pytest.mark.parametrize("rate", ["NaN", "Infinity", 0.0, None, -1.0])
def test_a_rate_that_is_no_number_says_nothing(rate: object) -> None:
    assert progress(sources=[{"numInputRows": 30, "inputRowsPerSecond": rate}])["offered_seconds"] is None


def test_a_progress_record_outside_of_a_log_has_its_marks_by_name() -> None:
    told = progress(observedMetrics={"op:a": {"n": 30, "first": 2_000_000, "mean": 2.5e6, "last": 3_000_000}})
    assert told["marks"] == [("a", (30, 2.0, 2.5, 3.0))]
