from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from autotrascale import BenefitModel, Study
from autotrascale.domain.decision import Decision
from autotrascale.domain.errors import InputError
from autotrascale.domain.snapshot import Latency, Snapshot
from autotrascale.domain.target import Target
from autotrascale.plan.policies.registry import create
from autotrascale.plan.sizing.demand import measure_demand
from autotrascale.plan.sizing.floor import compute_floor
from autotrascale.testing.chain_snapshots import chain_snapshot
from autotrascale.testing.strategies import snapshots


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Ten by ten matrices on as many threads as there are cores wait for each other, and long on a busy machine."""
    with threadpool_limits(1):
        yield


TARGET = Target(0.5)
CAPACITY = {"source": 1000.0, "map": 10.0, "sink": 25.0}  # 60/s want map 6 and sink 3


def running(k: int = 7, sink: int = 3, latency: float | None = 0.3, **fields: Any) -> Snapshot:
    given_ = {"throughput": 60.0, "p_max": 12, "latency_seconds": Latency(mean=latency), **fields}
    return chain_snapshot({"source": 1, "map": k, "sink": sink}, CAPACITY, 60.0, **given_)


@cache
def model() -> BenefitModel:
    study = Study((1, 6, 3), 12, 0.5)
    for k, seconds in {(1, 6, 3): 0.9, (1, 8, 3): 0.45, (1, 9, 4): 0.3, (2, 7, 5): 0.6}.items():
        study.tell(k, latency=seconds)
    return study.model(60.0)


def decide(snapshot: Snapshot, target: Target | None = TARGET, **options: Any) -> Decision:
    return create("autrascale", target, options).decide(snapshot)


def test_without_a_target_the_floor_is_the_answer() -> None:
    decision = decide(running(k=2, sink=1), target=None)
    assert decision.parallelism == {"source": 1, "map": 6, "sink": 3}
    assert decision.reasons[-1].code == "floor"


def test_below_the_floor_it_goes_there_first() -> None:
    decision = decide(running(k=2))
    assert decision.parallelism == {"source": 1, "map": 6, "sink": 3}
    assert decision.reasons[-1].code == "floor-first"
    assert decision.reasons[-1].numbers == {"operators": "map"}


def test_what_meets_the_rule_stays() -> None:
    decision = decide(running(latency=0.1))
    assert not decision.changed
    assert decision.reasons[-1].code == "target-met"
    assert not decision.hold


def test_a_reading_within_the_target_but_close_to_it_stays_too() -> None:
    """It may be confirmed; a second look is the next snapshot."""
    assert decide(running(latency=0.49)).reasons[-1].code == "target-met"


@pytest.mark.parametrize("known", [False, True])
def test_a_latency_that_is_missed_asks_for_another_configuration(known: bool) -> None:
    decision = decide(running(latency=0.9), **({"model": model()} if known else {}))
    assert decision.changed
    assert all(decision.parallelism[name] >= k for name, k in {"source": 1, "map": 6, "sink": 3}.items())
    reason = decision.reasons[-1]
    assert reason.code == "latency-missed"
    assert 0 < float(reason.numbers["predicted_score"]) <= 1
    assert reason.numbers["score"] == pytest.approx(0.5 * 0.5 / 0.9 + 0.5 * (1 + 6 / 7 + 1) / 3)
    assert reason.numbers["threshold"] == pytest.approx(0.5 + 0.5 / 1.5)


def test_what_is_over_allocated_comes_down() -> None:
    decision = decide(running(k=12, sink=12, latency=0.1))
    assert decision.reasons[-1].code == "over-allocated"
    assert sum(decision.parallelism.values()) < 25


def test_a_job_that_falls_behind_at_its_floor_is_not_content() -> None:
    decision = decide(running(latency=0.1, throughput=50.0))
    assert decision.changed
    assert decision.reasons[-1].code == "falls-behind"
    assert decision.reasons[-1].numbers["throughput"] == 50.0
    assert "60/s" in decision.reasons[-1].text


def test_bounds_that_leave_one_configuration_are_said_when_it_misses_the_target() -> None:
    """It used to say that the stop rule was met."""
    decision = decide(
        running(
            k=6,
            latency=0.9,
            p_max=6,
            operators={"source": {"maximum": 1}, "map": {"maximum": 6}, "sink": {"maximum": 3}},
        )
    )
    assert not decision.changed
    assert decision.reasons[-1].code == "out-of-reach"
    assert "no other configuration" in decision.reasons[-1].text


def test_what_runs_above_a_maximum_comes_down_to_it_first() -> None:
    decision = decide(running(k=9, operators={"map": {"maximum": 8}}))
    assert decision.parallelism == {"source": 1, "map": 8, "sink": 3}
    assert decision.reasons[-1].code == "bounds-first"


def test_workers_that_run_every_operator_are_of_one_number() -> None:
    decision = decide(running(k=10, sink=10, latency=0.9, execution="shared", operators={"source": {}}))
    assert len(set(decision.parallelism.values())) == 1 or decision.reasons[-1].code == "floor-first"


def test_without_a_latency_only_the_floor_is_judged() -> None:
    decision = decide(running(latency=None))
    assert decision.hold
    assert decision.reasons[-1].code == "hold-no-latency"
    p95 = decide(running(), target=Target(0.5, "p95"))
    assert p95.reasons[-1].numbers == {"statistic": "p95"}


def test_a_latency_of_zero_is_a_short_one() -> None:
    assert decide(running(latency=0.0)).reasons[-1].code == "target-met"


def test_unknown_rates_are_held() -> None:
    blind = chain_snapshot({"source": 1, "map": 2}, {"source": 1000.0}, 60.0)
    assert decide(blind).hold


def test_a_rate_out_of_reach_is_the_floors_to_say() -> None:
    decision = decide(running(p_max=7, k=7, latency=9.0, source_rates={"source": 600.0}))
    assert "out-of-reach" in [reason.code for reason in decision.reasons]
    assert decision.parallelism["map"] == 7


@pytest.mark.parametrize("wrong", ["model.json", {}, 3])
def test_a_model_that_is_none_is_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match="model: is not a benefit model"):
        create("autrascale", TARGET, {"model": wrong})


def test_a_model_of_another_job_is_refused() -> None:
    with pytest.raises(InputError, match="source: is a model of 3 operators"):
        decide(
            chain_snapshot({"source": 1, "map": 7}, CAPACITY, 60.0, latency_seconds=Latency(mean=0.9)), model=model()
        )


@settings(max_examples=25)
@given(snapshots(bounded=True, max_operators=3), st.floats(0.0, 5.0), st.booleans())
def test_whatever_was_measured_the_answer_lies_within_the_bounds(
    snapshot: Snapshot, latency: float, within: bool
) -> None:
    measured = replace(snapshot, latency_seconds=Latency(mean=latency))
    least, most = zip(*((m.minimum, m.maximum or m.parallelism + 99) for m in measured.operators.values()), strict=True)
    assume(measured.execution != "shared" or max(least) <= min(most))  # else no number of workers is allowed to all
    if within:  # a job at its floor, where the search begins
        floor = compute_floor(measure_demand(measured), measured)
        summed = {n: replace(m, parallelism=floor.parallelism[n], instances=()) for n, m in measured.operators.items()}
        measured = replace(measured, operators=summed)
    decision = decide(measured)
    if decision.hold:
        return
    for name, k in decision.parallelism.items():
        metrics = measured.operators[name]
        assert metrics.minimum <= k <= min(metrics.maximum or measured.p_max, measured.p_max)


def test_the_same_snapshot_gets_the_same_answer() -> None:
    assert decide(running(latency=0.9), model=model()) == decide(running(latency=0.9), model=model())
