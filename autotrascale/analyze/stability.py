"""Judge a trial's batches as they come: the job is steady, it falls behind, or it is too soon to tell.

    symbol   meaning                                                                         unit
    b_i      time of batch i, trigger to commit                                              s
    a_i      input time that batch i covers: the time in which batch i−1 ran                 s
    o, c     fixed cost of a batch, cost of a second of input:  b = o + c·a                  s, 1
    c        is also Σ load_i/k_i of the micro-batch rule: at c ≥ 1 no batch size suffices
    b*       fixed point o / (1 − c), the batch time that the job settles at                 s

Batches grow from small ones towards b*, by a factor of c each time. So growth alone says nothing, and near c = 1 the
steady state is many batches away. The slope c decides earlier: a few unequal batches give c, and its standard error
tells whether c is above 1. A running batch counts with its time so far, which bounds c from below.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autotrascale.domain import checks

NOISE = 0.15  # spread of one batch as a share of its time, seen on a busy machine; the least spread that a fit assumes
_UNEQUAL = 1.5  # least factor between the inputs of two batches that show a slope
_SURE = 2.0  # standard errors
_VAGUE = 0.5  # standard error of a slope that says nothing about steadiness
_GROSS = 1.5  # a lower bound of the slope above this value is believed from two batches


@dataclass(frozen=True)
class StabilityRules:
    """Rules for a window of batches that is steady.

    Args:
        window_seconds: least length of the window, in seconds.
        min_batches: least number of batches in the window.
        tolerance: allowed difference between the halves of the window, as a share of the mean batch time.
        max_seconds: seconds after which a trial is judged in any case.
    """

    window_seconds: float = 10.0
    min_batches: int = 6
    tolerance: float = 0.15
    max_seconds: float = 120.0

    def __post_init__(self) -> None:
        checks.positive("window_seconds", self.window_seconds)
        checks.count("min_batches", self.min_batches, least=3)
        checks.positive("tolerance", self.tolerance)
        checks.positive("max_seconds", self.max_seconds)


@dataclass(frozen=True)
class BatchSample:
    """One batch: `seconds` of work for `covered` seconds of input. Its newest record was `lag` seconds old."""

    covered: float
    seconds: float
    lag: float = 0.0


@dataclass(frozen=True)
class RunningBatch:
    """The batch in flight, `seconds` after its start."""

    covered: float
    seconds: float


@dataclass(frozen=True)
class BatchTimeFit:
    """The fit b = o + c·a (`fixed`, `slope`) with the standard error of c."""

    fixed: float
    slope: float
    error: float

    @property
    def settles_at(self) -> float:
        """b* in seconds, infinite where the job does not keep up."""
        return max(0.0, self.fixed) / (1 - self.slope) if self.slope < 1 else math.inf


@dataclass(frozen=True)
class SteadyJob:
    """The job is steady in its last `batches`. `note` holds a restriction, if there is one."""

    batches: int
    note: str = ""


@dataclass(frozen=True)
class JobBehind:
    """The job does not keep up, for this reason. `growth` is c, where c decided."""

    reason: str
    growth: float | None = None


@dataclass(frozen=True)
class Undecided:
    """It is too soon to judge. `outlook` is the expected batch time in seconds, where it is known."""

    outlook: float | None = None


Judgement = SteadyJob | JobBehind | Undecided


def judge(
    samples: Sequence[BatchSample], rules: StabilityRules, elapsed: float, running: RunningBatch | None = None
) -> Judgement:
    """Judge the batches of a trial.

    Args:
        samples: the batches since the load began, without gaps.
        rules: the rules for a steady window.
        elapsed: seconds since the load began.
        running: the batch in flight, if there is one.
    """
    if behind := _is_behind(samples, running):
        return behind
    steady = _window(samples, rules)
    if steady and (held := _held_back(samples[-steady.batches :], rules)):
        return held
    fitted = fit_batch_times(samples)
    if steady and not _still_far(samples[-steady.batches :], fitted, rules):
        return steady
    if elapsed >= rules.max_seconds:
        return _at_the_deadline(samples, rules, fitted)
    return Undecided(fitted.settles_at if fitted else None)


def fit_batch_times(samples: Sequence[BatchSample]) -> BatchTimeFit | None:
    """Return the least-squares fit of b = o + c·a, or None unless the batches are unequal enough.

    Each batch is weighted by its expected spread. The first batch is left out where three or more exist: it runs on
    cold caches and covers very little input.
    """
    samples = samples[1:] if len(samples) > 2 else samples
    if len(samples) < 2:
        return None
    a = np.array([sample.covered for sample in samples])
    b = np.array([sample.seconds for sample in samples])
    if a.max() < _UNEQUAL * max(a.min(), 1e-6):
        return None
    weights = 1 / np.maximum(NOISE * b, 0.02) ** 2
    mean_a, mean_b = np.average(a, weights=weights), np.average(b, weights=weights)
    spread = float(weights @ (a - mean_a) ** 2)
    slope = float(weights @ ((a - mean_a) * (b - mean_b))) / spread
    fixed = float(mean_b - slope * mean_a)
    # The error follows from the assumed spread, or from the residuals where these are larger.
    residual = float(weights @ (b - fixed - slope * a) ** 2) / max(1, len(samples) - 2)
    return BatchTimeFit(fixed, slope, math.sqrt(max(1.0, residual) / spread))


def _is_behind(samples: Sequence[BatchSample], running: RunningBatch | None) -> JobBehind | None:
    """Return the verdict that c ≥ 1 beyond doubt. Three growing batches suffice, or two where c is far above 1."""
    whole = list(samples)
    note = ""
    # Two finished batches are required: one tiny batch and a long one would give a verdict, but no true rates.
    if running and len(whole) > 1 and running.seconds > max(sample.seconds for sample in whole):
        # The running batch already takes longer than the batches before: c can only become larger.
        whole.append(BatchSample(running.covered, running.seconds))
        note = ", the last of them still running"
    fitted = fit_batch_times(whole)
    if fitted is None or len(whole) < 2 or whole[-1].seconds <= whole[-1].covered:
        return None
    sure = fitted.slope - _SURE * fitted.error
    growing = len(whole) > 3 and whole[-1].seconds > whole[-2].seconds > whole[-3].seconds
    if not (sure > _GROSS or (sure > 1 and growing)):
        return None
    sizes = " → ".join(f"{sample.seconds:.1f}" for sample in whole[-4:])
    return JobBehind(
        f"a second of input takes {fitted.slope:.2f} ± {fitted.error:.2f} s of work "
        f"(batches of {sizes} s{note}): no batch size is enough",
        fitted.slope,
    )


def _window(samples: Sequence[BatchSample], rules: StabilityRules) -> SteadyJob | None:
    """Return the shortest tail that is long enough, if it keeps up and its halves agree.

    The first batch never counts.
    """
    usable = samples[1:]
    count, seconds = 0, 0.0
    for sample in reversed(usable):
        # With little load there are gaps between batches, which are part of the window.
        count, seconds = count + 1, seconds + max(sample.seconds, sample.covered)
        if count >= rules.min_batches and seconds >= rules.window_seconds:
            break
    else:
        return None
    tail = np.array([sample.seconds for sample in usable[-count:]])
    if tail.sum() > (1 + rules.tolerance) * sum(sample.covered for sample in usable[-count:]):
        return None  # more work than input
    half = count // 2
    early, late = tail[:half], tail[-half:]
    # Two standard errors of the difference, from the spread within the halves.
    noise = 2 * math.sqrt((early.var(ddof=1) + late.var(ddof=1)) / half) if half > 1 else 0.0
    drift = abs(float(late.mean() - early.mean()))
    return (
        SteadyJob(count) if drift <= max(rules.tolerance * float(tail.mean()), min(noise, 0.3 * tail.mean())) else None
    )


def _held_back(window: Sequence[BatchSample], rules: StabilityRules) -> JobBehind | None:
    """Return the verdict that the source gives less than arrives: batches are steady while the lag grows."""
    half = len(window) // 2
    early = sum(sample.lag for sample in window[:half]) / half
    late = sum(sample.lag for sample in window[-half:]) / half
    seconds = sum(sample.seconds for sample in window)
    if late - early <= rules.tolerance * seconds:
        return None
    return JobBehind(
        f"the source holds records back: the age of its newest record grew from {early:.1f} to {late:.1f} s"
    )


def _still_far(window: Sequence[BatchSample], fitted: BatchTimeFit | None, rules: StabilityRules) -> bool:
    """Tell whether a certain fit expects a b* far from the window's batch times, which creep towards it."""
    if fitted is None:
        return False
    if fitted.slope >= 1:
        return fitted.error < _VAGUE
    if fitted.error > 0.5 * (1 - fitted.slope):
        return False
    here = sum(sample.seconds for sample in window) / len(window)
    return abs(fitted.settles_at - here) > 2 * rules.tolerance * here


def _at_the_deadline(samples: Sequence[BatchSample], rules: StabilityRules, fitted: BatchTimeFit | None) -> Judgement:
    """Judge without a steady window: falling batches bound the latency from above, rising ones bound nothing."""
    if len(samples) < 3:
        return JobBehind(f"only {len(samples)} batches ended within {rules.max_seconds:.0f} s")
    tail = samples[-min(len(samples) - 1, rules.min_batches) :]
    half = max(1, len(tail) // 2)
    early = sum(sample.seconds for sample in tail[:half]) / half
    late = sum(sample.seconds for sample in tail[-half:]) / half
    if late > early:
        return JobBehind(f"batches still grow after {rules.max_seconds:.0f} s ({early:.1f} → {late:.1f} s)")
    goal = f", towards {fitted.settles_at:.1f} s" if fitted and math.isfinite(fitted.settles_at) else ""
    return SteadyJob(
        len(tail), f"batches still shrink ({early:.1f} → {late:.1f} s{goal}): the latency is an upper bound"
    )
