"""Latency predictions for a running job, and the least parallelism that is predicted to meet the target.

    symbol   meaning                                                           unit
    R        the rate that the job is to be sized for                          records/s
    l_r      latency of a reading                                              s
    l_t      latency target                                                    s
    y        log(l_r / l_t), predicted as mean ± sd                            log
    NUM      configurations of one rate after which no other rate is used

A reading at another rate says something about R through the job's physics; the further the rates are apart, the less
it weighs. Until rate R has NUM configurations of its own, models of other sessions are sources (Algorithm 2); then
Algorithm 1 uses the readings at R alone.

The answer is the fewest instances that meet the target with `confidence`. If the readings name none, a study is asked,
which also looks for an informative configuration.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from autotrascale.domain.target import Target
from autotrascale.plan.control.autoscaling.readings_by_rate import RateReadings, ReadingsByRate
from autotrascale.plan.formatting import join_names
from autotrascale.plan.search import surrogate
from autotrascale.plan.search.acquisition import probability_met
from autotrascale.plan.search.ask_tell import AskTellStudy, SearchSettings
from autotrascale.plan.search.benefit_model import ANCESTORS, BenefitModel, ModelSample, build_readings, build_samples
from autotrascale.plan.search.lattice import Lattice, Point, Pool
from autotrascale.plan.search.score import Benefit
from autotrascale.plan.search.study_runs import Run
from autotrascale.plan.search.training_data import SessionReadings
from autotrascale.plan.sizing.sizing import Sizing

Floats = NDArray[np.float64]

MAX_SOURCES = 3  # stored models
MIN_PROBABILITY_OF_USUAL = 0.6  # of meeting the target, for a configuration that is scaled from another rate
DRIFT_PER_EFOLD = 0.25  # error of log latency for each e-fold between two rates


@dataclass(frozen=True)
class AutoscalingSettings:
    """The constants of one job's plans. The names mean the same as in the `tuning:` section of a job file."""

    target: Target
    alpha: float = 0.5
    over_allocation: float = 0.5
    noise: float = 0.05
    confidence: float = 0.75
    own_samples: int = 8  # NUM
    seed: int = 0


@dataclass(frozen=True)
class LatencyPrediction:
    """A parallelism for a rate, with the mean and standard deviation of y."""

    rate: float
    k: Point
    mean: float
    sd: float
    met: float = 1.0  # probability that the target is met
    basis: str = ""  # the readings and models behind it, for display

    def latency(self, target: float) -> float:
        return target * math.exp(self.mean)

    def spread(self, target: float) -> float:
        """Return one standard deviation upwards, in seconds."""
        return target * math.exp(self.mean) * math.expm1(self.sd)


def predict_least(
    settings: AutoscalingSettings, readings: ReadingsByRate, models: Sequence[BenefitModel], sized: Sizing
) -> LatencyPrediction:
    """Return the least parallelism that is expected to meet the target at the rate of `sized`.

    A configuration that met the target at another rate, scaled to this one, is preferred if it is smaller or if no
    configuration is sure. Otherwise, if none is sure, the answer is an informative configuration.
    """
    known = _KnowledgeAtRate(settings, readings, models, sized)
    least = known.predict(known.find_least())
    is_sure = least.met >= settings.confidence
    scaled = readings.find_usual(sized, settings.target.latency_seconds)
    usual = None if scaled is None else known.predict(scaled)
    if usual is not None and usual.met >= MIN_PROBABILITY_OF_USUAL and (not is_sure or sum(least.k) > sum(usual.k)):
        return usual
    return least if is_sure else known.predict(known.find_informative())


def predict_at(
    settings: AutoscalingSettings, readings: ReadingsByRate, models: Sequence[BenefitModel], sized: Sizing, k: Point
) -> LatencyPrediction:
    """Return the prediction for `k` at the rate of `sized`."""
    return _KnowledgeAtRate(settings, readings, models, sized).predict(k)


