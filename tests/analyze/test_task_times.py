"""Parts of a task's time from counters in its line, and the origin of the blocks that it waited for."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrascale.analyze.critical.activities import Kind
from autotrascale.analyze.critical.spark_trace import trace_batch
from autotrascale.analyze.facts import BatchFact, StageFact, TaskFact, TaskTimes
from autotrascale.analyze.task_facts import make_task_fact
from autotrascale.analyze.task_times import (
    PYTHON_CODE,
    PYTHON_RUN,
    PYTHON_START,
    STATE_COMMIT,
    STATE_LOAD,
    read_task_times,
)
from autotrascale.monitor.eventlog.decoding import decode_line
from autotrascale.monitor.eventlog.events import FullTaskEnd

INITIALISED = "time to initialize Python workers"  # of a worker that is used again: since it was first made
counts = st.one_of(st.none(), st.integers(0, 10**6))


def end(counters: list[tuple[str, object]], **info: object) -> FullTaskEnd:
    told = {"Index": 0, "Executor ID": "1", "Launch Time": 1000, "Finish Time": 1900, **info}
    told["Accumulables"] = [{"ID": at, "Name": name, "Update": added} for at, (name, added) in enumerate(counters)]
    line = {"Event": "SparkListenerTaskEnd", "Stage ID": 1, "Task End Reason": {"Reason": "Success"}}
    metrics = {"Executor Run Time": 800, "Shuffle Write Metrics": {"Shuffle Write Time": 2_500_000}}
    event = decode_line(
        json.dumps({**line, "Task Info": told, "Task Metrics": metrics}, separators=(",", ":")).encode()
    )
    assert isinstance(event, FullTaskEnd)
    return event


def times(event: FullTaskEnd) -> TaskTimes | None:
    assert event.metrics is not None
    return read_task_times(event.info, event.metrics)


@given(counts, counts, counts, counts, counts, st.booleans())
def test_counters_are_read_by_name(
    run: int | None, code: int | None, start: int | None, load: int | None, commit: int | None, as_text: bool
) -> None:
    names = (PYTHON_RUN, PYTHON_CODE, PYTHON_START, STATE_LOAD, STATE_COMMIT)
    told = zip(names, (run, code, start, load, commit), strict=True)
    counters: list[tuple[str, object]] = [(name, str(n) if as_text else n) for name, n in told if n is not None]
    found = times(end([*counters, (INITIALISED, 10**9), ("internal.metrics.updatedBlockStatuses", [{"Block": 1}])]))
    assert found is not None
    assert (found.launched_ms, found.finished_ms, found.run_ms, found.shuffle_write_ms) == (1000, 1900, 800, 2.5)
    assert (found.state_load_ms, found.state_commit_ms) == (load, commit)
    if run is None:
        assert found.python_ms is None
    else:
        assert found.python_ms == (max(0, run - code) if code is not None else min(run, start or 0))


def test_counters_of_two_nodes_are_summed_and_invalid_counts_are_ignored() -> None:
    found = times(end([(STATE_COMMIT, "30"), (STATE_COMMIT, "12"), (STATE_LOAD, "many"), (STATE_LOAD, "9" * 30)]))
    assert found is not None
    assert (found.state_commit_ms, found.state_load_ms) == (42, None)


@pytest.mark.parametrize("info", [{"Launch Time": 2000}, {"Launch Time": None}])
def test_a_task_that_ends_before_it_begins_or_at_no_time_has_none(info: dict[str, object]) -> None:
    if info["Launch Time"] is None:
        event = end([])
        event.info.launched = -(2**60)
    else:
        event = end([], **info)
    assert times(event) is None
    assert event.metrics is not None
    assert make_task_fact(event, event.metrics).times is None


@pytest.mark.parametrize(
    ("remote", "local", "source"),
    [
        (5, 0, "executor 1 to executor 2 slot 0"),  # only one other made blocks
        (0, 5, "executor 2 to executor 2 slot 0"),
        (5, 5, "shuffle of map to executor 2 slot 0"),  # nobody can say
        (None, None, "shuffle of map to executor 2 slot 0"),
    ],
)
def test_the_origin_of_blocks_as_far_as_it_is_known(remote: int | None, local: int | None, source: str) -> None:
    made = [TaskFact(1, at, 50, executor=name, times=TaskTimes(100, 150, 50)) for at, name in enumerate("12")]
    waited = TaskTimes(160, 260, 100, remote_bytes=remote, local_bytes=local)
    reads = TaskFact(2, 0, 60, wait_ms=40, executor="2", times=waited)
    stages = (StageFact(1, "map", 2, 100, 150), StageFact(2, "reduce", 1, 151, 261, parents=(1,)))
    batch = BatchFact(0, "r", 0, 0.3, 1, phases={"addBatch": 0.3}, stages=stages, tasks=(*made, reads), jobs_ms=(90,))
    fetches = [each for each in trace_batch(batch).messages if each.kind is Kind.fetch]
    assert [(each.source, each.target) for each in fetches] == [
        ("executor 2 slot 0", source),
        (source, "executor 2 slot 0"),
    ]
    assert fetches[1].received_ms - fetches[1].sent_ms == 40
