"""What stands between the truth of a simulated job and what its windows read: noise, its tails, and a drifting machine.

| symbol | meaning | unit |
|---|---|---|
| n | number of the window, from 0 | |
| σ | noise of a reading, standard deviation of its log | |
| ν | degrees of freedom of Student's t; none where the noise is normal | |
| d | drift: standard deviation of the log of how slow the machine is | |

    reading = latency(k, service times · e^(d·u_n)) · e^(σ·z_n)

u_n is a wave of two periods with phases of its own for each series of windows, mean 0 and variance 1: tuning runs made
on different days find the machine in different moods, and windows next to each other find it in the same. The truth,
which a configuration is judged by, is the one without drift.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from autotrascale.domain import checks
from autotrascale.execute.simulator.steady_state import CompiledJob

_PERIODS = (7.0, 17.0)  # windows
_OF_PHASES, _OF_NOISE = 0, 1  # streams of random numbers


@dataclass(frozen=True)
class Disturbance:
    """`freedom` 3 gives one reading in fifty beyond five times the noise; `drift` 0 is a machine that never changes."""

    freedom: float | None = None
    drift: float = 0.0

    def __post_init__(self) -> None:
        checks.optional(checks.positive, "freedom", self.freedom)
        checks.non_negative("drift", self.drift)


UNDISTURBED = Disturbance()


class Windows:
    """A series of windows at configurations of one's choice. Window n has the same noise whatever was run before it, so
    that two searches can be compared reading by reading."""

    def __init__(self, compiled: CompiledJob, noise: float, disturbance: Disturbance, seed: int) -> None:
        self.compiled, self.noise, self.disturbance = compiled, noise, disturbance
        self.count = 0
        self._seed = seed
        self._phases = np.random.default_rng([seed, _OF_PHASES]).uniform(0, 2 * math.pi, len(_PERIODS))

    def measure(self, k: tuple[int, ...]) -> float:
        """The latency that the next window reads at k, in seconds; infinite where the job cannot keep up."""
        return self.read(k)[0]

    def read(self, k: tuple[int, ...]) -> tuple[float, CompiledJob, np.random.Generator]:
        """The same, with the job as it was in that window, and its noise to come."""
        rng = np.random.default_rng([self._seed, _OF_NOISE, self.count])
        slow = self._slow()
        self.count += 1
        compiled = self.compiled if slow == 1 else self.compiled.slowed(slow)
        return float(compiled.latency(k)[0] * np.exp(self.noise * self._deviate(rng))), compiled, rng

    def _slow(self) -> float:
        waves = np.sin(2 * math.pi * self.count / np.array(_PERIODS) + self._phases)
        return math.exp(self.disturbance.drift * float(waves.sum()))  # two sines have a variance of 1 together

    def _deviate(self, rng: np.random.Generator) -> float:
        deviate = float(rng.standard_normal())
        if self.disturbance.freedom is not None:
            deviate /= math.sqrt(float(rng.chisquare(self.disturbance.freedom)) / self.disturbance.freedom)
        return deviate