class _KnowledgeAtRate:
    """All readings and models, as they apply to one rate."""

    def __init__(
        self, settings: AutoscalingSettings, readings: ReadingsByRate, models: Sequence[BenefitModel], sized: Sizing
    ) -> None:
        self.settings, self.sized, self.lattice = settings, sized, Lattice(sized.floor, sized.upper)
        own = readings.at(sized.rate)
        self.runs = () if own is None else tuple(run for run in own.runs if run.parallelism in self.lattice)
        is_enough = len(self.runs) >= settings.own_samples
        nearest = sorted(models, key=lambda model: abs(math.log(model.rate / sized.rate)))[:MAX_SOURCES]
        self.sources = [] if is_enough else nearest
        self.cells = [] if is_enough else readings.near(sized.rate)
        target = settings.target.latency_seconds
        self.posterior = surrogate.fit(
            self._collect_readings(), [model.towards(target).readings for model in self.sources], noise=settings.noise
        )

    def predict(self, k: Point) -> LatencyPrediction:
        mean, sd = self.posterior.log_ratio([k])
        met = float(probability_met(mean, sd)[0])
        return LatencyPrediction(self.sized.rate, k, float(mean[0]), float(sd[0]), met, self._basis)

    def find_least(self) -> Point:
        """Return the fewest instances that meet the target with confidence, else the configuration likeliest to."""
        most = sum(self.sized.upper)

        def value(ks: Pool) -> Floats:
            met = probability_met(*self.posterior.log_ratio(ks))
            return np.where(met >= self.settings.confidence, 2.0 - ks.sum(axis=1) / most, met)

        hints = [self.sized.floor, *(self.lattice.clip(run.parallelism) for run in self.runs)]
        rng = np.random.default_rng([self.settings.seed, len(self.runs)])
        return self.lattice.argmax(value, excluded=(), hints=hints, rng=rng) or self.sized.floor

    def find_informative(self) -> Point:
        """Return the configuration that Algorithm 1 or 2 would run next."""
        sources = [*(_to_model(cell, self.settings) for cell in self.cells[:MAX_SOURCES]), *self.sources]
        study = _open_study(self.settings, self.sized, self.runs, sources)
        is_exhausted = len(self.runs) >= self.lattice.size
        return study.best.parallelism if is_exhausted or (self.runs and study.finished) else study.ask()

    def _collect_readings(self) -> SessionReadings:
        """Return the readings of this rate and of the rates around it. A distant rate weighs less."""
        settings, sized = self.settings, self.sized
        here = self._read(self.runs, sized)
        ks, y, weight, failed = [*here.ks], [*here.log_ratio], [*here.weight], [*here.failed]
        rates, measured = [sized.rate] * len(ks), [*here.measured]
        for cell in self.cells:
            there = self._read(cell.runs, cell.sizing)
            drift = DRIFT_PER_EFOLD * math.log(sized.rate / cell.sizing.rate)
            doubt = (drift / settings.noise) ** 2  # in variances of a reading
            ks += there.ks
            y += there.log_ratio
            weight += [each + doubt for each in there.weight]
            failed += there.failed
            measured += there.measured
            rates += [cell.sizing.rate] * len(there.ks)
        return replace(
            here,
            ks=tuple(ks),
            log_ratio=tuple(y),
            weight=tuple(weight),
            failed=tuple(failed),
            rates=tuple(rates),
            measured=tuple(measured),
        )

    def _read(self, runs: Sequence[Run], sizing: Sizing) -> SessionReadings:
        samples = [ModelSample(run.parallelism, run.latency, 0.0, run.windows) for run in runs]
        return build_readings(samples, self.settings.target.latency_seconds, sizing)

    @property
    def _basis(self) -> str:
        own = f"{len(self.runs)} configurations at this rate"
        others = [f"{cell.sizing.rate:,.0f}/s" for cell in self.cells]
        stored = [f"the model of {model.rate:,.0f}/s" for model in self.sources]
        return ", ".join([own, *([f"readings at {join_names(others, 3)}"] if others else []), *stored])


def train_model(settings: AutoscalingSettings, readings: ReadingsByRate, rate: float) -> BenefitModel | None:
    """Return the job's benefit model at `rate`, or None without a reading there. Other rates are its sources."""
    if (cell := readings.at(rate)) is None:
        return None
    lattice = Lattice(cell.sizing.floor, cell.sizing.upper)
    runs = [run for run in cell.runs if run.parallelism in lattice]
    if not runs:
        return None
    sources = [_to_model(other, settings) for other in readings.near(rate)[:ANCESTORS]]
    return _open_study(settings, cell.sizing, runs, sources).model(cell.sizing.rate)


def _open_study(
    settings: AutoscalingSettings, sized: Sizing, runs: Sequence[Run], sources: list[BenefitModel]
) -> AskTellStudy:
    """Return a study that was told `runs`."""
    study = AskTellStudy(
        sized.floor,
        sized.upper,
        settings.target.latency_seconds,
        settings.alpha,
        settings.over_allocation,
        settings.seed,
        source=sources,
        sizing=sized,
        max_runs=10_000,
        settings=SearchSettings(settings.noise, settings.confidence),
    )
    for run in runs:
        study.tell(run.parallelism, latency=run.latency, failed=run.failed)
    return study


@lru_cache(maxsize=256)
def _to_model(cell: RateReadings, settings: AutoscalingSettings) -> BenefitModel:
    """Return a cell as a model that another rate can start from."""
    sized, target = cell.sizing, settings.target.latency_seconds
    benefit = Benefit(sized.floor, target, settings.alpha, settings.over_allocation)
    return BenefitModel(
        "latency",
        sized.rate,
        sized,
        target,
        settings.alpha,
        settings.over_allocation,
        build_samples(cell.runs, benefit),
        noise=settings.noise,
    )
