from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from autotrascale.plan.search import surrogate
from autotrascale.plan.search.benefit_model import Sample, readings_of
from autotrascale.plan.search.lattice import Lattice
from autotrascale.plan.search.surrogate import Posterior, Readings
from autotrascale.plan.sizing.sizing import Sizing


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Ten by ten matrices on as many threads as there are cores wait for each other, and long on a busy machine."""
    with threadpool_limits(1):
        yield


FLOOR = (2, 3)
ALL = Lattice(FLOOR, (8, 9)).points
FEW = ((3, 4), (2, 6), (5, 5), (8, 9))


def of(floor: tuple[int, ...], **options: Any) -> Sizing:
    return Sizing.of_loads(floor, [40] * len(floor), **options)


PIPELINED = of(FLOOR, execution="pipelined")


def ratio(ks: object) -> np.ndarray:
    """The true y of the jobs here: latency falls with either operator."""
    k = np.asarray(ks, dtype=float)
    return np.asarray(np.log(0.2 + 1.2 / k[..., 0] + 1.5 / k[..., 1]))


def readings(ks: object = FEW, noise: float = 0.0, seed: int = 0, **changes: object) -> Readings:
    points = tuple(map(tuple, ks))  # type: ignore[call-overload]
    errors = noise * np.random.default_rng(seed).standard_normal(len(points))
    given_ = Readings(of(FLOOR), points, tuple((ratio(points) + errors).tolist()), (1.0,) * len(points))
    return replace(given_, **changes)  # type: ignore[arg-type]


def test_before_any_run_the_latency_is_anybodys_guess_and_falls_with_resources() -> None:
    posterior = surrogate.fit(Readings(of(FLOOR)))
    mean, std = posterior.log_ratio([FLOOR, (8, 9)])
    assert (std > 1.5).all()
    assert mean[0] > mean[1]


def test_the_posterior_passes_the_runs_within_their_noise() -> None:
    posterior = surrogate.fit(readings())
    mean, std = posterior.log_ratio(FEW)
    assert np.abs(mean - ratio(FEW)).max() < 2 * posterior.noise
    assert (std < posterior.noise * 1.01).all()


def test_the_error_is_what_the_doubt_says() -> None:
    """Ten noisy runs: over the whole lattice the error lies within two and a half standard deviations or so."""
    ks = ALL[np.random.default_rng(3).choice(len(ALL), 10, replace=False)]
    mean, std = surrogate.fit(readings(ks, noise=0.05)).log_ratio(ALL)
    z = (mean - ratio(ALL)) / std
    assert (np.abs(z) < 3).mean() > 0.95
    assert np.abs(mean - ratio(ALL)).mean() < 0.15


def test_a_second_window_makes_surer() -> None:
    once = surrogate.fit(readings())
    twice = surrogate.rebuild(readings(weight=(0.5, 1.0, 1.0, 1.0)), (), once.kernel.theta, ())
    assert (twice.log_ratio(ALL)[1] <= once.log_ratio(ALL)[1] + 1e-12).all()
    assert twice.log_ratio([FEW[0]])[1] < 0.8 * once.log_ratio([FEW[0]])[1]


def test_another_run_never_adds_doubt_at_the_same_hyperparameters() -> None:
    before = surrogate.fit(readings())
    after = surrogate.rebuild(readings((*FEW, (4, 7))), (), before.kernel.theta, ())
    assert (after.log_ratio(ALL)[1] <= before.log_ratio(ALL)[1] + 1e-9).all()


@settings(max_examples=5)
@given(st.permutations(range(len(FEW))), st.booleans())
def test_the_order_of_the_runs_says_nothing(order: list[int], failed: bool) -> None:
    samples = [Sample(k, 0.2 * float(np.exp(ratio(k))), 0.5) for k in FEW]
    samples[1] = Sample(FEW[1], None, 0.2) if failed else samples[1]

    def posterior(these: list[Sample]) -> tuple[np.ndarray, np.ndarray]:
        return surrogate.fit(readings_of(these, 0.2, PIPELINED)).log_ratio(ALL)

    for one, other in zip(posterior(samples), posterior([samples[i] for i in order]), strict=True):
        assert np.allclose(one, other, atol=1e-9)


def test_a_failed_run_pushes_away_and_less_so_from_afar() -> None:
    samples = [Sample(k, 0.2 * float(np.exp(ratio(k))), 0.5) for k in FEW[:3]]
    fine = surrogate.fit(readings_of(samples, 0.2, PIPELINED))
    failed = Sample((2, 4), None, 0.4)
    pushed = surrogate.rebuild(readings_of([*samples, failed], 0.2, PIPELINED), (), fine.kernel.theta, ())
    rise = pushed.log_ratio(ALL)[0] - fine.log_ratio(ALL)[0]
    at = {tuple(k): value for k, value in zip(ALL.tolist(), rise.tolist(), strict=True)}
    assert at[2, 4] > 0
    assert at[2, 4] > at[8, 9]
    assert at[2, 4] > at[5, 5]


def test_one_saturated_run_does_not_bend_the_surface() -> None:
    """Ten times the target or ten thousand times: far off is far off."""
    theta = surrogate.fit(readings()).kernel.theta
    far = [surrogate.rebuild(readings(log_ratio=(*ratio(FEW[:3]).tolist(), y)), (), theta, ()) for y in (3.0, 9.0)]
    assert np.array_equal(far[0].log_ratio(ALL)[0], far[1].log_ratio(ALL)[0])


# --- sources -----------------------------------------------------------------------------------------------------


def test_a_source_speaks_before_the_first_run() -> None:
    """With no run at the present rate its answer is the source's own; the doubt about the transfer is added."""
    alone = surrogate.fit(readings())
    moved = surrogate.fit(Readings(of(FLOOR)), [readings()])
    assert moved.correlation == (surrogate.EXPECTED_CORRELATION,)
    mean, std = moved.log_ratio(ALL)
    assert np.abs(mean - alone.log_ratio(ALL)[0]).mean() < 0.1
    assert (std > alone.log_ratio(ALL)[1]).mean() > 0.9


