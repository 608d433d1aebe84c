"""What was on the critical paths of a window, and what would shorten them: the answer of `analyze.critical`.

    symbol          meaning                                                                 unit
    participation   share of the critical paths of a window, all of them counted            of one; all kinds sum to 1
    busy            how long it was under way, on whatever path                             seconds
    waiting         share of the window in which the critical paths themselves wait         of one
    uncovered       share of the window that no known activity and no message covers        of one
    at_best         how long the path would still be that is the longest after a change     of what it is now

`at_best` is a bound: less is out of reach as long as the same things await each other, more is likely.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal


# One instance more of an operator, or as many as there may be; all its instances alike; a kind of activity for nothing.
WhatIfChange = Literal["one-more", "unlimited", "even", "free"]
ALL = "all operators"
WAITING, UNKNOWN = "waiting", "unknown"  # of the kinds, those that are no work


@dataclass(frozen=True)
class PathShare:
    """Of a kind, a timeline, an operator, an instance or an exchange."""

    name: str
    participation: float
    busy_seconds: float
    other: str = ""  # of an exchange: where it leads to
    instance: int | None = None  # the number of one
    instances: int = 0  # that an operator had


@dataclass(frozen=True)
class WhatIf:
    change: WhatIfChange
    of: str
    at_best: float


@dataclass(frozen=True)
class CriticalPathReport:
    """One window, or the mean of several. Parts come with the greatest participation first."""

    application: str
    query: str
    started_ms: int
    seconds: float
    waiting: float
    uncovered: float
    kinds: tuple[PathShare, ...]
    timelines: tuple[PathShare, ...]
    operators: tuple[PathShare, ...]
    instances: tuple[PathShare, ...]
    exchanges: tuple[PathShare, ...]
    what_ifs: tuple[WhatIf, ...]

    @property
    def path_seconds(self) -> float:
        """How long the critical paths work."""
        return self.seconds * (1 - self.waiting)


_NO = ("instances", 0)
SUMMARIES = ("kinds", "timelines", "operators", "instances", "exchanges")


def average_reports(windows: Sequence[CriticalPathReport]) -> CriticalPathReport:
    """Of windows of one query, by their lengths; what a change leaves, by how long the paths work."""
    first, seconds = windows[0], sum(one.seconds for one in windows)

    def parts(name: str) -> tuple[PathShare, ...]:
        return _mean_parts([(one.seconds / seconds, getattr(one, name)) for one in windows])

    return replace(
        first,
        started_ms=min(one.started_ms for one in windows),
        seconds=seconds,
        waiting=sum(one.seconds * one.waiting for one in windows) / seconds,
        uncovered=sum(one.seconds * one.uncovered for one in windows) / seconds,
        kinds=parts("kinds"),
        timelines=parts("timelines"),
        operators=parts("operators"),
        instances=parts("instances"),
        exchanges=parts("exchanges"),
        what_ifs=_mean_what_ifs(windows),
    )


def order_shares(parts: Iterable[PathShare]) -> tuple[PathShare, ...]:
    return tuple(sorted(parts, key=lambda part: (-part.participation, part.name, part.other, part.instance or 0)))


def _mean_parts(of_windows: Iterable[tuple[float, tuple[PathShare, ...]]]) -> tuple[PathShare, ...]:
    """An operator had as many instances as it had in any window."""
    sums: dict[tuple[str, str, int | None], PathShare] = {}
    for weight, parts in of_windows:
        for part in parts:
            key = (part.name, part.other, part.instance)
            before = sums.get(key, replace(part, participation=0.0, busy_seconds=0.0))
            sums[key] = replace(
                before,
                participation=before.participation + weight * part.participation,
                busy_seconds=before.busy_seconds + part.busy_seconds,
                instances=max(before.instances, part.instances),
            )
    return order_shares(sums.values())


def _mean_what_ifs(windows: Sequence[CriticalPathReport]) -> tuple[WhatIf, ...]:
    """A window that says nothing of a change has nothing that it would change."""
    whole = sum(one.path_seconds for one in windows)
    if whole <= 0:
        return ()
    saved: dict[tuple[WhatIfChange, str], float] = {}
    for one in windows:
        for each in one.what_ifs:
            key = each.change, each.of
            saved[key] = saved.get(key, 0.0) + one.path_seconds * (1 - each.at_best)
    return order_what_ifs(WhatIf(change, of, 1 - some / whole) for (change, of), some in saved.items())


def order_what_ifs(what_ifs: Iterable[WhatIf]) -> tuple[WhatIf, ...]:
    return tuple(sorted(what_ifs, key=lambda each: (each.at_best, each.change, each.of)))


def report_to_dict(one: CriticalPathReport) -> dict[str, Any]:
    """For JSON. What says nothing is left out."""

    def said(value: Any) -> dict[str, Any]:
        return {name: each for name, each in asdict(value).items() if each not in ("", None) and (name, each) != _NO}

    whole = {each.name: getattr(one, each.name) for each in fields(one)}
    return {
        name: [said(part) for part in value] if isinstance(value, tuple) else value for name, value in whole.items()
    }
