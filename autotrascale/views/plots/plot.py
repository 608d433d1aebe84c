"""What every plot is made of: axes with units, series, levels to compare with, a sentence that says what it shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self

# `time` is in seconds since 1970, in UTC: whoever reads it has a time zone of their own.
AxisKind = Literal["number", "log", "time", "names"]
# Areas stand on one another. `heat` is a row for each series, the darker the greater y.
SeriesStyle = Literal["line", "steps", "dashed steps", "points", "bars", "area", "heat"]
# What a series stands for, from which a page takes its colour.
Role = Literal["main", "second", "third", "good", "bad", "quiet", "level"]


@dataclass(frozen=True)
class Axis:
    """`title` names the unit."""

    title: str
    kind: AxisKind = "number"
    whole: bool = False  # only whole numbers mean anything


@dataclass(frozen=True)
class Series:
    """`sd`: one standard deviation of each, in the unit of y; a band around a line, whiskers of points. `said`: what is
    told of each where it is pointed at. A `y` of None is a gap."""

    name: str
    x: tuple[float | str, ...]
    y: tuple[float | None, ...]
    drawn: SeriesStyle = "line"
    role: Role = "main"
    sd: tuple[float | None, ...] = ()
    said: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for each in (self.y, self.sd, self.said):
            if each and len(each) != len(self.x):
                raise ValueError(f"series {self.name}: {len(each)} values for {len(self.x)} places")
        if self.x and not self.y:
            raise ValueError(f"series {self.name}: no values for {len(self.x)} places")

    def followed_by(self, more: Series) -> Self:
        """The same series with what came later."""
        return replace(self, x=self.x + more.x, y=self.y + more.y, sd=self.sd + more.sd, said=self.said + more.said)


@dataclass(frozen=True)
class Level:
    """A value of y to compare with: a target, a threshold, a floor."""

    value: float
    name: str


@dataclass(frozen=True)
class Plot:
    """`name` is short and for programs, `says` one sentence for people. `missing`: why there is nothing to draw."""

    name: str
    title: str
    says: str
    x: Axis
    y: Axis
    series: tuple[Series, ...] = ()
    levels: tuple[Level, ...] = ()
    missing: str = ""

    @classmethod
    def unavailable(cls, name: str, title: str, why: str) -> Self:
        return cls(name, title, "", Axis(""), Axis(""), missing=why)

    def followed_by(self, more: Plot) -> Self:
        """The same plot with what came later. Both are of the same series, in the same order."""
        series = zip(self.series, more.series, strict=True)
        return replace(self, series=tuple(before.followed_by(after) for before, after in series), says=more.says)


def stack_areas(plot: Plot) -> list[Series]:
    """The series with each area standing on those before it; all have the same x."""
    so_far: list[float] = []
    found = []
    for series in plot.series:
        if series.drawn == "area":
            so_far = [a + (b or 0.0) for a, b in zip(so_far or [0.0] * len(series.y), series.y, strict=True)]
            found.append(replace(series, y=tuple(so_far)))
        else:
            found.append(series)
    return found


def known_values(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]
