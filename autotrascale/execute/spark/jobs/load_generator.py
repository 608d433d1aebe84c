"""The load generator: a PySpark streaming source whose offsets are milliseconds of load.

The driver asks for `latestOffset`, which follows the wall clock. Then each of k tasks makes every k-th record of the
interval as Arrow batches. With a copy of a topic, a task reads its part of a partition instead. The content of a record
depends on its number alone, and its arrival time `ts` on the load file, so a batch that runs again reads the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from autotrascale.execute.spark.jobs import load_file
from autotrascale.execute.spark.jobs.load_file import Ints
from autotrascale.execute.spark.jobs.topic_copy import TopicCopy

Records = Callable[[Ints], Sequence[Any]]
"""A function from record numbers to columns, in the order of the schema: Arrow or numpy arrays, or lists."""

ARRIVAL = "ts"
_ROWS_PER_BATCH = 10_000


def make_load_source(name: str, schema: str, records: Records) -> type[DataSource]:
    """Return a data source class to register as format `name`, with the columns of `schema` (DDL) and `ts`.

    The class is made inside this function, so Spark ships it to workers by value together with `records`.
    """

    class Generated(DataSource):
        @classmethod
        def name(cls) -> str:
            return name

        def schema(self) -> str:
            return f"{schema}, {ARRIVAL} timestamp"

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
            return LoadReader(self.options, schema, records)

    return Generated


class LoadPartition(InputPartition):
    """The part number `part` of the records in [start, end). `base_ms` is the Unix time of ms = 0."""

    def __init__(self, source: load_file.SourceLoad, start: int, end: int, part: int, base_ms: int) -> None:
        super().__init__(part)
        self.source, self.start, self.end = source, start, end
        self.part, self.base_ms = part, base_ms


class LoadReader(DataSourceStreamReader):
    """The reader of one source. Options: `file` (the load file), `source` (the name in it), `partitions` (k)."""

    def __init__(self, options: Mapping[str, str], schema: StructType, records: Records) -> None:
        self._file, self._source, self._wanted = options["file"], options["source"], int(options["partitions"])
        self._columns = [field.name for field in schema.fields]
        self._records = records

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"ms": 0, "n": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802, ARG002 - Spark's
        source = self._read_load()
        ms = source.latest_ms(start["ms"], _now_ms())
        n = int(source.count(ms))
        # A new offset without a new record would make Spark run empty batches without end.
        return {"ms": ms, "n": n} if n > start["n"] else start

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        source = self._read_load()
        # Priming records have just arrived: arrival times in the future would move the watermark forward.
        base = source.started_ms if source.started_ms is not None else _now_ms() - end["ms"]
        records = self._records
        tasks = records.count_tasks(self._wanted) if isinstance(records, TopicCopy) else self._wanted
        return [LoadPartition(source, start["ms"], end["ms"], part, base) for part in range(tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, LoadPartition)
        first, arrivals = partition.source.arrivals(partition.start, partition.end)
        mine = self._positions_of(partition.part, first, len(arrivals))
        for at in range(0, len(mine), _ROWS_PER_BATCH):
            rows = mine[at : at + _ROWS_PER_BATCH]
            stamps = pa.array((arrivals[rows] + partition.base_ms) * 1000, pa.timestamp("us", tz="UTC"))
            columns = [pa.array(column) for column in self._records(first + rows)]
            yield pa.RecordBatch.from_arrays([*columns, stamps], names=self._columns)

    def _positions_of(self, part: int, first: int, count: int) -> Ints:
        if isinstance(self._records, TopicCopy):
            return self._records.share_records(first, count, self._wanted)[part]
        return np.arange(part, count, self._wanted)

    def _read_load(self) -> load_file.SourceLoad:
        return load_file.read_load(self._file).sources[self._source]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
