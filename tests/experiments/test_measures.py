"""The pure functions that experiments measure with, in miniature."""

from __future__ import annotations

import numpy as np
import pytest

from autotrascale.execute.simulator.rate_functions import ConstantRate, Noisy, SteppedRate
from autotrascale.plan.policies.registry import create
from experiments.days.measure import changes_of, hourly, settled
from experiments.ds2_accuracy.measure import measure as choose
from experiments.ds2_convergence.measure import measure as converge
from experiments.ds2_two_phases.measure import measure as run_phases
from experiments.elastic_pulsar.functions import Function
from experiments.elastic_pulsar.measure import run as run_functions
from experiments.elasticity.measure import measure as scale
from experiments.floors.measure import measure as find
from experiments.rate_changes.measure import EXAMPLE
from experiments.rate_changes.measure import measure as change
from experiments.rate_changes.run import METHODS
from experiments.shared.jobs import job
from experiments.shared.published import published
from experiments.throughput_and_latency.measure import measure as look


def test_the_way_to_a_floor_ends_there() -> None:
    found = find({"job": "q11", "rate": 100e3, "noise": False, "seed": 0, "corrections": 0})
    assert found["steps"][0]["k"] == [1, 1]
    assert found["steps"][-1]["k"] == found["floor"] == published("q11/floor")


@pytest.mark.parametrize("method", ["drs-true", "drs-observed-corrected", "default"])
def test_a_method_ends_with_what_it_ran_and_the_truth_about_it(method: str) -> None:
    case = {"job": "wordcount", "direction": "up", "method": method, "seed": 3}
    found = scale(case)
    assert found == scale(case)
    assert found["instances"] == sum(found["k"])
    assert found["runs"] >= found["iterations"]
    assert found["qos"] == (found["latency"] is not None and found["latency"] <= 0.18)


def test_algorithm_1_runs_its_bootstrap_set_first() -> None:
    found = scale({"job": "wordcount", "direction": "up", "method": "algorithm-1", "seed": 0})
    assert found["samples"] == 10
    assert found["runs"] == found["samples"] + found["iterations"]


def test_a_change_of_rate_is_measured_of_every_method_with_the_same_job() -> None:
    found = change({"job": "q11", "factor": None, "seed": 0})
    assert set(found) == set(METHODS)
    assert found["ds2-ratio"]["k"] == published("q11/floor")
    assert found["ds2"]["instances"] <= found["ds2-usual"]["instances"]
    assert 0.3 <= found["ds2-headroom"]["utilisation"] <= 1.0
    assert found["ds2-hindsight"]["qos"]
    for other in ("ds2", "ds2-usual", "ds2-headroom"):
        assert not found[other]["qos"] or found["ds2-hindsight"]["instances"] <= found[other]["instances"]
    assert found["transfer-on"]["runs"] == max(found["ds2-ratio"]["runs"], found["transfer"]["runs"])
    assert found["transfer-on"]["instances"] <= found["transfer"]["instances"]


def test_ds2_offline_sizes_for_what_its_source_could_put_out() -> None:
    """A source that is busy for a share of its time could put out its rate over that share."""
    ended = {busy: change({"job": "q11", "busy": busy, "seed": 0})["ds2-offline"] for busy in (0.5, EXAMPLE, 0.9)}
    assert pytest.approx(0.706) == EXAMPLE
    for busy, found in ended.items():
        source, window = found["k"]
        assert source == 1
        assert found["qos"]
        load = job("q11").compiled.steady(found["k"]).load[0, 1]
        assert load / busy == pytest.approx(window, rel=0.1)
    assert [found["instances"] for found in ended.values()] == sorted(
        (found["instances"] for found in ended.values()), reverse=True
    )


def test_ds2_needs_one_decision_where_speed_does_not_depend_on_the_number() -> None:
    assert converge({"query": "Q5", "growth": "even", "initial": 8, "seed": 0})["way"] == [16]
    assert converge({"query": "Q5", "growth": "even", "initial": 16, "seed": 0})["way"] == []


def test_ds2_sizes_the_word_count_in_one_step() -> None:
    found = converge({"policy": "ds2"})
    assert (found["end"], found["steps"]) == ([10, 20], 1)


def test_ds2_follows_a_rate_that_halves_by_the_published_decisions_up_and_to_the_least_down() -> None:
    found = run_phases({"policy": "ds2"})
    ways = [each["k"] for each in found["changes"]]
    assert ways[:2] == published("flink-wordcount/up")[1:]
    assert ways[-1] == found["least"]["second"]
    assert found["least"]["first"] == published("flink-wordcount/up")[-1]


