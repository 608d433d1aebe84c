"""A program from topic to topic, on a real broker, moved while records come. More: benchmarks/kafka_bench.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.kafka_bench import measure

pytestmark = pytest.mark.spark


def test_no_record_is_lost_or_doubled_while_its_query_is_moved(tmp_path: Path) -> None:
    found = measure(rescales=2, seed=4, folder=tmp_path)
    assert (found["why_failed"], found["partitions_seen"]) == ([], 3)
    assert (found["records"], found["lost"], found["doubled"], found["counts_written_twice"]) == (600, 0, 0, 0)
