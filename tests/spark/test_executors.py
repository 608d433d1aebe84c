"""Executors come and go under a running query, on a real cluster: no batch is broken, every record counts once."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from drivers import Driver, driver, expected
from pyspark.sql import SparkSession

from autotrascale.domain.errors import InputError
from autotrascale.execute.spark.clusters.elasticity_settings import choose_elasticity_settings
from autotrascale.execute.spark.clusters.executor_control import BACKEND, ApplicationExecutors
from autotrascale.execute.spark.controller.local_session import local_session
from autotrascale.testing.standalone_cluster import StandaloneCluster, conf, standalone

pytestmark = pytest.mark.spark

RELEASED_WITHIN = 30.0  # seconds from the decision
PATIENCE = 120.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """Three workers with room for one executor each."""
    with standalone(tmp_path_factory.mktemp("cluster"), workers=3, cores=1, memory="1g") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def application(cluster: StandaloneCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    ours = {setting.name: setting.value for setting in choose_elasticity_settings(cluster.url, (1, 5), 1)}
    with driver(cluster.url, {**conf(), **ours}, tmp_path_factory.mktemp("driver")) as application:
        yield application


def until(what: Callable[[], bool], seconds: float = PATIENCE) -> float:
    """Wait, and return the seconds."""
    began = time.monotonic()
    while not what():
        assert time.monotonic() - began < seconds
        time.sleep(0.2)
    return time.monotonic() - began


def test_executors_come_and_go_under_a_running_query(cluster: StandaloneCluster, application: Driver) -> None:
    """Nothing that an executor was doing is lost when it is given back. Whoever fetches from it in the moment in which
    it exits may have to do so again, once for each that goes: that is all that may fail, and no count is wrong."""
    assert application("explain_not_elastic") == ""

    def batches(more: int) -> None:
        """Wait for this many more commits."""
        before = application("progress").committed
        until(lambda: application("progress").committed >= before + more)

    def number() -> int:
        return len(application("list_running"))

    until(lambda: number() == 3)  # a standalone cluster gives all it has at the start
    batches(2)
    went = application("scale_to", 1)
    assert len(went) == 2
    assert {each.id for each in application("list_running") if each.leaving} <= set(went)
    assert until(lambda: number() == 1) < RELEASED_WITHIN
    batches(1)

    application("scale_to", 3)
    until(lambda: number() == 3)
    # Each on a worker of its own, once their sizes are known.
    until(lambda: len({each.host for each in application("list_running") if (each.cores, each.slots) == (1, 1)}) == 3)
    batches(2)
    assert application("read").missing == 0
    calm = application("progress")
    assert calm.exception == ""
    assert calm.failed_tasks <= len(went)

    victim = application("list_running")[-1].id
    os.kill(cluster.executor(victim), signal.SIGKILL)
    until(lambda: victim not in {each.id for each in application("list_running")})
    until(lambda: number() == 3)  # Spark starts another, for so many are wanted
    batches(1)

    application("scale_to", 5)
    time.sleep(2.0)
    found = application("read")
    assert (len(found.staying), found.missing) == (3, 2)
    assert found.waiting_seconds > 1.0
    assert "2 of 5 executors" in found.explain_missing(timeout_seconds=1.0)

    before = application("progress")
    application("scale_to", 1)
    assert until(lambda: number() == 1) < RELEASED_WITHIN
    batches(2)
    assert number() == 1  # none came back
    after = application("progress")
    assert after.exception == ""
    assert after.failed_tasks - before.failed_tasks <= 2

    committed, counts = application("finish")
    assert counts == expected(committed)


@pytest.fixture(scope="module")
def local() -> Iterator[SparkSession]:
    with local_session(cores="2") as spark:
        yield spark


@pytest.mark.parametrize(
    "of", ["StandaloneSchedulerBackend", "YarnSchedulerBackend", "k8s.KubernetesClusterSchedulerBackend"]
)
def test_every_cluster_is_asked_in_the_same_way(local: SparkSession, of: str) -> None:
    jvm: Any = local._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    package = "org.apache.spark.scheduler.cluster"
    assert (
        loader.loadClass(f"{package}.{of}").getSuperclass().getName()
        == BACKEND
        == f"{package}.CoarseGrainedSchedulerBackend"
    )


def test_a_session_without_executors_says_so(local: SparkSession) -> None:
    executors = ApplicationExecutors(local)
    assert "runs all tasks inside the driver" in executors.explain_not_elastic()
    assert executors.list_running() == ()
    with pytest.raises(InputError, match="runs all tasks inside the driver"):
        executors.request(2)