def test_what_keeps_up_has_a_latency_that_more_instances_lower_and_what_misses_the_rate_has_none() -> None:
    found = choose({"query": "Q8", "growth": "even"})
    assert (
        {k for chosen in found["chosen"].values() for k in chosen} == {found["least"]} == {published("ds2/final")["Q8"]}
    )
    for at in found["around"]:
        assert (at["latency"] is None) == (at["carried"] < 1) == (at["k"] < found["least"])
    latencies = [at["latency"]["p99"] for at in found["around"] if at["latency"]]
    assert latencies == sorted(latencies, reverse=True)


def test_ds2_does_not_answer_a_key_that_one_instance_has_alone() -> None:
    found = choose({"skew": 0.5})
    assert found["end"] == published("dhalion-wordcount/ds2")["k"]
    assert found["carried"] == pytest.approx(0.1)


def test_a_job_that_falls_behind_has_no_latency() -> None:
    assert look({"figure": 2, "p": 2})["latency"] is None
    assert look({"figure": 2, "p": 5})["latency"] == pytest.approx(0.1, rel=0.01)


# -- functions ---------------------------------------------------------------------------------------------------------


def test_a_function_finishes_in_order_and_keeps_what_it_cannot_do_yet() -> None:
    function = Function(mean=1.0, cv2=1e-9, rng=np.random.default_rng(0))
    done = function.run(10.0, [(0.0, 0.0), (0.5, 0.5), (9.5, 9.0)])
    assert [origin for _, origin in done] == [0.0, 0.5]
    assert [at for at, _ in done] == pytest.approx([1.0, 2.0], abs=1e-3)
    assert function.backlog == 0
    assert [origin for _, origin in function.run(11.0, [])] == [9.0]


def test_two_instances_work_side_by_side_and_one_that_goes_finishes() -> None:
    function = Function(mean=1.0, cv2=1e-9, rng=np.random.default_rng(0))
    function.k = 2
    assert function.run(0.5, [(0.0, 0.0), (0.0, 0.0), (0.0, 0.0)]) == []
    function.k = 1
    assert len(function.run(1.5, [])) == 2
    assert function.backlog == 0
    assert len(function.run(2.5, [])) == 1


@pytest.mark.parametrize("rho", [0.5, 0.8])
def test_a_function_of_one_instance_waits_as_queueing_theory_has_it(rho: float) -> None:
    """M/M/1: response time 1/(μ − λ)."""
    rng = np.random.default_rng(1)
    at = np.cumsum(rng.exponential(1 / rho, 20_000))
    done = Function(1.0, 1.0, rng).run(1e9, [(float(t), float(t)) for t in at])
    assert np.mean([end - begun for end, begun in done]) == pytest.approx(1 / (1 - rho), rel=0.15)


def test_a_policy_that_keeps_up_answers_sooner_than_one_that_waits_for_queues() -> None:
    threshold, ds2 = (run_functions(create(name), (9.0, 9.0), seed=0) for name in ("threshold", "ds2"))
    assert ds2["response_mean"] < threshold["response_mean"]
    assert len(ds2["looks"]) == 40


# -- days --------------------------------------------------------------------------------------------------------------


def _steps(missed: tuple[float, float], rescaled: float) -> list[tuple[float, float, bool, int]]:
    return [
        (t, 10.0, not missed[0] < t <= missed[1], 5 if t < rescaled else 6) for t in np.arange(10.0, 86_410.0, 10.0)
    ]


def test_a_job_settles_at_the_last_miss_or_change_before_the_next() -> None:
    assert settled(_steps((1000, 1300), 1500), (1000.0, 50_000.0)) == [500.0, 0.0]
    assert settled(_steps((1000, 1700), 1500), (1000.0,)) == [700.0]


def test_a_job_that_still_misses_before_the_next_change_never_settled() -> None:
    assert settled(_steps((1000, 50_000), 0), (1000.0, 50_000.0)) == [None, 0.0]


def test_a_day_without_steps_has_nothing_to_settle_after() -> None:
    assert changes_of(ConstantRate(1.0)) == ()
    assert changes_of(Noisy(SteppedRate((0.0, 9.0), (1.0, 2.0)), 0.1)) == (9.0,)
    assert settled(_steps((0, 0), 0), ()) == []


def test_instances_are_told_by_the_half_hour() -> None:
    found = hourly(_steps((0, 0), 1810.0))
    assert found[:2] == [5.0, 6.0]
    assert len(found) == 48
