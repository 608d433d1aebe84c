"""Usage of executors from the lines of an event log, live and archived."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrascale.analyze.executor_conf import ExecutorConf, explain_loss, parse_megabytes
from autotrascale.analyze.executor_usage import (
    MB,
    BatchUse,
    ExecutorCount,
    ExecutorUsage,
    MemoryUse,
    QueuedUse,
    TaskUse,
    Use,
    measure_executor_window,
)
from autotrascale.analyze.executor_windows import read_executor_windows
from autotrascale.analyze.live.application import FollowedApplication
from autotrascale.domain.executor_window import ExecutorSizes, ExecutorWindow
from autotrascale.monitor.eventlog import events
from autotrascale.monitor.eventlog.follower import Follower
from tests.support.executor_log import BEGAN, ExecutorLog, memory_of

CONF = {"spark.executor.memory": "1g", "spark.executor.memoryOverhead": "512m"}


def measured(log: ExecutorLog, folder: Path, seconds: float = 10.0) -> list[ExecutorWindow]:
    found, damages = read_executor_windows([str(log.write(folder))], seconds)
    assert damages == []
    return list(found[0].windows) if found else []


def a_log() -> ExecutorLog:
    log = ExecutorLog(conf=CONF)
    log.came(0, cores=2)
    for second in range(1, 41):
        log.task(
            1000 * second,
            run=1500,
            gc=150,
            cpu=900,
            spilled=1,
            heap=400 + second,
            not_heap=60,
            jvm=700,
            python=100,
            other=4,
            young=second,
            full=second // 10,
        )
        log.stage(heap=450, not_heap=60, jvm=710, python=110)
        if second % 2 == 0:
            log.batch(second // 2, 1000 * (second - 2), 1900, 100 + second, state_mb=50)
    return log


def test_a_window_holds_the_usage_of_executors(tmp_path: Path) -> None:
    first, *_ = measured(a_log(), tmp_path)
    assert first.sizes == ExecutorSizes(1024, 512, 2, 1)
    assert (first.tasks, first.batches, first.application) == (10, 5, "orders")
    assert first.run_seconds == pytest.approx(15.0)
    assert first.gc_share == pytest.approx(0.1)
    assert first.cpu_share == pytest.approx(9.0 / 13.5)
    assert first.idle_share == pytest.approx(1 - 10.5 / 15.0)
    assert first.busy == pytest.approx(15.0 / 20.0)
    assert first.heap_used_mb == 450
    assert first.heap_least_mb == 401
    assert first.heap_touched_mb == 650  # 710 resident less 60 that are no heap
    assert first.memory_mb == 820
    assert first.outside_mb == 170
    assert first.python
    assert (first.young_collections, first.full_collections) == (9, 1)
    assert (first.spilled_mb, first.state_mb) == (10, 50)
    assert first.behind[0] == 102


@given(st.floats(3.0, 30.0), st.lists(st.integers(1, 4000), min_size=8, max_size=8))
def test_how_many_come_is_known_of_windows_with_one_batch_too(seconds: float, records: list[int]) -> None:
    """Each batch has the arrivals since the planning of the batch before it, four seconds earlier."""
    facts: list[Use] = [ExecutorCount(0, 1, 1)]
    facts += [BatchUse(4000 * at + 3000, 4000 * at, "run", 3.0, count, 0, None) for at, count in enumerate(records)]
    for begin in (5000, 9000, 13_000):
        found = measure_executor_window("orders", facts, ExecutorConf(CONF), begin, begin + 1000 * seconds)
        mine = [records[at] for at in range(8) if begin <= 4000 * at + 3000 < begin + 1000 * seconds]
        assert (found is None) == (not mine)
        assert found is None or found.rate == pytest.approx(sum(mine) / (4 * len(mine)))


@given(jvm=st.integers(450, 4000), python=st.integers(0, 2000), others=st.integers(0, 40))
def test_a_jvm_that_is_seen_twice_while_it_starts_a_process_is_one(jvm: int, python: int, others: int) -> None:
    def seen(other: int) -> ExecutorWindow:
        memory = events.ExecutorMemory(heap=100 * MB, jvm=jvm * MB, python=python * MB, other=other * MB)
        facts = [ExecutorCount(0, 1, 1), TaskUse(1000, "1", 900), MemoryUse(1000, "1", memory)]
        found = measure_executor_window("orders", facts, ExecutorConf(CONF), 0, 10_000)
        assert found is not None
        return found

    once, twice = seen(others), seen(jvm + others)
    assert twice.memory_mb == pytest.approx(once.memory_mb, abs=40)
    assert twice.outside_mb == pytest.approx(once.outside_mb, abs=40)


def test_a_followed_log_has_the_windows_of_its_archive(tmp_path: Path) -> None:
    folder = a_log().write(tmp_path)
    application = FollowedApplication(Follower(tmp_path, "app-1", consume=False))
    application.poll()
    live = list(application.use.windows(10.0, ended=True))
    (archive,), _ = read_executor_windows([str(folder)], 10.0)
    assert live == list(archive.windows)
    assert len(live) == 4


@given(cuts=st.lists(st.integers(1, 150), max_size=6))
def test_windows_are_the_same_however_the_log_comes(cuts: list[int]) -> None:
    from autotrascale.monitor.eventlog.decoding import decode_line

    lines = [line.encode() for line in a_log().lines]
    whole, parts = ExecutorUsage(), ExecutorUsage()
    found = []
    for number, line in enumerate(lines):
        for use in (whole, parts):
            event = decode_line(line)
            assert event is not None
            use.take(event)
        if number in cuts:
            found += parts.windows(10.0)
    found += parts.windows(10.0, ended=True)
    assert found == list(whole.windows(10.0, ended=True))
    assert sum(window.tasks for window in found) == 40


def test_a_batch_that_lasts_makes_its_window_long(tmp_path: Path) -> None:
    log = ExecutorLog(conf=CONF)
    log.came(0)
    for number, took in enumerate((2000, 4000, 9000, 20_000)):
        began = 2000 * (2**number - 1)
        for at in range(began, began + took, 1000):
            log.task(at + 900)
        log.batch(number, began, took, 100 * 2**number)
    windows = measured(log, tmp_path, 5.0)
    assert [window.batches for window in windows] == [1, 1, 1, 1]
    assert [max(window.behind) for window in windows] == [100, 200, 400, 800]
    assert all(window.seconds >= 4.5 for window in windows)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("Command exited with code 137", "memory"),
        ("Command exited with code 52", "heap"),
        ("Container killed by YARN for exceeding physical memory limits. 5.6 GB of 5.5 GB used.", "memory"),
        ("Container from a bad node: container_1 on host: h. Exit status: 137. Diagnostics: Killed", "memory"),
        ("The executor with id 3 exited with exit code 137(SIGKILL, possible container OOM).", "memory"),
        ("The executor with id 3 exited with exit code 52(OutOfMemory).", "heap"),
        ("java.lang.OutOfMemoryError: Java heap space", "heap"),
        ("Executor decommission: given back", "released"),
        ("Executor killed by driver.", "released"),
        ("worker lost: 127.0.0.2:44285 got disassociated", "unknown"),
        ("Command exited with code 1", "unknown"),
        ("", "unknown"),
    ],
)
def test_why_an_executor_went(said: str, why: str, tmp_path: Path) -> None:
    assert explain_loss("0", said).reason == why
    log = a_log()
    log.came(20_500, "1", cores=2)
    log.lines[-1], log.lines[20] = log.lines[20], log.lines[-1]  # somewhere in the middle
    log.went(40_500, said, "1")
    log.task(41_000)
    assert [each.reason for window in measured(log, tmp_path) for each in window.lost] == [why]


def test_tasks_that_failed_for_want_of_heap_are_counted(tmp_path: Path) -> None:
    log = a_log()
    log.task(40_500, raised="java.lang.OutOfMemoryError")
    log.task(40_600, raised="java.lang.RuntimeException")
    *_, last = measured(log, tmp_path)
    assert last.out_of_heap == 1


def test_values_that_were_not_sampled_are_unknown(tmp_path: Path) -> None:
    log = ExecutorLog(conf=CONF)
    log.came(0)
    for second in range(1, 12):
        log.task(1000 * second)
    (window,) = measured(log, tmp_path)
    assert (window.heap_used_mb, window.memory_mb, window.young_collections, window.state_mb) == (
        None,
        None,
        None,
        None,
    )
    assert window.queued_seconds is None
    assert not window.python


def test_a_driver_that_runs_the_tasks_is_the_executor(tmp_path: Path) -> None:
    """A driver without tasks is no executor, in spite of its heartbeats."""
    for master, found in (("local[2]", [(2048, 2, 600.0)]), ("spark://h:7077", [])):
        log = ExecutorLog(conf={"spark.master": master, "spark.driver.memory": "2g"})
        log.came(0, "driver", cores=2)
        metrics = {"Executor Metrics": memory_of(heap=500, not_heap=50, jvm=650)}
        said = {"Executor ID": "driver", "Metrics Updated": [], "Executor Metrics Updated": [metrics]}
        for second in range(1, 12):
            log.task(1000 * second, executor="driver")
            log.event("SparkListenerExecutorMetricsUpdate", said)
        windows = measured(log, tmp_path / master.partition(":")[0])
        assert [(each.sizes.heap_mb, each.sizes.cores, each.heap_touched_mb) for each in windows] == found


def test_time_in_line_for_a_core_is_computing_time() -> None:
    from autotrascale.monitor.eventlog.decoding import decode_line

    use = ExecutorUsage()
    for line in a_log().lines:
        event = decode_line(line.encode())
        assert event is not None
        use.take(event)
    for second in range(41):
        use.take_queued(QueuedUse(BEGAN + 1000 * second, 0.25 * second))
    use.facts.sort(key=lambda fact: fact.at_ms)
    first = next(iter(use.windows(10.0)))
    assert first.queued_seconds == pytest.approx(2.5)
    assert first.cpu_share == pytest.approx((9.0 + 2.5) / 13.5)


@pytest.mark.parametrize(
    ("said", "sizes"),
    [
        ({}, ExecutorSizes(1024, 384, 2, 3)),
        ({"spark.executor.memory": "8g"}, ExecutorSizes(8192, 819, 2, 3)),
        (
            {"spark.executor.memory": "8g", "spark.executor.memoryOverheadFactor": "0.4"},
            ExecutorSizes(8192, 3276, 2, 3),
        ),
        (
            {"spark.executor.memory": "2048", "spark.executor.pyspark.memory": "1g"},
            ExecutorSizes(2048, 384 + 1024, 2, 3),
        ),
        (
            {"spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": "1073741824"},
            ExecutorSizes(1024, 1408, 2, 3),
        ),
        ({"spark.memory.offHeap.size": "1g"}, ExecutorSizes(1024, 384, 2, 3)),
        ({"spark.executor.memoryOverheadFactor": "much"}, ExecutorSizes(1024, 384, 2, 3)),
        ({"spark.master": "local[2]", "spark.driver.memory": "3g"}, ExecutorSizes(3072, 0, 2, 3)),
    ],
)
def test_sizes_follow_sparks_rules(said: dict[str, str], sizes: ExecutorSizes) -> None:
    assert ExecutorConf(said).sizes(2, 3) == sizes
    assert ExecutorConf(said).sizes(2, 0) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [("1g", 1024), ("1.5g", None), ("512", 512), ("2 GB", 2048), ("1048576k", 1024), ("", None), ("-1g", None)],
)
def test_sizes_as_spark_reads_them(text: str, found: int | None) -> None:
    assert parse_megabytes(text) == found
