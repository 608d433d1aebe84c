"""Parts of a log that could not be read. Each is counted and named, so that nothing is dropped in silence."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Damage:
    """A file, or lines of a file, that could not be used.

    `lines` is the number of lines left out, None where it is unknown. `first_line` is the number of the first of them
    and counts from 1.
    """

    file: str
    problem: str
    lines: int | None = None
    first_line: int | None = None

    def __str__(self) -> str:
        place = f"; the first is line {self.first_line}" if self.first_line else ""
        return f"{self.file}: {self.problem}{place}"


def count_lines(count: int) -> str:
    """Return "1 line" or, for example, "3 lines"."""
    return "1 line" if count == 1 else f"{count:,} lines"
