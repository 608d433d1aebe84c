"""A copy of a topic's newest records, on disk, and how a trial's tasks share them.

| symbol | meaning                                                              |
|--------|----------------------------------------------------------------------|
| n      | records in the copy, in the order of their timestamps                 |
| i      | number of a record in the load; it is record i mod n of the copy      |
| P      | partitions of the topic                                               |
| k      | tasks that were asked for, `minPartitions` to a job that runs         |

As Kafka's source has it, a partition is read by one task while k ≤ P; beyond, the k − P further ones go to where most
records are. So a topic with a hot partition is as uneven in a trial as it is for the running job.
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
    """Called with numbers of records, it gives their columns, as any generator does. It travels as a path, and is
    mapped into memory once by each process."""

    path: str

    def __call__(self, numbers: Ints) -> list[Any]:
        batch, _ = _opened(self.path)
        rows = pa.array(np.asarray(numbers) % len(batch))
        return [
            column.take(rows)
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
            if name != PARTITION
        ]

    def __len__(self) -> int:
        return len(_opened(self.path)[0])

    @property
    def partitions(self) -> int:
        """P."""
        return _opened(self.path)[1]

    def tasks(self, wanted: int) -> int:
        return max(wanted, self.partitions)

    def dealt(self, first: int, count: int, wanted: int) -> list[Ints]:
        """Of `count` records from this number on, which each task has: places among them, in their order."""
        batch, partitions = _opened(self.path)
        owners = np.asarray(batch.column(PARTITION))[(first + np.arange(count)) % len(batch)]
        owned = [np.flatnonzero(owners == partition) for partition in range(partitions)]
        sizes = {str(partition): max(1, len(rows)) for partition, rows in enumerate(owned)}
        tasks = share_out(dict.fromkeys(sizes, 1), sizes, self.tasks(wanted))
        return [part for partition, rows in enumerate(owned) for part in np.array_split(rows, tasks[str(partition)])]


def write_topic_copy(records: pa.Table, partitions: int, path: Path) -> TopicCopy:
    """Of records with `PARTITION`, `OFFSET` and `STAMP` beside their own columns. Whole or not at all."""
    keys = [(name, "ascending") for name in (STAMP, PARTITION, OFFSET)]
    ordered = records.take(pc.sort_indices(records, sort_keys=keys)).drop_columns([STAMP, OFFSET]).combine_chunks()
    schema = ordered.schema.with_metadata({_PARTITIONS: str(partitions).encode()})
    draft = draft_path(path)
    with pa.OSFile(str(draft), "wb") as file, pa.ipc.new_file(file, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays([_whole(column) for column in ordered.columns], schema=schema))
    draft.replace(path)
    return TopicCopy(str(path))


def _whole(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole


@cache
def _opened(path: str) -> tuple[pa.RecordBatch, int]:
    reader = pa.ipc.open_file(pa.memory_map(path))
    return reader.get_batch(0), int(reader.schema.metadata[_PARTITIONS])
