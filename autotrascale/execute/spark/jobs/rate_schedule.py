"""The arrival rate as a piecewise linear function of time, and its integral.

    symbol   meaning                                    unit        shape
    t        time since the load began                  s           array
    r(t)     rate, linear between the points            records/s   array
    N(t)     ∫₀ᵗ r, exact by trapezoids; its whole      records     array
             part is the number of records so far

Two points at the same time make a step. The last rate holds for ever. All functions are pure, so a batch that runs
again reads the same records.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    """A rate over time. `points` are (seconds, records per second); the first is at 0 and times never fall."""

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
        """Return N(t), the number of records that arrived by second `t`. N is 0 before second 0."""
        t = np.maximum(np.asarray(t, dtype=float), 0.0)
        piece = np.clip(np.searchsorted(self._times, t, side="right") - 1, 0, len(self.points) - 1)
        within = t - self._times[piece]
        return self._sums[piece] + within * (self._rates[piece] + 0.5 * self._slopes[piece] * within)

    def rate(self, t: float) -> float:
        """Return r(t), in records per second."""
        piece = int(np.searchsorted(self._times, max(t, 0.0), side="right")) - 1
        return float(self._rates[piece] + self._slopes[piece] * (max(t, 0.0) - self._times[piece]))

    def times(self, factor: float) -> RateSchedule:
        """Return the schedule with each rate multiplied by `factor`."""
        return RateSchedule(tuple((at, rate * factor) for at, rate in self.points))

    @cached_property
    def _times(self) -> Floats:
        return np.array([at for at, _ in self.points], dtype=float)

    @cached_property
    def _rates(self) -> Floats:
        return np.array([rate for _, rate in self.points], dtype=float)

    @cached_property
    def _slopes(self) -> Floats:
        """Return the slope of the piece that begins at each point. Steps and the last piece have slope 0."""
        width, rise = np.diff(self._times), np.diff(self._rates)
        slopes = np.divide(rise, width, out=np.zeros_like(rise), where=width > 0)
        return np.append(slopes, 0.0)

    @cached_property
    def _sums(self) -> Floats:
        """Return N at each point."""
        pieces = np.diff(self._times) * (self._rates[:-1] + self._rates[1:]) / 2
        return np.concatenate([[0.0], np.cumsum(pieces)])


def constant_schedule(rate: float) -> RateSchedule:
    """Return a schedule with the same rate (records per second) at all times."""
    return RateSchedule(((0.0, rate),))


def schedule_to_dict(schedule: RateSchedule) -> dict[str, Any]:
    return {"points": [list(point) for point in schedule.points]}


def schedule_from_dict(data: Mapping[str, Any]) -> RateSchedule:
    return RateSchedule(tuple((at, rate) for at, rate in data["points"]))
