"""The laws of a query measured as one operator, over drawn windows of batches."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from autotrascale.analyze.facts import BatchFact, StageFact, TaskFact
from autotrascale.analyze.unmarked_query import (
    OPERATOR,
    RunningExecutor,
    estimate_batch_latencies,
    estimate_latency,
    estimate_source_rate,
    estimate_trigger_seconds,
    find_source_kind,
    measure_stages,
    take_query_snapshot,
)
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.target import Target
from autotrascale.plan.sizing.sizing import Sizing, size

CORES = 4
seeds = st.integers(0, 2**32)


def there(count: int, cores: int = CORES) -> dict[str, RunningExecutor]:
    return {str(at): RunningExecutor(str(at), "h", cores) for at in range(count)}


def drawn(chance: random.Random, executors: int) -> list[BatchFact]:
    """Batches one after another, each of a source and an aggregate, tasks dealt out by chance."""
    at, found = 1_700_000_000_000, []
    widths = chance.randint(1, 6), chance.randint(1, 12)
    for number in range(chance.randint(2, 8)):
        took = chance.randint(400, 4000)
        stages, tasks = [], []
        for place, (name, width) in enumerate(zip(("read kafka", "count by word"), widths, strict=True)):
            begin = at + 10 + 100 * place
            stages.append(StageFact(2 * number + place, name, width, begin, begin + 90, first=place == 0))
            tasks += [
                TaskFact(2 * number + place, index, chance.randint(5, 900), executor=str(chance.randrange(executors)))
                for index in range(width)
            ]
        records, covered = chance.randint(1, 5000), took / 1000
        found.append(
            BatchFact(number, "r", at, took / 1000, records, covered, stages=tuple(stages), tasks=tuple(tasks))
        )
        at += took
    return found


def with_tasks(batches: Sequence[BatchFact], change: object) -> list[BatchFact]:
    assert callable(change)
    return [replace(batch, tasks=tuple(change(task) for task in batch.tasks)) for batch in batches]


def shot(batches: Sequence[BatchFact], executors: int, **options: int) -> Snapshot:
    found = take_query_snapshot("q", batches, there(executors), 64, **options)
    assert found is not None
    return found


def sized(of: Snapshot, target: Target | None = None) -> Sizing:
    found = size(of, target)
    assert isinstance(found, Sizing)
    return found


def load(of: Snapshot) -> float:
    found = sized(of).load[0]
    assert found is not None
    return found


@given(seeds, st.integers(1, 6))
def test_the_load_is_the_executor_seconds_for_each_second_of_input(seed: int, executors: int) -> None:
    batches = drawn(random.Random(seed), executors)
    work = sum(task.useful_ms or 0 for batch in batches for task in batch.tasks) / 1000 / CORES
    covered = sum(batch.offered_seconds or 0 for batch in batches)
    assert load(shot(batches, executors)) == pytest.approx(work / covered)


@given(seeds, st.integers(1, 6))
def test_twice_the_useful_time_is_twice_the_load(seed: int, executors: int) -> None:
    batches = drawn(random.Random(seed), executors)
    twice = with_tasks(batches, lambda task: structs.replace(task, useful_ms=2 * task.useful_ms))
    assert load(shot(twice, executors)) == pytest.approx(2 * load(shot(batches, executors)))


@given(seeds, st.integers(1, 6), st.integers(1, 6))
def test_the_distribution_of_tasks_does_not_change_the_load(seed: int, executors: int, dealt: int) -> None:
    chance = random.Random(seed)
    batches = drawn(chance, executors)
    other = with_tasks(
        batches, lambda task: structs.replace(task, executor=str(chance.randrange(min(dealt, executors))))
    )
    before, after = sized(shot(batches, executors)), sized(shot(other, executors))
    assert after.load[0] == pytest.approx(before.load[0])
    assert after.capacity[0] == pytest.approx(before.capacity[0])
    assert after.hot == pytest.approx(before.hot)
    assert after.floor == before.floor


@given(seeds, st.integers(1, 5), st.integers(1, 5))
def test_an_idle_executor_raises_no_rate(seed: int, executors: int, idle: int) -> None:
    batches = drawn(random.Random(seed), executors)
    before, after = sized(shot(batches, executors)), sized(shot(batches, executors + idle))
    assert after.capacity[0] == pytest.approx(before.capacity[0])
    assert after.load[0] == pytest.approx(before.load[0])
    assert shot(batches, executors + idle).parallelism == {OPERATOR: executors + idle}


@given(seeds, st.integers(1, 6))
def test_records_of_executors_add_up_to_the_records_of_the_sources(seed: int, executors: int) -> None:
    batches = drawn(random.Random(seed), executors)
    metrics = shot(batches, executors).operators[OPERATOR]
    assert metrics.total.records_in == pytest.approx(sum(batch.input_records or 0 for batch in batches))
    assert len(metrics.instances) in (0, executors)


@given(seeds, st.integers(1, 6), st.integers(1, 8))
def test_cores_are_shared_by_the_executors_that_have_them(seed: int, executors: int, cores: int) -> None:
    batches = drawn(random.Random(seed), executors)
    found = take_query_snapshot("q", batches, there(executors, cores), 64)
    assert found is not None
    assert load(found) * cores == pytest.approx(load(shot(batches, executors)) * CORES)


@given(seeds, st.integers(1, 6))
def test_evenly_spread_work_is_divided(seed: int, executors: int) -> None:
    even = with_tasks(drawn(random.Random(seed), executors), lambda task: structs.replace(task, useful_ms=100))
    assert shot(even, executors).operators[OPERATOR].undivided == pytest.approx(0.0, abs=1e-9)


def test_a_hot_key_is_not_divided_and_raises_the_floor() -> None:
    """One of eight tasks does as much as the seven others: 1.9 of 3.8 s, on executors of one core."""
    times = [1900, *[271] * 7]
    tasks = tuple(TaskFact(0, at, ms, executor=str(at % 2)) for at, ms in enumerate(times))
    batches = [
        BatchFact(n, "r", 4000 * n, 2.5, 100, 4.0, stages=(StageFact(0, "count by word", 8, 0, 2300),), tasks=tasks)
        for n in range(5)
    ]
    found = take_query_snapshot("q", batches, there(2, cores=1), 64)
    assert found is not None
    assert found.operators[OPERATOR].undivided == pytest.approx((1900 / 3797 - 1 / 8) / (1 - 1 / 8), rel=1e-3)
    sizing = sized(found)
    assert sizing.load[0] == pytest.approx(3.797 / 4.0)
    assert sizing.stages((64,))[0] > 0.4, "however many executors there are, the hot task lasts"


def test_the_partitions_of_a_topic_bound_the_parallelism_of_reading() -> None:
    """Three tasks read, 0.6 s of 3 s of work; on executors of two cores that is one and a half of them."""
    tasks = tuple(TaskFact(0, at, 200, executor=str(at % 2)) for at in range(3))
    tasks += tuple(TaskFact(1, at, 300, executor=str(at % 2)) for at in range(8))
    stages = (StageFact(0, "read kafka", 3, 0, 300, first=True), StageFact(1, "count", 8, 300, 900))
    kafka = BatchFact(0, "r", 0, 1.0, 100, 4.0, stages=stages, tasks=tasks, sources=("KafkaV2[Subscribe[a]]",))
    batches = [replace(kafka, batch=n, started_ms=4000 * n) for n in range(5)]
    found = take_query_snapshot("q", batches, there(2, cores=2), 64)
    assert found is not None
    part = found.operators[OPERATOR].narrow
    assert part is not None
    assert (part.share, part.width) == (pytest.approx(0.2), pytest.approx(1.5))
    sizing = sized(found)
    assert sizing.stages((64,))[0] == pytest.approx(0.6 / 3 / 4, rel=0.2), "however many executors, three tasks read"
    files = [replace(batch, sources=("FileStreamSource[file:/in]",)) for batch in batches]
    assert take_query_snapshot("q", files, there(2, cores=2), 64).operators[OPERATOR].narrow is None  # type: ignore[union-attr]


def test_of_a_share_of_the_executors_there_are_sums_alone() -> None:
    batches = drawn(random.Random(7), 3)
    found = shot(batches, 3, share=2)
    assert found.parallelism == {OPERATOR: 2}
    assert found.operators[OPERATOR].instances == ()
    assert load(found) == pytest.approx(load(shot(batches, 3)))


def test_unmeasured_values_are_left_out() -> None:
    batches = drawn(random.Random(7), 1)
    timeless = with_tasks(batches, lambda task: structs.replace(task, useful_ms=None))
    metrics = shot(timeless, 1).operators[OPERATOR].total
    assert (metrics.records_in, metrics.useful_seconds, metrics.gc_seconds) == (None, None, None)
    assert sized(shot(timeless, 1)).unmeasured == (f"useful_seconds of {OPERATOR}",)
    unheard_of = take_query_snapshot("q", batches, {}, 64)
    assert unheard_of is not None
    assert unheard_of.operators[OPERATOR].total.useful_seconds is None, "nobody said how many cores there are"
    silent = [replace(batch, input_records=None, offered_seconds=None) for batch in batches]
    assert take_query_snapshot("q", silent, there(1), 64) is None
    assert take_query_snapshot("q", [], there(1), 64) is None
    assert shot(batches, 1).backlog_records is None
    told = take_query_snapshot("q", batches, there(1), 64, gives_all=True)
    assert told is not None
    assert told.backlog_records == pytest.approx(told.target_rate * batches[-1].seconds), "what came since the last"


def steady(seconds: float, every: float, records: int, behind: Sequence[int | None] = (None,) * 6) -> list[BatchFact]:
    return [
        BatchFact(n, "r", round(1000 * every * n), seconds, records, every, behind=held)
        for n, held in enumerate(behind)
    ]


def test_a_record_waits_for_half_a_trigger_and_then_for_its_batch() -> None:
    found = estimate_latency(steady(0.5, 2.0, 100), 50.0)
    assert found.mean == pytest.approx(0.5 + 2.0 / 2)
    assert found.p50 == pytest.approx(1.5)
    assert found.p95 == pytest.approx(0.5 + 0.95 * 2.0)


def test_records_that_a_source_holds_back_wait_longer() -> None:
    """300 records behind at 100/s: the newest of a batch is three seconds old when it is planned."""
    found = estimate_latency(steady(1.0, 1.0, 100, [300] * 6), 100.0)
    assert found.mean == pytest.approx(1.0 + 3.0 + 0.5)
    assert estimate_latency(steady(1.0, 1.0, 100, [0] * 6), 100.0).mean == pytest.approx(1.5)


def test_a_backlog_that_grows_is_part_of_the_rate() -> None:
    limited = steady(1.0, 1.0, 100, [0, 50, 100, 150, 200, 250])
    assert estimate_source_rate(limited) == pytest.approx(150.0)
    assert estimate_source_rate([replace(batch, behind=None) for batch in limited]) == pytest.approx(100.0)
    assert estimate_source_rate(
        [replace(batch, behind=None, offered_seconds=None) for batch in limited]
    ) == pytest.approx(100.0)
    drained = steady(1.0, 1.0, 100, [250, 200, 150, 100, 50, 0])
    assert estimate_source_rate(drained) == pytest.approx(50.0)
    assert estimate_source_rate(limited[:1]) == pytest.approx(100.0)
    assert estimate_source_rate([]) is None
    found = take_query_snapshot("q", limited, there(1), 4)
    assert found is not None
    assert found.backlog_records == pytest.approx(250 + 150.0 * 1.0)


def test_where_the_time_of_a_batch_goes() -> None:
    tasks = (TaskFact(0, 0, 100), TaskFact(0, 1, 300), TaskFact(1, 0, 600))
    stages = (
        StageFact(0, "read kafka", 2, 0, 300, first=True),
        StageFact(1, "count by word", 1, 300, 900, stateful=True),
    )
    batches = [BatchFact(n, "r", 1000 * n, 1.0, 10, 1.0, stages=stages, tasks=tasks) for n in range(3)]
    read, count = measure_stages(batches)
    assert (read.name, read.tasks, read.seconds, read.work_seconds) == ("read kafka", 2, 0.3, 0.4)
    assert (read.hottest, read.reads_source, read.stateful) == (pytest.approx(1.5), True, False)
    assert (count.name, count.work_seconds, count.hottest, count.stateful) == ("count by word", 0.6, 1.0, True)
    assert read.records_in is read.records_out is read.true_rate is None, "none of its tasks counted any"
    timeless = [replace(batch, tasks=(TaskFact(0, 0, None), *batch.tasks[1:])) for batch in batches]
    assert measure_stages(timeless)[0].work_seconds is measure_stages(timeless)[0].hottest is None


@given(seeds, st.integers(1, 5), st.integers(1, 9))
def test_records_of_stages_are_the_records_of_their_tasks(seed: int, batches: int, width: int) -> None:
    """The last stage gives the records that the sink took, unless its own tasks wrote files."""
    chance = random.Random(seed)
    counted = [tuple(chance.randint(0, 400) for _ in range(4)) for _ in range(batches * width)]
    window = []
    for number in range(batches):
        mine = counted[number * width : (number + 1) * width]
        first, last = 2 * number, 2 * number + 1
        tasks = [
            TaskFact(first, at, 100, read=took, sent=gave, written=0) for at, (took, gave, _, _) in enumerate(mine)
        ]
        tasks += [TaskFact(last, at, 50, read=took, sent=0, written=0) for at, (_, _, took, _) in enumerate(mine)]
        stages = (StageFact(first, "enrich", width, 0, 300, first=True), StageFact(last, "totals", width, 300, 900))
        taken = sum(row[3] for row in mine)
        window.append(BatchFact(number, "r", 1000 * number, 1.0, 10, 1.0, taken, stages=stages, tasks=tuple(tasks)))
    sums = [sum(column) / batches for column in zip(*counted, strict=True)]
    enrich, totals = measure_stages(window)
    found = (enrich.records_in, enrich.records_out, totals.records_in, totals.records_out)
    assert found == tuple(each or None for each in sums)
    if enrich.true_rate is not None:
        assert enrich.true_rate == pytest.approx(sums[0] / (0.1 * width))
    silent = measure_stages([replace(batch, output_records=None) for batch in window])
    assert silent[1].records_out is None
    wrote = measure_stages(with_tasks(window, lambda task: structs.replace(task, written=7)))
    assert [stage.records_out for stage in wrote] == pytest.approx([sums[1] + 7 * width, 7 * width])
    untold = measure_stages(with_tasks(window, lambda task: structs.replace(task, sent=None, read=None)))
    assert untold[0].records_in is untold[0].records_out is None


def triggered(*gaps_and_times: tuple[float, float]) -> list[BatchFact]:
    at, found = 0.0, []
    for number, (gap, took) in enumerate([*gaps_and_times, (0.0, 0.1)]):
        found.append(BatchFact(number, "r", round(1000 * at), took, 10, sources=("KafkaV2[Subscribe[clicks]]",)))
        at += gap
    return found


def test_the_trigger_interval_comes_from_batches_that_waited_for_it() -> None:
    assert estimate_trigger_seconds(triggered(*[(4.0, 1.0)] * 6)) == 4.0
    assert (
        estimate_trigger_seconds(triggered((9.0, 8.9), (3.0, 2.9), *[(4.0, 2.0)] * 4, (5.0, 4.99), (3.0, 1.0))) == 4.0
    )
    assert estimate_trigger_seconds(triggered(*[(1.01, 1.0)] * 8)) == 0.0
    assert estimate_trigger_seconds(triggered((4.0, 1.0))) == 0.0
    assert estimate_trigger_seconds([]) == 0.0


def test_the_kind_of_a_source_comes_from_its_description() -> None:
    kafka = triggered((1.0, 0.5))
    assert find_source_kind(kafka) == "kafka"
    assert find_source_kind([replace(kafka[0], sources=("FileStreamSource[file:/in]",))]) == "files"
    assert find_source_kind([replace(kafka[0], sources=("KafkaV2[a]", "KafkaV2[b]"))]) is None
    assert (
        find_source_kind([replace(kafka[0], sources=("RateStreamV2[rowsPerSecond=1]",))])
        is find_source_kind([])
        is None
    )


@given(seeds)
def test_the_latency_of_a_window_is_that_of_its_batches(seed: int) -> None:
    batches = drawn(random.Random(seed), 1)
    rate = estimate_source_rate(batches) or 0.0
    each = estimate_batch_latencies(batches, rate)
    assert [at for at, _ in each] == [batch.committed_ms / 1000 for batch in batches]
    records = [batch.input_records or 0 for batch in batches]
    mean = sum(n * x for n, (_, x) in zip(records, each, strict=True)) / sum(records)
    assert estimate_latency(batches, rate).mean == pytest.approx(mean)
