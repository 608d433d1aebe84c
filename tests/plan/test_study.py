from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from autotrascale import BenefitModel, Study
from autotrascale.domain.errors import InputError, StudyError
from autotrascale.plan.search.ask_tell import SearchSettings
from autotrascale.plan.search.lattice import Point
from autotrascale.plan.sizing.sizing import Sizing
from autotrascale.testing.strategies import boxes, latencies, points_within


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Limit BLAS to one thread: with small matrices, threads wait for each other, especially on a busy machine."""
    with threadpool_limits(1):
        yield


FLOOR, P_MAX, TARGET = (2, 3), 7, 0.35


def latency(k: Point, noise: float = 0.0) -> float:
    wobble = math.sin(sum(7 * x**2 for x in k))
    return (0.05 + sum(0.5 / x for x in k)) * math.exp(noise * wobble)


def study(**options: Any) -> Study:
    return Study(**{"floor": FLOOR, "p_max": P_MAX, "latency_target": TARGET, **options})


def test_the_documented_example_runs() -> None:
    def measure(k: tuple[int, ...]) -> float:
        return 0.05 + sum(0.15 / x for x in k)

    study = Study(floor=(3, 4, 12, 10), p_max=40, latency_target=0.18, alpha=0.5, over_allocation=0.5, seed=0)
    while not study.finished:
        k = study.ask()  # tuple[int, ...], inside [floor, p_max], never one already told
        study.tell(k, latency=measure(k))  # seconds; `throughput=` and `failed=True` optional
    assert study.best.met_target
    assert study.best.latency == measure(study.best.parallelism)
    assert study.best.score >= study.benefit.threshold
    model = study.model(rate=350_000)  # BenefitModel: .predict(ks) -> mean, std; .to_json(); BenefitModel.from_json()
    mean, std = model.predict([study.best.parallelism])
    assert mean[0] == pytest.approx(study.best.score, abs=0.02)
    assert std[0] < 0.05
    assert BenefitModel.from_json(model.to_json()) == model
    warm = Study(floor=(2, 3, 8, 7), p_max=40, latency_target=0.25, source=model)  # warm start: Algorithm 2
    assert warm.ask() in warm.lattice


def test_the_example_in_the_module_docstring_runs() -> None:
    from autotrascale.plan.search import ask_tell as module

    block = re.search(r"\n\n((?:    .*\n)+)", module.__doc__ or "")
    assert block is not None
    lines = "\n".join(line[4:] for line in block[1].splitlines())
    names: dict[str, Any] = {"AskTellStudy": Study, "measure": lambda _: 0.1}
    exec(lines, names)
    assert names["study"].best.met_target


# --- ask -----------------------------------------------------------------------------------------------------------


@settings(max_examples=15)
@given(boxes(max_operators=3, top=6), st.data())
def test_ask_stays_inside_the_bounds_and_never_repeats(box: tuple[Point, Point], data: st.DataObject) -> None:
    told: set[Point] = set()
    study = Study(*box, latency_target=1.0, seed=data.draw(st.integers(0, 9)))
    for _ in range(min(4, study.lattice.size)):
        if data.draw(st.booleans()) and len(told) < study.lattice.size:
            k = study.ask()
            assert k in study.lattice
            assert k not in told
        else:
            k = data.draw(points_within(*box))
        if data.draw(st.integers(0, 3)) == 0:
            study.tell(k, failed=True)
        else:
            study.tell(k, latency=data.draw(latencies), throughput=data.draw(st.floats(0, 1e6)))
        told.add(k)
    assert {run.parallelism for run in study.runs} == told


@pytest.mark.parametrize(
    ("floor", "p_max"),
    [((1,) * 10, 200), ((1, 1, 1), 2**31 - 1), ((40, 40), 40), ((1, 5), (9, 5)), ((1,), 5)],
    ids=["200^10", "the largest", "one point", "one operator fixed", "one operator"],
)
def test_any_lattice_can_be_searched(floor: Point, p_max: Any) -> None:
    study = Study(floor, p_max, latency_target=1e-3)
    for _ in range(min(3, study.lattice.size)):
        k = study.ask()
        assert k in study.lattice
        study.tell(k, latency=0.5)


def test_every_point_is_run_once_and_then_ask_raises() -> None:
    study = Study((2, 3), (3, 4), latency_target=1e-3, max_runs=40)
    asked = []
    while not study.finished:
        asked.append(study.ask())
        study.tell(asked[-1], latency=latency(asked[-1]))
    assert sorted(asked) == sorted(product((2, 3), (3, 4)))
    assert study.stop_reason == "exhausted"
    with pytest.raises(StudyError, match="4 configurations"):
        study.ask()


def test_ask_is_repeatable_and_changes_no_state() -> None:
    one = study(seed=4)
    one.tell((3, 3), latency=0.5)
    assert one.ask() == one.ask()
    assert len(one.runs) == 1


def test_a_new_study_with_the_same_tells_continues_equally() -> None:
    """Resuming needs the runs only, also on a lattice that is searched by a random pool."""
    options = {"floor": (3, 4, 12, 10), "p_max": 40, "latency_target": 0.1, "seed": 7}
    first = study(**options)
    for _ in range(3):
        k = first.ask()
        first.tell(k, latency=latency(k, noise=0.1))
    resumed = study(**options)
    for run in first.runs:
        resumed.tell(run.parallelism, latency=run.latency)
    assert resumed.ask() == first.ask()
    assert resumed.best == first.best


# --- tell ----------------------------------------------------------------------------------------------------------


def test_points_that_ask_did_not_propose_can_be_told() -> None:
    one = study()
    one.tell(FLOOR, latency=0.9)
    one.tell([7, 7], latency=0.2)
    one.tell(np.array([4, 4]), latency=np.float32(0.4))  # type: ignore[arg-type]
    assert [run.parallelism for run in one.runs] == [FLOOR, (7, 7), (4, 4)]
    assert {type(x) for run in one.runs for x in run.parallelism} == {int}
    assert one.ask() not in [run.parallelism for run in one.runs]


def test_windows_at_one_configuration_are_averaged_in_the_logarithm() -> None:
    one = study()
    for seconds in (0.1, 0.4, 0.8):
        one.tell((3, 4), latency=seconds)
    (run,) = one.runs
    assert run.windows == 3
    assert run.latency == pytest.approx((0.1 * 0.4 * 0.8) ** (1 / 3))


@pytest.mark.parametrize("failed_first", [True, False])
def test_a_failed_window_makes_the_run_failed(failed_first: bool) -> None:
    one = study()
    for failed in (failed_first, not failed_first):
        one.tell((7, 7), latency=None if failed else 0.01, failed=failed)
    assert one.runs[0].failed
    assert not one.best.met_target
    assert not one.finished


def test_a_run_that_falls_behind_is_a_failed_one() -> None:
    one = study(settings=SearchSettings(throughput_target=100.0))
    one.tell((7, 7), latency=0.01, throughput=99.9)
    assert one.runs[0].failed
    one.tell((6, 6), latency=0.01, throughput=100.0)
    assert one.best.parallelism == (6, 6)
    one.tell((5, 6), latency=0.01)  # unknown throughput
    assert not one.runs[2].failed


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({}, "latency: is missing"),
        ({"latency": 0}, "latency: must be above zero"),
        ({"latency": -1.0}, "latency: must be above zero"),
        ({"latency": math.nan}, "latency: must be finite"),
        ({"latency": math.inf}, "latency: must be finite (seen: inf); give failed=True"),
        ({"latency": -math.inf}, "latency: must be finite"),
        ({"latency": True}, "latency: must be a number"),
        ({"latency": "0.1"}, "latency: must be a number"),
        ({"latency": 0.1, "throughput": -1}, "throughput: must not be negative"),
        ({"latency": 0.1, "throughput": math.nan}, "throughput: must be finite"),
        ({"latency": 0.1, "k": (3, 3.0)}, "k[1]: must be a whole number"),
        ({"latency": 0.1, "k": (3, True)}, "k[1]: must be a whole number"),
        ({"latency": 0.1, "k": (3,)}, "k: must have 2 numbers"),
        ({"latency": 0.1, "k": (1, 3)}, "k: lies outside"),
        ({"latency": 0.1, "k": (3, 8)}, "k: lies outside"),
        ({"latency": 0.1, "k": 3}, "k: must be whole numbers"),
    ],
)
def test_an_invalid_tell_is_refused_in_one_line_and_changes_nothing(told: dict[str, Any], says: str) -> None:
    one = study()
    with pytest.raises(InputError) as caught:
        one.tell(**{"k": (3, 3), **told})
    assert str(caught.value).startswith(says)
    assert "\n" not in str(caught.value)
    assert one.runs == ()


@pytest.mark.parametrize("seconds", [5e-324, 1e-300, 1e300])
def test_extreme_latencies_are_handled(seconds: float) -> None:
    one = study()
    one.tell((3, 3), latency=seconds)
    one.tell((4, 5), latency=0.4)
    assert one.ask() in one.lattice
    assert 0 < one.best.score <= 1


# --- when it ends ----------------------------------------------------------------------------------------------------


def test_a_run_that_clearly_meets_the_rule_ends_the_study() -> None:
    one = study(latency_target=1.0)
    one.tell(FLOOR, latency=0.2)
    assert one.stop_reason == "target-met"
    assert one.unsure is None
    assert (one.best.parallelism, one.best.score, one.best.met_target) == (FLOOR, 1.0, True)


def test_a_run_just_within_the_target_is_measured_again() -> None:
    one = study(latency_target=1.0)
    one.tell(FLOOR, latency=0.999)
    assert not one.finished
    assert one.unsure == FLOOR
    for _ in range(3):
        one.tell(FLOOR, latency=0.8)
    assert one.stop_reason == "target-met"


def test_a_run_beyond_the_target_or_over_allocated_does_not_end_it() -> None:
    one = study(latency_target=1.0)
    one.tell(FLOOR, latency=1.01)
    one.tell((7, 7), latency=0.1)
    assert not one.finished
    assert one.unsure is None
    assert one.best.parallelism == (7, 7)  # it meets the target, at any score
    assert one.best.met_target


def test_the_budget_counts_configurations() -> None:
    one = study(latency_target=1e-3, max_runs=2)
    one.tell((3, 3), latency=1.0)
    one.tell((3, 3), latency=1.0)
    assert not one.finished
    one.tell((4, 3), latency=1.0)
    assert one.stop_reason == "budget"
    assert not one.best.met_target
    assert one.ask() in one.lattice  # more configurations can be asked for


def test_there_is_no_best_and_no_model_before_a_run() -> None:
    one = study()
    with pytest.raises(StudyError, match="there is no best"):
        _ = one.best
    with pytest.raises(StudyError, match="there is no model"):
        one.model(5.0)
    assert one.unsure is None
    assert one.remarks == []
    assert not one.finished


@pytest.mark.parametrize("rate", [0, -1, math.nan, "5", None, True])
def test_a_model_needs_a_rate(rate: Any) -> None:
    one = study()
    one.tell(FLOOR, latency=1.0)
    with pytest.raises(InputError, match="rate: must be"):
        one.model(rate)


def test_all_runs_failed() -> None:
    one = study()
    for k in ((2, 3), (4, 4), (7, 7)):
        one.tell(k, failed=True)
    assert one.best.latency is None
    assert not one.best.met_target
    assert one.ask() in one.lattice
    assert one.model(3.0).predict([(5, 5)])[0] < 0.6


# --- arguments ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"floor": ()}, "floor: is empty"),
        ({"floor": (8, 3)}, "floor[0]: is above p_max = 7"),
        ({"floor": (2, 3.0)}, "floor[1]: must be a whole number"),
        ({"p_max": 7.0}, "p_max: must be whole numbers"),
        ({"latency_target": 0}, "latency_target: must be above zero"),
        ({"latency_target": math.inf}, "latency_target: must be finite"),
        ({"alpha": -0.1}, "alpha: must lie between 0 and 1"),
        ({"over_allocation": math.nan}, "over_allocation: must be finite"),
        ({"seed": -1}, "seed: must be at least 0"),
        ({"seed": 1.0}, "seed: must be a whole number"),
        ({"max_runs": 0}, "max_runs: must be at least 1"),
        ({"settings": {"noise": 0}}, "noise: must be above zero"),
        ({"settings": {"noise": 1.5}}, "noise: must lie between 0 and 1"),
        ({"settings": {"confidence": 1.1}}, "confidence: must lie between 0 and 1"),
        ({"settings": {"throughput_target": -1}}, "throughput_target: must not be negative"),
        ({"settings": {"throughput_target": "fast"}}, "throughput_target: must be a number"),
        ({"source": "model.json"}, "source: is not a benefit model"),
        ({"source": [None]}, "source: is not a benefit model"),
        ({"source": 5}, "source: is not a benefit model"),
        ({"faithful": True, "settings": {"uniform_samples": 1}}, "uniform: must be at least 2"),
    ],
)
def test_invalid_study_arguments_are_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError) as caught:
        study(**{name: SearchSettings(**value) if name == "settings" else value for name, value in change.items()})
    assert str(caught.value).startswith(says)
    assert "\n" not in str(caught.value)


def test_a_source_of_another_job_is_refused() -> None:
    other = Study((2,), 9, 1.0)
    other.tell((3,), latency=1.0)
    with pytest.raises(InputError, match="source: is a model of 1 operators"):
        study(source=other.model(5.0))


def test_numpy_numbers_are_accepted() -> None:
    sized = Sizing.of_loads(np.array(FLOOR), (7, 7), np.array([1.5, 2.5]))
    one = study(
        floor=np.array(FLOOR),
        p_max=np.int64(7),
        latency_target=np.float32(0.35),
        alpha=np.float32(0.5),
        seed=np.int64(1),
        max_runs=np.int32(9),
        sizing=sized,
        settings=SearchSettings(noise=np.float32(0.05)),
    )
    one.tell(one.ask(), latency=np.float64(0.5))
    assert BenefitModel.from_json(one.model(np.float32(9)).to_json()).rate == 9.0


@pytest.mark.parametrize("seed", range(4))
def test_the_answer_is_the_nearest_run_until_a_run_is_trusted(seed: int) -> None:
    rng = np.random.default_rng(seed)
    one = study(seed=seed)
    for _ in range(12):
        k = one.ask()
        one.tell(k, latency=latency(k) * math.exp(0.05 * rng.standard_normal()))
        answer, latencies_ = one.answer, [run.latency for run in one.runs if run.latency is not None]
        assert answer.probability is not None
        assert answer.trusted == (answer.met_target and answer.probability >= one.confidence)
        if one.stop_reason == "target-met":
            assert answer.trusted
        elif min(latencies_) > TARGET:
            assert answer.latency == min(latencies_)


def test_the_cheaper_configuration_has_fewer_instances_and_is_not_trusted() -> None:
    one = study()
    one.tell((2, 3), latency=0.98 * TARGET)
    assert one.cheaper is None  # no run is accepted yet
    one.tell((3, 4), latency=0.3 * TARGET)
    assert one.stop_reason == "target-met"
    assert one.answer.parallelism == (3, 4)
    for _ in range(3):
        if (k := one.cheaper) is not None:
            assert sum(k) < sum(one.answer.parallelism)
            one.tell(k, latency=0.6 * TARGET)
    assert one.cheaper is None
    assert one.answer.parallelism == (2, 3)


def test_an_unsatisfiable_stop_rule_ends_the_study() -> None:
    one = study(over_allocation=0.05, max_runs=40)
    while not one.finished:
        k = one.ask()
        one.tell(k, latency=latency(k))
    assert one.stop_reason == "rule-unsatisfiable"
    assert one.answer.trusted
    assert one.benefit.resources(one.answer.parallelism) < 1 / 1.05


def test_the_papers_search_keeps_the_stop_rule_and_has_no_probability() -> None:
    one = study(faithful=True, over_allocation=0.05)
    for _ in range(10):
        k = one.ask()
        one.tell(k, latency=latency(k))
    assert one.stop_reason is None
    assert one.answer.probability is None
    assert one.cheaper is None


@pytest.mark.parametrize("execution", ["pipelined", "micro-batch", None])
@pytest.mark.parametrize("loads", [None, [0.0, 0.0, 0.0], [2.4, 0.0, 3.9], [1e6, 1e6, 1e6]])
@pytest.mark.parametrize(("first", "then"), [(1e-6, 1e9), (1e9, 1e-6), (100.0, 100.0), (5e2, 1e2)])
def test_extreme_loads_rates_and_latencies_are_handled(
    execution: Any, loads: list[float] | None, first: float, then: float
) -> None:
    """A warning of numpy would fail this test."""

    def told(rate: float, latencies: list[float | None], source: BenefitModel | None = None) -> Study:
        sizing = Sizing.of_loads((3, 4, 5), (40, 40, 40), loads, rate=rate, execution=execution)
        made = Study((3, 4, 5), 40, 0.2, sizing=sizing, source=source)
        for seconds in latencies:
            made.tell(made.ask(), latency=seconds, failed=seconds is None)
        return made

    model = told(first, [0.3, None, 0.19, 0.1, 1e-6, 1e6]).model(first)
    later = told(then, [0.3, None, 0.15], model)
    mean, std = later.model(then).predict([later.answer.parallelism])
    assert np.isfinite([*mean, *std]).all()
