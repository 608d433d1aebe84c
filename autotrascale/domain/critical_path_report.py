"""The critical paths of a window: shares of activities, and bounds on the effect of changes.

    symbol          meaning                                                                 unit
    participation   share of the critical paths of a window that an activity takes          [0, 1]; kinds sum to 1
    busy            time of an activity, on the critical path or not                        seconds
    waiting         share of the window in which the critical paths themselves wait         [0, 1]
    uncovered       share of the window that no known activity and no message covers        [0, 1]
    at_best         length of the longest path after a change, over its length now          [0, 1]

`at_best` is a lower bound: activities keep waiting for each other as they do now, so the real path is usually longer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

# One more instance of an operator; unlimited instances; perfectly even instances; a kind of activity at no cost.
WhatIfChange = Literal["one-more", "unlimited", "even", "free"]
ALL = "all operators"
WAITING, UNKNOWN = "waiting", "unknown"  # kinds that are no work


@dataclass(frozen=True)
class PathShare:
    """The share of a kind of activity, a timeline, an operator, an instance or an exchange in the critical paths.

    Args:
        name: name of the kind, timeline or operator.
        participation: share of the critical paths, in [0, 1].
        busy_seconds: time of all its activities.
        other: receiver, for an exchange only.
        instance: number of the instance, for an instance only.
        instances: instances of the operator; 0 for everything else.
    """

    name: str
    participation: float
    busy_seconds: float
    other: str = ""
    instance: int | None = None
    instances: int = 0


@dataclass(frozen=True)
class WhatIf:
    """The bound `at_best` for one change of the operator or kind `of`."""

    change: WhatIfChange
    of: str
    at_best: float


@dataclass(frozen=True)
class CriticalPathReport:
    """The critical paths of one window, or the mean of several. Shares are sorted by participation, largest first."""

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
        """Working time on the critical paths."""
        return self.seconds * (1 - self.waiting)


SUMMARIES = ("kinds", "timelines", "operators", "instances", "exchanges")


def average_reports(windows: Sequence[CriticalPathReport]) -> CriticalPathReport:
    """Return the mean of windows of one query, weighted by their lengths.

    What-ifs are weighted by the working time on the paths. A window without a what-if counts as no saving.
    """
    first, seconds = windows[0], sum(one.seconds for one in windows)

    def shares(name: str) -> tuple[PathShare, ...]:
        return _average_shares([(one.seconds / seconds, getattr(one, name)) for one in windows])

    return replace(
        first,
        started_ms=min(one.started_ms for one in windows),
        seconds=seconds,
        waiting=sum(one.seconds * one.waiting for one in windows) / seconds,
        uncovered=sum(one.seconds * one.uncovered for one in windows) / seconds,
        kinds=shares("kinds"),
        timelines=shares("timelines"),
        operators=shares("operators"),
        instances=shares("instances"),
        exchanges=shares("exchanges"),
        what_ifs=_average_what_ifs(windows),
    )


def order_shares(shares: Iterable[PathShare]) -> tuple[PathShare, ...]:
    """Return the shares by participation, largest first."""
    return tuple(sorted(shares, key=lambda share: (-share.participation, share.name, share.other, share.instance or 0)))


def _average_shares(windows: Iterable[tuple[float, tuple[PathShare, ...]]]) -> tuple[PathShare, ...]:
    """Return the weighted mean participation; busy times are summed, and `instances` is the most of any window."""
    sums: dict[tuple[str, str, int | None], PathShare] = {}
    for weight, shares in windows:
        for share in shares:
            key = (share.name, share.other, share.instance)
            before = sums.get(key, replace(share, participation=0.0, busy_seconds=0.0))
            sums[key] = replace(
                before,
                participation=before.participation + weight * share.participation,
                busy_seconds=before.busy_seconds + share.busy_seconds,
                instances=max(before.instances, share.instances),
            )
    return order_shares(sums.values())


def _average_what_ifs(windows: Sequence[CriticalPathReport]) -> tuple[WhatIf, ...]:
    whole = sum(one.path_seconds for one in windows)
    if whole <= 0:
        return ()
    saved: dict[tuple[WhatIfChange, str], float] = {}
    for one in windows:
        for each in one.what_ifs:
            key = each.change, each.of
            saved[key] = saved.get(key, 0.0) + one.path_seconds * (1 - each.at_best)
    return order_what_ifs(WhatIf(change, of, 1 - seconds / whole) for (change, of), seconds in saved.items())


def order_what_ifs(what_ifs: Iterable[WhatIf]) -> tuple[WhatIf, ...]:
    """Return the what-ifs by their saving, largest first."""
    return tuple(sorted(what_ifs, key=lambda each: (each.at_best, each.change, each.of)))


def report_to_dict(report: CriticalPathReport) -> dict[str, Any]:
    """Return the report for JSON, without empty fields."""

    def known_fields(value: Any) -> dict[str, Any]:
        items = asdict(value).items()
        return {name: each for name, each in items if each not in ("", None) and (name, each) != ("instances", 0)}

    whole = {each.name: getattr(report, each.name) for each in fields(report)}
    return {
        name: [known_fields(each) for each in value] if isinstance(value, tuple) else value
        for name, value in whole.items()
    }
