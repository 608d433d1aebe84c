"""Input rates as functions of time: seconds in, records per second out. Pure: the same moment gives the same rate.

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
    def __call__(self, t: float) -> float:
        """Records per second at t seconds; never negative."""
        ...


@dataclass(frozen=True)
class ConstantRate:
    rate: float

    def __post_init__(self) -> None:
        checks.non_negative("rate", self.rate)

    def __call__(self, t: float) -> float:  # noqa: ARG002 - the same at any time
        return self.rate


@dataclass(frozen=True)
class SteppedRate:
    """`rates[i]` from `times[i]` on; the first one holds before its time too."""

    times: tuple[float, ...]
    rates: tuple[float, ...]

    def __post_init__(self) -> None:
        _check_points(self.times, self.rates)

    def __call__(self, t: float) -> float:
        return self.rates[max(0, bisect_right(self.times, t) - 1)]


@dataclass(frozen=True)
class RecordedRates:
    """A recorded trace, straight lines between its points, level before the first and after the last."""

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
    """From `first` to `last` between the seconds `start` and `end`."""

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
    """A day, by default: lowest at `trough` seconds, highest half a period later."""

    mean: float
    amplitude: float
    period: float = DAY
    trough: float = 0.0

    def __post_init__(self) -> None:
        checks.non_negative("mean", self.mean)
        checks.positive("period", self.period)
        if not 0 <= self.amplitude <= self.mean:
            raise InputError(
                "amplitude", "would make the rate negative", seen=self.amplitude, remedy="at most the mean"
            )

    def __call__(self, t: float) -> float:
        return self.mean - self.amplitude * math.cos(2 * math.pi * (t - self.trough) / self.period)


@dataclass(frozen=True)
class Spikes:
    """`base`, times `height` for `width` seconds from each of `starts`."""

    base: RateFunction
    starts: tuple[float, ...]
    height: float
    width: float

    def __post_init__(self) -> None:
        checks.non_negative("height", self.height)
        checks.positive("width", self.width)
        _check_rising("starts", self.starts)

    def __call__(self, t: float) -> float:
        last = bisect_right(self.starts, t) - 1
        inside = last >= 0 and t < self.starts[last] + self.width
        return self.base(t) * (self.height if inside else 1.0)


@dataclass(frozen=True)
class Noisy:
    """`base` times a log-normal factor of mean 1, a new one every `interval` seconds."""

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
    """A random day between `low` and `high`: its trough, up to `spikes` bursts and the jitter are drawn from `seed`."""
    rng = np.random.default_rng([seed, 24])
    swing = Sine((low + high) / 2, (high - low) / 2, DAY, float(rng.uniform(0, DAY)))
    starts = tuple(sorted(rng.uniform(0, DAY, size=int(rng.integers(0, spikes + 1))).tolist()))
    burst = Spikes(swing, starts, float(rng.uniform(1.2, 1.8)), float(rng.uniform(120, 1200)))
    return Noisy(burst, sigma, seed)


def _gauss(seed: int, index: int) -> float:
    """A standard normal number that depends on (seed, index) alone: two hashed uniforms, Box–Muller."""
    first, second = _mix(seed * 0x9E3779B97F4A7C15 + 2 * index), _mix(seed * 0x9E3779B97F4A7C15 + 2 * index + 1)
    # +1: a uniform in (0, 1], whose logarithm is finite.
    return math.sqrt(-2 * math.log((first + 1) / 2**64)) * math.cos(2 * math.pi * second / 2**64)


def _mix(x: int) -> int:
    """The finaliser of SplitMix64: neighbouring numbers come out unrelated. No generator object for each reading."""
    x = (x + 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    return x ^ (x >> 31)


def _check_points(times: tuple[float, ...], rates: tuple[float, ...]) -> None:
    if not times:
        raise InputError("times", "is empty", remedy="give at least one moment")
    if len(times) != len(rates):
        raise InputError("rates", f"are not as many as the {len(times)} times", seen=len(rates), remedy="pair them")
    _check_rising("times", times)
    for i, rate in enumerate(rates):
        checks.non_negative(f"rates[{i}]", rate)


def _check_rising(place: str, times: tuple[float, ...]) -> None:
    for before, after in pairwise(times):
        if after <= before:
            raise InputError(place, "do not rise", seen=after, remedy="put them in order, each once")
