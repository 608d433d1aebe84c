"""Partitions of a source that numbers its records (Kafka), over a window of batches.

| symbol | meaning                                                                   | unit      |
|--------|---------------------------------------------------------------------------|-----------|
| n_i    | newest offset of a partition when batch i was planned                      |           |
| e_i    | offset that batch i ended with                                             |           |
| w      | n_m − e_m, of the last batch m: records that wait                          | records   |
| λ      | (n_m − n_1) / (t_m − t_1), arrivals in the partition                       | records/s |

One task at a time reads a partition. So there are never fewer tasks than partitions, and the reader of the busiest
partition has all of its records. Unknown values are left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from autotrascale.analyze.facts import BatchFact
from autotrascale.analyze.progress_records import offsets_by_partition
from autotrascale.domain.partitions import Partition, SourcePartitions


def measure_partitions(batches: Sequence[BatchFact]) -> tuple[SourcePartitions, ...]:
    """Return the partitions of each source that reports offsets, in the order of the query's sources."""
    if not batches:
        return ()
    first, last = batches[0], batches[-1]
    count = min(len(first.newest), len(last.newest), len(last.offsets))
    found = (_of(first, last, source) for source in range(count))
    return tuple(SourcePartitions(partitions) for partitions in found if partitions)


def _of(first: BatchFact, last: BatchFact, source: int) -> tuple[Partition, ...]:
    before, newest, ended = (
        offsets_by_partition(offset) or {}
        for offset in (first.newest[source], last.newest[source], last.offsets[source][1])
    )
    seconds = (last.started_ms - first.started_ms) / 1000
    return tuple(
        Partition(
            *place,
            waiting=max(0, at - ended.get(place, at)),
            rate=max(0, at - before[place]) / seconds if place in before and seconds > 0 else None,
        )
        for place, at in sorted(newest.items(), key=_in_order)
    )


def _in_order(entry: tuple[tuple[str, str], int]) -> tuple[str, int, str]:
    (topic, number), _ = entry
    return topic, int(number) if number.isdecimal() else -1, number
