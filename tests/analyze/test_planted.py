"""Batches of queries with a planted bottleneck, two of each, drawn by seed from a run on real Spark.

They come from `benchmarks.quality.planted_bench --sample tests/analyze/data/planted-batches.json.zst`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from autotrascale.analyze.critical.bottleneck_shares import measure_critical
from autotrascale.analyze.facts import BatchFact
from autotrascale.plan.control.observations.not_scalable import MIN_UNSCALABLE_SHARE
from benchmarks.quality.planted.queries import PLANTS, Plant
from benchmarks.quality.planted_bench import is_planted_first, read_sample

SAMPLE = read_sample((Path(__file__).parent / "data" / "planted-batches.json.zst").read_bytes())


def test_each_plant_has_batches() -> None:
    assert {name: len(batches) for name, batches in SAMPLE.items()} == {plant.name: 2 for plant in PLANTS}


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_the_planted_bottleneck_has_the_greatest_participation(plant: Plant) -> None:
    for batch in SAMPLE[plant.name]:
        assert is_planted_first(plant, batch)["participation"]


def test_busy_time_finds_neither_a_driver_nor_a_sink() -> None:
    """Driver and sink run alone, while six instances of an operator run at once."""
    for plant in PLANTS:
        if plant.name in ("driver", "sink"):
            assert not any(is_planted_first(plant, batch)["busy"] for batch in SAMPLE[plant.name])


@pytest.mark.parametrize(
    ("name", "by"), [("hot-key", "straggler"), ("commit", "commits"), ("driver", "driver"), ("sink", "external")]
)
def test_bottlenecks_that_instances_do_not_shorten_are_recognised(name: str, by: str) -> None:
    found = measure_critical(SAMPLE[name])
    assert found is not None
    assert found.most == by
    assert found.elsewhere >= MIN_UNSCALABLE_SHARE


def test_a_lack_of_instances_is_not_taken_for_something_else() -> None:
    found = measure_critical(SAMPLE["operator"])
    assert found is not None
    assert found.elsewhere < MIN_UNSCALABLE_SHARE
    assert measure_critical([_untimed(batch) for batch in SAMPLE["operator"]]) is None


def _untimed(batch: BatchFact) -> BatchFact:
    return replace(batch, tasks=tuple(structs.replace(task, times=None) for task in batch.tasks))
