"""The load generator: a streaming source for PySpark whose offsets are milliseconds of load.

The driver asks `latestOffset`, which is the wall clock; each of k tasks then makes every k-th record of the interval as
Arrow batches, or, of a copy of a topic, those of its part of a partition. A record's content is a function of its
number alone, and its arrival time `ts` of the load file, so a batch that runs again reads the same.
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
"""Numbers of records → their columns, in the order of the schema: Arrow or numpy arrays, or lists."""

ARRIVAL = "ts"
_ROWS_PER_BATCH = 10_000


def make_load_source(name: str, schema: str, records: Records) -> type[DataSource]:
    """A data source class to register under `name`. It is made here, inside a function, so that Spark ships it by value
    together with `records`, wherever that was defined."""

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
    """The `part`-th of what [start, end) is dealt into. `base_ms` turns load time into Unix time."""

    def __init__(self, source: load_file.SourceLoad, start: int, end: int, part: int, base_ms: int) -> None:
        super().__init__(part)
        self.source, self.start, self.end = source, start, end
        self.part, self.base_ms = part, base_ms


class LoadReader(DataSourceStreamReader):
    """Options: `file` (the load file), `source` (the name in it), `partitions`."""

    def __init__(self, options: Mapping[str, str], schema: StructType, records: Records) -> None:
        self._file, self._source, self._wanted = options["file"], options["source"], int(options["partitions"])
        self._columns = [field.name for field in schema.fields]
        self._records = records

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"ms": 0, "n": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802, ARG002 - Spark's
        source = self._load()
        ms = source.latest_ms(start["ms"], _now_ms())
        n = int(source.count(ms))
        # Without a new record there is no new offset, or Spark would run empty batches without end.
        return {"ms": ms, "n": n} if n > start["n"] else start

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        source = self._load()
        # While priming, what is offered has just arrived: records of the future would take the watermark along.
        base = source.started_ms if source.started_ms is not None else _now_ms() - end["ms"]
        tasks = self._records.tasks(self._wanted) if isinstance(self._records, TopicCopy) else self._wanted
        return [LoadPartition(source, start["ms"], end["ms"], part, base) for part in range(tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, LoadPartition)
        first, arrivals = partition.source.arrivals(partition.start, partition.end)
        mine = self._share(first, len(arrivals), partition.part)
        for at in range(0, len(mine), _ROWS_PER_BATCH):
            rows = mine[at : at + _ROWS_PER_BATCH]
            stamps = pa.array((arrivals[rows] + partition.base_ms) * 1000, pa.timestamp("us", tz="UTC"))
            columns = [pa.array(column) for column in self._records(first + rows)]
            yield pa.RecordBatch.from_arrays([*columns, stamps], names=self._columns)

    def _share(self, first: int, count: int, part: int) -> Ints:
        if isinstance(self._records, TopicCopy):
            return self._records.dealt(first, count, self._wanted)[part]
        return np.arange(part, count, self._wanted)

    def _load(self) -> load_file.SourceLoad:
        return load_file.read(self._file).sources[self._source]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
