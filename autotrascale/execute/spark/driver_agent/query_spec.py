"""A query as its author described it, kept so that it can be started again and again.

A `DataStreamWriter` can be changed after a query was started from it, and start another one. So what it says at the
first start is copied, field by field, into one of ours; Spark has no other way to ask a writer what it was told.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from autotrascale.execute.spark.common.checkpoint_generations import VisibleBatches
from autotrascale.execute.spark.driver_agent.checkpoint_folder import CheckpointFolder
from autotrascale.execute.spark.driver_agent.checkpoint_link import CheckpointLink
from autotrascale.execute.spark.driver_agent.fence import Fence, attach_fence, find_batch_writer, make_fenceable
from autotrascale.execute.spark.driver_agent.fenceable_sinks import make_sink_fenceable
from autotrascale.execute.spark.driver_agent.sinks import FILES
from autotrascale.execute.spark.driver_agent.sources import (
    find_once_only_sources,
    read_source_options,
    reads_all_available,
)
from autotrascale.execute.spark.driver_agent.stage_partitions import read_stage_partitions, replace_stage_partitions

CHECKPOINT = "checkpointLocation"
_LOCATIONS = "spark.sql.streaming.checkpointLocation"
# Spark starts these without a checkpoint of their author's, in a folder that goes when they stop.
_WITHOUT_CHECKPOINT = ("memory", "foreach", "foreachbatch", "console", "noop")
_ENDS_BY_ITSELF = {"OneTimeTrigger": "once", "AvailableNowTrigger": "availableNow"}
_NO_BATCHES = {"ContinuousTrigger": "continuous", "RealTimeTrigger": "realTime"}


class QuerySpec:
    """One description. `path` and `table` are what `start` and `toTable` were given."""

    def __init__(self, writer: DataStreamWriter, path: str | None, table: str | None) -> None:
        self.spark: SparkSession = writer._df.sparkSession
        self._jdf: Any = writer._df._jdf
        self._path, self._table = path, table
        self._jwrite = _copied(self._jdf, writer._jwrite)
        self.stages: Mapping[str, int] = read_stage_partitions(self._jdf)  # those of their own number, by their marks
        self.not_movable = self._not_movable(writer)
        self.gives_all, self.source_options = reads_all_available(writer), read_source_options(writer)
        self._function = find_batch_writer(writer)
        self.fenced: tuple[DataStreamWriter, Fence] | None = None  # of the run that was started last
        self.place: CheckpointLink | None = None  # of a query that another one may take over from
        self.temporary = ""
        if not self.not_movable:
            self._keep_temporary_checkpoint()
        context: Any = self.spark.sparkContext._jsc
        # What the starting thread had: pool, group and description of jobs go by it.
        self._properties = context.sc().getLocalProperties().clone()

    @property
    def sink(self) -> str:
        return str(_field(self._jwrite, "source") or "").lower()

    @property
    def checkpoint(self) -> str:
        """Where its author wants it, in one place or another; empty where Spark chooses."""
        option = self._option(CHECKPOINT)
        if option:
            return option
        folder, name = self.spark.conf.get(_LOCATIONS, None), _said(_field(self._jwrite, "extraOptions"), "queryName")
        return f"{folder.rstrip('/')}/{name}" if folder and name else ""

    @property
    def output(self) -> str:
        """The folder that it writes files to, where it is one; it may not be there yet."""
        if self._table is not None:
            return _table_folder(self.spark, self._table)
        return self._path or self._option("path")

    def at(self, checkpoint: str) -> None:
        """From the next start on; a place that Spark chose is kept so."""
        self._jwrite.option(CHECKPOINT, checkpoint)

    def give_stages(self, numbers: Mapping[str, int]) -> None:
        """From the next start on; those that are not named keep what they have."""
        wanted = {name: k for name, k in numbers.items() if self.stages.get(name, k) != k}
        if wanted:
            self._jdf = replace_stage_partitions(self.spark, self._jdf, wanted)
            self._jwrite = _copied(self._jdf, self._jwrite)
            self.stages = {**self.stages, **wanted}

    @property
    def is_fenceable(self) -> bool:
        return self._table is None and (self._function is not None or self.sink in (*FILES, "kafka"))

    def behind(self, fence: Fence, checkpoint: str, *, named: bool = True) -> DataStreamWriter:
        """Another writer that was told the same, and writes as the fence lets it. Spark runs no two queries of one
        name."""
        writer = DataStreamWriter(DataFrame(self._jdf, self.spark))
        writer._jwrite = _copied(self._jdf, self._jwrite)
        writer.option(CHECKPOINT, checkpoint)
        if self._path is not None:
            writer.option("path", self._path)
        if not named:
            options: Any = _declared(writer._jwrite, "extraOptions")
            options.set(writer._jwrite, options.get(writer._jwrite).removed("queryName"))
        if self._function is not None:
            make_fenceable(writer, self._function)
        else:
            make_sink_fenceable(self.spark, writer)
        attach_fence(fence, writer)
        return writer

    def start(self) -> Any:
        """As its author would. The handle is Java's."""
        if self.place is not None:
            committed = CheckpointFolder(self.spark, self.checkpoint).newest_commit()
            fence = Fence(VisibleBatches(), -1 if committed is None else committed)
            self.fenced = self.behind(fence, self.checkpoint), fence
            return self.fenced[0]._jwrite.start()
        if self._table is not None:
            return self._jwrite.toTable(self._table)
        return self._jwrite.start() if self._path is None else self._jwrite.start(self._path)

    def start_in_this_thread(self) -> Any:
        """The same, in a thread that is not its author's."""
        self.apply_thread_properties()
        return self.start()

    def run_open_batch(self) -> None:
        """The batch that is planned and not committed, and no other."""
        self.apply_thread_properties()
        jvm: Any = self.spark._jvm
        once = _copied(self._jdf, self._jwrite)
        once.trigger(jvm.org.apache.spark.sql.streaming.Trigger.Once())
        mine, self._jwrite = self._jwrite, once
        try:
            query = self.start()
        finally:
            self._jwrite = mine
        query.awaitTermination()

    def close_link(self) -> None:
        """Its name is the checkpoint's own again."""
        if self.place is not None:
            with suppress(OSError):
                self.place.close()

    def delete_temporary_checkpoint(self) -> None:
        """As Spark does when such a query was stopped."""
        jvm: Any = self.spark._jvm
        folder = jvm.org.apache.hadoop.fs.Path(self.temporary)
        folder.getFileSystem(self.spark._jsparkSession.sessionState().newHadoopConf()).delete(folder, True)

    def apply_thread_properties(self) -> None:
        """In a thread that is not its author's, before it starts a query."""
        context: Any = self.spark.sparkContext._jsc
        context.sc().setLocalProperties(self._properties.clone())

    def _option(self, name: str) -> str:
        return _said(_field(self._jwrite, "extraOptions"), name)

    def _keep_temporary_checkpoint(self) -> None:
        """Spark removes a checkpoint that it made itself when the query stops, so it is made here, in the same way."""
        if self.checkpoint or self.spark.conf.get(_LOCATIONS, None) or self.sink not in _WITHOUT_CHECKPOINT:
            return
        jvm: Any = self.spark._jvm
        folder = jvm.java.lang.System.getProperty("java.io.tmpdir")
        self.temporary = str(jvm.org.apache.spark.util.Utils.createTempDir(folder, "temporary").getCanonicalPath())
        self.at(f"{self.temporary}/checkpoint")  # with room beside it

    def _not_movable(self, writer: DataStreamWriter) -> str:
        if formats := find_once_only_sources(writer):
            return f"reads from {' and '.join(formats)}, which gives each record only once: records would be lost"
        trigger = _class_name(_field(self._jwrite, "trigger"))
        if trigger in _ENDS_BY_ITSELF:
            return f"ends by itself (trigger {_ENDS_BY_ITSELF[trigger]})"
        if trigger in _NO_BATCHES:
            return f"does not run in batches that end (trigger {_NO_BATCHES[trigger]})"
        mode = str(_field(self._jwrite, "outputMode").toString()).lower()
        if self.sink == "memory" and mode != "complete":
            return f"writes to memory in mode {mode}: what is there would be lost"
        return ""


def _copied(jdf: Any, writer: Any) -> Any:
    """Another writer of the same data that was told the same. `ds`, its data, is given by how it is made."""
    copy = jdf.writeStream()
    fields = writer.getClass().getDeclaredFields()
    for at in range(len(fields)):
        field = fields[at]
        if field.getName() != "ds":
            field.setAccessible(True)
            field.set(copy, field.get(writer))
    return copy


def _field(writer: Any, name: str) -> Any:
    return _declared(writer, name).get(writer)


def _declared(writer: Any, name: str) -> Any:
    field = writer.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field


def _said(options: Any, name: str) -> str:
    found = options.get(name)
    return "" if found.isEmpty() else str(found.get())


def _class_name(instance: Any) -> str:
    return re.sub(r"\$$", "", str(instance.getClass().getSimpleName()))


def _table_folder(spark: SparkSession, table: str) -> str:
    """Of a table that Spark's own catalog keeps as files; empty for others, and where there is none yet."""
    state: Any = spark._jsparkSession.sessionState()
    try:
        name = state.sqlParser().parseTableIdentifier(table)
        return str(state.catalog().getTableMetadata(name).location().toString())
    except Exception:  # another catalog's names, a table that is yet to be made: Java raises many things
        return ""
