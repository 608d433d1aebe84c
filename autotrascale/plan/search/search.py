"""Choosing the next run, and judging the runs made: the default way, measured to be better than the paper's own.

    symbol   meaning                                                          shape
    μ, σ     posterior of y = log(l_r / l_t)                                  (n,)
    r        resource term (1/N) Σ k'_i / k_i, known                          (n,)
    P        P(y ≤ 0), the chance that a configuration truly meets the target (n,)
    F⁺       score of the best run that can be trusted

Two phases. Until a run is accepted, the next one is where acceptance is likely and, of those, resources are few:

    hope(k) = P · (r − 1/(1+w) + ε)          inside the stop rule

From then on, where the score is likely to improve and can be trusted:

    gain(k) = E[(F − F⁺)₊] · √P

differs: Algorithm 1 runs the whole bootstrap set first, models the score, and accepts on one noisy reading.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from autotrascale.domain import checks
from autotrascale.plan.search import surrogate
from autotrascale.plan.search.acquisition import improvement_of_benefit, probability_accepted, probability_met
from autotrascale.plan.search.benefit_model import (
    ANCESTORS,
    BenefitModel,
    readings_of,
    samples_of,
)
from autotrascale.plan.search.lattice import Lattice, Point, Pool
from autotrascale.plan.search.runs import Run
from autotrascale.plan.search.score import Benefit
from autotrascale.plan.search.surrogate import Posterior
from autotrascale.plan.sizing.sizing import Sizing

Floats = NDArray[np.float64]
Value = Callable[[Pool], Floats]

FIRST_RATIO = 0.75  # mean(k'/k) of the very first run: generous enough to be accepted often, not more
EPSILON_WARM = 0.5  # … and when a source model has explored already, so that a run may as well be the last
EPSILON = 0.2  # ε: what acceptance is worth by itself, beside the resources saved
LEAST_NOISE = 1e-4  # below, readings are as good as exact
LIKELY = 0.6  # a run is preferred for its score among those this likely to meet the target
HINTS = 3  # the best runs so far, around which the next one is looked for too
BEYOND_RULE = 0.005  # worth of meeting the target outside the stop rule: for when nothing inside it can


class Search:
    def __init__(
        self, lattice: Lattice, benefit: Benefit, sources: Sequence[BenefitModel] = (), *,
        sizing: Sizing | None = None, noise: float = 0.05, confidence: float = 0.97,
    ) -> None:  # fmt: skip
        checks.positive("noise", noise)
        checks.share("noise", noise)
        checks.share("confidence", confidence)
        self.lattice, self.benefit = lattice, benefit
        self.sizing = placed(sizing, lattice)
        self.noise, self.confidence = max(float(noise), LEAST_NOISE), confidence
        self.sources = [model.towards(benefit.latency_target) for model in _family(sources)]
        self._last: tuple[tuple[Run, ...], Posterior] | None = None

    def propose(self, runs: Sequence[Run], rng: np.random.Generator) -> Point | None:
        told = {run.parallelism for run in runs}
        if len(told) >= self.lattice.size:
            return None
        if not told and not self.sources:
            return self._first()
        value = self._hope(runs) if self.accepted(runs) is None else self._gain(runs)
        hints = [self.lattice.lower, *(run.parallelism for run in self.rank(runs)[:HINTS])]
        return self.lattice.argmax(value, excluded=told, hints=hints, rng=rng)

    def accepted(self, runs: Sequence[Run]) -> Run | None:
        """The best run that meets the stop rule and whose true latency can be trusted to."""
        chances = self._chances(runs)
        for run in self.rank(runs):
            if self._meets_rule(run) and chances[run.parallelism] >= self.confidence:
                return run
        return None

    def unsure(self, runs: Sequence[Run]) -> Run | None:
        chances = self._chances(runs)
        doubtful = [run for run in runs if self._meets_rule(run) and chances[run.parallelism] < self.confidence]
        return max(doubtful, key=lambda run: chances[run.parallelism], default=None)

    def rank(self, runs: Sequence[Run]) -> list[Run]:
        """Runs likely to meet the target first, then those that did as measured, then the rest; by score in each."""
        if not runs:
            return []
        chances, scores = self._chances(runs), self._scores(runs)

        def key(run: Run) -> tuple[bool, bool, float]:
            met = run.latency is not None and run.latency <= self.benefit.latency_target
            return met and chances[run.parallelism] >= LIKELY, met, scores[run.parallelism]

        return sorted(runs, key=key, reverse=True)

    def model(self, runs: Sequence[Run], rate: float) -> BenefitModel:
        posterior = self._posterior(runs)
        return BenefitModel(
            kind="latency", rate=rate, sizing=self.sizing.in_short(rate), latency_target=self.benefit.latency_target,
            alpha=self.benefit.alpha, over_allocation=self.benefit.over_allocation,
            samples=samples_of(runs, self.benefit), theta=tuple(float(x) for x in posterior.kernel.theta),
            correlation=posterior.correlation, ancestors=tuple(model.alone() for model in self.sources),
        )  # fmt: skip

    def remarks(self, runs: Sequence[Run]) -> list[str]:
        if not runs:
            return []
        return [
            f"the model of rate {model.rate:g}/s misleads at this rate and is left out: the runs fit better without it"
            for model, rho in zip(self.sources, self._posterior(runs).correlation, strict=True)
            if rho == 0
        ]

    def _first(self) -> Point:
        """Every operator at the same multiple of its floor; rounding must not fall outside the stop rule."""
        lower, upper = np.array(self.lattice.lower), np.array(self.lattice.upper)
        k = np.clip(np.rint(lower / FIRST_RATIO).astype(np.int64), lower, upper)
        while self.benefit.resources(k) < 1 / (1 + self.benefit.over_allocation) and np.any(k > lower):
            k[np.argmax(np.where(k > lower, k / lower, 0.0))] -= 1
        return tuple(int(x) for x in k)

    def _hope(self, runs: Sequence[Run]) -> Value:
        posterior, limit = self._posterior(runs), 1 / (1 + self.benefit.over_allocation)
        epsilon = EPSILON_WARM if self.sources else EPSILON

        def value(ks: Pool) -> Floats:
            mean, std = posterior.log_ratio(ks)
            chance = probability_accepted(mean, std, posterior.noise, self.confidence)
            resources = self.benefit.resources(ks)
            worth = np.where(resources >= limit - 1e-9, resources - limit + epsilon, BEYOND_RULE * resources)
            return np.asarray(chance * worth)

        return value

    def _gain(self, runs: Sequence[Run]) -> Value:
        posterior, best = self._posterior(runs), self._scores(runs)[self.rank(runs)[0].parallelism]

        def value(ks: Pool) -> Floats:
            mean, std = posterior.log_ratio(ks)
            gain = improvement_of_benefit(mean, std, self.benefit.resources(ks), best, self.benefit.alpha)
            return gain * np.sqrt(probability_met(mean, std))

        return value

    def _meets_rule(self, run: Run) -> bool:
        return run.latency is not None and self.benefit.satisfied(run.parallelism, run.latency)

    def _chances(self, runs: Sequence[Run]) -> dict[Point, float]:
        """P of each run; a run that failed does not meet the target, whatever its neighbours do."""
        if not runs:
            return {}
        chances = probability_met(*self._posterior(runs).log_ratio([run.parallelism for run in runs]))
        return {run.parallelism: 0.0 if run.failed else float(p) for run, p in zip(runs, chances, strict=True)}

    def _scores(self, runs: Sequence[Run]) -> dict[Point, float]:
        """The score of each run by the posterior's mean latency: one lucky reading does not make a run the best."""
        ks = [run.parallelism for run in runs]
        mean, _ = self._posterior(runs).log_ratio(ks)
        scores = self.benefit.score(ks, self.benefit.latency_target * np.exp(mean))
        failed = self.benefit.score(ks, math.inf)
        return {run.parallelism: float(failed[i] if run.failed else scores[i]) for i, run in enumerate(runs)}

    def _posterior(self, runs: Sequence[Run]) -> Posterior:
        key = tuple(runs)
        if self._last is None or self._last[0] != key:
            present = readings_of(samples_of(runs, self.benefit), self.benefit.latency_target, self.sizing)
            sources = [model.readings for model in self.sources]
            self._last = key, surrogate.fit(present, sources, noise=self.noise)
        return self._last[1]


def placed(sizing: Sizing | None, lattice: Lattice) -> Sizing:
    """What was measured, over the points that are searched; nothing but these where nothing was measured."""
    if sizing is None:
        return Sizing.of_loads(lattice.lower, lattice.upper)
    return replace(sizing, floor=lattice.lower, upper=lattice.upper)


def _family(models: Sequence[BenefitModel]) -> list[BenefitModel]:
    """The source models and those they were built on, each once, the first-named first."""
    flat = [member for model in models for member in (model.alone(), *model.ancestors)]
    # A model of the paper's kind has latencies too: what it modelled does not matter here.
    unique = {(member.rate, member.samples): member for member in flat}
    return list(unique.values())[: max(ANCESTORS, len(models))]
