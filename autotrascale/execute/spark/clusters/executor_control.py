"""Asking the cluster for executors and giving them back, from inside the driver, while queries run.

Spark's own interface for this is that of dynamic allocation (`ExecutorAllocationClient`), which standalone clusters,
YARN and Kubernetes all stand behind. Three things about it are easy to get wrong:

- Lowering the number frees nothing: Spark only stops replacing. Executors are released one by one.
- Releasing before the number is lowered frees nothing either: Spark starts another in its place.
- Killing loses what runs. Decommissioned, an executor takes no more tasks, ends those it has, hands its shuffle files
  on, and exits by itself.
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
_ARROW = " -> "  # as Scala writes an entry of a map


class ApplicationExecutors:
    """Of the application that a session belongs to. It remembers what it asked for and since when it waits, no more:
    what runs is asked of Spark each time. For one thread; another that wants to look has an object of its own."""

    def __init__(self, spark: SparkSession, clock: Callable[[], float] = time.time) -> None:
        self._spark, self._clock = spark, clock
        self._asked: int | None = None
        self._whole_at = clock()  # when as many were last seen as were asked for
        self._left_at: dict[str, float] = {}
        self._known: dict[str, tuple[str, int, int]] = {}  # host, cores and slots, which do not change

    def why_not(self) -> str:
        """One line that says why nothing can be asked for or given back here; empty where it can."""
        if getattr(self._spark, "_jsparkSession", None) is None:
            return "this session is a client of Spark Connect: its executors belong to the server"
        with _spark_answers("which executors can be asked for"):
            conf = dict(self._spark.sparkContext.getConf().getAll())
            if reason := elasticity_settings.explain_not_elastic(conf):
                return reason
            if self._has_executors:
                return ""
            kind = str(self._backend.getClass().getSimpleName())
        return (
            f"{kind}, the scheduler of master {conf.get('spark.master')}, does not let an application ask for executors"
        )

    def running(self) -> tuple[RegisteredExecutor, ...]:
        """All that are registered, the oldest first; those that are leaving too, until they are gone."""
        with _spark_answers("which executors there are"):
            if not self._has_executors:
                return ()
            since = _numbers(self._backend.getExecutorsWithRegistrationTs())
            tasks = _numbers(self._scheduler.runningTasksByExecutors())
            leaving = _keys(self._backend.executorsPendingDecommission()) | _keys(
                self._backend.executorsPendingToRemove()
            )
            now = self._clock()
            self._left_at = {name: self._left_at.get(name, now) for name in leaving if name in since}
            return tuple(
                RegisteredExecutor(name, *self._size(name), tasks.get(name), at / 1000, self._left_at.get(name))
                for name, at in sorted(since.items(), key=lambda entry: (entry[1], entry[0]))
            )

    def standing(self) -> ExecutorSet:
        """How what there is stands to what was asked for. Ask at every look: it also keeps the time."""
        executors, now = self.running(), self._clock()
        standing = ExecutorSet(executors, self._asked, now - self._whole_at, now)
        if not standing.missing:
            self._whole_at = now
            standing = ExecutorSet(executors, self._asked, 0.0, now)
        return standing

    def request(self, total: int) -> None:
        """So many, all in all. More of them come as the cluster can; with fewer, Spark does not replace those that go.
        Whether they come is seen in `standing`: a cluster takes requests for more than it has."""
        self._check()
        checks.count("executors", total)
        with _spark_answers(f"a request for {total} executors"):
            nobody: Any = self._jvm.PythonUtils.toScalaMap({})  # where tasks would like to run
            taken = self._context.requestTotalExecutors(total, 0, nobody)
        if not taken:
            raise EngineError(f"the cluster did not take a request for {total} executors: is its master there?")
        if total != self._asked:
            self._asked, self._whole_at = total, self._clock()

    def release(self, ids: Iterable[str]) -> tuple[str, ...]:
        """Lets go of these and asks for as many fewer. Those that now leave: one that is gone, or leaves already, is
        passed over, and does not count."""
        self._check()
        staying, wanted = [each.id for each in self.running() if not each.leaving], set(ids)
        going = [name for name in staying if name in wanted]
        if not going:
            return ()
        total = (len(staying) if self._asked is None else self._asked) - len(going)
        if len(going) == len(staying) or total < 1:
            raise InputError(
                "executors", "would all be released, and the queries stand still", seen=sorted(going), remedy="keep one"
            )
        self.request(total)
        return self._decommission(going)

    def scale_to(self, total: int) -> tuple[str, ...]:
        """Asks for so many, and releases what there is beyond. To be said again at every look: one that was lost is
        replaced by Spark, and one that came back is released again."""
        self.request(total)
        running = self.running()
        staying = sum(not each.leaving for each in running)
        return self._decommission(choose_executors_to_release(running, staying - total))

    def _decommission(self, ids: Iterable[str]) -> tuple[str, ...]:
        ids = tuple(ids)
        if not ids:
            return ()
        with _spark_answers(f"the release of executor {', '.join(ids)}"):
            # Files of batches long past are removed when the driver collects its garbage: nobody has to carry them.
            self._jvm.System.gc()
            scheduler = self._jvm.org.apache.spark.scheduler
            reason = scheduler.ExecutorDecommissionInfo("given back", self._jvm.scala.Option.apply(None))
            left = tuple(name for name in ids if self._backend.decommissionExecutor(name, reason, False, False))
        self._left_at |= dict.fromkeys(left, self._clock())
        return left

    def _size(self, name: str) -> tuple[str, int | None, int | None]:
        """Host, cores and slots. The list of executors that Spark shows to people has them; it lags a little behind."""
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

    def _check(self) -> None:
        if reason := self.why_not():
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
    """Of `host:port`; of a host alone, as Spark has it until the executor's block manager has said its port."""
    host, _, port = address.rpartition(":")
    return host if port.isdecimal() else address


@contextmanager
def _spark_answers(to: str) -> Iterator[None]:
    try:
        yield
    except (Py4JError, OSError) as error:
        raise EngineError(f"Spark did not answer {to}: {explain_error(str(error))}") from None


def _numbers(scala: Any) -> dict[str, int]:
    """A map of Scala's, in one call: names to whole numbers."""
    entries = (line.rpartition(_ARROW) for line in str(scala.mkString("\n")).splitlines())
    return {name: int(value) for name, _, value in entries}


def _keys(scala: Any) -> set[str]:
    return set(str(scala.keys().mkString("\n")).split())
