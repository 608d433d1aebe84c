"""One tree of errors. A user's mistake is one line: where, what is wrong, the value seen, what to do."""

from __future__ import annotations

_UNSEEN = object()


class AuTraScaleError(Exception):
    """Everything this package raises on purpose."""


class InputError(AuTraScaleError, ValueError):
    """Something handed in cannot be used. `place` says where, `remedy` what to do about it."""

    def __init__(self, place: str, problem: str, *, seen: object = _UNSEEN, remedy: str = "") -> None:
        self.place = place
        self.problem = problem
        self.seen = seen
        self.remedy = remedy
        super().__init__(place, problem)

    def __str__(self) -> str:
        seen = "" if self.seen is _UNSEEN else f" (seen: {_short(self.seen)})"
        remedy = f"; {self.remedy}" if self.remedy else ""
        return f"{self.place}: {self.problem}{seen}{remedy}"

    def under(self, prefix: str) -> InputError:
        """The same complaint, said from further out: `operators` + `flatmap.parallelism`."""
        seen = {} if self.seen is _UNSEEN else {"seen": self.seen}
        return type(self)(f"{prefix}{self.place}", self.problem, remedy=self.remedy, **seen)


class StudyError(AuTraScaleError, RuntimeError):
    """A study was asked for something it cannot give now: a point when none is left, a best before any run."""


class EngineError(AuTraScaleError, RuntimeError):
    """The engine under the job cannot run at all. A trial that merely failed is a verdict, not an error."""


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
