"""Back-pressure, backlogs and variability of streams whose answers are known."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotrascale.analyze import metrics, queues
from autotrascale.analyze.facts import BatchFact, MarkFact, StageFact, TaskFact
from autotrascale.analyze.task_facts import make_task_fact
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.target import Target
from autotrascale.domain.topology import Operator, Topology
from autotrascale.monitor.eventlog.events import (
    FullShuffleRead,
    FullShuffleWrite,
    FullTaskEnd,
    FullTaskInfo,
    FullTaskMetrics,
    InputMetrics,
    OutputMetrics,
    TaskEndReason,
)
from autotrascale.plan.policies.registry import create

CHAIN = Topology.chain("source", "map", "count", "sink")
STAGE_MS = {"source": 100, "map": 500, "count": 200, "sink": 100}


def stream(seconds: Sequence[float], wait: float = 0.0, began: float = 1000.0) -> list[BatchFact]:
    """Batches back to back, `wait` between them; the map takes most of each."""
    batches, at = [], began
    for number, took in enumerate(seconds):
        batches.append(batch(number, at, took))
        at += took + wait
    return batches


def batch(number: int, at: float, took: float, rows: int = 100, stage_ms: dict[str, int] | None = None) -> BatchFact:
    begin, stages = round(at * 1000), []
    for place, (name, ms) in enumerate((stage_ms or STAGE_MS).items()):
        stages.append(StageFact(10 * number + place, name, 2, begin, begin + ms))
        begin += ms
    marks = {
        "source": MarkFact(rows, at - 1, at - 0.5, at),
        "map": MarkFact(rows),
        "count": MarkFact(rows),
        "sink": MarkFact(rows),
    }
    return BatchFact(number, "r", round(at * 1000), took, rows, marks=marks, stages=tuple(stages))


@pytest.mark.parametrize("c", [1.2, 1.5, 2.0, 3.0])
def test_while_batches_grow_by_c_the_input_waits_for_all_but_one_cth_of_the_time(c: float) -> None:
    held = queues.estimate_backpressure(CHAIN, stream([c**i for i in range(7)]))
    assert held == {"source": pytest.approx(1 - 1 / c, abs=1e-3), "map": 0.0, "count": 0.0, "sink": 0.0}


@settings(deadline=None)
@given(st.lists(st.floats(0.05, 20.0), min_size=5, max_size=30), st.floats(0.0, 5.0))
def test_back_pressure_is_a_share_and_lies_before_the_slowest(seconds: list[float], wait: float) -> None:
    held = queues.estimate_backpressure(CHAIN, stream(seconds, wait))
    assert held is not None
    assert 0 <= held["source"] < 1
    assert held["map"] == held["count"] == held["sink"] == 0


def test_steady_batches_hold_nothing_up_however_long_they_are() -> None:
    chance = random.Random(1)
    for spread in (0.0, 0.1):
        held = [stream([5 + spread * chance.uniform(-5, 5) for _ in range(8)]) for _ in range(200)]
        pressed = [(queues.estimate_backpressure(CHAIN, batches) or {})["source"] > 0 for batches in held]
        assert sum(pressed) < 10, "the unevenness of one batch is no pressure"


def test_a_trigger_with_time_to_spare_holds_nothing_up() -> None:
    assert set((queues.estimate_backpressure(CHAIN, stream([1, 2, 3, 4, 5, 6], wait=9.0)) or {}).values()) == {0.0}


def test_the_operator_with_the_most_batch_time_holds_up_its_upstream() -> None:
    growing = [batch(i, 1000 + 2.0**i, 2.0**i, stage_ms={**STAGE_MS, "sink": 600}) for i in range(6)]
    held = queues.estimate_backpressure(CHAIN, growing)
    assert held is not None
    assert held["source"] == held["map"] == held["count"] > 0.4
    assert held["sink"] == 0
    at_the_source = [batch(i, 1000 + 2.0**i, 2.0**i, stage_ms={**STAGE_MS, "source": 600}) for i in range(6)]
    assert set((queues.estimate_backpressure(CHAIN, at_the_source) or {}).values()) == {0.0}, (
        "nobody stands before a source"
    )


def test_a_join_is_pushed_by_both_its_sources_and_a_side_branch_is_not_held() -> None:
    join = Topology({"a": Operator(), "b": Operator(), "join": Operator(("a", "b")), "other": Operator(("a",))})
    growing = [batch(i, 1000 + 2.0**i, 2.0**i, stage_ms={"a": 1, "b": 1, "join": 9, "other": 2}) for i in range(6)]
    held = queues.estimate_backpressure(join, growing)
    assert held is not None
    assert held["a"] == held["b"] > 0
    assert held["join"] == held["other"] == 0


def test_a_few_batches_say_that_they_grow_and_never_that_all_is_well() -> None:
    """A job far behind does not finish five of them in a window."""
    for count in (3, 4):
        held = queues.estimate_backpressure(CHAIN, stream([2.0**i for i in range(count)]))
        assert held == {"source": pytest.approx(0.5), "map": 0.0, "count": 0.0, "sink": 0.0}
        assert queues.estimate_backpressure(CHAIN, stream([1.0, 1.1, 1.0, 1.1][:count])) is None


def test_two_batches_or_none_of_the_stages_say_nothing() -> None:
    assert queues.estimate_backpressure(CHAIN, stream([1, 9])) is None
    assert queues.estimate_backpressure(CHAIN, []) is None
    assert queues.estimate_backpressure(CHAIN, [replace(b, stages=()) for b in stream([1.0] * 6)]) is None


@given(st.floats(1.01, 50.0), st.integers(1, 2), st.floats(0.5, 20.0))
def test_where_growth_is_known_otherwise_one_batch_is_enough(c: float, count: int, took: float) -> None:
    held = queues.estimate_backpressure(CHAIN, stream([took] * count), c)
    assert held == {"source": pytest.approx(1 - 1 / c), "map": 0.0, "count": 0.0, "sink": 0.0}


@given(st.floats(0.1, 50.0))
def test_the_growth_of_the_batches_comes_before_the_given_growth(c: float) -> None:
    for seconds in ([2.0**i for i in range(3)], [1.0] * 7):
        assert queues.estimate_backpressure(CHAIN, stream(seconds), c) == queues.estimate_backpressure(
            CHAIN, stream(seconds)
        )
    assert queues.estimate_backpressure(CHAIN, stream([1, 9]), min(c, 1.0)) is None


def test_the_backlog_of_a_source_is_its_report_and_the_arrivals_since() -> None:
    batches = [replace(b, behind=40 + b.batch) for b in stream([2.0] * 3)]
    assert queues.estimate_backlogs({"source": 100.0}, batches) == {"source": 42 + 200.0}
    assert queues.estimate_backlog({"source": 100.0}, batches) == 42 + 200.0


def test_without_a_report_the_backlog_is_the_arrivals_since_the_newest_record() -> None:
    batches = stream([2.0] * 3)
    assert queues.estimate_backlogs({"source": 100.0}, batches) == {"source": 200.0}
    assert queues.estimate_backlog({"source": 100.0}, [replace(b, marks={}) for b in batches]) is None


def test_reports_of_several_sources_give_only_their_sum() -> None:
    batches = [
        replace(b, behind=40, marks={**b.marks, "other": MarkFact(1, 1.0, 1.0, 1001.0)}) for b in stream([2.0] * 3)
    ]
    rates = {"source": 100.0, "other": 10.0}
    assert queues.estimate_backlog(rates, batches) == 40 + 220.0
    assert queues.estimate_backlogs(rates, batches) == {"source": 200.0, "other": 50.0}


def arriving(counts: Sequence[int], seconds: Sequence[float]) -> list[BatchFact]:
    at, batches = 1000.0, []
    for number, (count, took) in enumerate(zip(counts, seconds, strict=True)):
        at += took
        batches.append(replace(batch(number, at, took, count), input_records=count))
    return batches


def test_regular_arrivals_have_no_variability_and_poisson_ones_have_one() -> None:
    rng = np.random.default_rng(0)
    seconds = rng.uniform(0.5, 3.0, 2000)
    regular = queues.measure_arrival_cv2(
        "source", CHAIN, arriving([round(1e6 * took) for took in seconds], list(seconds))
    )
    poisson = queues.measure_arrival_cv2(
        "source", CHAIN, arriving([int(n) for n in rng.poisson(50 * seconds)], list(seconds))
    )
    assert regular == pytest.approx(0.0, abs=1e-3)
    assert poisson == pytest.approx(1.0, rel=0.1)


def test_arrivals_in_pairs_are_twice_as_uneven() -> None:
    rng = np.random.default_rng(1)
    seconds = rng.uniform(0.5, 3.0, 2000)
    pairs = [2 * int(n) for n in rng.poisson(25 * seconds)]
    assert queues.measure_arrival_cv2("source", CHAIN, arriving(pairs, list(seconds))) == pytest.approx(2.0, rel=0.1)


def test_triggers_stand_in_for_arrival_times_and_sole_sources_for_marks() -> None:
    batches = arriving([100, 300, 200, 0, 100, 200], [1.0] * 6)
    expected = queues.measure_arrival_cv2("source", CHAIN, batches)
    timeless = [replace(b, marks={"source": MarkFact(b.input_records or 0)}) for b in batches]
    unmarked = [replace(b, marks={}) for b in batches]
    assert expected is not None
    assert (
        queues.measure_arrival_cv2("source", CHAIN, timeless)
        == queues.measure_arrival_cv2("source", CHAIN, unmarked)
        == expected
    )
    assert queues.measure_arrival_cv2("source", CHAIN, batches[:5]) is None, "five batches have four intervals"


def tasks_of(times: Sequence[tuple[int, int]]) -> list[TaskFact]:
    """(records, useful ms) of each, from the events of their ends."""
    facts = []
    for index, (records, ms) in enumerate(times):
        blocks = (FullShuffleRead(0, records), FullShuffleWrite(0), InputMetrics(0), OutputMetrics(0))
        did = FullTaskMetrics(ms, 0, 0, 0, *blocks, 0, 0)
        facts.append(make_task_fact(FullTaskEnd(1, TaskEndReason("Success"), FullTaskInfo(index), did), did))
    return facts


def stages_of(tasks: Sequence[TaskFact]) -> list[StageFact]:
    return [StageFact(1, "map", len(tasks), 0, 1)]


def test_half_of_the_records_at_one_millisecond_and_half_at_three() -> None:
    tasks = tasks_of([(100, 100), (100, 300)] * 5)
    assert queues.measure_service_cv2(stages_of(tasks), tasks) == pytest.approx(0.25)


def test_idle_tasks_do_not_count_for_service_times() -> None:
    tasks = tasks_of([(100, 200)] * 5 + [(0, 7)] * 20)
    assert queues.measure_service_cv2(stages_of(tasks), tasks) == pytest.approx(0.0)


def test_service_variability_is_unknown_for_few_tasks_idle_tasks_and_several_stages() -> None:
    few, idle = tasks_of([(100, 100)] * 4), tasks_of([(0, 1)] * 9)
    many = tasks_of([(100, 100)] * 9)
    apart = [StageFact(1, "map", 9, 0, 1, exit=False), StageFact(2, "map", 9, 0, 1, entry=False)]
    assert queues.measure_service_cv2(stages_of(few), few) is queues.measure_service_cv2(stages_of(idle), idle) is None
    assert queues.measure_service_cv2(apart, many) is None
    unknown = [*many, TaskFact(1, 0, None)]
    assert queues.measure_service_cv2(stages_of(unknown), unknown) is None


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 10**6), st.integers(0, 10**6)), min_size=5, max_size=40))
def test_it_is_that_of_the_records_to_rounding(times: list[tuple[int, int]]) -> None:
    tasks = tasks_of(times)
    found = queues.measure_service_cv2(stages_of(tasks), tasks)
    records, useful = (np.array(column, dtype=float) for column in zip(*times, strict=True))
    if found is None:
        assert useful.sum() == 0 or any(ms**2 / n > 2**26 for n, ms in times)
        return
    mean = useful.sum() / records.sum()
    spread = (records * (useful / records - mean) ** 2).sum() / records.sum() / mean**2
    slack = len(times) * records.sum() / 2**20 / useful.sum() ** 2  # what is lost below one in 2^20 square milliseconds
    assert found == pytest.approx(spread, rel=1e-6, abs=1e-6 + slack)


def window(c: float, rate: float = 100.0) -> Snapshot:
    batches = stream([c**i for i in range(8)])
    return metrics.take_snapshot("job", CHAIN, 16, {"source": rate}, batches)


def test_dhalion_scales_the_operator_that_makes_batches_grow() -> None:
    decision = create("dhalion", None, {}).decide(window(1.5))
    assert {name: k for name, k in decision.parallelism.items() if k != 2} == {"map": 3}
    assert create("dhalion", None, {}).decide(window(1.0)).parallelism == {**dict.fromkeys(CHAIN, 2), "source": 1}


def test_threshold_and_queueing_find_their_inputs_in_a_snapshot() -> None:
    snapshot = window(1.5, rate=1000.0)
    decision = create("threshold", None, {}).decide(snapshot)
    assert decision.parallelism["source"] == 3
    assert all(operator.backlog_records is not None for operator in snapshot.operators.values())
    assert snapshot.operators["source"].arrival_cv2 is not None
    assert create("queueing", Target(1.0), {}).decide(snapshot).policy == "queueing"
