"""Choosing the next run, and judging the runs made: the default way, measured to be better than the paper's own.

    symbol   meaning                                                          shape
    μ, σ     posterior of y = log(l_r / l_t)                                  (n,)
    r        resource term (1/N) Σ k'_i / k_i, known                          (n,)
    P        P(y ≤ 0), the chance that a configuration truly meets the target (n,)
    A        the chance that one run of it ends the search                    (n,)
    F⁺       score of the best run that can be trusted

Two phases. Until a run is accepted, the next one is where acceptance is likely and, of those, resources are few:

    hope(k) = ln[ A · (r − 1/(1+w) + ε) ]    inside the stop rule

From then on, where the score is likely to improve and can be trusted:

    gain(k) = E[(F − F⁺)₊] · √P

differs: Algorithm 1 runs the whole bootstrap set first, models the score, and accepts on one noisy reading.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from autotrascale.domain import checks
from autotrascale.plan.search import surrogate
from autotrascale.plan.search.acquisition import (
    improvement_of_benefit,
    log_probability_accepted,
    probability_accepted,
    probability_met,
)
from autotrascale.plan.search.benefit_model import ANCESTORS, BenefitModel, build_readings, build_samples
from autotrascale.plan.search.lattice import Lattice, Point, Pool
from autotrascale.plan.search.score import Benefit
from autotrascale.plan.search.study_runs import Run
from autotrascale.plan.search.surrogate import LEAST_NOISE, Posterior
from autotrascale.plan.search.training_data import FARTHEST
from autotrascale.plan.sizing.sizing import Sizing

Floats = NDArray[np.float64]
Value = Callable[[Pool], Floats]

FIRST_RATIO = 0.75  # mean(k'/k) of the very first run: generous enough to be accepted often, not more
EPSILON_WARM = 2.0  # … and when a source model has explored already, so that a run may as well be the last
EPSILON = 0.4  # ε: what acceptance is worth by itself, beside the resources saved
LEAST_MISS = 0.01  # log ratio that a run is taken to have while it is not back
LIKELY = 0.6  # a run is preferred for its score among those this likely to meet the target
# What a run must be trusted with, to stand in the place of another that is trusted; what a leaner configuration saves
# at least, of mean(k'/k); and the chance to be accepted that makes it worth a run. Of 105 jobs seen, regret at the
# stop is 0.033 with a chance of 0.3, 0.037 with 0.5, 0.042 with 0.7, and 0.052 without such runs, of which there are
# 0.9, 0.7 and 0.4 in the mean; of what is accepted one truly misses, with all of them and without.
SURE = 0.99
WORTH_A_RUN = 0.01
WORTH_TRYING = 0.3
WINDOWS = 5  # looks at one configuration before it is given up as too close to the target
RATIOS = (0.9, 0.8, 0.7)
HINTS = 3  # the best runs so far, around which the next one is looked for too
BEYOND_RULE = 0.005  # worth of meeting the target outside the stop rule: for when hardly anything inside it can
HOPELESS = 0.01  # the stop rule is given up when nothing that it allows is likelier than this to meet the target


class Search:
    def __init__(
        self,
        lattice: Lattice,
        benefit: Benefit,
        sources: Sequence[BenefitModel] = (),
        *,
        sizing: Sizing | None = None,
        noise: float = 0.05,
        confidence: float = 0.97,
    ) -> None:
        checks.positive("noise", noise)
        checks.share("noise", noise)
        checks.share("confidence", confidence)
        self.lattice, self.benefit = lattice, benefit
        self.sizing = place_sizing(sizing, lattice)
        self.noise, self.confidence = max(float(noise), LEAST_NOISE), confidence
        self.sources = [model.towards(benefit.latency_target) for model in _family(sources)]
        self._last: tuple[tuple[Run, ...], Posterior] | None = None
        self._of_runs: tuple[tuple[Run, ...], tuple[Floats, Floats]] | None = None

    def propose(self, runs: Sequence[Run], rng: np.random.Generator) -> Point | None:
        if len(runs) >= self.lattice.size:
            return None
        if not runs and (first := self._first()) is not None:
            return first
        if self.accepted(runs) is not None:
            return self._argmax(self._gain(runs), runs, rng)
        k = self._argmax(self._hope(runs), runs, rng)
        return self._argmax(self._hope_beyond(runs), runs, rng) if self._hardly_accepted(k, runs) else k

    def expected(self, runs: Sequence[Run], k: Point) -> Run:
        """Its mean, and at least a little over the target: what is not back yet is not to end the search."""
        mean = float(self._posterior(tuple(runs)).log_ratio([k])[0][0])
        return Run(k, self.benefit.latency_target * math.exp(min(max(mean, LEAST_MISS), FARTHEST)))

    def accepted(self, runs: Sequence[Run]) -> Run | None:
        """Of the runs within the stop rule whose true latency can be trusted to meet the target, the best of those that
        are surely so: of several that are just trusted, the leanest has the luckiest reading. Else the likeliest.
        One reading above the target does not count against what all say, those of the sources included."""
        return self._trusted(self._frugal(self.rank(runs)), self._chances(runs))

    def nearest(self, runs: Sequence[Run]) -> Run:
        """Trusted ones by score, though they ask for more than the stop rule allows; then the likeliest of those within
        the target as measured; then the lowest latency; then the highest throughput."""
        chances, scores = self._chances(runs), self._scores(runs)

        def key(run: Run) -> tuple[bool, float, bool, float, float, float]:
            chance, met = chances[run.parallelism], self._met(run)
            trusted = met and chance >= self.confidence
            return (
                trusted,
                scores[run.parallelism] if trusted else 0.0,
                met,
                chance if met else 0.0,
                -math.inf if run.latency is None else -run.latency,
                run.throughput or 0.0,
            )

        return max(runs, key=key)

    def probability(self, runs: Sequence[Run], run: Run) -> float | None:
        return self._chances(runs)[run.parallelism]

    def _trusted(self, ranked: Sequence[Run], chances: Mapping[Point, float]) -> Run | None:
        trusted = [run for run in ranked if chances[run.parallelism] >= self.confidence]
        sure = [run for run in trusted if chances[run.parallelism] >= max(SURE, self.confidence)]
        return sure[0] if sure else max(trusted, key=lambda run: chances[run.parallelism], default=None)

    def cheaper(self, runs: Sequence[Run], rng: np.random.Generator) -> Point | None:
        """Where one more window is expected to save most: of a new configuration that is likely enough to be sure after
        it, or of one that was run and is not trusted yet."""
        if (accepted := self.accepted(runs)) is None:
            return None
        posterior, sure, chances = self._posterior(runs), max(SURE, self.confidence), self._chances(runs)
        kept = float(self.benefit.resources(accepted.parallelism))

        def chance(ks: Pool | Sequence[Point]) -> Floats:
            return probability_accepted(*posterior.log_ratio(ks), posterior.noise, sure)

        def saved(ks: Pool) -> Floats:
            return np.asarray(chance(ks) * np.maximum(self.benefit.resources(ks) - kept - WORTH_A_RUN, 0.0))

        fewer = [run for run in runs if self._meets_rule(run) and sum(run.parallelism) < sum(accepted.parallelism)]
        likely = [run.parallelism for run in fewer if LIKELY <= chances[run.parallelism] < self.confidence]
        new = self._argmax(saved, runs, rng)
        if new is not None and chance([new])[0] >= WORTH_TRYING and saved(np.array([new]))[0] > 0:
            likely.append(new)
        return max(likely, key=lambda k: (float(saved(np.array([k]))[0]), k), default=None)

    def rule_is_hopeless(self, runs: Sequence[Run]) -> bool:
        """A run beyond the rule is trusted to meet the target, and the likeliest place inside is likely to miss."""
        chances = self._chances(runs)
        if not any(self._met(run) and chances[run.parallelism] >= self.confidence for run in runs):
            return False
        if any(chances[run.parallelism] > HOPELESS and self._meets_rule(run) for run in runs):
            return False
        posterior = self._posterior(runs)

        def met(ks: Pool) -> Floats:
            return np.where(self._allowed(ks), probability_met(*posterior.log_ratio(ks)), 0.0)

        likeliest = self._argmax(met, runs, np.random.default_rng(len(runs)))
        return likeliest is None or float(met(np.array([likeliest]))[0]) < HOPELESS

    def unsure(self, runs: Sequence[Run], ahead: Callable[[], Point | None]) -> Run | None:
        """Once any of them; again as long as that is likelier to end the search than a run of what is `ahead`, which
        beyond the stop rule ends nothing."""
        chances = self._chances(runs)
        near = [run for run in runs if self._meets_rule(run) and run.windows < WINDOWS]
        doubtful = [run for run in near if chances[run.parallelism] < self.confidence]
        likeliest = max(doubtful, key=lambda run: chances[run.parallelism], default=None)
        if likeliest is None or likeliest.windows == 1 or (new := ahead()) is None:
            return likeliest
        posterior = self._posterior(runs)
        mean, std = posterior.log_ratio([likeliest.parallelism, new])
        again, anew = log_probability_accepted(mean, std, posterior.noise, self.confidence)
        return likeliest if again > anew or not self._allowed([new])[0] else None

    def rank(self, runs: Sequence[Run]) -> list[Run]:
        """Runs likely to meet the target first, then those that did as measured, then the rest; by score in each."""
        return self._ranked(runs, self._chances(runs), self._scores(runs)) if runs else []

    def _ranked(self, runs: Sequence[Run], chances: Mapping[Point, float], scores: Mapping[Point, float]) -> list[Run]:
        def key(run: Run) -> tuple[bool, bool, float]:
            met = self._met(run)
            return met and chances[run.parallelism] >= LIKELY, met, scores[run.parallelism]

        return sorted(runs, key=key, reverse=True)

    def model(self, runs: Sequence[Run], rate: float) -> BenefitModel:
        doubts = self._posterior(runs).doubts
        kept = [model.alone() for model, doubt in zip(self.sources, doubts, strict=True) if doubt is not None]
        return BenefitModel(
            kind="latency",
            rate=rate,
            sizing=self.sizing.summarize(rate),
            latency_target=self.benefit.latency_target,
            alpha=self.benefit.alpha,
            over_allocation=self.benefit.over_allocation,
            samples=build_samples(runs, self.benefit),
            noise=self.noise,
            ancestors=tuple(kept),
        )

    def remarks(self, runs: Sequence[Run]) -> list[str]:
        return [
            f"the model of {model.rate:g} records/s does not fit this job and is left out, as what was measured says"
            for model, doubt in zip(self.sources, self._posterior(runs).doubts, strict=True)
            if doubt is None
        ]

    def _first(self) -> Point | None:
        """What a source accepted under these very conditions. Without sources that count, every operator at the same
        multiple of its floor. None where the sources say where to begin."""
        posterior = self._posterior(())
        if not posterior.informed:
            return self._balanced()
        theirs = [run for model in self.sources if model.rate == self.sizing.rate for run in model.runs]
        kept = self._frugal([run for run in theirs if run.parallelism in self.lattice and not run.failed])
        here = {run.parallelism: run for run in kept}
        if not here:
            return None
        mean, std = posterior.log_ratio(list(here))
        scores = self.benefit.score(list(here), self.benefit.latency_target * np.exp(mean))
        chances = dict(zip(here, probability_met(mean, std).tolist(), strict=True))
        ranked = self._ranked(list(here.values()), chances, dict(zip(here, scores.tolist(), strict=True)))
        trusted = self._trusted(ranked, chances)
        return None if trusted is None else trusted.parallelism

    @cached_property
    def _carried(self) -> list[Point]:
        """What the sources ran, as much over this floor as it was over theirs, and as it was."""
        found: dict[Point, None] = {}
        for model in self.sources:
            for run in sorted(model.runs, key=lambda run: run.latency or math.inf)[:HINTS]:
                over = zip(run.parallelism, model.floor, self.lattice.lower, strict=True)
                found[self.lattice.clip([round(k / theirs * mine) for k, theirs, mine in over])] = None
                found[self.lattice.clip(run.parallelism)] = None
        return list(found)

    @cached_property
    def _even(self) -> list[Point]:
        return [self._balanced(ratio) for ratio in RATIOS]

    def _balanced(self, ratio: float = FIRST_RATIO) -> Point:
        """Rounding must not fall outside the stop rule."""
        lower, upper = np.array(self.lattice.lower), np.array(self.lattice.upper)
        k = np.clip(np.rint(lower / ratio).astype(np.int64), lower, upper)
        while self.benefit.resources(k) < 1 / (1 + self.benefit.over_allocation) and np.any(k > lower):
            k[np.argmax(np.where(k > lower, k / lower, 0.0))] -= 1
        return tuple(int(x) for x in k)

    def _argmax(self, value: Value, runs: Sequence[Run], rng: np.random.Generator) -> Point | None:
        best = [run.parallelism for run in self.rank(runs)[:HINTS]]
        hints = [self.lattice.lower, *self._even, *self._carried, *best]
        return self.lattice.argmax(value, excluded={run.parallelism for run in runs}, hints=hints, rng=rng)

    def _hardly_accepted(self, k: Point | None, runs: Sequence[Run]) -> bool:
        """Of the most hopeful point inside the rule: no run of it is likely to be the last."""
        if k is None or not runs or not self._allowed([k])[0]:
            return False
        posterior = self._posterior(runs)
        chance = probability_accepted(*posterior.log_ratio([k]), posterior.noise, self.confidence)
        return float(chance[0]) < HOPELESS

    def _allowed(self, ks: Pool | Sequence[Point]) -> NDArray[np.bool_]:
        """What the over-allocation leaves to the stop rule."""
        return np.asarray(self.benefit.resources(ks) >= 1 / (1 + self.benefit.over_allocation) - 1e-9)

    def _hope_beyond(self, runs: Sequence[Run]) -> Value:
        """Where nothing that the rule allows is likely to meet the target, it is worth knowing what does."""
        posterior = self._posterior(runs)

        def value(ks: Pool) -> Floats:
            chance = log_probability_accepted(*posterior.log_ratio(ks), posterior.noise, self.confidence)
            return np.asarray(chance + np.log(self.benefit.resources(ks)))

        return value

    def _hope(self, runs: Sequence[Run]) -> Value:
        posterior, limit = self._posterior(runs), 1 / (1 + self.benefit.over_allocation)
        epsilon = EPSILON_WARM if posterior.informed else EPSILON

        def value(ks: Pool) -> Floats:
            mean, std = posterior.log_ratio(ks)
            chance = log_probability_accepted(mean, std, posterior.noise, self.confidence)
            resources = self.benefit.resources(ks)
            worth = np.where(self._allowed(ks), resources - limit + epsilon, BEYOND_RULE * resources)
            return np.asarray(chance + np.log(worth))

        return value

    def _gain(self, runs: Sequence[Run]) -> Value:
        posterior, best = self._posterior(runs), self._scores(runs)[self.rank(runs)[0].parallelism]

        def value(ks: Pool) -> Floats:
            mean, std = posterior.log_ratio(ks)
            gain = improvement_of_benefit(mean, std, self.benefit.resources(ks), best, self.benefit.alpha)
            return gain * np.sqrt(probability_met(mean, std))

        return value

    def _met(self, run: Run) -> bool:
        return run.latency is not None and run.latency <= self.benefit.latency_target

    def _frugal(self, runs: Sequence[Run]) -> list[Run]:
        """Those that the stop rule allows."""
        if not runs:
            return []
        allowed = self._allowed([run.parallelism for run in runs])
        return [run for run, is_allowed in zip(runs, allowed, strict=True) if is_allowed]

    def _meets_rule(self, run: Run) -> bool:
        return run.latency is not None and self.benefit.satisfied(run.parallelism, run.latency)

    def _chances(self, runs: Sequence[Run]) -> dict[Point, float]:
        """P of each run; a run that failed does not meet the target, whatever its neighbours do."""
        if not runs:
            return {}
        chances = probability_met(*self._expected_of(runs))
        return {run.parallelism: 0.0 if run.failed else float(p) for run, p in zip(runs, chances, strict=True)}

    def _scores(self, runs: Sequence[Run]) -> dict[Point, float]:
        """The score of each run by the posterior's mean latency: one lucky reading does not make a run the best."""
        ks = [run.parallelism for run in runs]
        mean, _ = self._expected_of(runs)
        scores = self.benefit.score(ks, self.benefit.latency_target * np.exp(mean))
        failed = self.benefit.score(ks, math.inf)
        return {run.parallelism: float(failed[i] if run.failed else scores[i]) for i, run in enumerate(runs)}

    def _expected_of(self, runs: Sequence[Run]) -> tuple[Floats, Floats]:
        """μ and σ of what was run."""
        key = tuple(runs)
        if self._of_runs is None or self._of_runs[0] != key:
            self._of_runs = key, self._posterior(key).log_ratio([run.parallelism for run in key])
        return self._of_runs[1]

    def _posterior(self, runs: Sequence[Run]) -> Posterior:
        key = tuple(runs)
        if self._last is None or self._last[0] != key:
            present = build_readings(build_samples(runs, self.benefit), self.benefit.latency_target, self.sizing)
            sources = [model.readings for model in self.sources]
            self._last = key, surrogate.fit(present, sources, noise=self.noise)
        return self._last[1]


def place_sizing(sizing: Sizing | None, lattice: Lattice) -> Sizing:
    """What was measured, over the points that are searched; nothing but these where nothing was measured."""
    if sizing is None:
        return Sizing.of_loads(lattice.lower, lattice.upper)
    return replace(sizing, floor=lattice.lower, upper=lattice.upper)


def _family(models: Sequence[BenefitModel]) -> list[BenefitModel]:
    """The source models, the first-named first, and after them those they were built on, each once."""
    flat = [*(model.alone() for model in models), *(each for model in models for each in model.ancestors)]
    # A model of the paper's kind has latencies too: what it modelled does not matter here.
    unique = {(member.rate, member.samples): member for member in flat}
    return list(unique.values())[: max(ANCESTORS, len(models))]
