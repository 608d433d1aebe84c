"""The simulated jobs show the published points that they were made to show, and no more is claimed of those."""

from __future__ import annotations

import pytest

from experiments.shared.driving import engine, find_floor, holds, quartiles, truth
from experiments.shared.jobs import QUERIES, at_rate, job, offered
from experiments.shared.published import published

JOBS = ("wordcount", "yahoo", "q5", "q11")


@pytest.mark.parametrize("name", JOBS)
def test_the_floor_without_noise_is_the_published_one(name: str) -> None:
    there = job(name) if name != "yahoo" else offered(job("yahoo"), 60e3)
    found = find_floor(there, engine(there, 0, noise=0.0)).result
    assert list(found.parallelism.values()) == published(f"{name}/floor")


@pytest.mark.parametrize(
    "point",
    [
        "wordcount/up/autrascale",
        "wordcount/down/autrascale",
        "wordcount/up/drs-observed",
        "yahoo/up/autrascale",
        "yahoo/down/autrascale",
    ],
)
def test_a_latency_that_is_an_input_is_shown_within_a_tenth(point: str) -> None:
    there, row = job(point.split("/")[0]), published(point)
    assert there.latency([row["k"]])[0] == pytest.approx(row["latency"], rel=0.1)


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_of_ds2_stands_still_at_its_published_parallelism(query: str) -> None:
    final = published("ds2/final")[query]
    for name in (f"ds2-{query}", f"ds2-{query}-steep"):
        there = job(name)
        load = there.compiled.steady((1, final)).load[0, 1]
        assert final - 1 < load < final
    assert job(f"ds2-{query}-steep").compiled.steady((1, 8)).load[0, 1] == pytest.approx(
        published("ds2/first-from-8")[query] - 0.4
    )


def test_a_lower_rate_has_a_lower_floor() -> None:
    assert sum(at_rate(job("q5"), 20e3).floor) < sum(job("q5").floor)


def test_the_truth_of_a_parallelism_needs_throughput_and_latency() -> None:
    there = job("wordcount")
    assert truth(there, (1, 1, 1, 1))["qos"] is False
    assert truth(there, (1, 1, 1, 1))["latency"] is None
    assert not holds(there, there.floor)  # it carries the rate, too late
    assert holds(there, (4, 4, 14, 13))


def test_quartiles_are_values_that_occur_or_the_middle_of_two() -> None:
    assert quartiles([4, 1, 3, 2]) == [1.5, 2.5, 3.5]
    assert quartiles([5]) == [5, 5, 5]
