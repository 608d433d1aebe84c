"""What a parallelism would do at a rate, predicted from the readings of a running job, and the least that would do.

    symbol   meaning                                                           unit
    R        the rate that the job is to be sized for                          records/s
    k', load floor and loads at that rate                                      instances
    y        log(l_r / l_t), predicted as mean ± sd                             log

A reading at any rate speaks of the rate R through the job's physics; the further apart the rates, the less it weighs.
Models of other sessions are sources, as in Algorithm 2, until a rate has NUM configurations
of its own (then Algorithm 1).

What is asked for is the fewest instances that meet the target with `confidence`. Where the readings cannot name any,
a study is asked, which also looks for what is worth knowing.
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

MAX_SOURCES = 3  # stored models that a prediction is made from
MIN_PROBABILITY_OF_USUAL = 0.6  # the chance of meeting the target that what is usual must have
DRIFT_PER_EFOLD = 0.25  # error of log latency for each e-fold between the rate of a reading and the one it speaks of


@dataclass(frozen=True)
class AutoscalingSettings:
    """What the plans of one job have in common; the same meanings as in `tuning:`."""

    target: Target
    alpha: float = 0.5
    over_allocation: float = 0.5
    noise: float = 0.05
    confidence: float = 0.75
    own_samples: int = 8  # NUM: configurations of one rate after which no other rate is asked
    seed: int = 0


@dataclass(frozen=True)
class LatencyPrediction:
    """A parallelism for a rate, and its latency: `mean` and `sd` of log(l_r / l_t)."""

    rate: float
    k: Point
    mean: float
    sd: float
    met: float = 1.0  # the chance that the target is met
    basis: str = ""  # what it was predicted from

    def latency(self, target: float) -> float:
        return target * math.exp(self.mean)

    def spread(self, target: float) -> float:
        """One standard deviation in seconds, upwards."""
        return target * math.exp(self.mean) * math.expm1(self.sd)


def predict_least(
    settings: AutoscalingSettings, readings: ReadingsByRate, models: Sequence[BenefitModel], sized: Sizing
) -> LatencyPrediction:
    """The least that is expected to meet the target at this rate. What met it at another rate, made as much
    larger, is preferred where it takes less, or where nothing is sure; else what there is to learn from."""
    known = _Known(settings, readings, models, sized)
    least, k = known.at(known.least()), readings.usual(sized, settings.target.latency_seconds)
    sure, usual = least.met >= settings.confidence, None if k is None else known.at(k)
    if usual is not None and usual.met >= MIN_PROBABILITY_OF_USUAL and (not sure or sum(least.k) > sum(usual.k)):
        return usual
    return least if sure else known.at(known.worth_knowing())


def predict_at(
    settings: AutoscalingSettings, readings: ReadingsByRate, models: Sequence[BenefitModel], sized: Sizing, k: Point
) -> LatencyPrediction:
    """What one parallelism is expected to do at a rate."""
    return _Known(settings, readings, models, sized).at(k)


class _Known:
    """All that is known, as it looks from one rate."""

    def __init__(
        self, settings: AutoscalingSettings, readings: ReadingsByRate, models: Sequence[BenefitModel], sized: Sizing
    ) -> None:
        self.settings, self.sized, self.lattice = settings, sized, Lattice(sized.floor, sized.upper)
        own = readings.at(sized.rate)
        self.runs = () if own is None else tuple(run for run in own.runs if run.parallelism in self.lattice)
        nearest = sorted(models, key=lambda model: abs(math.log(model.rate / sized.rate)))[:MAX_SOURCES]
        self.sources = [] if len(self.runs) >= settings.own_samples else nearest
        self.cells = [] if len(self.runs) >= settings.own_samples else readings.near(sized.rate)
        target = settings.target.latency_seconds
        self.posterior = surrogate.fit(
            self._readings(), [model.towards(target).readings for model in self.sources], noise=settings.noise
        )

    def at(self, k: Point) -> LatencyPrediction:
        mean, sd = self.posterior.log_ratio([k])
        met = float(probability_met(mean, sd)[0])
        return LatencyPrediction(self.sized.rate, k, float(mean[0]), float(sd[0]), met, self._basis)

    def least(self) -> Point:
        """Fewest instances among those that meet the target with confidence; else the likeliest to."""
        most = sum(self.sized.upper)

        def value(ks: Pool) -> Floats:
            met = probability_met(*self.posterior.log_ratio(ks))
            return np.where(met >= self.settings.confidence, 2.0 - ks.sum(axis=1) / most, met)

        hints = [self.sized.floor, *(self.lattice.clip(run.parallelism) for run in self.runs)]
        rng = np.random.default_rng([self.settings.seed, len(self.runs)])
        return self.lattice.argmax(value, excluded=(), hints=hints, rng=rng) or self.sized.floor

    def worth_knowing(self) -> Point:
        """What Algorithm 1, or 2, would run next."""
        sized, settings = self.sized, self.settings
        study = AskTellStudy(
            sized.floor,
            sized.upper,
            settings.target.latency_seconds,
            settings.alpha,
            settings.over_allocation,
            settings.seed,
            source=[*(_as_model(cell, settings) for cell in self.cells[:MAX_SOURCES]), *self.sources],
            sizing=sized,
            max_runs=10_000,
            settings=SearchSettings(settings.noise, settings.confidence),
        )
        for run in self.runs:
            study.tell(run.parallelism, latency=run.latency, failed=run.failed)
        exhausted = len(self.runs) >= self.lattice.size
        return study.best.parallelism if exhausted or (self.runs and study.finished) else study.ask()

    def _readings(self) -> SessionReadings:
        """Those of this rate, and those of the rates around it."""
        settings, sized = self.settings, self.sized
        here = self._of(self.runs, sized)
        ks, y, weight, failed = [*here.ks], [*here.log_ratio], [*here.weight], [*here.failed]
        rates, measured = [sized.rate] * len(ks), [*here.measured]
        for cell in self.cells:
            there = self._of(cell.runs, cell.sizing)
            doubt = (
                DRIFT_PER_EFOLD * math.log(sized.rate / cell.sizing.rate) / settings.noise
            ) ** 2  # in variances of a reading
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

    def _of(self, runs: Sequence[Run], sizing: Sizing) -> SessionReadings:
        return build_readings(_samples(runs), self.settings.target.latency_seconds, sizing)

    @property
    def _basis(self) -> str:
        own = f"{len(self.runs)} configurations at this rate"
        others = [f"{cell.sizing.rate:,.0f}/s" for cell in self.cells]
        stored = [f"the model of {model.rate:,.0f}/s" for model in self.sources]
        return ", ".join([own, *([f"readings at {join_names(others, 3)}"] if others else []), *stored])


def train_model(settings: AutoscalingSettings, readings: ReadingsByRate, rate: float) -> BenefitModel | None:
    """The job's benefit model as it is known at this rate, to be kept, with what was read at the rates around it."""
    if (cell := readings.at(rate)) is None:
        return None
    lattice = Lattice(cell.sizing.floor, cell.sizing.upper)
    runs = [run for run in cell.runs if run.parallelism in lattice]
    if not runs:
        return None
    study = AskTellStudy(
        cell.sizing.floor,
        cell.sizing.upper,
        settings.target.latency_seconds,
        settings.alpha,
        settings.over_allocation,
        settings.seed,
        sizing=cell.sizing,
        source=[_as_model(other, settings) for other in readings.near(rate)[:ANCESTORS]],
        settings=SearchSettings(settings.noise, settings.confidence),
    )
    for run in runs:
        study.tell(run.parallelism, latency=run.latency, failed=run.failed)
    return study.model(cell.sizing.rate)


@lru_cache(maxsize=256)
def _as_model(cell: RateReadings, settings: AutoscalingSettings) -> BenefitModel:
    """A cell as a source."""
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


def _samples(runs: Sequence[Run]) -> list[ModelSample]:
    return [ModelSample(run.parallelism, run.latency, 0.0, run.windows) for run in runs]
