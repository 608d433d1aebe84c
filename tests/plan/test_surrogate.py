from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from autotrascale.domain.snapshot import Execution
from autotrascale.plan.search import surrogate
from autotrascale.plan.search.acquisition import probability_accepted, probability_met
from autotrascale.plan.search.benefit_model import ModelSample, build_readings
from autotrascale.plan.search.lattice import Lattice
from autotrascale.plan.search.surrogate import Posterior, SessionReadings
from autotrascale.plan.sizing.sizing import Sizing


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Limit BLAS to one thread: with small matrices, threads wait for each other, especially on a busy machine."""
    with threadpool_limits(1):
        yield


FLOOR = (2, 3)
ALL = Lattice(FLOOR, (8, 9)).points
FEW = ((3, 4), (2, 6), (5, 5), (8, 9))


def of(floor: tuple[int, ...], **options: Any) -> Sizing:
    return Sizing.of_loads(floor, [40] * len(floor), **options)


PIPELINED = of(FLOOR, execution="pipelined")


def ratio(ks: object) -> np.ndarray:
    """Return the true y: latency falls with either operator."""
    k = np.asarray(ks, dtype=float)
    return np.asarray(np.log(0.2 + 1.2 / k[..., 0] + 1.5 / k[..., 1]))


def readings(ks: object = FEW, noise: float = 0.0, seed: int = 0, **changes: object) -> SessionReadings:
    points = tuple(map(tuple, ks))  # type: ignore[call-overload]
    errors = noise * np.random.default_rng(seed).standard_normal(len(points))
    given_ = SessionReadings(of(FLOOR), points, tuple((ratio(points) + errors).tolist()), (1.0,) * len(points))
    return replace(given_, **changes)  # type: ignore[arg-type]


def test_before_any_run_the_latency_is_uncertain_and_falls_with_resources() -> None:
    posterior = surrogate.fit(SessionReadings(of(FLOOR)))
    mean, std = posterior.log_ratio([FLOOR, (8, 9)])
    assert (std > 1.5).all()
    assert mean[0] > mean[1]


def test_the_posterior_passes_the_runs_within_their_noise() -> None:
    posterior = surrogate.fit(readings())
    mean, std = posterior.log_ratio(FEW)
    assert np.abs(mean - ratio(FEW)).max() < 2 * posterior.noise
    assert (std < posterior.noise * 1.01).all()


def test_the_errors_match_the_standard_deviations() -> None:
    """After ten noisy runs, errors over the whole lattice are within about two and a half standard deviations."""
    ks = ALL[np.random.default_rng(3).choice(len(ALL), 10, replace=False)]
    mean, std = surrogate.fit(readings(ks, noise=0.05)).log_ratio(ALL)
    z = (mean - ratio(ALL)) / std
    assert (np.abs(z) < 3).mean() > 0.95
    assert np.abs(mean - ratio(ALL)).mean() < 0.15


def test_a_second_window_lowers_the_uncertainty() -> None:
    once = surrogate.fit(readings())
    twice = surrogate.fit(readings(weight=(0.5, 1.0, 1.0, 1.0)))
    assert twice.log_ratio([FEW[0]])[1] < 0.8 * once.log_ratio([FEW[0]])[1]


def test_another_run_lowers_the_uncertainty_there_and_mostly_elsewhere() -> None:
    """m is linear only around β̂, which moves with every run, so uncertainty may grow a little elsewhere."""
    before, after = surrogate.fit(readings()), surrogate.fit(readings((*FEW, (4, 7))))
    assert after.log_ratio([(4, 7)])[1] < before.log_ratio([(4, 7)])[1]
    assert np.median(after.log_ratio(ALL)[1] / before.log_ratio(ALL)[1]) <= 1


@settings(max_examples=5)
@given(st.permutations(range(len(FEW))), st.booleans())
def test_the_order_of_the_runs_has_no_effect(order: list[int], failed: bool) -> None:
    samples = [ModelSample(k, 0.2 * float(np.exp(ratio(k))), 0.5) for k in FEW]
    samples[1] = ModelSample(FEW[1], None, 0.2) if failed else samples[1]

    def posterior(these: list[ModelSample]) -> tuple[np.ndarray, np.ndarray]:
        return surrogate.fit(build_readings(these, 0.2, PIPELINED)).log_ratio(ALL)

    for one, other in zip(posterior(samples), posterior([samples[i] for i in order]), strict=True):
        assert np.allclose(one, other, atol=1e-9)


def test_a_failed_run_raises_the_expected_latency_nearby() -> None:
    samples = [ModelSample(k, 0.2 * float(np.exp(ratio(k))), 0.5) for k in FEW[:3]]
    fine = surrogate.fit(build_readings(samples, 0.2, PIPELINED))
    pushed = surrogate.fit(build_readings([*samples, ModelSample((2, 4), None, 0.4)], 0.2, PIPELINED))
    rise = pushed.log_ratio(ALL)[0] - fine.log_ratio(ALL)[0]
    at = {tuple(k): value for k, value in zip(ALL.tolist(), rise.tolist(), strict=True)}
    assert at[2, 4] > 0
    assert at[2, 4] > at[8, 9]
    assert at[2, 4] > at[5, 5]


def test_a_failed_run_is_a_lower_bound_of_the_latency() -> None:
    """A failed run does not lower an expected latency that is already higher than FAILED_RATIO."""
    sizing = of(
        (3, 3), loads=[3.4, 2.9], execution="pipelined"
    )  # the first operator cannot keep up with three instances
    failed = build_readings([ModelSample((3, 3), None, 0.4)], 0.2, sizing)
    told, untold = surrogate.fit(failed), surrogate.fit(SessionReadings(sizing))
    assert told.log_ratio([(3, 4)])[0] >= untold.log_ratio([(3, 4)])[0] - 1e-9
    assert told.log_ratio([(3, 4)])[1] < untold.log_ratio([(3, 4)])[1]


def test_one_saturated_run_does_not_bend_the_surface() -> None:
    """Twenty times and ten thousand times the target have the same effect."""
    far = [surrogate.fit(readings(log_ratio=(*ratio(FEW[:3]).tolist(), y))) for y in (3.0, 9.0)]
    assert np.array_equal(far[0].log_ratio(ALL)[0], far[1].log_ratio(ALL)[0])


# --- sources -----------------------------------------------------------------------------------------------------


@settings(max_examples=20, deadline=None)
@given(st.permutations(ALL.tolist()), st.integers(1, 10), st.sampled_from(["pipelined", "micro-batch", None]))
def test_runs_of_another_session_count_like_own_runs(
    ks: list[list[int]], runs: int, execution: Execution | None
) -> None:
    """With the same job, rate and target, a study from a model knows as much as the study that made it."""
    sizing = of(FLOOR, rate=100.0, loads=[1.1, 1.3], execution=execution)
    made = readings(ks[:runs], noise=0.05, sizing=sizing)
    own, moved = surrogate.fit(made), surrogate.fit(SessionReadings(sizing), [made])
    assert moved.doubts == (0.0,)
    for one, other in zip(own.log_ratio(ALL), moved.log_ratio(ALL), strict=True):
        assert np.allclose(one, other, atol=1e-6)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(-0.3, 0.3), min_size=2, max_size=6), st.integers(1, 5))
def test_the_noise_is_learned_from_repeated_windows_of_all_sessions(y: list[float], first: int) -> None:
    """This holds for sessions with the same measured window; others may be of another machine or day."""
    first = min(first, len(y) - 1)
    sized = of(FLOOR, rate=100.0, loads=[1.1, 1.3])

    def session(some: list[float]) -> SessionReadings:
        apart, mean = sum((each - sum(some) / len(some)) ** 2 for each in some), sum(some) / len(some)
        return SessionReadings(sized, ((5, 6),), (mean,), (1 / len(some),), repeated=len(some) - 1, scatter=apart)

    whole, parts = surrogate.learn_noise(0.05, [session(y)]), [session(y[first:]), session(y[:first])]
    assert surrogate.learn_noise(0.05, parts) == pytest.approx(whole)
    elsewhere = [parts[0], replace(parts[1], sizing=of(FLOOR, rate=120.0, loads=[1.3, 1.5]))]
    known = math.sqrt((2 * 0.05**2 + parts[0].scatter + parts[1].scatter) / len(y))
    assert surrogate.learn_noise(0.05, elsewhere) == pytest.approx(min(max(known, 0.025), 0.1))


@pytest.mark.parametrize("factor", [0.5, 0.8, 1.25, 2.0])
def test_distance_in_rate_adds_uncertainty(factor: float) -> None:
    near = surrogate.fit(SessionReadings(of(FLOOR, rate=100.0)), [readings(sizing=of(FLOOR, rate=100.0))])
    far = surrogate.fit(SessionReadings(of(FLOOR, rate=100.0)), [readings(sizing=of(FLOOR, rate=100.0 * factor))])
    assert far.log_ratio(FEW)[1].mean() > near.log_ratio(FEW)[1].mean()


def test_a_higher_rate_has_a_higher_latency_at_the_same_parallelism() -> None:
    sizing = of((4, 5), rate=100.0, loads=[3.3, 4.2], execution="pipelined")
    posterior = surrogate.fit(SessionReadings(sizing, ((5, 6), (8, 9)), (0.1, -0.3), (1.0, 1.0)))
    means = [float(posterior.log_ratio([(6, 7)], math.log(rate / 100))[0][0]) for rate in (50, 80, 100, 120, 140)]
    assert means == sorted(means)


def test_a_source_of_other_capacities_is_recognised_before_the_first_run() -> None:
    """The loads of the source do not fit this job at that rate."""
    sizing = of((6, 2, 9), rate=100.0, loads=[5.3, 1.4, 8.2], execution="pipelined")
    turned = of((9, 6, 2), rate=100.0, loads=[8.2, 5.3, 1.4], execution="pipelined")
    same = of((8, 3, 12), rate=140.0, loads=[7.4, 2.0, 11.5], execution="pipelined")
    for source, doubt in ((turned, None), (same, 0.0)):
        made = SessionReadings(source, (source.floor, tuple(k + 2 for k in source.floor)), (0.4, -0.1), (1.0, 1.0))
        assert surrogate.fit(SessionReadings(sizing), [made]).doubts == (doubt,)


def test_runs_that_agree_with_the_source_keep_it() -> None:
    source = readings(ALL[::4], noise=0.02)
    kept = surrogate.fit(readings(FEW[:2]), [source])
    assert kept.doubts[0] is not None
    without = surrogate.fit(readings(FEW[:2]))
    assert _error(kept) < 0.5 * _error(without)


def test_a_misleading_source_is_dropped_without_effect() -> None:
    opposite = readings(ALL[::4], log_ratio=tuple((2.0 - 3 * ratio(ALL[::4])).tolist()), weight=(1.0,) * len(ALL[::4]))
    fitted = surrogate.fit(readings(), [opposite])
    assert fitted.doubts == (None,)
    for one, other in zip(fitted.log_ratio(ALL), surrogate.fit(readings()).log_ratio(ALL), strict=True):
        assert np.array_equal(one, other)


def test_one_of_two_sources_may_be_dropped() -> None:
    opposite = readings(ALL[::4], log_ratio=tuple((2.0 - 3 * ratio(ALL[::4])).tolist()), weight=(1.0,) * len(ALL[::4]))
    fitted = surrogate.fit(readings(), [opposite, readings(ALL[1::4], noise=0.02)])
    assert fitted.doubts[0] is None
    assert fitted.doubts[1] is not None


def test_many_windows_of_one_run_leave_a_positive_variance() -> None:
    posterior = surrogate.fit(readings(weight=(1e-9,) * 4))
    mean, std = posterior.log_ratio(ALL)
    assert np.isfinite(mean).all()
    assert (std > 0).all()


def test_a_job_of_one_operator_can_be_fitted() -> None:
    one = SessionReadings(of((2,)), ((3,), (5,)), (0.4, -0.3), (1.0, 1.0))
    mean, std = surrogate.fit(one).log_ratio([[3], [4], [5]])
    assert mean[0] > mean[1] > mean[2]
    assert math.isfinite(std.max())


def _error(posterior: Posterior) -> float:
    return float(np.abs(posterior.log_ratio(ALL)[0] - ratio(ALL)).mean())


@settings(max_examples=30, deadline=None)
@given(
    idle=st.floats(0.0, 0.3),
    busy=st.floats(0.8, 1.0),
    factor=st.integers(2, 12),
    execution=st.sampled_from(["pipelined", "micro-batch"]),
)
def test_an_idle_operator_is_expected_to_change_little(idle: float, busy: float, factor: int, execution: str) -> None:
    """After one run, more instances of it are less likely to help than more of the busy operator."""
    sizing = of((3, 3), loads=[3 * idle, 3 * busy], execution=execution)
    posterior = surrogate.fit(SessionReadings(sizing, ((3, 3),), (1.0,), (1.0,)))
    mean, std = posterior.log_ratio([(3, 3), (3 * factor, 3), (3, 3 * factor)])
    promise = probability_met(mean - mean[0] + 0.3, std)  # standard deviations for a quarter less latency
    assert promise[1] <= promise[2] + 1e-9
    assert mean[2] <= mean[1] + 1e-9


def test_runs_can_show_that_an_idle_operator_matters() -> None:
    sizing = of((3, 3), loads=[0.3, 2.9], execution="pipelined")
    ks = ((3, 3), (6, 3), (12, 3), (24, 3), (3, 6), (3, 12))
    y = (1.0, 0.4, -0.2, -0.8, 0.9, 0.9)
    posterior = surrogate.fit(SessionReadings(sizing, ks, y, (1.0,) * len(ks)))
    mean, _ = posterior.log_ratio([(3, 3), (18, 3)])
    assert mean[1] < mean[0] - 0.8


@settings(max_examples=30, deadline=None)
@given(st.floats(0.01, 500), st.sampled_from(["pipelined", "micro-batch", None]))
def test_the_expected_latency_of_an_overloaded_job_is_finite(overload: float, execution: Execution | None) -> None:
    sizing = of((3, 3), rate=100.0, loads=[3 * overload, overload], execution=execution)
    posterior = surrogate.fit(SessionReadings(sizing, ((3, 3), (6, 6)), (0.4, -0.1), (1.0, 1.0)))
    for log_q in (0.0, 3.0):
        mean, std = posterior.log_ratio([(3, 3), (9, 3)], log_q)
        assert np.isfinite(np.exp(mean)).all()
        assert np.isfinite(std).all()


@settings(max_examples=100, deadline=None)
@given(
    others=st.lists(st.tuples(st.integers(1, 11), st.floats(0.1, 0.9), st.booleans()), min_size=1, max_size=4),
    floor=st.integers(1, 11),
    busy=st.floats(0.95, 1.1),
    late=st.floats(1.0, 5.0),
    execution=st.sampled_from(["pipelined", "micro-batch"]),
)
def test_a_saturated_operator_is_never_more_promising(
    others: list[tuple[int, float, bool]], floor: int, busy: float, late: float, execution: Execution
) -> None:
    """This holds at any parallelism of other operators: uncertainty about a higher latency is no reason for hope.
    Probabilities below one percent are not compared."""
    floors = (floor, *(k for k, _, _ in others))
    shares = [busy, *(share for _, share, _ in others)]
    if execution == "micro-batch":  # operators share the time of a batch
        shares = [0.9 * share / sum(shares) for share in shares]
    loads = [share * k for share, k in zip(shares, floors, strict=True)]
    posterior = surrogate.fit(SessionReadings(of(floors, loads=loads, execution=execution), (floors,), (late,), (1.0,)))
    rest = [40 if more else k for k, _, more in others]
    mean, std = posterior.log_ratio([(floor, *rest), (2 * floor, *rest)])
    left, given_more = probability_accepted(mean, std, posterior.noise, confidence=0.97)
    if mean[0] > mean[1] + 0.5:
        assert left <= max(given_more, 0.01)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from(ALL.tolist()), min_size=1, max_size=6, unique_by=tuple), st.floats(-1.5, 1.5))
def test_the_limited_slope_has_no_effect_within_the_target(ks: list[list[int]], shift: float) -> None:
    """Acceptance depends on latencies above the mean, which are not limited."""
    points = tuple(map(tuple, ks))
    sizing = of(FLOOR, loads=[1.9, 2.9], execution="pipelined")
    posterior = surrogate.fit(
        SessionReadings(sizing, points, tuple((ratio(points) + shift).tolist()), (1.0,) * len(points))
    )
    mean, std = posterior.log_ratio(ALL)
    with mock.patch.object(Posterior, "_excess_slope", return_value=np.zeros(len(posterior.beta))):
        same, whole = posterior.log_ratio(ALL)
    assert np.array_equal(mean, same)
    assert np.array_equal(std[mean <= 0], whole[mean <= 0])
    assert (std <= whole + 1e-12).all()
