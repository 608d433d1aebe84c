"""A query as its author described it, kept so that it can be started again.

A `DataStreamWriter` can be changed after a query was started from it, and then start another query. So its fields are
copied at the first start; Spark offers no other way to read the options of a writer.
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
# Without a checkpoint of the author's, Spark starts these in a temporary folder, which it deletes when they stop.
_WITHOUT_CHECKPOINT = ("memory", "foreach", "foreachbatch", "console", "noop")
_ENDING_TRIGGERS = {"OneTimeTrigger": "once", "AvailableNowTrigger": "availableNow"}
_TRIGGERS_WITHOUT_BATCHES = {"ContinuousTrigger": "continuous", "RealTimeTrigger": "realTime"}


class QuerySpec:
    """Description of one query.

    Args:
        writer: the author's writer, about to be started
        path: argument of `start`
        table: argument of `toTable`
    """

    def __init__(self, writer: DataStreamWriter, path: str | None, table: str | None) -> None:
        self.spark: SparkSession = writer._df.sparkSession
        self._jdf: Any = writer._df._jdf
        self._path, self._table = path, table
        self._jwrite = _copy_writer(self._jdf, writer._jwrite)
        self.stages: Mapping[str, int] = read_stage_partitions(self._jdf)
        self.not_movable = self._explain_not_movable(writer)
        self.reads_all_available, self.source_options = reads_all_available(writer), read_source_options(writer)
        self._batch_writer = find_batch_writer(writer)
        self.fenced: tuple[DataStreamWriter, Fence] | None = None  # of the run that was started last
        self.link: CheckpointLink | None = None  # set if another query may take over from this query
        self.temporary = ""  # folder with the checkpoint, if Spark would have chosen it
        if not self.not_movable:
            self._keep_temporary_checkpoint()
        context: Any = self.spark.sparkContext._jsc
        # Pool, group and description of jobs depend on properties of the thread that starts the query.
        self._thread_properties = context.sc().getLocalProperties().clone()

    @property
    def sink(self) -> str:
        """Format that the query writes, in lower case."""
        return str(_read_field(self._jwrite, "source") or "").lower()

    @property
    def checkpoint(self) -> str:
        """Checkpoint location, by option or by setting; empty if Spark chooses it."""
        option = self._read_option(CHECKPOINT)
        if option:
            return option
        folder = self.spark.conf.get(_LOCATIONS, None)
        name = _read_entry(_read_field(self._jwrite, "extraOptions"), "queryName")
        return f"{folder.rstrip('/')}/{name}" if folder and name else ""

    @property
    def output_folder(self) -> str:
        """Folder of the files that the query writes, if it writes files. It may not exist yet."""
        if self._table is not None:
            return _find_table_folder(self.spark, self._table)
        return self._path or self._read_option("path")

    def set_checkpoint(self, checkpoint: str) -> None:
        """Use this checkpoint from the next start on."""
        self._jwrite.option(CHECKPOINT, checkpoint)

    def set_stage_partitions(self, partitions: Mapping[str, int]) -> None:
        """Change the partitions of marked stages from the next start on. Stages that are not named keep theirs."""
        wanted = {name: k for name, k in partitions.items() if self.stages.get(name, k) != k}
        if wanted:
            self._jdf = replace_stage_partitions(self.spark, self._jdf, wanted)
            self._jwrite = _copy_writer(self._jdf, self._jwrite)
            self.stages = {**self.stages, **wanted}

    @property
    def is_fenceable(self) -> bool:
        """A fence can be put before its sink."""
        return self._table is None and (self._batch_writer is not None or self.sink in (*FILES, "kafka"))

    def build_fenced_writer(self, fence: Fence, checkpoint: str, *, named: bool = True) -> DataStreamWriter:
        """Return another writer of this query that writes as the fence allows.

        `named=False` drops the query's name, because Spark runs no two queries of one name.
        """
        writer = DataStreamWriter(DataFrame(self._jdf, self.spark))
        writer._jwrite = _copy_writer(self._jdf, self._jwrite)
        writer.option(CHECKPOINT, checkpoint)
        if self._path is not None:
            writer.option("path", self._path)
        if not named:
            options: Any = _declared_field(writer._jwrite, "extraOptions")
            options.set(writer._jwrite, options.get(writer._jwrite).removed("queryName"))
        if self._batch_writer is not None:
            make_fenceable(writer, self._batch_writer)
        else:
            make_sink_fenceable(self.spark, writer)
        attach_fence(fence, writer)
        return writer

    def start(self) -> Any:
        """Start the query as its author would, and return Java's handle of it."""
        if self.link is not None:
            committed = CheckpointFolder(self.spark, self.checkpoint).newest_commit()
            fence = Fence(VisibleBatches(), -1 if committed is None else committed)
            self.fenced = self.build_fenced_writer(fence, self.checkpoint), fence
            return self.fenced[0]._jwrite.start()
        if self._table is not None:
            return self._jwrite.toTable(self._table)
        return self._jwrite.start() if self._path is None else self._jwrite.start(self._path)

    def start_in_this_thread(self) -> Any:
        """Start the query in a thread that is not its author's."""
        self.apply_thread_properties()
        return self.start()

    def run_open_batch(self) -> None:
        """Run the batch that is planned and not committed, and no other batch."""
        self.apply_thread_properties()
        jvm: Any = self.spark._jvm
        once = _copy_writer(self._jdf, self._jwrite)
        once.trigger(jvm.org.apache.spark.sql.streaming.Trigger.Once())
        usual, self._jwrite = self._jwrite, once
        try:
            query = self.start()
        finally:
            self._jwrite = usual
        query.awaitTermination()

    def close_link(self) -> None:
        """Make the checkpoint's name the folder again."""
        if self.link is not None:
            with suppress(OSError):
                self.link.close()

    def delete_temporary_checkpoint(self) -> None:
        """Delete the temporary checkpoint, as Spark does when such a query stops."""
        jvm: Any = self.spark._jvm
        folder = jvm.org.apache.hadoop.fs.Path(self.temporary)
        folder.getFileSystem(self.spark._jsparkSession.sessionState().newHadoopConf()).delete(folder, True)

    def apply_thread_properties(self) -> None:
        """Give the present thread the properties of the author's thread, before it starts the query."""
        context: Any = self.spark.sparkContext._jsc
        context.sc().setLocalProperties(self._thread_properties.clone())

    def _read_option(self, name: str) -> str:
        return _read_entry(_read_field(self._jwrite, "extraOptions"), name)

    def _keep_temporary_checkpoint(self) -> None:
        # Spark deletes a temporary checkpoint of its own when the query stops, so ours is made in the same way.
        if self.checkpoint or self.spark.conf.get(_LOCATIONS, None) or self.sink not in _WITHOUT_CHECKPOINT:
            return
        jvm: Any = self.spark._jvm
        folder = jvm.java.lang.System.getProperty("java.io.tmpdir")
        self.temporary = str(jvm.org.apache.spark.util.Utils.createTempDir(folder, "temporary").getCanonicalPath())
        self.set_checkpoint(f"{self.temporary}/checkpoint")  # generations need room beside the checkpoint

    def _explain_not_movable(self, writer: DataStreamWriter) -> str:
        if formats := find_once_only_sources(writer):
            return f"reads from {' and '.join(formats)}, which gives each record only once: records would be lost"
        trigger = _class_name(_read_field(self._jwrite, "trigger"))
        if trigger in _ENDING_TRIGGERS:
            return f"ends by itself (trigger {_ENDING_TRIGGERS[trigger]})"
        if trigger in _TRIGGERS_WITHOUT_BATCHES:
            return f"does not run in batches that end (trigger {_TRIGGERS_WITHOUT_BATCHES[trigger]})"
        mode = str(_read_field(self._jwrite, "outputMode").toString()).lower()
        if self.sink == "memory" and mode != "complete":
            return f"writes to memory in mode {mode}: earlier results would be lost"
        return ""


