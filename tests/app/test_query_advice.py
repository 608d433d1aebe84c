"""From batches without marks to settings that can be pasted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from autotrascale.analyze.facts import BatchFact, StageFact, TaskFact
from autotrascale.analyze.unmarked_query import RunningExecutor
from autotrascale.app.query_advice import QueryAdvice, advise_query
from autotrascale.domain.target import Target
from autotrascale.views.settings_advice import advice_lines, spark_submit_arguments

EXECUTORS = {"1": RunningExecutor("1", "h", 2), "2": RunningExecutor("2", "h", 2)}
CONF = {"spark.master": "spark://h:7077", "spark.executor.cores": "2", "spark.cores.max": "4"}


def batch(number: int) -> BatchFact:
    """Of 4.4 s, every 5 s: 14 s of work on four slots, for 5,000 records."""
    at = 5000 * number
    stages = (
        StageFact(2 * number, "read kafka", 4, at + 100, at + 600, first=True),
        StageFact(2 * number + 1, "count by word", 8, at + 600, at + 3600, stateful=True),
    )
    tasks = [TaskFact(2 * number, index, 500, executor=str(1 + index % 2)) for index in range(4)]
    tasks += [TaskFact(2 * number + 1, index, 1500, executor=str(1 + index % 2)) for index in range(8)]
    return BatchFact(
        number, "r", at, 4.4, 5000, 5.0, stages=stages, tasks=tuple(tasks), sources=("KafkaV2[Subscribe[clicks]]",)
    )


BATCHES = [batch(number) for number in range(10)]


def asked(target: float, batches: Any = BATCHES, executors: Any = EXECUTORS, options: Any = None) -> QueryAdvice:
    return advise_query("clicks", batches, executors, CONF, Target(target), 16, options)


def test_a_tighter_target_takes_more_executors() -> None:
    found = asked(4.0)
    assert found.advice is not None
    assert found.advice.reachable
    assert found.advice.today.executors == 2
    assert found.advice.today.batch_seconds == pytest.approx(4.4, rel=0.05), "as it was measured"
    assert found.advice.today.latency_seconds == pytest.approx(4.4 + 2.5, rel=0.05)
    said = spark_submit_arguments(found.advice.settings)
    cores = 2 * found.advice.then.executors
    assert f"--conf spark.cores.max={cores}" in said or found.advice.then.executors == 2
    assert any(line.endswith("measured 6.90 s") for line in advice_lines(found.advice, measured_latency=6.9))
    assert [stage.name for stage in found.stages] == ["read kafka", "count by word"]


def test_where_the_target_is_held_by_fewer_fewer_are_advised() -> None:
    found = asked(60.0)
    assert found.advice is not None
    assert found.advice.then.executors == 2, "2.8 slots are busy: one executor would fall behind"
    idle = [replace(each, tasks=tuple(structs.replace(task, useful_ms=20) for task in each.tasks)) for each in BATCHES]
    fewer = asked(60.0, batches=idle)
    assert fewer.advice is not None
    assert fewer.advice.then.executors == 1
    assert "--conf spark.cores.max=2" in spark_submit_arguments(fewer.advice.settings)


@pytest.mark.parametrize(
    ("options", "now"),
    [(None, "unknown"), ({}, "not set"), ({"minpartitions": "8"}, "not set"), ({"maxoffsetspertrigger": "7"}, "7")],
)
def test_the_limit_of_today_stands_beside_the_advised_one_where_it_is_known(options: Any, now: str) -> None:
    found = asked(20.0, options=options)
    assert found.advice is not None
    said = [line for line in advice_lines(found.advice) if "maxOffsetsPerTrigger" in line]
    assert len(said) == 1
    assert said[0].startswith(f"source option maxOffsetsPerTrigger: {now} → ")
    (setting,) = (each for each in found.advice.settings if each.kind == "source option")
    assert (setting.now, setting.known) == (now if now.isdecimal() else None, options is not None)


def test_whether_a_target_is_held_is_what_was_measured() -> None:
    """Batches of 4.4 s every 5 s: 6.9 s in the mean."""
    assert [asked(target).target_held for target in (4.0, 6.8, 7.0, 60.0)] == [False, False, True, True]
    assert not asked(60.0, batches=BATCHES[:3]).target_held


def test_what_was_not_measured_is_said_and_no_advice_is_given() -> None:
    few = asked(4.0, batches=BATCHES[:3])
    assert (few.advice, few.why) == (None, "3 batches ended, and advice needs at least 5")
    silent = [replace(each, input_records=None, offered_seconds=None) for each in BATCHES]
    assert "input rate" in asked(4.0, batches=silent).why
    unknown = [tuple(structs.replace(task, useful_ms=None) for task in each.tasks) for each in BATCHES]
    timeless = [replace(each, tasks=tasks) for each, tasks in zip(BATCHES, unknown, strict=True)]
    assert "work of the executors" in asked(4.0, batches=timeless).why
    assert "work of the executors" in asked(4.0, executors={}).why
