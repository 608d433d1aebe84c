from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.stats import norm
from skopt.acquisition import gaussian_ei

from autotrascale.plan.search.acquisition import (
    benefit_moments,
    expected_improvement,
    improvement_of_benefit,
    probability_accepted,
    probability_met,
)

means = st.floats(-3.0, 3.0)
stds = st.floats(1e-3, 4.0)
shares = st.floats(0.0, 1.0)


class Opposite:
    """A model of −F, because scikit-optimize minimises."""

    def __init__(self, mean: list[float], std: list[float]) -> None:
        self.mean, self.std = mean, std

    def predict(self, _: object, return_std: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        assert return_std
        return -np.array(self.mean), np.array(self.std)


@given(st.lists(st.tuples(means, st.one_of(st.just(0.0), stds)), min_size=1, max_size=5), means, st.floats(0, 0.5))
def test_expected_improvement_is_that_of_scikit_optimize_with_the_sign_turned(
    modelled: list[tuple[float, float]], best: float, xi: float
) -> None:
    mean, std = map(list, zip(*modelled, strict=True))
    ours = expected_improvement(mean, std, best, xi)
    theirs = gaussian_ei(np.zeros((len(mean), 1)), Opposite(mean, std), y_opt=-best, xi=xi)
    assert np.allclose(ours, theirs, atol=1e-12)


@given(means, st.floats(1e-6, 4.0), means, st.floats(0, 0.5))
def test_expected_improvement_is_never_negative_and_zero_without_uncertainty(
    mean: float, std: float, best: float, xi: float
) -> None:
    assert expected_improvement(mean, std, best, xi) >= 0
    assert expected_improvement(mean, 0.0, best, xi) == 0  # Eq. 5, the second case


@given(means, stds, means, st.floats(0.0, 1.0))
def test_expected_improvement_grows_with_uncertainty_and_mean(
    mean: float, std: float, best: float, more: float
) -> None:
    ei = float(expected_improvement(mean, std, best))
    assert expected_improvement(mean + more, std, best) >= ei - 1e-12
    assert expected_improvement(mean, std + more, best) >= ei - 1e-12


def by_quadrature(mean: float, std: float, resources: float, best: float, alpha: float) -> float:
    def gain(y: float) -> float:
        return max(alpha * min(1.0, np.exp(-y)) + (1 - alpha) * resources - best, 0.0)

    c = (best - (1 - alpha) * resources) / alpha
    kinks = [0.0, *([-np.log(c)] if 0 < c < 1 else [])]
    edges = sorted([mean - 12 * std, mean + 12 * std, *(y for y in kinks if abs(y - mean) < 12 * std)])
    parts = pairwise(edges)
    return sum(quad(lambda y: gain(y) * norm.pdf(y, mean, std), a, b, limit=200)[0] for a, b in parts)


@settings(max_examples=40)
@given(means, stds, shares, shares, st.floats(0.01, 1.0))
def test_the_improvement_of_the_benefit_equals_its_integral(
    mean: float, std: float, resources: float, best: float, alpha: float
) -> None:
    expected = by_quadrature(mean, std, resources, best, alpha)
    assert float(improvement_of_benefit(mean, std, resources, best, alpha)) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("std", [6.0, 9.0, 12.0, 30.0])
def test_large_uncertainty_does_not_hide_the_improvement_by_rounding(std: float) -> None:
    """At σ = 9, e^{σ²/2} is 10^17, and the difference of two numbers close to 1 loses all digits."""
    for mean in (-2.0, 0.0, 2.0):
        expected = by_quadrature(mean, std, 0.7, 0.8, 0.5)
        assert float(improvement_of_benefit(mean, std, 0.7, 0.8, 0.5)) == pytest.approx(expected, rel=1e-6)


@given(means, stds, shares, shares)
def test_without_weight_on_latency_only_resources_improve(
    mean: float, std: float, resources: float, best: float
) -> None:
    assert improvement_of_benefit(mean, std, resources, best, 0.0) == max(resources - best, 0.0)
    assert improvement_of_benefit(mean, std, 0.5, 0.5 + 1e-6 + best, 1e-9) == pytest.approx(0.0, abs=1e-8)


@given(means, stds, shares, shares)
def test_a_configuration_that_cannot_reach_the_best_score_has_no_improvement(
    mean: float, std: float, resources: float, more: float
) -> None:
    """The latency term is at most 1."""
    out_of_reach = 0.5 + 0.5 * resources + more
    assert improvement_of_benefit(mean, std, resources, out_of_reach, 0.5) == pytest.approx(0.0, abs=1e-15)


@given(means, stds)
def test_the_probability_of_meeting_the_target_is_symmetric(mean: float, std: float) -> None:
    met = float(probability_met(mean, std))
    assert 0 <= met <= 1
    assert met + float(probability_met(-mean, std)) == pytest.approx(1.0)
    assert (met >= 0.5) == (mean <= 0) or abs(mean) < 1e-9


@given(means, stds, st.floats(0.01, 0.5), st.floats(0.5, 0.999))
def test_limits_of_the_probability_of_acceptance(mean: float, std: float, noise: float, confidence: float) -> None:
    accepted = float(probability_accepted(mean, std, noise, confidence))
    assert 0 <= accepted <= 1
    # without noise, a run is accepted when the target is met
    assert float(probability_accepted(mean, std, 1e-12, confidence)) == pytest.approx(
        float(probability_met(mean, std)), abs=1e-6
    )
    # with infinite noise, a reading changes nothing
    blind = float(probability_accepted(mean, std, 1e6, confidence))
    believed = float(probability_met(mean, std))
    if abs(believed - confidence) > 1e-3:
        assert blind == pytest.approx(float(believed > confidence), abs=1e-3)
    # acceptance needs more than meeting the target
    assert accepted <= float(probability_met(mean, std)) / confidence + 1e-9


@given(means, stds, st.floats(0.01, 0.5), st.floats(0.5, 0.99))
def test_acceptance_falls_with_confidence_and_latency(mean: float, std: float, noise: float, confidence: float) -> None:
    accepted = float(probability_accepted(mean, std, noise, confidence))
    assert probability_accepted(mean, std, noise, confidence + 0.009) <= accepted + 1e-12
    assert probability_accepted(mean + 0.1, std, noise, confidence) <= accepted + 1e-12


def test_the_probability_of_acceptance_equals_a_simulation() -> None:
    mean, std, noise, confidence = -0.05, 0.2, 0.1, 0.9
    rng = np.random.default_rng(0)
    true = rng.normal(mean, std, 200_000)
    reading = true + rng.normal(0, noise, true.size)
    gain = std**2 / (std**2 + noise**2)
    later = norm.cdf(-(mean + gain * (reading - mean)) / (std * np.sqrt(1 - gain)))
    assert float(probability_accepted(mean, std, noise, confidence)) == pytest.approx(
        float((later >= confidence).mean()), abs=0.005
    )


@given(means, st.floats(1e-3, 0.5), shares, shares)
def test_moments_of_the_benefit_equal_a_dense_grid(mean: float, std: float, resources: float, alpha: float) -> None:
    y = mean + std * norm.ppf((np.arange(20_000) + 0.5) / 20_000)
    f = alpha * np.minimum(1.0, np.exp(-y)) + (1 - alpha) * resources
    first, second = benefit_moments(mean, std, resources, alpha)
    assert float(first) == pytest.approx(f.mean(), abs=0.01)
    assert float(second) == pytest.approx(f.std(), abs=0.02)
    assert second >= 0
