"""The parts of every plot: axes with units, series, reference levels, and a caption."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self

MS = 1000.0  # milliseconds per second
# `time` is in seconds since 1970, UTC. Pages and terminals show it in the reader's time zone.
AxisKind = Literal["number", "log", "time", "names"]
# `area` series are stacked. Each `heat` series is a row, darker for greater y.
SeriesStyle = Literal["line", "steps", "dashed steps", "points", "bars", "area", "heat"]
# The meaning of a series, from which a page takes its colour.
Role = Literal["main", "second", "third", "good", "bad", "quiet", "level"]


@dataclass(frozen=True)
class Axis:
    """`title` names the unit. `whole`: only whole numbers have a meaning."""

    title: str
    kind: AxisKind = "number"
    whole: bool = False


@dataclass(frozen=True)
class Series:
    """Values of one kind over x.

    Args:
        y: None is a gap.
        sd: standard deviation of each value in the unit of y, shown as a band around a line or as whiskers of points.
        labels: text for each value, shown when the reader points at it.

    Raises `ValueError` if the lengths differ.
    """

    name: str
    x: tuple[float | str, ...]
    y: tuple[float | None, ...]
    style: SeriesStyle = "line"
    role: Role = "main"
    sd: tuple[float | None, ...] = ()
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for each in (self.y, self.sd, self.labels):
            if each and len(each) != len(self.x):
                raise ValueError(f"series {self.name}: {len(each)} values for {len(self.x)} places")
        if self.x and not self.y:
            raise ValueError(f"series {self.name}: no values for {len(self.x)} places")

    def followed_by(self, more: Series) -> Self:
        """Return this series with the later values of `more` appended."""
        return replace(
            self, x=self.x + more.x, y=self.y + more.y, sd=self.sd + more.sd, labels=self.labels + more.labels
        )


@dataclass(frozen=True)
class Level:
    """A value of y for comparison: a target, a threshold, a floor."""

    value: float
    name: str


@dataclass(frozen=True)
class Plot:
    """A plot. `name` is a short name for programs. `missing`: why there is no data."""

    name: str
    title: str
    caption: str
    x: Axis
    y: Axis
    series: tuple[Series, ...] = ()
    levels: tuple[Level, ...] = ()
    missing: str = ""

    @classmethod
    def unavailable(cls, name: str, title: str, why: str) -> Self:
        """Return a plot without data."""
        return cls(name, title, "", Axis(""), Axis(""), missing=why)

    def followed_by(self, more: Plot) -> Self:
        """Return this plot with the later values of `more` appended. Both plots have the same series."""
        series = zip(self.series, more.series, strict=True)
        return replace(self, series=tuple(before.followed_by(after) for before, after in series), caption=more.caption)


def stack_areas(plot: Plot) -> list[Series]:
    """Return the series, with each area on top of the areas before it. All areas have the same x."""
    total: list[float] = []
    stacked = []
    for series in plot.series:
        if series.style == "area":
            total = [a + (b or 0.0) for a, b in zip(total or [0.0] * len(series.y), series.y, strict=True)]
            stacked.append(replace(series, y=tuple(total)))
        else:
            stacked.append(series)
    return stacked


def known_values(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]
