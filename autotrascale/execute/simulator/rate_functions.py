"""Input rates as pure functions of time: from seconds to records per second.

>>> rate = Noisy(Sine(mean=1000, amplitude=400, period=86_400), sigma=0.03, seed=7)
>>> rate(3600.0) == rate(3600.0)
True
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np

from autotrascale.domain import checks
from autotrascale.domain.errors import InputError

DAY = 86_400.0


class RateFunction(Protocol):
    """An input rate over time."""

    def __call__(self, t: float) -> float:
        """Return the records per second at second `t`, which are never negative."""
        ...


@dataclass(frozen=True)
class ConstantRate:
    """The same rate at all times."""

    rate: float

    def __post_init__(self) -> None:
        checks.non_negative("rate", self.rate)

    def __call__(self, t: float) -> float:  # noqa: ARG002 - the same at any time
        return self.rate


@dataclass(frozen=True)
class SteppedRate:
    """A rate that jumps to `rates[i]` at second `times[i]`. The first rate also holds before its time."""

    times: tuple[float, ...]
    rates: tuple[float, ...]

    def __post_init__(self) -> None:
        _check_points(self.times, self.rates)

    def __call__(self, t: float) -> float:
        return self.rates[max(0, bisect_right(self.times, t) - 1)]


@dataclass(frozen=True)
class RecordedRates:
    """A recorded trace: linear between its points, constant before the first and after the last."""

    times: tuple[float, ...]
    rates: tuple[float, ...]

    def __post_init__(self) -> None:
        _check_points(self.times, self.rates)

    def __call__(self, t: float) -> float:
        after = bisect_right(self.times, t)
        if after == 0:
            return self.rates[0]
        if after == len(self.times):
            return self.rates[-1]
        start, end = self.times[after - 1], self.times[after]
        before, then = self.rates[after - 1], self.rates[after]
        return before + (then - before) * (t - start) / (end - start)


@dataclass(frozen=True)
class Ramp:
    """A rate that changes linearly from `first` to `last` between seconds `start` and `end`."""

    first: float
    last: float
    start: float
    end: float

    def __post_init__(self) -> None:
        checks.non_negative("first", self.first)
        checks.non_negative("last", self.last)
        if self.end <= self.start:
            raise InputError("end", "is not after start", seen=self.end, remedy="give a later second")

    def __call__(self, t: float) -> float:
        done = min(1.0, max(0.0, (t - self.start) / (self.end - self.start)))
        return self.first + (self.last - self.first) * done


@dataclass(frozen=True)
class Sine:
    """A sine wave with the period of a day by default: lowest at second `trough`, highest half a period later."""

    mean: float
    amplitude: float
    period: float = DAY
    trough: float = 0.0

    def __post_init__(self) -> None:
        checks.non_negative("mean", self.mean)
        checks.positive("period", self.period)
        if not 0 <= self.amplitude <= self.mean:
            raise InputError(
                "amplitude", "would make the rate negative", seen=self.amplitude, remedy="give at most the mean"
            )

    def __call__(self, t: float) -> float:
        return self.mean - self.amplitude * math.cos(2 * math.pi * (t - self.trough) / self.period)


@dataclass(frozen=True)
class Spikes:
    """The rate `base`, multiplied by `height` for `width` seconds from each second in `starts`."""

    base: RateFunction
    starts: tuple[float, ...]
    height: float
    width: float

    def __post_init__(self) -> None:
        checks.non_negative("height", self.height)
        checks.positive("width", self.width)
        _check_ascending("starts", self.starts)

    def __call__(self, t: float) -> float:
        last = bisect_right(self.starts, t) - 1
        inside = last >= 0 and t < self.starts[last] + self.width
        return self.base(t) * (self.height if inside else 1.0)


@dataclass(frozen=True)
class Noisy:
    """The rate `base` with log-normal noise of mean 1, drawn anew every `interval` seconds.

    `sigma` is the standard deviation of its logarithm.
    """

    base: RateFunction
    sigma: float
    seed: int = 0
    interval: float = 10.0

    def __post_init__(self) -> None:
        checks.non_negative("sigma", self.sigma)
        checks.count("seed", self.seed, least=0)
        checks.positive("interval", self.interval)

    def __call__(self, t: float) -> float:
        z = _gauss(self.seed, int(t // self.interval))
        return self.base(t) * math.exp(self.sigma * z - self.sigma**2 / 2)


def random_day(seed: int, low: float, high: float, *, spikes: int = 3, sigma: float = 0.03) -> RateFunction:
    """Return a random day between the rates `low` and `high`.

    Args:
        seed: decides the time of the trough, the bursts and the noise.
        low: rate at the trough.
        high: rate at the peak.
        spikes: largest number of bursts.
        sigma: noise, as in `Noisy`.
    """
    rng = np.random.default_rng([seed, 24])
    swing = Sine((low + high) / 2, (high - low) / 2, DAY, float(rng.uniform(0, DAY)))
    starts = tuple(sorted(rng.uniform(0, DAY, size=int(rng.integers(0, spikes + 1))).tolist()))
    burst = Spikes(swing, starts, float(rng.uniform(1.2, 1.8)), float(rng.uniform(120, 1200)))
    return Noisy(burst, sigma, seed)


def _gauss(seed: int, index: int) -> float:
    """Return a standard normal number that depends on (seed, index) alone: two hashes, Box–Muller."""
    first, second = _mix(seed * 0x9E3779B97F4A7C15 + 2 * index), _mix(seed * 0x9E3779B97F4A7C15 + 2 * index + 1)
    # + 1: a uniform number in (0, 1] has a finite logarithm.
    return math.sqrt(-2 * math.log((first + 1) / 2**64)) * math.cos(2 * math.pi * second / 2**64)


def _mix(x: int) -> int:
    """Return the SplitMix64 hash of `x`. It is faster than a generator object for each reading."""
    x = (x + 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    return x ^ (x >> 31)


def _check_points(times: tuple[float, ...], rates: tuple[float, ...]) -> None:
    if not times:
        raise InputError("times", "is empty", remedy="give at least one moment")
    if len(times) != len(rates):
        raise InputError(
            "rates", f"must be as many as the {len(times)} times", seen=len(rates), remedy="give one rate for each time"
        )
    _check_ascending("times", times)
    for i, rate in enumerate(rates):
        checks.non_negative(f"rates[{i}]", rate)


def _check_ascending(place: str, times: tuple[float, ...]) -> None:
    for before, after in pairwise(times):
        if after <= before:
            raise InputError(place, "must rise", seen=after, remedy="sort them and remove repetitions")
