"""How fast records arrive: a piecewise linear rate, and its integral, which says how many have arrived by when.

    symbol   meaning                                    unit        shape
    t        time since the load began                  s           array
    r(t)     rate, linear between the points            records/s   array
    N(t)     ∫₀ᵗ r, exact by trapezoids; its whole      records     array
             part is how many records have arrived

Two points at the same time make a step. The last rate holds for ever. All of it is a pure function of time, so that a
batch that runs again reads what it read before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autotrascale.domain import checks
from autotrascale.domain.errors import InputError

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RateSchedule:
    """`points` are (seconds, records per second), times not falling, the first at zero."""

    points: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        if not self.points or self.points[0][0] != 0:
            raise InputError("points", "must begin at second 0", seen=self.points[:1], remedy="add [0, rate]")
        for at, rate in self.points:
            checks.non_negative("points: a time", at)
            checks.non_negative("points: a rate", rate)
        if any(later[0] < earlier[0] for earlier, later in zip(self.points, self.points[1:], strict=False)):
            raise InputError("points", "go back in time", seen=self.points, remedy="sort them by their seconds")

    def arrived(self, t: Floats | float) -> Floats:
        """N(t), by the trapezoid that t lies in. Before second 0 nothing has arrived."""
        t = np.maximum(np.asarray(t, dtype=float), 0.0)
        piece = np.clip(np.searchsorted(self._times, t, side="right") - 1, 0, len(self.points) - 1)
        within = t - self._times[piece]
        return self._sums[piece] + within * (self._rates[piece] + 0.5 * self._slopes[piece] * within)

    def rate(self, t: float) -> float:
        """r(t)."""
        piece = int(np.searchsorted(self._times, max(t, 0.0), side="right")) - 1
        return float(self._rates[piece] + self._slopes[piece] * (max(t, 0.0) - self._times[piece]))

    def times(self, factor: float) -> RateSchedule:
        """The same shape at another height."""
        return RateSchedule(tuple((at, rate * factor) for at, rate in self.points))

    @cached_property
    def _times(self) -> Floats:
        return np.array([at for at, _ in self.points], dtype=float)

    @cached_property
    def _rates(self) -> Floats:
        return np.array([rate for _, rate in self.points], dtype=float)

    @cached_property
    def _slopes(self) -> Floats:
        """Of the piece that begins at each point; a step has no width and the last piece is flat."""
        width, rise = np.diff(self._times), np.diff(self._rates)
        slopes = np.divide(rise, width, out=np.zeros_like(rise), where=width > 0)
        return np.append(slopes, 0.0)

    @cached_property
    def _sums(self) -> Floats:
        """N at each point."""
        pieces = np.diff(self._times) * (self._rates[:-1] + self._rates[1:]) / 2
        return np.concatenate([[0.0], np.cumsum(pieces)])


def constant(rate: float) -> RateSchedule:
    return RateSchedule(((0.0, rate),))


def sampled(rate: Callable[[float], float], seconds: float, every: float = 1.0) -> RateSchedule:
    """Any rate as a function of time (`autotrascale.execute.simulator.rate_functions` has ramps, sines, traces, noise), in
    straight pieces of `every` seconds; its rate at the end stays."""
    pieces = max(1, math.ceil(seconds / every))
    return RateSchedule(tuple((i * seconds / pieces, rate(i * seconds / pieces)) for i in range(pieces + 1)))


def as_dict(schedule: RateSchedule) -> dict[str, Any]:
    return {"points": [list(point) for point in schedule.points]}


def from_dict(data: Mapping[str, Any]) -> RateSchedule:
    return RateSchedule(tuple((at, rate) for at, rate in data["points"]))