def _copy_writer(jdf: Any, writer: Any) -> Any:
    """Return a Java writer of the data frame with the options of `writer`. Only `ds`, the data, is not copied."""
    copy = jdf.writeStream()
    fields = writer.getClass().getDeclaredFields()
    for at in range(len(fields)):
        field = fields[at]
        if field.getName() != "ds":
            field.setAccessible(True)
            field.set(copy, field.get(writer))
    return copy


def _read_field(writer: Any, name: str) -> Any:
    return _declared_field(writer, name).get(writer)


def _declared_field(writer: Any, name: str) -> Any:
    field = writer.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field


def _read_entry(options: Any, name: str) -> str:
    found = options.get(name)
    return "" if found.isEmpty() else str(found.get())


def _class_name(instance: Any) -> str:
    return re.sub(r"\$$", "", str(instance.getClass().getSimpleName()))


def _find_table_folder(spark: SparkSession, table: str) -> str:
    """Return the folder of a table that Spark's own catalog keeps as files; empty if there is none."""
    state: Any = spark._jsparkSession.sessionState()
    try:
        name = state.sqlParser().parseTableIdentifier(table)
        return str(state.catalog().getTableMetadata(name).location().toString())
    except Exception:  # another catalog, or a table that does not exist yet: Java raises many things
        return ""
