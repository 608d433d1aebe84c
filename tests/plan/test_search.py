from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from autotrascale.plan.search.benefit_model import ANCESTORS, BenefitModel
from autotrascale.plan.search.lattice import Lattice, Point
from autotrascale.plan.search.score import Benefit
from autotrascale.plan.search.search import Search
from autotrascale.plan.search.study_runs import Run
from autotrascale.plan.sizing.sizing import Sizing


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Limit BLAS to one thread: with small matrices, threads wait for each other, especially on a busy machine."""
    with threadpool_limits(1):
        yield


FLOOR = (2, 4, 3)
LATTICE = Lattice(FLOOR, (9, 12, 10))
BENEFIT = Benefit(FLOOR, latency_target=0.7)
RNG = np.random.default_rng(0)


def latency(k: Point) -> float:
    """Return the latency: 0.94 s at the floor, 0.7 s with a quarter more instances."""
    return 0.04 + sum(0.3 * (low / x) ** 1.5 for low, x in zip(FLOOR, k, strict=True))


def runs(*ks: Point, factor: float = 1.0) -> list[Run]:
    return [Run(k, factor * latency(k)) for k in ks]


def told(search: Search, count: int) -> list[Run]:
    made: list[Run] = []
    for _ in range(count):
        k = search.propose(made, RNG)
        assert k is not None
        made = [*made, *runs(k)]
    return made


def model(rate: float, made: Sequence[Run]) -> BenefitModel:
    return Search(LATTICE, BENEFIT).model(made, rate)


# --- the first run ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("floor", "p_max", "over_allocation"),
    [((3, 4, 12, 10), 40, 0.5), ((1, 1, 1), 9, 0.5), ((1, 2, 30), 40, 0.1), ((5, 5), 5, 0.5), ((3, 7), 9, 0.0)],
)
def test_the_first_run_has_spare_instances_within_the_stop_rule(
    floor: Point, p_max: int, over_allocation: float
) -> None:
    benefit = Benefit(floor, 1.0, over_allocation=over_allocation)
    first = Search(Lattice.between(floor, p_max), benefit).propose([], RNG)
    assert first is not None
    assert benefit.satisfied(first, 1.0)
    if over_allocation == 0.5 and p_max > 2 * max(floor):
        assert float(benefit.resources(first)) < 0.95 or floor == (1, 1, 1)  # 1 / 0.75 rounds to 1


# --- judging ---------------------------------------------------------------------------------------------------------


def test_a_run_far_within_the_target_is_accepted_and_a_close_one_is_not() -> None:
    search = Search(LATTICE, BENEFIT)
    assert search.find_accepted([Run((3, 5, 4), 0.4)]) is not None
    assert search.find_accepted([Run((3, 5, 4), 0.69)]) is None
    unsure = search.find_unsure([Run((3, 5, 4), 0.69)], lambda: None)
    assert unsure is not None
    assert unsure.parallelism == (3, 5, 4)
    assert search.find_unsure([Run((3, 5, 4), 0.4)], lambda: None) is None


def test_runs_outside_the_rule_above_the_target_or_failed_are_not_accepted() -> None:
    search = Search(LATTICE, BENEFIT)
    for run in (Run((9, 12, 10), 0.01), Run(FLOOR, 0.71), Run(FLOOR, None)):
        assert search.find_accepted([run]) is None
        assert search.find_unsure([run], lambda: None) is None


def test_less_confidence_accepts_more() -> None:
    run = [Run((3, 5, 4), 0.67)]
    assert Search(LATTICE, BENEFIT, confidence=0.99).find_accepted(run) is None
    assert Search(LATTICE, BENEFIT, confidence=0.6).find_accepted(run) is not None


def test_runs_within_the_target_rank_first_and_failed_runs_last() -> None:
    search = Search(LATTICE, BENEFIT)
    ranked = search.rank([Run((9, 12, 10), None), Run(FLOOR, 0.94), Run((5, 8, 6), 0.3), Run((4, 6, 5), 0.4)])
    assert [run.parallelism for run in ranked[:2]] == [(4, 6, 5), (5, 8, 6)]
    assert ranked[-1].failed
    assert search.rank([]) == []


def test_the_order_of_tells_changes_neither_rank_nor_acceptance() -> None:
    made = runs((3, 5, 4), FLOOR, (5, 8, 6))
    one, other = Search(LATTICE, BENEFIT), Search(LATTICE, BENEFIT)
    assert one.rank(made) == other.rank(made[::-1])
    assert one.find_accepted(made) == other.find_accepted(made[::-1])


# --- finding ---------------------------------------------------------------------------------------------------------


def test_a_few_runs_find_an_accepted_configuration() -> None:
    search = Search(LATTICE, BENEFIT, sizing=Sizing.of_loads(LATTICE.lower, LATTICE.upper, execution="pipelined"))
    made = told(search, 6)
    accepted = search.find_accepted(made)
    assert accepted is not None
    assert BENEFIT.satisfied(accepted.parallelism, latency(accepted.parallelism))
    assert len({run.parallelism for run in made}) == 6


def test_with_a_source_of_the_same_job_the_first_run_is_enough() -> None:
    made = told(Search(LATTICE, BENEFIT), 6)
    warm = Search(LATTICE, BENEFIT, [model(100.0, made)])
    first = told(warm, 1)
    assert warm.find_accepted(first) is not None
    assert warm.remarks(first) == []


def test_a_source_of_shuffled_latencies_is_ignored_with_a_remark() -> None:
    ks = list(dict.fromkeys(tuple(k) for k in LATTICE.sample(np.random.default_rng(1), 14).tolist()))
    shuffled = np.random.default_rng(1).permutation([latency(k) for k in ks])
    wrong = model(120.0, [Run(k, float(seconds)) for k, seconds in zip(ks, shuffled, strict=True)])
    search, cold = Search(LATTICE, BENEFIT, [wrong]), Search(LATTICE, BENEFIT)
    made = runs((3, 5, 4), FLOOR, (4, 7, 5))
    assert search.remarks([]) == []
    (remark,) = search.remarks(made)
    assert "120 records/s" in remark
    assert search.find_accepted(made) == cold.find_accepted(made)
    assert search.rank(made) == cold.rank(made)
    assert search.model(made, 100.0).predict(LATTICE.points[::50])[0] == pytest.approx(
        cold.model(made, 100.0).predict(LATTICE.points[::50])[0], abs=1e-12
    )


def test_sources_and_ancestors_are_limited_and_unique() -> None:
    made = runs((3, 5, 4), FLOOR)
    first = model(10.0, made)
    young = Search(LATTICE, BENEFIT, [first]).model(made, 20.0)
    assert [member.rate for member in young.ancestors] == [10.0]
    search = Search(LATTICE, BENEFIT, [young, first, young])
    assert [member.rate for member in search.sources] == [20.0, 10.0]
    many = [model(float(rate), made) for rate in range(1, 8)]
    assert len(Search(LATTICE, BENEFIT, many).sources) == 7  # all given models are used
    grand = Search(LATTICE, BENEFIT, many[:6]).model(made, 9.0)
    assert len(Search(LATTICE, BENEFIT, [grand]).sources) == ANCESTORS
    # Given models come before their ancestors.
    assert [source.rate for source in Search(LATTICE, BENEFIT, [grand, many[6]]).sources[:2]] == [9.0, 7.0]


def test_a_source_of_another_target_is_converted_to_this_target() -> None:
    made = told(Search(LATTICE, BENEFIT), 5)
    strict = Search(LATTICE, Benefit(FLOOR, latency_target=0.35)).model(made, 100.0)
    warm = Search(LATTICE, BENEFIT, [strict])
    assert warm.find_accepted(told(warm, 1)) is not None


def test_after_failed_runs_only_the_search_proposes_more_instances() -> None:
    search = Search(LATTICE, BENEFIT)
    failed = [Run(FLOOR, None), Run((3, 5, 4), None)]
    k = search.propose(failed, RNG)
    assert k is not None
    assert sum(k) > sum(FLOOR)
    assert math.isfinite(float(search.model(failed, 5.0).predict([k])[0][0]))
