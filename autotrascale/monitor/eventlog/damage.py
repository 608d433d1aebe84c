"""What of a log could not be read: counted and named, so that nothing is dropped in silence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Damage:
    """`lines` is how many could not be used, None where it cannot be known; `first_line` counts from 1."""

    file: str
    problem: str
    lines: int | None = None
    first_line: int | None = None

    def __str__(self) -> str:
        at = f", the first is line {self.first_line}" if self.first_line else ""
        return f"{self.file}: {self.problem}{at}"

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True)
class Report:
    """What became of the lines of one piece of a file, in numbers that count from its own start."""

    file: int
    start: int
    lines: int
    bad: int = 0
    first_bad: int | None = None
    problem: str = ""
    overlong: int = 0


def damages(reports: Iterable[Report], names: dict[int, str]) -> list[Damage]:
    """By file, and by line of the whole file."""
    reports = list(reports)
    found: list[Damage] = []
    bad: dict[int, int] = {}
    first: dict[int, int] = {}
    before: dict[int, int] = {}
    for report in sorted(reports, key=lambda report: (report.file, report.start)):
        if report.first_bad is not None:
            bad[report.file] = bad.get(report.file, 0) + report.bad
            first.setdefault(report.file, before.get(report.file, 0) + report.first_bad)
        before[report.file] = before.get(report.file, 0) + report.lines
        if report.problem:
            found.append(Damage(names[report.file], report.problem))
    for file in {report.file for report in reports if report.overlong}:
        count = sum(report.overlong for report in reports if report.file == file)
        what = "1 line is" if count == 1 else f"{count} lines are"
        found.append(Damage(names[file], f"{what} longer than any event, and left out", count))
    for file, count in bad.items():
        what = "1 line is" if count == 1 else f"{count} lines are"
        found.append(Damage(names[file], f"{what} no whole event and left out", count, first[file]))
    return sorted(found, key=lambda damage: damage.file)
