from __future__ import annotations

import json
from itertools import chain
from pathlib import Path

import msgspec
import pytest

from autotrascale.monitor.eventlog import events
from autotrascale.monitor.eventlog.decoding import decode_brief_task, decode_line, decode_rare_event
from autotrascale.monitor.eventlog.events import (
    UNKNOWN,
    Environment,
    ExecutorChange,
    ExecutorMetricsUpdate,
    FullTaskEnd,
    ShuffleRead,
    StageExecutorMetrics,
    TaskEnd,
)
from autotrascale.monitor.eventlog.lines import LogText, blocks
from autotrascale.monitor.eventlog.log_files import find_files

LOGS = Path(__file__).parents[1] / "analyze" / "logs"
TASK = {"Event": "SparkListenerTaskEnd", "Stage ID": 3, "Task End Reason": {"Reason": "x"}, "Task Info": {"Index": 1}}


def test_a_version_may_leave_out_blocks_and_add_fields() -> None:
    """A block that is missing is a zero: the task did nothing of the kind. A number in a block is not known."""
    metrics = {"Executor Run Time": 5, "Moon Phase": {"new": [1, None, "\\u00e9"]}}
    task = msgspec.json.decode(json.dumps({**TASK, "Task Metrics": metrics}), type=TaskEnd)
    assert task.metrics is not None
    assert (task.metrics.run_ms, task.metrics.shuffled.wait_ms, task.metrics.written.records) == (5, 0, 0)
    assert task.metrics.gc_ms == task.metrics.deserialise_ms == UNKNOWN
    blocks = {"Input Metrics": {"Bytes Read": 9}, "Shuffle Read Metrics": {"Fetch Wait Time": 3}}
    task = msgspec.json.decode(json.dumps({**TASK, "Task Metrics": {**metrics, **blocks}}), type=TaskEnd)
    assert task.metrics is not None
    assert (task.metrics.taken.records, task.metrics.shuffled) == (UNKNOWN, ShuffleRead(3, UNKNOWN))
    assert msgspec.json.decode(json.dumps(TASK), type=TaskEnd).metrics is None


def test_every_event_of_a_real_log_is_read_or_passed_over() -> None:
    seen = set()
    for file in find_files([str(LOGS)])[0]:
        for line in chain.from_iterable(blocks(LogText(file.uri))):
            if not line.startswith(events.TASK_END):
                seen.add(type(decode_rare_event(line)))
    # Nothing of the machine it was recorded on is in it (`record.shear`), and memory is told of where somebody asks.
    asked_for = {StageExecutorMetrics, ExecutorMetricsUpdate}  # see tests/analyze/test_executor_use.py
    assert seen >= {*events.RARE.values()} - {ExecutorChange, Environment} - asked_for


def test_a_brief_task_equals_the_whole_task() -> None:
    tasks = 0
    for file in find_files([str(LOGS)])[0]:
        for line in chain.from_iterable(blocks(LogText(file.uri))):
            if line.startswith(events.TASK_END):
                tasks += b',"Accumulables":[' in line
                lean = decode_brief_task(line)
                assert lean == msgspec.json.decode(line, type=TaskEnd)
                full = decode_line(line)
                assert isinstance(full, FullTaskEnd)
                full.info.counters = []  # raw, which has no plain form; what is read of them: tests of critical paths
                assert msgspec.convert(msgspec.to_builtins(full), TaskEnd) == lean
                assert full.metrics is None or full.metrics.cpu_ns > 0
    assert tasks


def test_damage_in_the_middle_costs_no_task_and_other_damage_does() -> None:
    info = {"Index": 1, "Accumulables": [{"ID": 1, "Name": 'an, ","Task Metrics":{ in a text'}]}
    line = json.dumps({**TASK, "Task Info": info, "Task Metrics": {"Executor Run Time": 5}}, separators=(",", ":"))
    whole = msgspec.json.decode(line, type=TaskEnd)
    assert decode_brief_task(line.encode()) == whole
    assert decode_brief_task(line.replace('"ID":1', '"ID":').encode()) == whole
    late = {"Accumulables": [], "Index": 1}
    assert (
        decode_brief_task(json.dumps({**json.loads(line), "Task Info": late}, separators=(",", ":")).encode()) == whole
    )
    for damaged in (line.replace('"Index":1', '"Index":'), line[:-3], line.replace('"Executor Run Time":5', "5")):
        with pytest.raises(msgspec.DecodeError):
            decode_brief_task(damaged.encode())


@pytest.mark.parametrize(
    "line",
    [
        b"hello",
        b"[]",
        b"{}",
        b'{"Event":"SparkListenerJobStart","Job',
        b'{"Event":"SparkListenerJobStart"}',
        b'{"Event":"Unknown","half":',
        b'{"id":"x","name":null}',
        b"\xff\x00",
    ],
)
def test_a_line_that_is_no_whole_event_is_refused(line: bytes) -> None:
    with pytest.raises((msgspec.DecodeError, ValueError)):
        decode_rare_event(line)


def test_unknown_events_and_blank_lines_are_skipped() -> None:
    assert decode_rare_event(b'{"Event":"Unknown","of":"a later version"}\n') is None
    assert decode_rare_event(b" \n") is None


@pytest.mark.parametrize("number", [UNKNOWN, 2**63, 2**70, -(2**63) - 1, 2**49])
def test_numbers_beyond_all_bounds_make_a_bad_line(number: int) -> None:
    def task(stage: int, run: int) -> bytes:
        return json.dumps({**TASK, "Stage ID": stage, "Task Metrics": {"Executor Run Time": run}}).encode()

    assert msgspec.json.decode(task(2**31 - 1, 2**48), type=TaskEnd).stage == 2**31 - 1
    for line in (task(3, number), task(number, 3)):
        with pytest.raises(msgspec.DecodeError):
            msgspec.json.decode(line, type=TaskEnd)
    with pytest.raises(msgspec.DecodeError):
        decode_rare_event(b'{"Event":"SparkListenerExecutorAdded","Timestamp":%d,"Executor ID":"1"}' % number)


def test_a_plan_deeper_than_any_makes_a_bad_line() -> None:
    deep = b'{"nodeName":"x","simpleString":"x","children":[' * 100_000
    with pytest.raises((msgspec.DecodeError, RecursionError)):
        decode_rare_event(
            b'{"Event":"org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart","executionId":1,'
            b'"sparkPlanInfo":' + deep + b"}"
        )
