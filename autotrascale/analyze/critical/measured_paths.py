"""Archives of event logs → critical participation of all their windows.

    logs, unread = find_logs(["/logs"])
    with workspace() as folder:
        damages = [each for found in run_all(partial(write_edges, f"{folder}/edges"), logs) for each in found]
        paths = measure_paths(f"{folder}/edges", f"{folder}/parts", 10.0, run_all)
        for query in paths.reports():
            print(query)

`run_all` is `run_here` in this process, or `run_on(spark)`. Windows are counted from 1970.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import groupby

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from autotrascale.analyze.critical.edges import TICKS
from autotrascale.analyze.critical.participation_table import read_reports
from autotrascale.analyze.critical.window_blocks import QUERY_PARTS, Block, find_blocks, measure_block
from autotrascale.analyze.log_tasks import RunAll, run_here
from autotrascale.domain.critical_path_report import CriticalPathReport, average_reports
from autotrascale.monitor.eventlog.log_files import open_filesystem

_BY_QUERY_AND_DAY = ds.partitioning(
    pa.schema([(name, pa.string()) for name in ("application", "query", "day")]), flavor="hive"
)


@dataclass(frozen=True)
class MeasuredBlock:
    """The file with the parts of a block, and the mean of its windows."""

    path: str
    mean: CriticalPathReport

    @property
    def query(self) -> tuple[str, str]:
        return self.mean.application, self.mean.query


@dataclass(frozen=True)
class MeasuredPaths:
    """The critical participation of every window in which something was under way."""

    folder: str
    blocks: tuple[MeasuredBlock, ...]  # by query and time

    def reports(self) -> list[CriticalPathReport]:
        """Return the mean of all windows of each query. The mean of the blocks' means is the same mean."""
        by_query = groupby(self.blocks, key=lambda block: block.query)
        return [average_reports([block.mean for block in own]) for _, own in by_query]

    def windows(self, query: str = "") -> Iterator[CriticalPathReport]:
        """Yield all windows, in order of time within each query. `query` restricts them to queries of this name."""
        for block in self.blocks:
            if not query or block.mean.query == query:
                yield from self._windows_of(block)

    def newest(self, of: CriticalPathReport, most: int) -> list[CriticalPathReport]:
        """Return the last windows of a query, in order of time."""
        found: list[CriticalPathReport] = []
        for block in reversed(self.blocks):
            if block.query == (of.application, of.query) and len(found) < most:
                found = [*self._windows_of(block), *found]
        return found[-most:]

    def write(self, folder: str, query: str = "") -> None:
        """Write the parts as Parquet below `folder`, by application, query and day.

        Days that are written again are replaced, other days stay. `query` restricts the parts to queries of this name.
        """
        system, path = open_filesystem(folder)
        own = (block for block in self.blocks if not query or block.mean.query == query)
        ds.write_dataset(
            (batch for block in own for batch in self._read(block).to_batches()),
            path,
            format="parquet",
            schema=QUERY_PARTS,
            filesystem=system,
            partitioning=_BY_QUERY_AND_DAY,
            existing_data_behavior="delete_matching",
        )

    def _windows_of(self, block: MeasuredBlock) -> Iterator[CriticalPathReport]:
        return read_reports(self._read(block).to_pylist())

    def _read(self, block: MeasuredBlock) -> pa.Table:
        system, _ = open_filesystem(self.folder)
        with pq.ParquetFile(block.path, filesystem=system) as file:
            return file.read()


def measure_paths(edges: str, folder: str, seconds: float, run_all: RunAll = run_here) -> MeasuredPaths:
    """Measure the windows of all edges below the folder `edges`, and write their parts into `folder`."""
    measured = run_all(partial(_measure, folder, round(seconds * 1000 * TICKS)), find_blocks(edges, seconds))
    return MeasuredPaths(folder, tuple(block for block in measured if block is not None))


def _measure(folder: str, width: int, block: Block) -> MeasuredBlock | None:
    parts = measure_block(block, width)
    windows = list(read_reports(parts.to_pylist()))
    if not windows:
        return None
    system, path = open_filesystem(folder)
    system.create_dir(path)
    path = f"{path}/{block.number}.parquet"
    pq.write_table(parts, path, filesystem=system)
    return MeasuredBlock(path, average_reports(windows))
