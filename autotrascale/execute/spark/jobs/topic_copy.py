"""A copy of the newest records of a Kafka topic on disk, and how the tasks of a trial share its records.

| symbol | meaning                                                               |
|--------|-----------------------------------------------------------------------|
| n      | records in the copy, in the order of their timestamps                 |
| i      | number of a record in the load; it is record i mod n of the copy      |
| P      | partitions of the topic                                               |
| k      | wanted tasks: `minPartitions` of a running job                        |

Spark's Kafka source reads a partition in one task while k ≤ P. The further k − P tasks go to the partitions with most
records. The copy does the same, so a topic with a hot partition is as uneven in a trial as in the running job.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from autotrascale.atomic_files import draft_path
from autotrascale.plan.sizing.quota import share_out

PARTITION, OFFSET, STAMP = "__partition", "__offset", "__timestamp"
_PARTITIONS = b"partitions"
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class TopicCopy:
    """A record generator that plays a copy. Workers get its path, and each process maps the file into memory once."""

    path: str

    def __call__(self, numbers: Ints) -> list[Any]:
        """Return the columns of the records with these numbers."""
        batch, _ = _open_copy(self.path)
        rows = pa.array(np.asarray(numbers) % len(batch))
        return [
            column.take(rows)
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
            if name != PARTITION
        ]

    def __len__(self) -> int:
        return len(_open_copy(self.path)[0])

    @property
    def partitions(self) -> int:
        """Return P, the number of partitions of the topic."""
        return _open_copy(self.path)[1]

    def count_tasks(self, wanted: int) -> int:
        """Return max(k, P), the number of tasks that read the topic."""
        return max(wanted, self.partitions)

    def share_records(self, first: int, count: int, wanted: int) -> list[Ints]:
        """Share `count` records from number `first` on among the tasks.

        Returns for each task the sorted positions of its records, between 0 and `count` − 1.
        """
        batch, partitions = _open_copy(self.path)
        owners = np.asarray(batch.column(PARTITION))[(first + np.arange(count)) % len(batch)]
        owned = [np.flatnonzero(owners == partition) for partition in range(partitions)]
        sizes = {str(partition): max(1, len(rows)) for partition, rows in enumerate(owned)}
        tasks = share_out(dict.fromkeys(sizes, 1), sizes, self.count_tasks(wanted))
        return [part for partition, rows in enumerate(owned) for part in np.array_split(rows, tasks[str(partition)])]


def write_topic_copy(records: pa.Table, partitions: int, path: Path) -> TopicCopy:
    """Write `records` atomically, in the order of their timestamps.

    `records` has the columns `PARTITION`, `OFFSET` and `STAMP` beside its own.
    """
    keys = [(name, "ascending") for name in (STAMP, PARTITION, OFFSET)]
    ordered = records.take(pc.sort_indices(records, sort_keys=keys)).drop_columns([STAMP, OFFSET]).combine_chunks()
    schema = ordered.schema.with_metadata({_PARTITIONS: str(partitions).encode()})
    draft = draft_path(path)
    with pa.OSFile(str(draft), "wb") as file, pa.ipc.new_file(file, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays([_as_array(column) for column in ordered.columns], schema=schema))
    draft.replace(path)
    return TopicCopy(str(path))


def _as_array(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole


@cache
def _open_copy(path: str) -> tuple[pa.RecordBatch, int]:
    reader = pa.ipc.open_file(pa.memory_map(path))
    return reader.get_batch(0), int(reader.schema.metadata[_PARTITIONS])
