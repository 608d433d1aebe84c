"""A job with a watermark and a user function over state is rescaled while it runs.

Its results depend on where batches end, and must be the same as without a rescale.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from by_batches import KEYS, LATE, WINDOW, ByBatches
from conftest import BRISK, PATIENCE

from autotrascale.execute.spark.common.spark_settings import SparkSettings
from autotrascale.execute.spark.controller.live_own_job import LiveOwnJob

EVERY, RECORDS = 1.5, 30  # a file with so many records, every so many seconds
ONE, TWO, THREE = ({"source": 1, "windows": k, "calls": k, "all": 1} for k in (1, 2, 3))


@contextmanager
def fed(folder: Path) -> Iterator[list[int]]:
    total, over = [0], threading.Event()

    def feed() -> None:
        while True:
            draft = folder / f".{total[0]}.part"
            draft.write_text("".join(f'{{"n":{total[0] + at}}}\n' for at in range(RECORDS)))
            draft.rename(folder / f"{total[0]}.json")
            total[0] += RECORDS
            if over.wait(EVERY):
                return

    thread = threading.Thread(target=feed, daemon=True)
    thread.start()
    try:
        yield total
    finally:
        over.set()
        thread.join()


@pytest.mark.spark
def test_windows_and_calls_are_those_of_one_query(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "work").mkdir()
    job = ByBatches(str(tmp_path))
    settings = SparkSettings(
        job="by_batches:ByBatches",
        options={"folder": str(tmp_path)},
        python_path=(str(Path(__file__).parent),),
        master="local[8]",
        conf={"spark.driver.extraJavaOptions": BRISK},
        prime_batches=1,
        patience=PATIENCE,
        rescale="overlap",
        work_dir=str(tmp_path / "work"),
    )
    with LiveOwnJob(settings, {"source": 1.0}, tmp_path / "home") as live:
        with fed(tmp_path / "in") as total:
            assert live.start(TWO).running is not None
            for wanted in (THREE, ONE):
                done = live.rescale(wanted)
                assert done.done, done.detail
                assert done.how == "overlap: as configured"
            time.sleep(EVERY)
        closed = (total[0] - 1 - LATE) // WINDOW
        expected = Counter({window * WINDOW: WINDOW for window in range(closed)})
        until = time.monotonic() + PATIENCE.first_batch
        while job.windows() != expected and time.monotonic() < until:
            live.wait(0.5)
        assert job.windows() == expected
        for numbers, count in (found := job.calls()).values():
            assert numbers == list(range(1, len(numbers) + 1))  # its state went from one query to the other
            assert count == total[0] // KEYS
        assert sorted(found) == list(range(KEYS))
