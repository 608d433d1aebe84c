"""What the critical paths of a query are made of, window by window; and which of its instances lie on them. Of a job
that is kept, look by look, what of them more instances would not shorten."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from autotrascale.domain.critical_path_report import WAITING, CriticalPathReport, PathShare
from autotrascale.domain.snapshot import CRITICAL_FIELDS, CriticalShares
from autotrascale.plan.control.observations.not_scalable import MIN_UNSCALABLE_SHARE, describe_critical_path
from autotrascale.plan.formatting import format_percent, join_names
from autotrascale.views.critical_path_text import describe_kind
from autotrascale.views.plots.loop_history import PlottedObservation
from autotrascale.views.plots.plot import Axis, Plot, Role, Series

KINDS, INSTANCES = "critical-kinds", "critical-instances"
SHOWN = 5  # kinds with a colour of their own
ROWS = 12  # instances
REST = "the rest"
_ROLES: tuple[Role, ...] = ("main", "second", "third", "good", "bad")
_KINDS_TITLE = "What the critical paths are made of"
_INSTANCES_TITLE = "Which instances are on the critical paths"
LOOKS, LOOKS_TITLE = "critical", "What more instances would not shorten"
DIVIDED = "what they may shorten"
_PARTS: Mapping[str, tuple[str, Role]] = {
    "driver": ("the driver", "second"),
    "commits": ("commits", "third"),
    "external": ("the sink's calls", "bad"),
    "straggler": ("waiting for the slowest instance", "good"),
}
_SIMULATED = "A simulated job tells of no critical paths."
_NO_LOOKS = "No look of these says what was on critical paths: for that a log has to say when tasks ran."
_NONE = "Nothing ran in these windows."


def plot_windows(windows: Sequence[CriticalPathReport]) -> list[Plot]:
    """Of windows of one query, in order of time."""
    return [plot_kinds(windows), plot_instances(windows)]


def plot_kinds(windows: Sequence[CriticalPathReport]) -> Plot:
    """A stack of 100 % in each window."""
    sums = _sums(windows, "kinds")
    if not sums:
        return Plot.unavailable(KINDS, _KINDS_TITLE, _NONE)
    shown = [name for name, _ in sums if name != WAITING][:SHOWN]
    x = tuple(one.started_ms / 1000 for one in windows)
    rows = [({part.name: part.participation for part in one.kinds}) for one in windows]
    series = [
        Series(describe_kind(name), x, tuple(100 * row.get(name, 0.0) for row in rows), "area", role)
        for name, role in zip(shown, _ROLES, strict=False)
    ]
    others = [100 * sum(share for name, share in row.items() if name not in (*shown, WAITING)) for row in rows]
    if max(others) > 0:
        series.append(Series(REST, x, tuple(others), "area", "quiet"))
    first = next((each for each in sums if each[0] != WAITING), sums[0])
    says = (
        f"{_capital(describe_kind(first[0]))} has the greatest part of them: {format_percent(first[1] / len(windows))}."
    )
    says += " What is missing to 100 % is waiting for input or a trigger."
    return Plot(KINDS, _KINDS_TITLE, says, Axis("window", "time"), Axis("% of the critical paths"), tuple(series))


def plot_instances(windows: Sequence[CriticalPathReport]) -> Plot:
    """A row for each of those that are there most, the darker the more."""
    sums = _sums(windows, "instances")
    if not sums:
        why = _NONE if not windows else "The log tells of no instance of an operator in these windows."
        return Plot.unavailable(INSTANCES, _INSTANCES_TITLE, why)
    shown = [name for name, _ in sums][:ROWS]
    x = tuple(one.started_ms / 1000 for one in windows)
    rows = [{_row(part): part.participation for part in one.instances} for one in windows]
    series = tuple(Series(name, x, tuple(100 * row.get(name, 0.0) for row in rows), "heat") for name in shown)
    share = sums[0][1] / sum(value for _, value in sums) if sums[0][1] else 0.0
    says = f"{shown[0]} has {format_percent(share)} of what all instances have of them."
    says += (
        f" Not shown: {join_names([name for name, _ in sums[ROWS:]], 0).removeprefix(' and ')}." if sums[ROWS:] else ""
    )
    return Plot(INSTANCES, _INSTANCES_TITLE, says, Axis("window", "time"), Axis("% of the critical paths"), series)


def plot_critical_shares(looks: Sequence[PlottedObservation], *, simulated: bool) -> Plot:
    """A stack of 100 % for each look that measured it; stragglers may overlap with the rest, and lift it above."""
    if simulated:
        return Plot.unavailable(LOOKS, LOOKS_TITLE, _SIMULATED)
    told = [(look.at, look.critical) for look in looks if look.critical is not None]
    if not told:
        return Plot.unavailable(LOOKS, LOOKS_TITLE, _NO_LOOKS)
    x, each = tuple(at for at, _ in told), [critical for _, critical in told]
    series = [
        Series(name, x, tuple(100 * float(getattr(one, field)) for one in each), "area", role)
        for field, (name, role) in _PARTS.items()
    ]
    series.append(Series(DIVIDED, x, tuple(100 * _divided(one) for one in each), "area", "main"))
    held = sum(one.elsewhere >= MIN_UNSCALABLE_SHARE for one in each)
    says = f"In the last of these looks {describe_critical_path(each[-1])}."
    says += f" It was half or more in {held} of {len(each)}: there a missed target is no matter of instances."
    return Plot(LOOKS, LOOKS_TITLE, says, Axis("", "time"), Axis("% of a batch's critical paths"), tuple(series))


def _divided(one: CriticalShares) -> float:
    return max(0.0, 1.0 - sum(float(getattr(one, name)) for name in CRITICAL_FIELDS))


def _sums(windows: Iterable[CriticalPathReport], summary: str) -> list[tuple[str, float]]:
    sums: dict[str, float] = {}
    for one in windows:
        for part in getattr(one, summary):
            sums[_row(part)] = sums.get(_row(part), 0.0) + part.participation
    return sorted(sums.items(), key=lambda each: (-each[1], each[0]))


def _row(part: PathShare) -> str:
    return part.name if part.instance is None else f"{part.name} {part.instance}"


def _capital(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"