def test_a_source_is_read_by_the_ratio_to_its_own_floor() -> None:
    """The same use of every operator at double the floor is the same run."""
    doubled = Readings(of((4, 6)), tuple((2 * a, 2 * b) for a, b in FEW), tuple(ratio(FEW).tolist()), (1.0,) * 4)
    batches = [replace(each, sizing=replace(each.sizing, execution="micro-batch")) for each in (readings(), doubled)]
    present = Readings(replace(of(FLOOR), execution="micro-batch"))
    same, moved = (surrogate.fit(present, [source]) for source in batches)
    assert np.allclose(same.log_ratio(ALL)[0], moved.log_ratio(ALL)[0])


def test_runs_that_agree_with_the_source_keep_it() -> None:
    source = readings(ALL[::4], noise=0.02)
    kept = surrogate.fit(readings(FEW[:2]), [source])
    assert kept.correlation[0] >= 0.8
    without = surrogate.fit(readings(FEW[:2]))
    assert _error(kept) < 0.5 * _error(without)


def test_a_source_that_misleads_is_dropped_and_leaves_no_trace() -> None:
    """ρ = 0 is no source: not in the level, not in the hyperparameters."""
    opposite = readings(ALL[::4], log_ratio=tuple((2.0 - 3 * ratio(ALL[::4])).tolist()), weight=(1.0,) * len(ALL[::4]))
    fitted = surrogate.fit(readings(), [opposite])
    assert fitted.correlation == (0.0,)
    for one, other in zip(fitted.log_ratio(ALL), surrogate.fit(readings()).log_ratio(ALL), strict=True):
        assert np.array_equal(one, other)


def test_one_of_two_sources_may_be_dropped() -> None:
    opposite = readings(ALL[::4], log_ratio=tuple((2.0 - 3 * ratio(ALL[::4])).tolist()), weight=(1.0,) * len(ALL[::4]))
    fitted = surrogate.fit(readings(), [opposite, readings(ALL[1::4], noise=0.02)])
    assert fitted.correlation[0] == 0
    assert fitted.correlation[1] >= 0.8
    rebuilt = surrogate.rebuild(readings(), [opposite, readings(ALL[1::4], noise=0.02)], fitted.kernel.theta,
                                fitted.correlation)  # fmt: skip
    for one, other in zip(fitted.log_ratio(ALL), rebuilt.log_ratio(ALL), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("sources", [0, 1])
def test_a_posterior_is_rebuilt_from_its_hyperparameters_to_the_bit(sources: int) -> None:
    given_ = [readings(ALL[::4], noise=0.02)][:sources]
    fitted = surrogate.fit(readings(), given_)
    rebuilt = surrogate.rebuild(readings(), given_, tuple(fitted.kernel.theta), fitted.correlation)
    for one, other in zip(fitted.log_ratio(ALL), rebuilt.log_ratio(ALL), strict=True):
        assert np.array_equal(one, other)


def test_many_windows_of_one_run_leave_a_variance() -> None:
    posterior = surrogate.fit(readings(weight=(1e-9,) * 4))
    mean, std = posterior.log_ratio(ALL)
    assert np.isfinite(mean).all()
    assert (std > 0).all()


def test_a_job_of_one_operator() -> None:
    one = Readings(of((2,)), ((3,), (5,)), (0.4, -0.3), (1.0, 1.0))
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
def test_an_operator_with_time_to_spare_is_expected_to_change_little(
    idle: float, busy: float, factor: int, execution: str
) -> None:
    """After one run, as much more of it promises less than as much more of the busy one, either way."""
    sizing = of((3, 3), loads=[3 * idle, 3 * busy], execution=execution)
    posterior = surrogate.fit(Readings(sizing, ((3, 3),), (1.0,), (1.0,)))
    mean, std = posterior.log_ratio([(3, 3), (3 * factor, 3), (3, 3 * factor)])
    assert std[1] < std[2]
    assert mean[2] <= mean[1] + 1e-9


def test_runs_can_say_that_an_operator_with_time_to_spare_matters() -> None:
    sizing = of((3, 3), loads=[0.3, 2.9], execution="pipelined")
    ks = ((3, 3), (6, 3), (12, 3), (24, 3), (3, 6), (3, 12))
    y = (1.0, 0.4, -0.2, -0.8, 0.9, 0.9)
    posterior = surrogate.fit(Readings(sizing, ks, y, (1.0,) * len(ks)))
    mean, _ = posterior.log_ratio([(3, 3), (18, 3)])
    assert mean[1] < mean[0] - 0.8
