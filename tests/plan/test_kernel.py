from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from numpy.typing import NDArray
from scipy.special import gamma, kv
from sklearn.base import clone

from autotrascale.plan.search import kernel as kernels
from autotrascale.plan.search.kernel import LatencyKernel, Layout

Floats = NDArray[np.float64]


@st.composite
def kernels_and_rows(draw: DrawFn) -> tuple[LatencyKernel, Floats]:
    """A kernel, and a few runs at up to three rates, some of them at the same configuration."""
    n, shapes, sources = draw(st.integers(1, 4)), draw(st.integers(1, 2)), draw(st.integers(0, 2))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    layout = Layout(n, shapes)
    kernel = LatencyKernel(
        layout,
        amplitude=np.exp(rng.normal(-1, 1, n)),
        joint_amplitude=float(np.exp(rng.normal(-0.5, 0.5))),
        joint_scale=float(np.exp(rng.normal(0.3, 0.5))),
        length_scale=np.exp(rng.normal(0, 1, n)),
        noise=float(np.exp(rng.normal(-3, 0.5))),
        correlation=tuple(rng.choice([0.0, 0.5, 0.95, 0.99], sources)),
    )
    features = np.log(rng.integers(1, 5, (draw(st.integers(1, 8)), n)))
    parts = [
        layout.rows(features, rng.normal(0, 1, (len(features), shapes)), source, rng.uniform(0.2, 40, len(features)))
        for source in range(sources + 1)
    ]
    return kernel, np.concatenate(parts)


@settings(max_examples=40)
@given(kernels_and_rows())
def test_a_covariance_is_symmetric_and_positive(given_: tuple[LatencyKernel, Floats]) -> None:
    kernel, rows = given_
    kappa = kernel(rows)
    assert np.allclose(kappa, kappa.T)
    assert np.linalg.eigvalsh(kappa).min() > -1e-9 * kappa.max()


@settings(max_examples=40)
@given(kernels_and_rows())
def test_the_diagonal_is_that_of_true_latency_and_the_noise_is_of_readings_only(
    given_: tuple[LatencyKernel, Floats],
) -> None:
    kernel, rows = given_
    weight = rows[:, -1]
    latent = np.diag(kernel(rows, rows))
    assert np.allclose(kernel.diag(rows), latent)
    assert np.allclose(np.diag(kernel(rows)), latent + kernel.noise**2 * weight)


@settings(max_examples=25)
@given(kernels_and_rows())
def test_the_gradient_equals_finite_differences(given_: tuple[LatencyKernel, Floats]) -> None:
    kernel, rows = given_
    kappa, gradient = kernel(rows, eval_gradient=True)
    assert np.array_equal(kappa, kernel(rows))
    assert gradient.shape == (len(rows), len(rows), len(kernel.theta))
    step = 1e-5
    for i, shift in enumerate(np.eye(len(kernel.theta)) * step):
        up, down = (kernel.clone_with_theta(kernel.theta + sign * shift)(rows) for sign in (1, -1))
        assert np.allclose(gradient[:, :, i], (up - down) / (2 * step), rtol=1e-5, atol=1e-7), i


@settings(max_examples=20)
@given(kernels_and_rows())
def test_hyperparameters_survive_the_way_through_scikit_learn(given_: tuple[LatencyKernel, Floats]) -> None:
    kernel, rows = given_
    for other in (clone(kernel), kernel.clone_with_theta(kernel.theta)):
        assert np.allclose(other(rows), kernel(rows))
        assert other.correlation == kernel.correlation


def test_a_job_of_one_operator_has_a_kernel_too() -> None:
    """scikit-learn turns an array of one hyperparameter into a number."""
    layout = Layout(1, 1)
    kernel = LatencyKernel(layout, np.array([0.4]), 0.6, 1.3, np.array([1.0]), 0.05)
    rows = layout.rows(np.log([[1.0], [2.0]]), np.zeros((2, 1)), 0, np.ones(2))
    assert np.allclose(kernel.clone_with_theta(kernel.theta)(rows), kernel(rows))


def test_a_rate_that_is_worth_nothing_is_independent_of_the_present_one() -> None:
    layout = Layout(2, 1)
    kernel = LatencyKernel(layout, np.full(2, 0.4), 0.6, 1.3, np.ones(2), 0.05, correlation=(0.0, 0.9))
    here, dropped, kept = (layout.rows(np.zeros((1, 2)), np.ones((1, 1)), s, np.ones(1)) for s in (0, 1, 2))
    assert kernel(here, dropped).item() == 0
    assert kernel(dropped, kept).item() == 0
    assert kernel(here, kept).item() == pytest.approx(0.9 * kernel.diag(here).item())


def test_matern_is_that_of_the_books() -> None:
    """ν = 5/2 of 2^{1−ν}/Γ(ν) (√(2ν) r)^ν K_ν(√(2ν) r)."""
    r = np.linspace(0.01, 6, 50)
    z = np.sqrt(5) * r
    assert np.allclose(kernels._matern(r), 2**-1.5 / gamma(2.5) * z**2.5 * kv(2.5, z))
    assert kernels._matern(np.zeros(1)).item() == 1.0
