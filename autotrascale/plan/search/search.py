"""The default search: choose the next run and judge the runs made.

    symbol   meaning                                                          shape
    μ, σ     posterior of y = log(l_r / l_t)                                  (n,)
    r        resource term (1/N) Σ k'_i / k_i, known                          (n,)
    P        P(y ≤ 0): probability that the true latency meets the target     (n,)
    A        probability that one run of a configuration ends the search      (n,)
    F⁺       score of the best run that can be trusted                        scalar
    w, ε     over-allocation; value of acceptance beside the resources saved  scalar

Until a run is accepted, the search prefers a likely acceptance and, among likely ones, few resources:

    hope(k) = ln[ A · (r − 1/(1+w) + ε) ]    inside the stop rule

After that, it prefers a likely improvement of the score that can be trusted:

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
Objective = Callable[[Pool], Floats]

FIRST_RATIO = 0.75  # mean(k'/k) of the very first run: enough instances to be accepted often
EPSILON = 0.4  # ε of a cold search
EPSILON_WARM = 2.0  # ε when a source model has explored already, so that each run may be the last
LEAST_MISS = 0.01  # log ratio above the target that is assumed of a run that has not ended yet
LIKELY = 0.6  # P from which runs are ranked by score
# Measured on 105 jobs of benchmarks/workloads: with WORTH_TRYING = 0.3 the regret at the stop is 0.033 with 0.9 extra
# runs in the mean; with 0.5 it is 0.037 (0.7 runs), with 0.7 it is 0.042 (0.4 runs), without extra runs 0.052.
SURE = 0.99  # P that a run needs to replace another trusted run
WORTH_A_RUN = 0.01  # least saving of mean(k'/k) that justifies a run
WORTH_TRYING = 0.3  # least probability of acceptance that justifies a run
WINDOWS = 5  # windows at one configuration, before it is given up as too close to the target
RATIOS = (0.9, 0.8, 0.7)  # mean(k'/k) of the balanced configurations that every proposal considers
HINTS = 3  # best runs so far, around which the next run is searched too
BEYOND_RULE = 0.005  # value of meeting the target outside the stop rule
HOPELESS = 0.01  # P below which no configuration inside the stop rule is worth a run


class Search:
    """The default `Searcher`.

    Args:
        lattice: configurations that may be proposed.
        benefit: score and stop rule.
        sources: models of earlier studies of the same job, default none.
        sizing: loads and execution model that the floor was computed from; default: not measured.
        noise: relative error of one latency reading, in (0, 1], default 0.05.
        confidence: P that a run needs to be accepted, in [0, 1], default 0.97.
    """

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
        self.sources = [model.towards(benefit.latency_target) for model in _flatten_ancestors(sources)]
        self._posterior_after: tuple[tuple[Run, ...], Posterior] | None = None
        self._moments_after: tuple[tuple[Run, ...], tuple[Floats, Floats]] | None = None

    def propose(self, runs: Sequence[Run], rng: np.random.Generator) -> Point | None:
        """Return the next configuration, which is none of the runs; None when no configuration is left."""
        if len(runs) >= self.lattice.size:
            return None
        if not runs and (first := self._propose_first()) is not None:
            return first
        if self.find_accepted(runs) is not None:
            return self._argmax(self._gain(runs), runs, rng)
        k = self._argmax(self._hope(runs), runs, rng)
        return self._argmax(self._hope_beyond_rule(runs), runs, rng) if self._is_hardly_accepted(k, runs) else k

    def predict_run(self, runs: Sequence[Run], k: Point) -> Run:
        """Return the expected result of `k`, at least a little over the target, so that it does not end the search."""
        mean = float(self._posterior(tuple(runs)).log_ratio([k])[0][0])
        return Run(k, self.benefit.latency_target * math.exp(min(max(mean, LEAST_MISS), FARTHEST)))

    def find_accepted(self, runs: Sequence[Run]) -> Run | None:
        """Return the best run inside the stop rule whose true latency can be trusted to meet the target, or None.

        Runs with P ≥ `SURE` are compared by score. Among barely trusted runs the likeliest is taken: the leanest of
        them is probably the run with the most favourable noise. P comes from all runs and sources, so a single reading
        above the target does not rule a configuration out.
        """
        return self._find_trusted(self._within_rule(self.rank(runs)), self._chances(runs))

    def find_nearest(self, runs: Sequence[Run]) -> Run:
        """Return the run to use while no run is accepted.

        Trusted runs come first, by score, also outside the stop rule. Then runs within the target as measured, by P.
        Then the lowest latency, and last the highest throughput.
        """
        chances, scores = self._chances(runs), self._scores(runs)

        def key(run: Run) -> tuple[bool, float, bool, float, float, float]:
            chance, met = chances[run.parallelism], self._is_met(run)
            is_trusted = met and chance >= self.confidence
            return (
                is_trusted,
                scores[run.parallelism] if is_trusted else 0.0,
                met,
                chance if met else 0.0,
                -math.inf if run.latency is None else -run.latency,
                run.throughput or 0.0,
            )

        return max(runs, key=key)

    def estimate_probability(self, runs: Sequence[Run], run: Run) -> float | None:
        """Return P of `run`, one of the runs."""
        return self._chances(runs)[run.parallelism]

    def _find_trusted(self, ranked: Sequence[Run], chances: Mapping[Point, float]) -> Run | None:
        trusted = [run for run in ranked if chances[run.parallelism] >= self.confidence]
        sure = [run for run in trusted if chances[run.parallelism] >= max(SURE, self.confidence)]
        return sure[0] if sure else max(trusted, key=lambda run: chances[run.parallelism], default=None)

    def find_cheaper(self, runs: Sequence[Run], rng: np.random.Generator) -> Point | None:
        """Return the configuration where one more window is expected to save most, or None.

        Candidates are a new configuration that is likely to be sure after one window, and runs that are not trusted
        yet and have fewer instances than the accepted run.
        """
        if (accepted := self.find_accepted(runs)) is None:
            return None
        posterior, sure, chances = self._posterior(runs), max(SURE, self.confidence), self._chances(runs)
        accepted_resources = float(self.benefit.resources(accepted.parallelism))

        def chance(ks: Pool | Sequence[Point]) -> Floats:
            return probability_accepted(*posterior.log_ratio(ks), posterior.noise, sure)

        def expected_saving(ks: Pool) -> Floats:
            saving = self.benefit.resources(ks) - accepted_resources - WORTH_A_RUN
            return np.asarray(chance(ks) * np.maximum(saving, 0.0))

        fewer = [run for run in runs if self._meets_rule(run) and sum(run.parallelism) < sum(accepted.parallelism)]
        likely = [run.parallelism for run in fewer if LIKELY <= chances[run.parallelism] < self.confidence]
        new = self._argmax(expected_saving, runs, rng)
        if new is not None and chance([new])[0] >= WORTH_TRYING and expected_saving(np.array([new]))[0] > 0:
            likely.append(new)
        return max(likely, key=lambda k: (float(expected_saving(np.array([k]))[0]), k), default=None)

    def is_rule_hopeless(self, runs: Sequence[Run]) -> bool:
        """Return whether a run is trusted to meet the target and the likeliest place inside the rule is not likely."""
        chances = self._chances(runs)
        if not any(self._is_met(run) and chances[run.parallelism] >= self.confidence for run in runs):
            return False
        if any(chances[run.parallelism] > HOPELESS and self._meets_rule(run) for run in runs):
            return False
        posterior = self._posterior(runs)

        def met(ks: Pool) -> Floats:
            return np.where(self._is_allowed(ks), probability_met(*posterior.log_ratio(ks)), 0.0)

        likeliest = self._argmax(met, runs, np.random.default_rng(len(runs)))
        return likeliest is None or float(met(np.array([likeliest]))[0]) < HOPELESS

    def find_unsure(self, runs: Sequence[Run], propose_next: Callable[[], Point | None]) -> Run | None:
        """Return a run inside the rule that another window may get accepted, or None.

        Each such run gets a second window. Further windows are worth it only while they are likelier to end the
        search than a run of the next proposal. A proposal outside the stop rule never ends the search.
        """
        chances = self._chances(runs)
        near = [run for run in runs if self._meets_rule(run) and run.windows < WINDOWS]
        doubtful = [run for run in near if chances[run.parallelism] < self.confidence]
        likeliest = max(doubtful, key=lambda run: chances[run.parallelism], default=None)
        if likeliest is None or likeliest.windows == 1 or (new := propose_next()) is None:
            return likeliest
        posterior = self._posterior(runs)
        mean, std = posterior.log_ratio([likeliest.parallelism, new])
        again, anew = log_probability_accepted(mean, std, posterior.noise, self.confidence)
        return likeliest if again > anew or not self._is_allowed([new])[0] else None

    def rank(self, runs: Sequence[Run]) -> list[Run]:
        """Return the runs with P ≥ `LIKELY` first, then other runs within the target, then the rest; each by score."""
        return self._sort_runs(runs, self._chances(runs), self._scores(runs)) if runs else []

    def _sort_runs(
        self, runs: Sequence[Run], chances: Mapping[Point, float], scores: Mapping[Point, float]
    ) -> list[Run]:
        def key(run: Run) -> tuple[bool, bool, float]:
            met = self._is_met(run)
            return met and chances[run.parallelism] >= LIKELY, met, scores[run.parallelism]

        return sorted(runs, key=key, reverse=True)

    def model(self, runs: Sequence[Run], rate: float) -> BenefitModel:
        """Return the benefit model of the runs at `rate` records per second."""
        doubts = self._posterior(runs).doubts
        ancestors = [model.alone() for model, doubt in zip(self.sources, doubts, strict=True) if doubt is not None]
        return BenefitModel(
            kind="latency",
            rate=rate,
            sizing=self.sizing.summarize(rate),
            latency_target=self.benefit.latency_target,
            alpha=self.benefit.alpha,
            over_allocation=self.benefit.over_allocation,
            samples=build_samples(runs, self.benefit),
            noise=self.noise,
            ancestors=tuple(ancestors),
        )

    def remarks(self, runs: Sequence[Run]) -> list[str]:
        """Return one message for each source model that the measurements contradict."""
        return [
            f"The model of {model.rate:g} records/s is ignored: its runs contradict the measurements of this job."
            for model, doubt in zip(self.sources, self._posterior(runs).doubts, strict=True)
            if doubt is None
        ]

    def _propose_first(self) -> Point | None:
        """Return the accepted run of a source at the same rate, or a balanced configuration without usable sources.

        None means that the sources tell enough for an ordinary proposal.
        """
        posterior = self._posterior(())
        if not posterior.informed:
            return self._balanced()
        source_runs = [run for model in self.sources if model.rate == self.sizing.rate for run in model.runs]
        usable = self._within_rule([run for run in source_runs if run.parallelism in self.lattice and not run.failed])
        by_point = {run.parallelism: run for run in usable}
        if not by_point:
            return None
        mean, std = posterior.log_ratio(list(by_point))
        scores = self.benefit.score(list(by_point), self.benefit.latency_target * np.exp(mean))
        chances = dict(zip(by_point, probability_met(mean, std).tolist(), strict=True))
        ranked = self._sort_runs(list(by_point.values()), chances, dict(zip(by_point, scores.tolist(), strict=True)))
        trusted = self._find_trusted(ranked, chances)
        return None if trusted is None else trusted.parallelism

    @cached_property
    def _source_hints(self) -> list[Point]:
        """The fastest runs of each source: in proportion to this floor, and unchanged."""
        hints: dict[Point, None] = {}
        for model in self.sources:
            for run in sorted(model.runs, key=lambda run: run.latency or math.inf)[:HINTS]:
                scaled = zip(run.parallelism, model.floor, self.lattice.lower, strict=True)
                hints[self.lattice.clip([round(k / source_floor * floor) for k, source_floor, floor in scaled])] = None
                hints[self.lattice.clip(run.parallelism)] = None
        return list(hints)

    @cached_property
    def _balanced_hints(self) -> list[Point]:
        return [self._balanced(ratio) for ratio in RATIOS]

    def _balanced(self, ratio: float = FIRST_RATIO) -> Point:
        """Return every operator at the same multiple of its floor, lowered where rounding would break the stop rule."""
        lower, upper = np.array(self.lattice.lower), np.array(self.lattice.upper)
        k = np.clip(np.rint(lower / ratio).astype(np.int64), lower, upper)
        while self.benefit.resources(k) < 1 / (1 + self.benefit.over_allocation) and np.any(k > lower):
            k[np.argmax(np.where(k > lower, k / lower, 0.0))] -= 1
        return tuple(int(x) for x in k)

    def _argmax(self, objective: Objective, runs: Sequence[Run], rng: np.random.Generator) -> Point | None:
        best = [run.parallelism for run in self.rank(runs)[:HINTS]]
        hints = [self.lattice.lower, *self._balanced_hints, *self._source_hints, *best]
        return self.lattice.argmax(objective, excluded={run.parallelism for run in runs}, hints=hints, rng=rng)

    def _is_hardly_accepted(self, k: Point | None, runs: Sequence[Run]) -> bool:
        """Return whether `k`, the most hopeful point inside the rule, is unlikely to end the search."""
        if k is None or not runs or not self._is_allowed([k])[0]:
            return False
        posterior = self._posterior(runs)
        chance = probability_accepted(*posterior.log_ratio([k]), posterior.noise, self.confidence)
        return float(chance[0]) < HOPELESS

    def _is_allowed(self, ks: Pool | Sequence[Point]) -> NDArray[np.bool_]:
        """Return for each row whether the stop rule allows its resources."""
        return np.asarray(self.benefit.resources(ks) >= 1 / (1 + self.benefit.over_allocation) - 1e-9)

    def _hope_beyond_rule(self, runs: Sequence[Run]) -> Objective:
        posterior = self._posterior(runs)

        def objective(ks: Pool) -> Floats:
            chance = log_probability_accepted(*posterior.log_ratio(ks), posterior.noise, self.confidence)
            return np.asarray(chance + np.log(self.benefit.resources(ks)))

        return objective

    def _hope(self, runs: Sequence[Run]) -> Objective:
        posterior, limit = self._posterior(runs), 1 / (1 + self.benefit.over_allocation)
        epsilon = EPSILON_WARM if posterior.informed else EPSILON

        def objective(ks: Pool) -> Floats:
            mean, std = posterior.log_ratio(ks)
            chance = log_probability_accepted(mean, std, posterior.noise, self.confidence)
            resources = self.benefit.resources(ks)
            value = np.where(self._is_allowed(ks), resources - limit + epsilon, BEYOND_RULE * resources)
            return np.asarray(chance + np.log(value))

        return objective

    def _gain(self, runs: Sequence[Run]) -> Objective:
        posterior, best = self._posterior(runs), self._scores(runs)[self.rank(runs)[0].parallelism]

        def objective(ks: Pool) -> Floats:
            mean, std = posterior.log_ratio(ks)
            gain = improvement_of_benefit(mean, std, self.benefit.resources(ks), best, self.benefit.alpha)
            return gain * np.sqrt(probability_met(mean, std))

        return objective

    def _is_met(self, run: Run) -> bool:
        return run.latency is not None and run.latency <= self.benefit.latency_target

    def _within_rule(self, runs: Sequence[Run]) -> list[Run]:
        if not runs:
            return []
        allowed = self._is_allowed([run.parallelism for run in runs])
        return [run for run, is_allowed in zip(runs, allowed, strict=True) if is_allowed]

    def _meets_rule(self, run: Run) -> bool:
        return run.latency is not None and self.benefit.satisfied(run.parallelism, run.latency)

    def _chances(self, runs: Sequence[Run]) -> dict[Point, float]:
        """Return P of each run; 0 for a failed run, also next to good runs."""
        if not runs:
            return {}
        chances = probability_met(*self._moments(runs))
        return {run.parallelism: 0.0 if run.failed else float(p) for run, p in zip(runs, chances, strict=True)}

    def _scores(self, runs: Sequence[Run]) -> dict[Point, float]:
        """Return the score of each run at the posterior mean of its latency, which a lucky reading hardly moves."""
        ks = [run.parallelism for run in runs]
        mean, _ = self._moments(runs)
        scores = self.benefit.score(ks, self.benefit.latency_target * np.exp(mean))
        failed = self.benefit.score(ks, math.inf)
        return {run.parallelism: float(failed[i] if run.failed else scores[i]) for i, run in enumerate(runs)}

    def _moments(self, runs: Sequence[Run]) -> tuple[Floats, Floats]:
        """Return μ and σ of the runs."""
        key = tuple(runs)
        if self._moments_after is None or self._moments_after[0] != key:
            self._moments_after = key, self._posterior(key).log_ratio([run.parallelism for run in key])
        return self._moments_after[1]

    def _posterior(self, runs: Sequence[Run]) -> Posterior:
        key = tuple(runs)
        if self._posterior_after is None or self._posterior_after[0] != key:
            present = build_readings(build_samples(runs, self.benefit), self.benefit.latency_target, self.sizing)
            sources = [model.readings for model in self.sources]
            self._posterior_after = key, surrogate.fit(present, sources, noise=self.noise)
        return self._posterior_after[1]


def place_sizing(sizing: Sizing | None, lattice: Lattice) -> Sizing:
    """Return `sizing` with the bounds of the lattice; a sizing without loads where nothing was measured."""
    if sizing is None:
        return Sizing.of_loads(lattice.lower, lattice.upper)
    return replace(sizing, floor=lattice.lower, upper=lattice.upper)


def _flatten_ancestors(models: Sequence[BenefitModel]) -> list[BenefitModel]:
    """Return the models in the order given and then their ancestors, each once and without its own ancestors.

    A model of kind "score" is used too: it holds latencies like any other.
    """
    flat = [*(model.alone() for model in models), *(each for model in models for each in model.ancestors)]
    unique = {(member.rate, member.samples): member for member in flat}
    return list(unique.values())[: max(ANCESTORS, len(models))]
