"""Law: counting filters give the same numbers as observations for any job.

The same job runs over the same records twice, marked in both ways; both numbers are read from an event log.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from autotrascale.analyze.facts import BatchFact
from autotrascale.analyze.live.query_run import FactStream
from autotrascale.domain.topology import Operator, Topology
from autotrascale.execute.spark.jobs import flow as flow_module
from autotrascale.execute.spark.jobs.flow import Flow
from autotrascale.execute.spark.jobs.marking import observe_records
from autotrascale.monitor.eventlog.follower import Follower

pytestmark = pytest.mark.spark
BATCHES = 2
Do = Callable[..., DataFrame]


def some(rest: int) -> Do:
    return lambda df: df.where(fn.col("value") % 3 != rest)


def several(df: DataFrame) -> DataFrame:
    return df.select("key", fn.explode(fn.sequence(fn.lit(0), fn.col("value") % 4)).alias("value"))


def changed(df: DataFrame) -> DataFrame:
    return df.select((fn.col("value") % 11).alias("key"), (fn.col("value") * 2 + 1).alias("value"))


def summed(df: DataFrame) -> DataFrame:
    return df.groupBy("key").agg(fn.sum("value").alias("value"))


def first_seen(df: DataFrame) -> DataFrame:
    return df.dropDuplicates(["key"])


def joined(at: int) -> Do:
    """Join without a projection on top, so that the join stands right below the next join or mark."""
    names = fn.col("key").alias(f"key{at}"), fn.col("value").alias(f"value{at}")
    mine = fn.col(f"value{at - 1}" if at else "key")
    return lambda left, right: left.join(right.select(*names), mine == fn.col(f"key{at}"))


def plain(df: DataFrame) -> DataFrame:
    return df.select("key", "value")


class Made:
    """A random job: one to three sources, joined one after another, followed by a chain of operators."""

    def __init__(self, seed: int) -> None:
        self._chance = chance = random.Random(seed)
        self.sources = [f"numbers{at}" for at in range(1 + seed % 3)]
        self.steps: list[tuple[str, tuple[str, ...], Do, tuple[str, ...], bool]] = []
        last = self.sources[0]
        for at, source in enumerate(self.sources[1:]):
            self.steps.append((f"join{at}", (last, source), joined(at), (), True))
            last = f"join{at}"
        self.steps += [("plain", (last,), plain, (), False)] if len(self.sources) > 1 else []
        last = self.steps[-1][0] if self.steps else last
        for at in range(chance.randint(1, 3)):
            do = chance.choice([some(0), some(1), several, changed])
            self.steps.append((f"step{at}", (last,), do, chance.choice([(), ("key",)]), False))
            last = f"step{at}"
        if len(self.sources) == 1:
            do, by = chance.choice([(summed, ("key",)), (summed, ()), (first_seen, ("key",))])
            self.steps.append(("last", (last,), do, by, True))

    @property
    def topology(self) -> Topology:
        found = {name: Operator() for name in self.sources}
        return Topology(found | {name: Operator(above, stateful=state) for name, above, _, _, state in self.steps})

    def build(self, flow: Flow) -> DataFrame:
        at = {
            name: flow.source(name, self._rows(flow.spark, 7 + 2 * n), arrival="timestamp")
            for n, name in enumerate(self.sources)
        }
        for name, above, do, by, _ in self.steps:
            at[name] = flow.operator(name, *(at[each] for each in above), do=do, by=by)
        return list(at.values())[-1]

    @staticmethod
    def _rows(spark: SparkSession, rows: int) -> DataFrame:
        """Return the rows of batch number n, the same in each run."""
        reader = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows).option("numPartitions", 2)
        return reader.load().withColumn("key", fn.col("value") % 5)


@pytest.fixture
def told(session: SparkSession, tmp_path: Path) -> Iterator[FactStream]:
    """Follow the event log of a session without one."""
    jvm, sc = session._jvm, session.sparkContext._jsc.sc()  # type: ignore[attr-defined]
    conf = sc.conf().clone().set("spark.eventLog.compress", "false").set("spark.eventLog.rolling.enabled", "true")
    place = jvm.java.net.URI.create(tmp_path.as_uri())  # type: ignore[union-attr]
    made: Any = jvm.org.apache.spark.scheduler.EventLoggingListener  # type: ignore[union-attr]
    listener = made("counts", jvm.scala.Option.apply(None), place, conf, sc.hadoopConfiguration())  # type: ignore[union-attr]
    listener.start()
    sc.addSparkListener(listener)
    try:
        yield FactStream(Follower(tmp_path, "counts", consume=False))
    finally:
        sc.removeSparkListener(listener)
        listener.stop()


def counts(session: SparkSession, job: Made, told: FactStream, folder: Path) -> list[dict[str, int]]:
    """Return the count of each operator in each batch."""
    parallelism = {name: 1 + len(name) % 3 for name in job.topology}
    session.conf.set("spark.sql.shuffle.partitions", "2")
    writer = job.build(Flow(session, job.topology, parallelism, "")).writeStream.format("noop")
    mode = "append" if len(job.sources) > 1 else "update"
    query = writer.outputMode(mode).option("checkpointLocation", str(folder)).start()
    until = time.monotonic() + 120.0
    found: list[BatchFact] = []
    try:
        while len(found) < BATCHES:
            assert query.isActive, query.exception()
            assert time.monotonic() < until, "no batches came"
            found += [fact for fact in told.facts() if isinstance(fact, BatchFact) and fact.run == query.runId]
            time.sleep(0.05)
    finally:
        query.stop()
    return [{name: fact.marks[name].count for name in job.topology} for fact in found[:BATCHES]]


@pytest.mark.parametrize("seed", [0, 2], ids=["one source", "joins upon joins"])
def test_filters_count_what_observations_count(
    seed: int, session: SparkSession, told: FactStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Made(seed)
    by_filters = counts(session, job, told, tmp_path / "filters")
    monkeypatch.setattr(flow_module, "count_records", observe_records)
    assert by_filters == counts(session, job, told, tmp_path / "observations")
    assert any(batch[name] for batch in by_filters for name in list(batch)[-1:])
