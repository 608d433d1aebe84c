"""The disturbances between the true latency of a simulated job and a reading: noise, heavy tails, and drift.

| symbol | meaning | unit |
|---|---|---|
| n | number of the window, from 0 | |
| σ | noise of a reading, standard deviation of its log | |
| ν | degrees of freedom of Student's t; none for normal noise | |
| d | drift: standard deviation of the log of the machine's slowness | |

    reading = latency(k, service times · e^(d·u_n)) · e^(σ·z_n)

u_n is a sum of two sine waves with mean 0 and variance 1, with random phases for each series of windows. So tuning runs
on different days see different speeds, and neighbouring windows see nearly the same. A configuration is judged by the
latency without drift.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from autotrascale.domain import checks
from autotrascale.execute.simulator.steady_state import CompiledJob

_PERIODS = (7.0, 17.0)  # windows
_PHASE_STREAM, _NOISE_STREAM = 0, 1  # streams of random numbers


@dataclass(frozen=True)
class Disturbance:
    """The heaviness of the tails (`freedom`, ν) and the `drift` (d).

    With `freedom` 3, one reading in fifty is off by more than five times the noise.
    """

    freedom: float | None = None
    drift: float = 0.0

    def __post_init__(self) -> None:
        checks.optional(checks.positive, "freedom", self.freedom)
        checks.non_negative("drift", self.drift)


UNDISTURBED = Disturbance()


class Windows:
    """A series of windows at any configurations.

    Window n has the same noise in every series with the same seed, so searches can be compared reading by reading.
    """

    def __init__(self, compiled: CompiledJob, noise: float, disturbance: Disturbance, seed: int) -> None:
        self.compiled, self.noise, self.disturbance = compiled, noise, disturbance
        self.count = 0
        self._seed = seed
        self._phases = np.random.default_rng([seed, _PHASE_STREAM]).uniform(0, 2 * math.pi, len(_PERIODS))

    def measure(self, k: tuple[int, ...]) -> float:
        """Return the latency that the next window reads at k in seconds, inf if the job cannot keep up."""
        return self.read(k)[0]

    def read(self, k: tuple[int, ...]) -> tuple[float, CompiledJob, np.random.Generator]:
        """Return the latency of the next window, the job at the speed of that window, and its random generator."""
        rng = np.random.default_rng([self._seed, _NOISE_STREAM, self.count])
        slow = self._draw_slowness()
        self.count += 1
        compiled = self.compiled if slow == 1 else self.compiled.slowed(slow)
        return float(compiled.latency(k)[0] * np.exp(self.noise * self._draw_deviation(rng))), compiled, rng

    def _draw_slowness(self) -> float:
        waves = np.sin(2 * math.pi * self.count / np.array(_PERIODS) + self._phases)
        return math.exp(self.disturbance.drift * float(waves.sum()))  # the sum of two sines has variance 1

    def _draw_deviation(self, rng: np.random.Generator) -> float:
        deviate = float(rng.standard_normal())
        if self.disturbance.freedom is not None:
            deviate /= math.sqrt(float(rng.chisquare(self.disturbance.freedom)) / self.disturbance.freedom)
        return deviate
