from __future__ import annotations

import json

import msgspec
import pytest
from record import LOGS

from autotrascale.analyze import schemas
from autotrascale.analyze.logs import find_files, pieces
from autotrascale.analyze.schemas import ExecutorChange, Progress, StageCompleted, TaskEnd, ddl
from autotrascale.analyze.staging import event_of

TASK = {"Event": "SparkListenerTaskEnd", "Stage ID": 3, "Task Info": {"Index": 1}, "Task End Reason": {"Reason": "x"}}


def test_the_schema_is_told_to_spark_in_its_words() -> None:
    assert ddl(StageCompleted) == (
        "`Stage Info` struct<`Stage ID`:bigint,`Number of Tasks`:bigint,`Submission Time`:bigint,"
        "`Completion Time`:bigint,`Failure Reason`:string>"
    )
    assert ddl(ExecutorChange) == (
        "`Timestamp` bigint, `Executor ID` string, `Executor Info` struct<`Total Cores`:bigint>"
    )
    assert "`observedMetrics` map<string,struct<`values`:array<string>,`schema`:struct<" in ddl(Progress)


def test_a_version_may_leave_out_what_a_task_did_not_do_and_add_what_it_likes() -> None:
    metrics = {"Executor Run Time": 5, "Moon Phase": {"new": [1, None, "\\u00e9"]}}
    task = msgspec.json.decode(json.dumps({**TASK, "Task Metrics": metrics}), type=TaskEnd)
    assert task.metrics is not None
    assert (task.metrics.run_ms, task.metrics.shuffled.wait_ms, task.metrics.written.records) == (5, 0, 0)
    assert msgspec.json.decode(json.dumps(TASK), type=TaskEnd).metrics is None


def test_every_event_of_a_real_log_is_read_or_passed_over() -> None:
    from autotrascale.analyze.lines import Text, lines

    seen = set()
    for piece in pieces(find_files([str(LOGS)])[0]):
        for line in lines(Text(piece), piece):
            if not line.startswith(schemas.TASK_END):
                seen.add(type(event_of(line)))
    assert seen >= {*schemas.RARE.values()} - {ExecutorChange}


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
def test_what_is_no_whole_event_is_refused(line: bytes) -> None:
    with pytest.raises((msgspec.DecodeError, ValueError)):
        event_of(line)


def test_what_nobody_reads_is_passed_over() -> None:
    assert event_of(b'{"Event":"Unknown","of":"a later version"}\n') is None
    assert event_of(b" \n") is None
