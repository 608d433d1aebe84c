from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrascale.domain.errors import InputError, StudyError
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.topology import Topology
from autotrascale.plan.sizing.floor_search import FloorSearchResult, StopReason, ThroughputSearch
from autotrascale.testing.chain_snapshots import chain_snapshot

GOLDEN = Path(__file__).parents[1] / "golden"
CHAIN = Topology.chain("source", "map")


def search(**options: object) -> ThroughputSearch:
    return ThroughputSearch(CHAIN, {"source": 100.0}, 40, **options)  # type: ignore[arg-type]


def ran(k: Mapping[str, int], capacity: float, throughput: float | None, rate: float = 100.0) -> Snapshot:
    return chain_snapshot(k, {"map": capacity}, rate, throughput=throughput, p_max=40)


def test_the_papers_look_back() -> None:
    golden = json.loads((GOLDEN / "look_back.json").read_text())
    names, rate = golden["operators"], golden["rate"]
    yahoo = ThroughputSearch(Topology.chain(*names), {names[0]: rate}, golden["p_max"])
    for run in golden["runs"]:
        asked = yahoo.ask()
        assert list(asked.values()) == run["parallelism"]
        loads = [k - 0.5 for k in run["recommends"]]
        capacity = {name: rate / load for name, load in zip(names, loads, strict=True)}
        yahoo.tell(
            chain_snapshot(asked, capacity, run["throughput"], throughput=run["throughput"], p_max=golden["p_max"])
        )
    assert list(yahoo.result.parallelism.values()) == golden["result"]
    assert yahoo.result.stop_reason == golden["stop_reason"]
    assert not yahoo.result.met


def test_the_search_stops_when_the_rate_is_met_within_tolerance() -> None:
    one = search(tolerance=0.05)
    one.tell(ran(one.ask(), 10.0, 10.0))
    assert one.ask() == {"source": 1, "map": 10}
    one.tell(ran(one.ask(), 10.0, 95.0))
    assert one.finished
    assert (one.result.met, one.result.stop_reason) == (True, StopReason.TARGET_MET)
    assert one.result.parallelism == {"source": 1, "map": 10}
    assert [step.throughput for step in one.result.steps] == [10.0, 95.0]


def test_the_target_is_the_offered_rate_and_not_the_throughput() -> None:
    one = search()
    one.tell(ran(one.ask(), 10.0, throughput=10.0, rate=10.0))
    assert not one.finished
    assert one.ask()["map"] == 10


def test_a_repeated_recommendation_ends_the_search() -> None:
    one = search(start={"source": 1, "map": 4})
    for k, capacity, throughput in ((4, 12.5, 50.0), (8, 25.0, 60.0)):
        assert one.ask()["map"] == k
        one.tell(ran(one.ask(), capacity, throughput))
    assert one.result.stop_reason is StopReason.CYCLE
    assert one.result.parallelism["map"] == 8


def test_a_floor_that_just_misses_the_rate_is_corrected() -> None:
    """The measured 26/s per instance suggest four instances for 100/s, which carry 97/s."""
    paper, ours = search(), search(corrections=2)
    for one in (paper, ours):
        one.tell(ran(one.ask(), 26.0, 24.0))
        one.tell(ran({"source": 1, "map": 4}, 26.0, 97.0))
    assert paper.finished
    assert paper.result.stop_reason is StopReason.REPEATED
    assert ours.ask() == {"source": 1, "map": 5}
    ours.tell(ran(ours.ask(), 26.0, 100.0))
    assert ours.result.met


def test_corrections_come_to_an_end() -> None:
    """A job that gets no faster with more instances is not corrected without end."""
    one = search(corrections=2)
    asked = []
    while not one.finished:
        asked.append(one.ask()["map"])
        one.tell(ran(one.ask(), 26.0, 24.0 if len(asked) == 1 else 97.0))
    assert asked == [1, 4, 5]
    assert not one.result.met
    assert one.result.parallelism["map"] == 4


def test_the_step_limit_ends_the_search_with_the_highest_throughput() -> None:
    one = search(max_steps=3)
    for capacity, throughput in ((50.0, 40.0), (30.0, 70.0), (20.0, 69.0)):
        one.tell(ran(one.ask(), capacity, throughput))
    assert one.result.stop_reason is StopReason.STEP_LIMIT
    assert one.result.parallelism["map"] == 2  # 69/s equals 70/s within noise, with fewer instances


@pytest.mark.parametrize(("noise", "best"), [(0.02, 2), (0.0, 4)])
def test_noise_decides_what_counts_as_equal(noise: float, best: int) -> None:
    one = search(max_steps=3, noise=noise)
    for capacity, throughput in ((50.0, 40.0), (30.0, 69.5), (20.0, 70.0)):
        one.tell(ran(one.ask(), capacity, throughput))
    assert one.result.parallelism["map"] == best


