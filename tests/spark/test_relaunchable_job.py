"""An own job on a standalone cluster is relaunched with other sizes from its checkpoint, and reverted."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from autotrascale.domain.errors import EngineError
from autotrascale.execute.spark.common.launches import Launch, NextLaunch
from autotrascale.execute.spark.common.spark_settings import SparkSettings, SparkTimeouts
from autotrascale.execute.spark.controller.launch_log import LaunchLog
from autotrascale.execute.spark.controller.relaunchable_job import RelaunchableJob
from autotrascale.testing import standalone_cluster
from benchmarks.faults.kills.jobs import TwoStates

PATIENCE = SparkTimeouts(start=300.0, command=120.0, first_batch=120.0, finish_batch=20.0)  # of a crowded machine
K = {"source": 1, "first": 1, "count": 1}
HEAP = "spark.executor.memory"


def following(action: int, heap: str) -> NextLaunch:
    return NextLaunch(action, {HEAP: heap}, 300.0, 600.0)


class Records:
    """Input files with numbers, written on request."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.records = folder / "in", 0
        self.folder.mkdir(parents=True)

    def more(self, count: int = 40) -> None:
        text = "".join(json.dumps({"n": n}) + "\n" for n in range(self.records, self.records + count))
        fresh = self.folder / f".{self.records}"
        fresh.write_text(text)
        fresh.rename(self.folder / f"{self.records:08}.json")
        self.records += count


@contextmanager
def opened(folder: Path, cluster: standalone_cluster.StandaloneCluster, **conf: str) -> Iterator[RelaunchableJob]:
    settings = SparkSettings(
        job="benchmarks.faults.kills.jobs:TwoStates",
        options={"folder": str(folder)},
        master=cluster.url,
        python_path=(str(Path(__file__).parents[2]),),
        driver_memory="700m",
        prime_batches=1,
        patience=PATIENCE,
        conf={"spark.driver.extraJavaOptions": standalone_cluster.JAVA, **standalone_cluster.conf(1, "512m"), **conf},
    )
    with RelaunchableJob("counts", settings, {"source": 1.0}, folder / "home") as live:
        yield live


@pytest.mark.spark
def test_it_goes_on_with_other_sizes_and_comes_back_from_those_with_which_it_cannot(tmp_path: Path) -> None:
    records = Records(tmp_path / "job")
    with standalone_cluster.standalone(tmp_path / "cluster", cores=1, memory="1500m") as cluster:
        with opened(tmp_path / "job", cluster) as live:
            with pytest.raises(EngineError, match="was never started"):
                live.relaunch(following(1, "600m"))
            records.more()
            assert live.start(K).running == K
            assert (heap(cluster), live.launch, live.arrived()) == ("512M", Launch(), None)

            assert not live.relaunch(following(1, "600m")).cut_off
            assert (heap(cluster), live.launch.number, live.launch.action) == ("600M", 2, 1)
            assert live.arrived() is not None
            records.more()

            live.relaunch(following(2, "100m"))  # Spark refuses that
            assert (heap(cluster), live.launch.number, live.launch.settings) == ("600M", 4, {HEAP: "600m"})
            assert "100m" in live.launch.why or "System memory" in live.launch.why or "executor" in live.launch.why
            assert live.observe().running == K
            records.more()
            check(live, tmp_path / "job", records.records)

        # Somebody wrote down the next launch, and died.
        LaunchLog(tmp_path / "job" / "home", live.settings.conf | {HEAP: "512m"}).begin(following(3, "560m"))
        with opened(tmp_path / "job", cluster) as live:
            records.more()
            assert live.start(K).running == K
            assert (heap(cluster), live.launch.number, live.launch.action) == ("560M", 5, 3)
            assert live.arrived() is not None
            assert live.use.conf.settings[HEAP] == "560m"
            check(live, tmp_path / "job", records.records)
        assert not cluster.executors() or gone(cluster)


def test_what_the_file_says_by_now_counts_for_more_than_an_earlier_life(tmp_path: Path) -> None:
    LaunchLog(tmp_path, {HEAP: "1g", "other": "a"}).begin(following(1, "2g"))
    assert LaunchLog(tmp_path, {HEAP: "1g", "other": "b"}).launch.settings == {HEAP: "2g"}
    assert LaunchLog(tmp_path, {HEAP: "3g"}).launch == Launch(3)
    assert LaunchLog(tmp_path, {}).launch == Launch(3)


def test_a_life_is_on_trial_until_some_time_after_its_first_batches(tmp_path: Path) -> None:
    launches = LaunchLog(tmp_path, {})
    assert not launches.is_on_trial(0.0)
    launches.begin(following(1, "2g"))
    assert LaunchLog(tmp_path, {}).is_on_trial(1e9)
    launches.mark_left(90.0)
    launches.mark_arrived(100.0)
    again = LaunchLog(tmp_path, {})
    assert (again.launch.left_at, again.arrived) == (90.0, 100.0)
    assert again.is_on_trial(699.0)
    assert not again.is_on_trial(701.0)
    again.revert("it ended")
    assert LaunchLog(tmp_path, {}).launch == Launch(3, {}, 1, "it ended")
    assert not again.is_on_trial(101.0)


def check(live: RelaunchableJob, folder: Path, records: int) -> None:
    """Check that each record is counted once."""
    job: Any = TwoStates(folder=str(folder))
    until, found = time.monotonic() + 120.0, None
    while found != job.expected(records) and time.monotonic() < until:
        live.wait(0.5)
        assert live.observe().running is not None
        found = job.found()
    assert found == job.expected(records)


def heap(cluster: standalone_cluster.StandaloneCluster) -> str:
    (executor,) = cluster.executors()
    words: list[str] = psutil.Process(executor).cmdline()
    return next(word[4:] for word in words if word.startswith("-Xmx"))


def gone(cluster: standalone_cluster.StandaloneCluster) -> bool:
    until = time.monotonic() + 30.0
    while cluster.executors() and time.monotonic() < until:
        time.sleep(0.1)
    return not cluster.executors()
