"""The Yahoo job with its counts written to files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame

from autotrascale.execute.spark.jobs.flow import Flow, Query
from examples.jobs.yahoo import Yahoo

Counts = dict[tuple[str, int], int]


@dataclass(frozen=True)
class WrittenDown(Yahoo):
    results: str = ""

    def build(self, flow: Flow) -> Query:
        folder = Path(self.results)

        def write(counts: DataFrame, batch: int) -> None:
            (folder / f"{batch}.json").write_text(json.dumps([list(row) for row in counts.collect()]))

        return super().build(flow).foreachBatch(write)


def last_counts(folder: Path) -> Counts:
    """Return the last count of each campaign and window. A window is written again when its count has grown."""
    counts: Counts = {}
    for file in folder.glob("*.json"):
        for campaign, start, views in json.loads(file.read_text()):
            counts[campaign, start] = max(views, counts.get((campaign, start), 0))
    return counts
