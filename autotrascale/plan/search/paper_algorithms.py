"""Algorithms 1 and 2 as the paper prints them, step by step, to compare the default search with.

symbol     meaning
D_c        runs at the present rate: (k_t, s_t)
M          surrogate of the score, a Gaussian process
M_{c−1}    benefit model of the nearest rate
M'_c       process over the residuals s_t − μ_{c−1}(k_t)
NUM        real samples after which Algorithm 1 continues without predictions
M, N       uniform samples of the bootstrap set (≥ 2), operators
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from autotrascale.domain import checks
from autotrascale.plan.search import score_process
from autotrascale.plan.search.acquisition import expected_improvement
from autotrascale.plan.search.benefit_model import BenefitModel, build_samples
from autotrascale.plan.search.lattice import Lattice, Point, Pool
from autotrascale.plan.search.score import Benefit
from autotrascale.plan.search.study_runs import Run
from autotrascale.plan.sizing.sizing import Sizing

Floats = NDArray[np.float64]

XI = 0.01  # ξ of Eq. 6; the paper gives no value


def bootstrap_set(floor: Sequence[int], p_max: int | Sequence[int], uniform: int = 6) -> list[Point]:
    """Return the first samples of a cold search (§III-D): M uniform and N one-hot ones, in the paper's order.

    The uniform samples lie between k'_max and P_max. Duplicates are removed.

    >>> bootstrap_set((1, 2), 4, uniform=2)
    [(2, 2), (4, 4), (4, 2), (1, 4)]

    differs: an operator with a bound of its own stops at that bound.
    """
    checks.count("uniform", uniform, least=2)
    lattice = Lattice.between(floor, p_max)
    low, high = max(lattice.lower), max(lattice.upper)
    steps = [round(low + i * (high - low) / (uniform - 1)) for i in range(uniform)]
    samples = [lattice.clip((step,) * len(lattice.lower)) for step in steps]
    for i, top in enumerate(lattice.upper):
        samples.append((*lattice.lower[:i], top, *lattice.lower[i + 1 :]))
    return list(dict.fromkeys(samples))


class Algorithm1:
    """Bayesian optimisation at a steady rate; a `Searcher`."""

    def __init__(self, lattice: Lattice, benefit: Benefit, uniform: int = 6) -> None:
        self.lattice, self.benefit = lattice, benefit
        self.bootstrap = bootstrap_set(lattice.lower, lattice.upper, uniform)

    def propose(self, runs: Sequence[Run], rng: np.random.Generator) -> Point | None:
        """Return the next bootstrap sample, then the configuration with the largest expected improvement."""
        told = {run.parallelism for run in runs}
        for k in self.bootstrap:  # Alg. 1, l. 1
            if k not in told:
                return k
        ks, scores = self._data(runs)
        return self._argmax_ei(ks, scores, told, rng)

    def predict_run(self, runs: Sequence[Run], k: Point) -> Run:
        """Return the slowest latency so far for `k`, which attracts no proposal. The paper runs one at a time."""
        known = [run.latency for run in runs if run.latency is not None]
        return Run(k, max(known, default=2 * self.benefit.latency_target))

    def find_accepted(self, runs: Sequence[Run]) -> Run | None:
        """Return the best run that meets the stop rule, once the bootstrap set is complete (Alg. 1, l. 8)."""
        told = {run.parallelism for run in runs}
        if any(k not in told for k in self.bootstrap):
            return None
        return next((run for run in self.rank(runs) if self._meets_rule(run)), None)

    def rank(self, runs: Sequence[Run]) -> list[Run]:
        """Return the runs within the target first, each group by score."""

        def key(run: Run) -> tuple[bool, float]:
            met = run.latency is not None and run.latency <= self.benefit.latency_target
            return met, _score(run, self.benefit)

        return sorted(runs, key=key, reverse=True)

    def find_nearest(self, runs: Sequence[Run]) -> Run:
        """Return the best run by rank."""
        return self.rank(runs)[0]

    # The paper accepts on one reading: it models no probability and measures no configuration twice.

    def estimate_probability(self, runs: Sequence[Run], run: Run) -> float | None:  # noqa: ARG002
        return None

    def find_unsure(self, runs: Sequence[Run], propose_next: Callable[[], Point | None]) -> Run | None:  # noqa: ARG002
        return None

    def find_cheaper(self, runs: Sequence[Run], rng: np.random.Generator) -> Point | None:  # noqa: ARG002
        return None

    def is_rule_hopeless(self, runs: Sequence[Run]) -> bool:  # noqa: ARG002
        return False

    def remarks(self, runs: Sequence[Run]) -> list[str]:  # noqa: ARG002
        return []

    def model(self, runs: Sequence[Run], rate: float) -> BenefitModel:
        """Return the benefit model of the runs at `rate` records per second."""
        ks, scores = self._data(runs)
        process = score_process.fit(ks, scores, self.lattice.lower, self.lattice.upper)
        return BenefitModel(
            kind="score",
            rate=rate,
            sizing=Sizing.of_loads(self.lattice.lower, self.lattice.upper, rate=rate),
            latency_target=self.benefit.latency_target,
            alpha=self.benefit.alpha,
            over_allocation=self.benefit.over_allocation,
            samples=build_samples(runs, self.benefit),
            theta=process.theta,
        )

    def _argmax_ei(self, ks: Pool, scores: Floats, told: set[Point], rng: np.random.Generator) -> Point | None:
        """Refit M (l. 7) and return the argmax of EI over Ω (l. 12)."""
        process = score_process.fit(ks, scores, self.lattice.lower, self.lattice.upper)
        best = float(scores.max())  # F(x⁺)
        return self.lattice.argmax(
            lambda pool: expected_improvement(*process.predict(pool), best, XI),
            excluded=told,
            hints=self.bootstrap,
            rng=rng,
        )

    def _data(self, runs: Sequence[Run]) -> tuple[Pool, Floats]:
        ks = np.array([run.parallelism for run in runs])
        return ks, np.array([_score(run, self.benefit) for run in runs])  # l. 5

    def _meets_rule(self, run: Run) -> bool:
        return run.latency is not None and self.benefit.satisfied(run.parallelism, run.latency)


class Algorithm2(Algorithm1):
    """Transfer to a changed rate: predicted bootstrap samples replace real runs; a `Searcher`."""

    def __init__(self, lattice: Lattice, benefit: Benefit, source: BenefitModel, uniform: int = 6) -> None:
        super().__init__(lattice, benefit, uniform)
        self.source = source
        self.num = len(self.bootstrap)  # "at least larger than the initial set size"

    def propose(self, runs: Sequence[Run], rng: np.random.Generator) -> Point | None:
        """Return the argmax of EI over real runs and predicted bootstrap samples; after NUM runs as Algorithm 1."""
        told = {run.parallelism for run in runs}
        if len(runs) >= self.num:  # Alg. 2, l. 16–17: Algorithm 1 on D_c alone, which has its samples
            ks, scores = self._data(runs)
            return self._argmax_ei(ks, scores, told, rng)
        predicted = np.array([k for k in self.bootstrap if k not in told]).reshape(-1, len(self.lattice.lower))
        mean = self._transferred_scores(predicted, runs) if len(predicted) else np.empty(0)  # l. 7–11
        ks, scores = predicted, mean
        if runs:
            real_ks, real_scores = self._data(runs)
            ks, scores = np.concatenate([real_ks, predicted]), np.concatenate([real_scores, mean])  # l. 6, 11
        return self._argmax_ei(ks, scores, told, rng)  # l. 13

    def find_accepted(self, runs: Sequence[Run]) -> Run | None:
        """Return the best run that meets the stop rule."""
        return next((run for run in self.rank(runs) if self._meets_rule(run)), None)

    def _transferred_scores(self, ks: Pool, runs: Sequence[Run]) -> Floats:
        """Return μ_c(x) = μ_{c−1}(x) + μ'_c(x) (l. 10); without runs the residual μ'_c is zero."""
        mean, _ = self.source.predict(ks)
        if not runs:
            return mean
        real, scores = self._data(runs)
        residual = scores - self.source.predict(real)[0]  # l. 3
        correction, _ = score_process.fit(real, residual, self.lattice.lower, self.lattice.upper).predict(ks)  # l. 4, 9
        return np.asarray(mean + correction)


def _score(run: Run, benefit: Benefit) -> float:
    return float(benefit.score(run.parallelism, np.inf if run.latency is None else run.latency))
