"""The write speed of the embedded metric store, compared with the simplest store of the same durability.

    python -m benchmarks.speed.store_bench

The baseline writes the same points as JSON lines and calls fsync after each batch: no index, no queries, no
overwriting. The ratio of the two, measured in one run on one disk, is the cost of the store's answers. It is comparable
between machines, unlike points per second.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from autotrascale.monitor.stores.metric_store import MetricQuery
from autotrascale.monitor.stores.points import SECOND, MetricPoint
from autotrascale.monitor.stores.sqlite_store import SqliteStore

BATCHES, BATCH, ROUNDS = 10, 5000, 5
SERIES = 100  # 25 operators of 4 jobs, a busy installation
T0 = 1_700_000_000 * SECOND


def make_batches() -> list[list[MetricPoint]]:
    """Return batches of points with three fields each, like the points of an operator."""
    return [[_point(batch * BATCH + i) for i in range(BATCH)] for batch in range(BATCHES)]


def figures() -> dict[str, float]:
    """Return medians over rounds. Store and baseline take turns, so a slow minute affects both."""
    batches = make_batches()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        stored, lined = [], []
        for number in range(ROUNDS):
            stored.append(_rate(lambda path: _into_store(path, batches), folder / f"{number}.db"))
            lined.append(_rate(lambda path: _into_lines(path, batches), folder / f"{number}.jsonl"))
        asked = [_time_query(folder / f"{number}.db") for number in range(ROUNDS)]
    return {
        "store_points_per_second": round(statistics.median(stored)),
        "baseline_points_per_second": round(statistics.median(lined)),
        "store_to_baseline": round(statistics.median(a / b for a, b in zip(stored, lined, strict=True)), 3),
        "plot_query_seconds": round(statistics.median(asked), 4),
    }


def _point(i: int) -> MetricPoint:
    tags = {"job": f"job{i % 4}", "operator": f"operator{i // 4 % (SERIES // 4)}"}
    fields = {"parallelism": i % 40 + 1, "records_in": i * 1.5, "useful_seconds": i / 7}
    return MetricPoint("autotrascale_operator", tags, fields, T0 + i // SERIES * SECOND)


def _rate(write: Callable[[Path], None], path: Path) -> float:
    began = time.perf_counter()
    write(path)
    return BATCHES * BATCH / (time.perf_counter() - began)


def _into_store(path: Path, batches: Sequence[Sequence[MetricPoint]]) -> None:
    with SqliteStore(path) as store:
        for batch in batches:
            store.write(batch)


def _into_lines(path: Path, batches: Sequence[Sequence[MetricPoint]]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for batch in batches:
            file.writelines(json.dumps(vars(point)) + "\n" for point in batch)
            file.flush()
            os.fsync(file.fileno())


def _time_query(path: Path) -> float:
    """Return the seconds of the query of one plot: the mean of each operator in 100 windows of 12,500 points."""
    seconds = BATCHES * BATCH // SERIES
    query = MetricQuery(
        "autotrascale_operator", "records_in", T0, T0 + seconds * SECOND, {"job": "job1"}, ("operator",)
    )
    with SqliteStore(path) as store:
        began = time.perf_counter()
        answers = store.windows(query, "mean", every=seconds // 100 * SECOND)
        assert len(answers) == SERIES // 4 * 100
        return time.perf_counter() - began


if __name__ == "__main__":
    print(json.dumps(figures(), indent=2))
