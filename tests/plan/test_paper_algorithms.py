from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from autotrascale import BenefitModel, Study
from autotrascale.plan.search import paper_algorithms, score_process
from autotrascale.plan.search.acquisition import expected_improvement
from autotrascale.plan.search.ask_tell import SearchSettings
from autotrascale.plan.search.lattice import Lattice, Point
from autotrascale.plan.search.paper_algorithms import XI, Algorithm1, Algorithm2, bootstrap_set
from autotrascale.plan.search.score import Benefit
from autotrascale.plan.search.study_runs import Run


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Limit BLAS to one thread: with small matrices, threads wait for each other, especially on a busy machine."""
    with threadpool_limits(1):
        yield


FLOOR, P_MAX = (2, 3), (7, 8)
LATTICE = Lattice(FLOOR, P_MAX)
BENEFIT = Benefit(FLOOR, latency_target=0.3, alpha=0.5, over_allocation=0.5)
UNIFORM = 3  # with the two one-hot samples: five
RNG = np.random.default_rng(0)


def latency(k: Point) -> float:
    return 0.05 + sum(0.5 / x for x in k)


def runs(*ks: Point) -> list[Run]:
    return [Run(k, latency(k)) for k in ks]


@cache
def source() -> BenefitModel:
    ks = bootstrap_set(FLOOR, P_MAX, UNIFORM)
    slow = [Run(k, 2 * latency(k)) for k in ks]  # above the target everywhere, so no score is at its kink
    return Algorithm1(LATTICE, BENEFIT, UNIFORM).model(slow, rate=100.0)


# --- the process over the score ----------------------------------------------------------------------------------


def test_the_standard_deviation_of_a_score_excludes_the_noise_of_a_reading() -> None:
    """After sixty noisy readings of a line, the standard deviation is far below the noise of a reading."""
    rng = np.random.default_rng(0)
    ks = np.repeat(np.arange(2, 40, 4), 6)[:, None]
    scores = 0.8 - 0.005 * ks[:, 0] + 0.05 * rng.standard_normal(len(ks))
    mean, std = score_process.fit(ks, scores, (2,), (40,)).predict([(20,)])
    assert std[0] < 0.02
    assert mean[0] == pytest.approx(0.7, abs=3 * std[0])


def test_equal_scores_can_be_fitted() -> None:
    mean, std = score_process.fit([(2,), (5,)], [0.1 + 0.2, 0.3], (2,), (9,)).predict([(3,), (9,)])
    assert mean == pytest.approx(0.3, abs=0.01)
    assert np.isfinite(std).all()


def test_a_single_score_can_be_fitted_also_when_the_floor_is_p_max() -> None:
    mean, _ = score_process.fit([(4, 4)], [0.7], (4, 4), (4, 4)).predict([(4, 4)])
    assert mean == pytest.approx(0.7)


def test_a_process_is_rebuilt_exactly() -> None:
    ks, scores = [(2, 3), (4, 4), (7, 8), (2, 8)], [0.5, 0.7, 0.6, 0.65]
    fitted = score_process.fit(ks, scores, FLOOR, P_MAX)
    rebuilt = score_process.rebuild(ks, scores, FLOOR, P_MAX, fitted.theta)
    for one, other in zip(fitted.predict(LATTICE.points), rebuilt.predict(LATTICE.points), strict=True):
        assert np.array_equal(one, other)


# --- Algorithm 1 -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("uniform", [2, 6])
def test_the_bootstrap_set_is_run_first_in_the_papers_order_before_anything_is_accepted(uniform: int) -> None:
    study = Study(
        (3, 4, 12, 10), 40, latency_target=10.0, faithful=True, settings=SearchSettings(uniform_samples=uniform)
    )
    asked = []
    for _ in bootstrap_set((3, 4, 12, 10), 40, uniform):
        assert not study.finished
        asked.append(study.ask())
        study.tell(asked[-1], latency=0.1)  # all of them meet the target
    assert asked == bootstrap_set((3, 4, 12, 10), 40, uniform)
    assert study.stop_reason == "target-met"


def test_a_bootstrap_sample_told_beforehand_is_not_run_again() -> None:
    algorithm = Algorithm1(LATTICE, BENEFIT, UNIFORM)
    first, second, *_ = algorithm.bootstrap
    assert algorithm.propose(runs(second), RNG) == first
    assert algorithm.propose(runs(first, second), RNG) == algorithm.bootstrap[2]


def test_after_the_bootstrap_the_next_run_is_where_expected_improvement_is_largest() -> None:
    algorithm = Algorithm1(LATTICE, BENEFIT, UNIFORM)
    told = runs(*algorithm.bootstrap)
    k = algorithm.propose(told, RNG)
    scores = [float(BENEFIT.score(run.parallelism, latency(run.parallelism))) for run in told]
    process = score_process.fit([run.parallelism for run in told], scores, FLOOR, P_MAX)
    left = [p for p in map(tuple, LATTICE.points.tolist()) if p not in {run.parallelism for run in told}]
    ei = expected_improvement(*process.predict(left), max(scores), XI)
    assert k == left[int(np.argmax(ei))]


def test_the_stop_rule_uses_measured_numbers_only() -> None:
    algorithm = Algorithm1(LATTICE, BENEFIT, UNIFORM)
    told = runs(*algorithm.bootstrap)
    accepted = algorithm.find_accepted(told)
    good = [run for run in told if run.latency is not None and BENEFIT.satisfied(run.parallelism, run.latency)]
    assert (accepted in good) if good else (accepted is None)
    easy = [Run(k, 0.01) for k in algorithm.bootstrap]
    assert algorithm.find_accepted(easy[:-1]) is None  # l. 1 comes before l. 8
    best = algorithm.find_accepted(easy)
    assert best is not None
    assert float(BENEFIT.score(best.parallelism, 0.01)) == max(
        float(BENEFIT.score(k, 0.01)) for k in algorithm.bootstrap
    )


def test_a_failed_run_scores_like_an_infinite_latency() -> None:
    algorithm = Algorithm1(LATTICE, BENEFIT, UNIFORM)
    told = [Run(k, None) for k in algorithm.bootstrap]
    assert algorithm.find_accepted(told) is None
    assert algorithm.propose(told, RNG) in LATTICE
    assert all(sample.latency is None for sample in algorithm.model(told, 5.0).samples)


# --- Algorithm 2 -------------------------------------------------------------------------------------------------


def test_without_a_residual_the_prediction_is_the_source_models() -> None:
    """T = 0, and T > 0 with runs that score exactly as the source predicts (l. 3: D' is zero)."""
    algorithm = Algorithm2(LATTICE, BENEFIT, source(), UNIFORM)
    ks = LATTICE.points[::5]
    expected = source().predict(ks)[0]
    assert np.array_equal(algorithm._transferred_scores(ks, []), expected)
    predicted = [_scoring(k, float(source().predict([k])[0][0])) for k in ((2, 5), (3, 7), (7, 8))]
    assert algorithm._transferred_scores(ks, predicted) == pytest.approx(expected, abs=1e-6)


def _scoring(k: Point, score: float) -> Run:
    """Return a run with score `score`, by Eq. 4 solved for the latency."""
    speed = (score - 0.5 * float(BENEFIT.resources(k))) / 0.5
    assert 0 < speed < 1
    return Run(k, BENEFIT.latency_target / speed)


def test_a_constant_residual_shifts_the_prediction() -> None:
    algorithm = Algorithm2(LATTICE, BENEFIT, source(), UNIFORM)
    lower = [_scoring(k, float(source().predict([k])[0][0]) - 0.05) for k in ((2, 5), (5, 4), (7, 8))]
    moved = algorithm._transferred_scores(LATTICE.points, lower) - source().predict(LATTICE.points)[0]
    assert moved == pytest.approx(-0.05, abs=1e-6)


def test_bootstrap_samples_are_predicted_and_replaced_by_real_ones() -> None:
    algorithm = Algorithm2(LATTICE, BENEFIT, source(), UNIFORM)
    first = algorithm.propose([], RNG)
    assert first is not None
    assert first not in algorithm.bootstrap  # they are in D_predict, with predicted scores
    told = runs(first, algorithm.bootstrap[0])
    assert algorithm.propose(told, RNG) not in (first, algorithm.bootstrap[0])


def test_after_num_real_samples_the_source_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """NUM is the size of the bootstrap set; after NUM runs, Algorithm 1 continues on D_c."""
    algorithm = Algorithm2(LATTICE, BENEFIT, source(), UNIFORM)
    assert algorithm.num == len(bootstrap_set(FLOOR, P_MAX, UNIFORM)) == 5
    asked: list[int] = []
    transferred = Algorithm2._transferred_scores

    def watched(self: Algorithm2, ks: np.ndarray, told: list[Run]) -> np.ndarray:
        asked.append(len(told))
        return np.asarray(transferred(self, ks, told))

    monkeypatch.setattr(paper_algorithms.Algorithm2, "_transferred_scores", watched)
    told: list[Run] = []
    for _ in range(algorithm.num + 1):
        k = algorithm.propose(told, RNG)
        assert k is not None
        told = [*told, *runs(k)]
    assert asked == [0, 1, 2, 3, 4]
    assert len({run.parallelism for run in told}) == len(told)


def test_one_run_may_be_enough() -> None:
    """There is no bootstrap set to complete, so the first run at the new rate may be accepted."""
    study = Study(
        FLOOR,
        P_MAX,
        10.0,
        faithful=True,
        source=source(),
        settings=SearchSettings(uniform_samples=UNIFORM),
        over_allocation=5.0,
    )
    study.tell(study.ask(), latency=0.1)
    assert study.stop_reason == "target-met"


def test_a_faithful_study_is_determined_by_its_tells() -> None:
    def study() -> Study:
        return Study(
            FLOOR, P_MAX, 0.01, faithful=True, seed=3, source=source(), settings=SearchSettings(uniform_samples=2)
        )

    one, other = study(), study()
    for _ in range(2):
        k = one.ask()
        one.tell(k, latency=latency(k))
        other.tell(k, latency=latency(k))
    assert one.ask() == other.ask()


def test_a_faithful_study_repeats_no_window_and_has_no_remarks() -> None:
    study = Study(FLOOR, P_MAX, 0.3, faithful=True, settings=SearchSettings(uniform_samples=2))
    study.tell((7, 8), latency=0.299)
    assert study.unsure is None
    assert study.remarks == []
