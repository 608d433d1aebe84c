"""Request executors from the cluster and release executors, from inside the driver, while queries run.

Spark's own interface for this belongs to dynamic allocation (`ExecutorAllocationClient`). Standalone clusters, YARN and
Kubernetes all implement it. Three rules:

- Lowering the number frees nothing: Spark only stops replacing. Executors are released one by one.
- A release before the number is lowered frees nothing either: Spark starts another executor.
- A kill loses running tasks. A decommissioned executor takes no more tasks, finishes its tasks, copies its shuffle
  files to other executors and exits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from autotrascale.domain import checks
from autotrascale.domain.errors import EngineError, InputError
from autotrascale.execute.spark.clusters import elasticity_settings
from autotrascale.execute.spark.clusters.registered_executors import ExecutorSet, RegisteredExecutor
from autotrascale.execute.spark.clusters.release_choice import choose_executors_to_release
from autotrascale.execute.spark.common.error_causes import explain_error

BACKEND = "org.apache.spark.scheduler.cluster.CoarseGrainedSchedulerBackend"
_ARROW = " -> "  # in the text of a Scala map


class ApplicationExecutors:
    """Executors of the application of a session. For one thread only.

    It remembers the requested number and since when it waits; everything else is read from Spark each time.
    """

    def __init__(self, spark: SparkSession, clock: Callable[[], float] = time.time) -> None:
        self._spark, self._clock = spark, clock
        self._requested: int | None = None
        self._complete_at = clock()  # last time at which there were as many as requested
        self._leaving_since: dict[str, float] = {}
        self._known: dict[str, tuple[str, int, int]] = {}  # host, cores and slots, which do not change

    def explain_not_elastic(self) -> str:
        """Return in one line why executors cannot be requested or released here, or an empty string."""
        if getattr(self._spark, "_jsparkSession", None) is None:
            return "this session is a client of Spark Connect: its executors belong to the server"
        with _translate_errors("whether executors can be requested"):
            conf = dict(self._spark.sparkContext.getConf().getAll())
            if reason := elasticity_settings.explain_not_elastic(conf):
                return reason
            if self._has_executors:
                return ""
            kind = str(self._backend.getClass().getSimpleName())
        return f"{kind}, the scheduler of master {conf.get('spark.master')}, takes no requests for executors"

    def list_running(self) -> tuple[RegisteredExecutor, ...]:
        """Return all registered executors, oldest first, with those that are leaving."""
        with _translate_errors("for the list of executors"):
            if not self._has_executors:
                return ()
            since = _read_numbers(self._backend.getExecutorsWithRegistrationTs())
            tasks = _read_numbers(self._scheduler.runningTasksByExecutors())
            leaving = _read_keys(self._backend.executorsPendingDecommission()) | _read_keys(
                self._backend.executorsPendingToRemove()
            )
            now = self._clock()
            self._leaving_since = {name: self._leaving_since.get(name, now) for name in leaving if name in since}
            return tuple(
                RegisteredExecutor(
                    name, *self._read_size(name), tasks.get(name), at / 1000, self._leaving_since.get(name)
                )
                for name, at in sorted(since.items(), key=lambda entry: (entry[1], entry[0]))
            )

    def read(self) -> ExecutorSet:
        """Compare the executors with the request. Call it at each observation: it also measures the waiting time."""
        executors, now = self.list_running(), self._clock()
        found = ExecutorSet(executors, self._requested, now - self._complete_at, now)
        if not found.missing:
            self._complete_at = now
            found = ExecutorSet(executors, self._requested, 0.0, now)
        return found

    def request(self, total: int) -> None:
        """Request `total` executors in all.

        More executors come as the cluster grants them. With fewer, Spark does not replace those that go. A cluster
        accepts requests for more than it has: `read` shows the granted executors.
        """
        self._check_elastic()
        checks.count("executors", total)
        with _translate_errors(f"a request for {total} executors"):
            no_preferred_hosts: Any = self._jvm.PythonUtils.toScalaMap({})
            accepted = self._context.requestTotalExecutors(total, 0, no_preferred_hosts)
        if not accepted:
            raise EngineError(f"the cluster rejected a request for {total} executors: check that its master runs")
        if total != self._requested:
            self._requested, self._complete_at = total, self._clock()

    def scale_to(self, total: int) -> tuple[str, ...]:
        """Request `total` executors and release the executors beyond. Returns the ids that are leaving now.

        Repeat it at each observation: Spark replaces a lost executor, and an executor that came back is released again.
        """
        self.request(total)
        running = self.list_running()
        staying = sum(not each.leaving for each in running)
        return self._decommission(choose_executors_to_release(running, staying - total))

    def _decommission(self, ids: Iterable[str]) -> tuple[str, ...]:
        ids = tuple(ids)
        if not ids:
            return ()
        with _translate_errors(f"the release of executor {', '.join(ids)}"):
            # A garbage collection in the driver removes files of old batches, which need not be copied then.
            self._jvm.System.gc()
            scheduler = self._jvm.org.apache.spark.scheduler
            reason = scheduler.ExecutorDecommissionInfo("released", self._jvm.scala.Option.apply(None))
            leaving = tuple(name for name in ids if self._backend.decommissionExecutor(name, reason, False, False))
        self._leaving_since |= dict.fromkeys(leaving, self._clock())
        return leaving

    def _read_size(self, name: str) -> tuple[str, int | None, int | None]:
        """Return host, cores and slots by Spark's status list, which lags a little behind."""
        if name not in self._known:
            try:
                summary = self._context.statusStore().executorSummary(name)
            except Py4JError:
                return "", None, None
            host, cores = parse_host(str(summary.hostPort())), int(summary.totalCores())
            if not cores:
                return host, None, None
            self._known[name] = host, cores, int(summary.maxTasks())
        return self._known[name]

    def _check_elastic(self) -> None:
        if reason := self.explain_not_elastic():
            raise InputError("executors", reason)

    @property
    def _has_executors(self) -> bool:
        return bool(is_instance_of(self._spark.sparkContext._gateway, self._backend, BACKEND))

    @property
    def _jvm(self) -> Any:
        return self._spark._jvm

    @property
    def _context(self) -> Any:
        return self._spark.sparkContext._jsc.sc()

    @property
    def _backend(self) -> Any:
        return self._context.schedulerBackend()

    @property
    def _scheduler(self) -> Any:
        return self._context.taskScheduler()


def parse_host(address: str) -> str:
    """Return the host of `host:port`, or of a host alone: a block manager that starts has no port yet."""
    host, _, port = address.rpartition(":")
    return host if port.isdecimal() else address


@contextmanager
def _translate_errors(question: str) -> Iterator[None]:
    try:
        yield
    except (Py4JError, OSError) as error:
        raise EngineError(f"Spark did not answer {question}: {explain_error(str(error))}") from None


def _read_numbers(scala: Any) -> dict[str, int]:
    """Read a Scala map of names to whole numbers in one call."""
    entries = (line.rpartition(_ARROW) for line in str(scala.mkString("\n")).splitlines())
    return {name: int(value) for name, _, value in entries}


def _read_keys(scala: Any) -> set[str]:
    return set(str(scala.keys().mkString("\n")).split())
