"""The sinks of trials: a trial leaves the job's own sink alone unless it was asked to use it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from autotrascale.domain.errors import InputError
from autotrascale.domain.topology import Operator, Topology
from autotrascale.execute.spark.driver_agent import sinks

ROWS = 30
Make = Callable[[DataFrame, Path], DataStreamWriter]


def _each_row(folder: Path) -> Callable[[Row], None]:
    return lambda _: folder.mkdir(exist_ok=True)


def _each_batch(folder: Path) -> Callable[[DataFrame, int], None]:
    return lambda batch, _: folder.mkdir(exist_ok=True) if batch.count() else None


MAKES: dict[str, Make] = {
    "parquet": lambda df, to: df.writeStream.format("parquet").option("path", str(to)),
    "partitioned": lambda df, to: df.writeStream.format("json").option("path", str(to)).partitionBy("p"),
    "clustered": lambda df, to: df.writeStream.format("parquet").option("path", str(to)).clusterBy("p"),
    "foreachBatch": lambda df, to: df.writeStream.foreachBatch(_each_batch(to)),
    "foreachBatch, then options": lambda df, to: df.writeStream.foreachBatch(_each_batch(to)).outputMode("update"),
    "foreach": lambda df, to: df.writeStream.foreach(_each_row(to)),
    "complete": lambda df, _: df.groupBy("p").count().writeStream.format("memory").outputMode("complete"),
    "console": lambda df, _: df.writeStream.format("console"),
    # Neither its jar nor its broker is here: nobody looks for them.
    "kafka": lambda df, _: (
        df.selectExpr("string(value) AS value").writeStream.format("kafka").option("topic", "orders")
    ),
}
FILES = ("parquet", "partitioned", "clustered")


@pytest.fixture
def rows(session: SparkSession, tmp_path: Path) -> DataFrame:
    session.conf.set("spark.sql.shuffle.partitions", "1")
    folder = str(tmp_path / "in")
    session.range(ROWS).selectExpr("id AS value", "id % 3 AS p").coalesce(1).write.json(folder)
    return session.readStream.schema("value long, p long").json(folder)


def ran(writer: DataStreamWriter, folder: Path) -> dict[str, Any]:
    """Return Spark's description of the sink after all output was written."""
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    progress = query.lastProgress
    assert progress is not None
    return dict(progress["sink"])


@pytest.mark.spark
@pytest.mark.parametrize("kind", MAKES)
def test_discarded_output_is_counted_and_reaches_no_sink(rows: DataFrame, tmp_path: Path, kind: str) -> None:
    own = tmp_path / "own"
    said = ran(sinks.redirect_output(MAKES[kind](rows, own), "discard", "unused"), tmp_path)
    assert said["description"] == "NoopTable"
    assert said["numOutputRows"] == (3 if kind == "complete" else ROWS)
    assert not own.exists()


@pytest.mark.spark
@pytest.mark.parametrize("kind", FILES)
def test_a_scratch_copy_is_written_as_the_job_writes(
    session: SparkSession, rows: DataFrame, tmp_path: Path, kind: str
) -> None:
    own, scratch = tmp_path / "own", tmp_path / "scratch"
    ran(sinks.redirect_output(MAKES[kind](rows, own), "scratch", str(scratch)), tmp_path)
    assert not own.exists()
    written = session.read.format("json" if kind == "partitioned" else "parquet").load(str(scratch))
    assert written.count() == ROWS
    assert (scratch / "p=1").is_dir() == (kind == "partitioned")


@pytest.mark.spark
@pytest.mark.parametrize("kind", [kind for kind in MAKES if kind not in FILES])
def test_what_cannot_be_copied_is_refused_in_one_line(rows: DataFrame, tmp_path: Path, kind: str) -> None:
    with pytest.raises(InputError, match=r"spark.sink: scratch copies files .*this job writes to \w+ .*use discard"):
        sinks.redirect_output(MAKES[kind](rows, tmp_path / "own"), "scratch", str(tmp_path / "scratch"))


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["parquet", "foreachBatch", "foreach"])
def test_the_real_sink_is_used_when_asked_for(rows: DataFrame, tmp_path: Path, kind: str) -> None:
    own = tmp_path / "own"
    ran(sinks.redirect_output(MAKES[kind](rows, own), "real", "unused"), tmp_path)
    assert own.is_dir()


@pytest.mark.parametrize("method", ["start", "toTable"])
def test_a_job_may_not_start_its_query_itself(method: str) -> None:
    kept = getattr(DataStreamWriter, method)
    with pytest.raises(InputError, match=r"^job shop: "), sinks.forbid_starting("shop"):
        getattr(object.__new__(DataStreamWriter), method)("anywhere")
    assert getattr(DataStreamWriter, method) is kept


def test_what_is_no_writer_is_refused() -> None:
    with pytest.raises(InputError, match=r"job shop: .*seen: 'Topology'"):
        sinks.check_writer("shop", Topology({"a": Operator()}))
