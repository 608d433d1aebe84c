"""Critical paths of a query, window by window: their parts by kind, and their instances.

For a control loop: the part of each batch that more instances do not shorten.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from autotrascale.domain.critical_path_report import WAITING, CriticalPathReport, PathShare
from autotrascale.domain.snapshot import CRITICAL_FIELDS, CriticalShares
from autotrascale.plan.control.observations.not_scalable import MIN_UNSCALABLE_SHARE, describe_critical_path
from autotrascale.plan.formatting import format_percent, join_names
from autotrascale.views.critical_path_text import describe_kind
from autotrascale.views.plots.loop_history import PlottedObservation
from autotrascale.views.plots.plot import Axis, Plot, Role, Series

KINDS = ("critical-kinds", "Critical paths by kind of work")
INSTANCES = ("critical-instances", "Instances on the critical paths")
SHARES = ("critical", "Parts of a batch that more instances do not shorten")
MAX_KINDS = 5  # with a colour of their own
MAX_INSTANCES = 12
OTHERS = "other kinds"
DIVIDED = "divided among instances"
_ROLES: tuple[Role, ...] = ("main", "second", "third", "good", "bad")
_PARTS: Mapping[str, tuple[str, Role]] = {
    "driver": ("the driver", "second"),
    "commits": ("commits", "third"),
    "external": ("calls of the sink", "bad"),
    "straggler": ("waiting for the slowest instance", "good"),
}
_SIMULATED = "A simulated job has no critical paths."
_NO_SHARES = "No observation has critical paths. They need an event log with the times of tasks."
_NOTHING_RAN = "Nothing ran in these windows."


def plot_windows(windows: Sequence[CriticalPathReport]) -> list[Plot]:
    """Return the plots of windows of one query, in order of time."""
    return [plot_kinds(windows), plot_instances(windows)]


def plot_kinds(windows: Sequence[CriticalPathReport]) -> Plot:
    """Return a stack of 100 % for each window."""
    sums = _sum_by_part(windows, "kinds")
    if not sums:
        return Plot.unavailable(*KINDS, _NOTHING_RAN)
    shown = [name for name, _ in sums if name != WAITING][:MAX_KINDS]
    x = tuple(one.started_ms / 1000 for one in windows)
    rows = [({part.name: part.participation for part in one.kinds}) for one in windows]
    series = [
        Series(describe_kind(name), x, tuple(100 * row.get(name, 0.0) for row in rows), "area", role)
        for name, role in zip(shown, _ROLES, strict=False)
    ]
    others = [100 * sum(share for name, share in row.items() if name not in (*shown, WAITING)) for row in rows]
    if max(others) > 0:
        series.append(Series(OTHERS, x, tuple(others), "area", "quiet"))
    largest = next((each for each in sums if each[0] != WAITING), sums[0])
    share = format_percent(largest[1] / len(windows))
    caption = f"{_capitalise(describe_kind(largest[0]))} is the largest part, {share}."
    caption += " The rest up to 100 % is waiting for input or a trigger."
    return Plot(*KINDS, caption, Axis("window", "time"), Axis("% of the critical paths"), tuple(series))


def plot_instances(windows: Sequence[CriticalPathReport]) -> Plot:
    """Return a row for each of the instances with the largest parts, darker for a larger part."""
    sums = _sum_by_part(windows, "instances")
    if not sums:
        why = _NOTHING_RAN if not windows else "The log has no instance of an operator in these windows."
        return Plot.unavailable(*INSTANCES, why)
    shown = [name for name, _ in sums][:MAX_INSTANCES]
    x = tuple(one.started_ms / 1000 for one in windows)
    rows = [{_name_part(part): part.participation for part in one.instances} for one in windows]
    series = tuple(Series(name, x, tuple(100 * row.get(name, 0.0) for row in rows), "heat") for name in shown)
    share = sums[0][1] / sum(value for _, value in sums) if sums[0][1] else 0.0
    caption = f"{shown[0]} has {format_percent(share)} of the critical paths of all instances."
    if hidden := [name for name, _ in sums[MAX_INSTANCES:]]:
        caption += f" Not shown: {join_names(hidden, 0).removeprefix(' and ')}."
    return Plot(*INSTANCES, caption, Axis("window", "time"), Axis("% of the critical paths"), series)


def plot_critical_shares(observations: Sequence[PlottedObservation], *, simulated: bool) -> Plot:
    """Return a stack for each observation: 100 %, or more where stragglers overlap with other parts."""
    if simulated:
        return Plot.unavailable(*SHARES, _SIMULATED)
    known = [(each.at, each.critical) for each in observations if each.critical is not None]
    if not known:
        return Plot.unavailable(*SHARES, _NO_SHARES)
    x, shares = tuple(at for at, _ in known), [critical for _, critical in known]
    series = [
        Series(name, x, tuple(100 * float(getattr(one, field)) for one in shares), "area", role)
        for field, (name, role) in _PARTS.items()
    ]
    series.append(Series(DIVIDED, x, tuple(100 * _compute_divided_share(one) for one in shares), "area", "main"))
    bound = sum(one.elsewhere >= MIN_UNSCALABLE_SHARE for one in shares)
    caption = f"Last observation: {describe_critical_path(shares[-1])}."
    caption += f" These parts were half of a batch or more in {bound} of {len(shares)} observations."
    return Plot(*SHARES, caption, Axis("", "time"), Axis("% of a batch's critical path"), tuple(series))


def _compute_divided_share(one: CriticalShares) -> float:
    return max(0.0, 1.0 - sum(float(getattr(one, name)) for name in CRITICAL_FIELDS))


def _sum_by_part(windows: Iterable[CriticalPathReport], summary: str) -> list[tuple[str, float]]:
    sums: dict[str, float] = {}
    for one in windows:
        for part in getattr(one, summary):
            sums[_name_part(part)] = sums.get(_name_part(part), 0.0) + part.participation
    return sorted(sums.items(), key=lambda each: (-each[1], each[0]))


def _name_part(part: PathShare) -> str:
    return part.name if part.instance is None else f"{part.name} {part.instance}"


def _capitalise(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"