def test_a_failed_run_is_run_once_more() -> None:
    one = search()
    one.tell(ran(one.ask(), 10.0, 10.0))
    one.tell(None)
    assert one.ask()["map"] == 10
    one.tell(ran(one.ask(), 10.0, 100.0))
    assert one.result.met
    assert [step.throughput for step in one.result.steps] == [10.0, None, 100.0]


def test_two_failures_in_a_row_end_the_search_with_the_best_measured_run() -> None:
    one = search()
    one.tell(ran(one.ask(), 10.0, 10.0))
    one.tell(None)
    one.tell(None)
    assert one.result.stop_reason is StopReason.FAILED
    assert one.result.parallelism == {"source": 1, "map": 1}


def test_a_job_that_never_runs_has_no_throughput() -> None:
    one = search(start={"source": 2, "map": 3})
    one.tell(None)
    one.tell(None)
    assert one.result == FloorSearchResult({"source": 2, "map": 3}, False, StopReason.FAILED, one.result.steps)


def test_missing_metrics_are_measured_again_and_then_end_the_search() -> None:
    one = search()
    blind = chain_snapshot({"source": 1, "map": 1}, {}, 100.0, throughput=12.0)
    one.tell(blind)
    assert one.ask() == {"source": 1, "map": 1}
    one.tell(blind)
    assert one.result.stop_reason is StopReason.FAILED


def test_recommendations_stay_within_p_max() -> None:
    one = search()
    one.tell(ran(one.ask(), 1.0, 1.0))
    assert one.ask()["map"] == 40
    one.tell(ran(one.ask(), 1.0, 40.0))
    assert one.result.stop_reason is StopReason.REPEATED


def test_the_observed_parallelism_counts_as_the_run() -> None:
    one = search()
    one.tell(ran({"source": 1, "map": 3}, 10.0, 100.0))
    assert one.result.parallelism["map"] == 3


def test_calls_in_the_wrong_order_are_refused() -> None:
    one = search()
    with pytest.raises(StudyError, match="not finished"):
        _ = one.result
    one.tell(ran(one.ask(), 10.0, 100.0))
    with pytest.raises(StudyError, match="finished"):
        one.ask()
    with pytest.raises(StudyError, match="finished"):
        one.tell(None)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"start": {"source": 1}}, "start: does not name the job's operators"),
        ({"start": {"source": 1, "map": 41}}, "start.map: is above p_max"),
        ({"start": {"source": 1, "map": 0}}, "start.map: must be at least 1"),
        ({"max_steps": 0}, "max_steps"),
        ({"tolerance": 2.0}, "tolerance"),
        ({"noise": -1.0}, "noise"),
    ],
)
def test_invalid_arguments_are_refused(options: dict[str, object], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        search(**options)


def test_a_snapshot_of_another_job_is_refused() -> None:
    with pytest.raises(InputError, match="another job"):
        search().tell(chain_snapshot({"source": 1, "other": 1}, {}, 100.0))


@given(st.floats(5.0, 30.0), st.floats(0.0, 0.08), st.integers(1, 12))
def test_the_search_ends_at_the_floor_of_a_job_with_scaling_loss(capacity: float, loss: float, start: int) -> None:
    """Sub-linear capacity c/(1 + loss·(k−1)): each step improves the estimate, within the step limit."""

    def per_instance(k: int) -> float:
        return capacity / (1 + loss * (k - 1))

    one = search(start={"source": 1, "map": start}, tolerance=0.0)
    while not one.finished:
        k = one.ask()
        each = per_instance(k["map"])
        one.tell(ran(k, each, min(100.0, each * k["map"])))
    assert len(one.result.steps) <= 10
    if one.result.met and one.result.parallelism["map"] > start:
        fewer = one.result.parallelism["map"] - 1
        assert per_instance(fewer) * fewer < 100.0 * (1 + 1e-9)  # DS2 property 1: no overshoot


def test_a_run_that_falls_behind_is_no_floor() -> None:
    one = search(start={"source": 1, "map": 4}, corrections=2)
    one.tell(ran(one.ask(), 26.0, 99.0), keeps_up=False)
    assert not one.finished
    assert one.ask()["map"] > 4
    one.tell(ran(one.ask(), 26.0, 99.0))
    assert one.result.met


def test_more_instances_are_useless_when_more_of_the_busy_operator_carried_no_more() -> None:
    """`map` waits for a service: all its instances are busy and carry 60/s together, at any number."""
    one = search(start={"source": 1, "map": 4}, max_steps=3)
    while not one.finished:
        asked = one.ask()
        one.tell(ran(asked, 60.0 / asked["map"], 60.0))
    assert one.result.more_is_useless
    assert one.result.parallelism == {"source": 1, "map": 4}


def test_more_instances_are_not_called_useless_when_the_busy_operator_got_none() -> None:
    """`map` is saturated, and only the other operator got more instances."""
    one = search(start={"source": 1, "map": 4}, max_steps=2)
    for asked in ({"source": 1, "map": 4}, {"source": 2, "map": 4}):
        one.tell(chain_snapshot(asked, {"source": 100.0, "map": 15.0}, 100.0, throughput=60.0, p_max=40))
    assert not one.result.more_is_useless
