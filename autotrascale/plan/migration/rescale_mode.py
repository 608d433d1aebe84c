"""Whether a query is rescaled in place or overlapped, and why. In place it stands still while its state is moved; in an
overlap a second query is made ready from a copy of its checkpoint while the first one runs on, and takes over.

An overlap is exact where what the sink gets can be cut off at an offset, where the sources give again what they gave,
and where the results of records do not hang on the batches that they fell into, or the second query is led through the
batches of the first (`following.py`). What cannot be seen from outside is for
the job's owner to say, so `in-place` is what is done when nothing is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from autotrascale.domain.observation import RescaleTime
from autotrascale.plan import formatting
from autotrascale.plan.migration.rescale_costs import LinearCost, RescaleCosts

RescaleMode = Literal["overlap", "in-place", "auto"]

# As `python -m benchmarks.speed.handover_bench` measured them on two cores that others wanted too, with --keys of 10000,
# 100000 and 1000000 (docs/rescaling.md), and as it fits them with --fit.
MEASURED = RescaleCosts(
    in_place=LinearCost(0.65, 3.4e-6), hand_over=LinearCost(0.38, 1.4e-7), preparing=LinearCost(3.25, 5.3e-6)
)
_ONE_BY_ONE = 1.5  # times as long is made ready what is led through batches (--windowed: 2.8 s instead of 2.0)
ORDINARY_KEYS = 100_000.0  # of state, where nobody knows how many there are

_WORTH_SECONDS = 0.5  # of standstill that `auto` runs two queries for
_SECONDS_OF_BOTH = 60.0  # that are worth one second of standstill


@dataclass(frozen=True)
class RescaleConditions:
    """What is known when a query is to be rescaled."""

    fenced: bool  # its sink can be cut off at an offset
    sink: str = ""  # what it writes to
    not_replayable: tuple[str, ...] = ()
    by_batches: str = ""  # what makes results hang on which batches records fell into
    can_follow: bool = False  # batch by batch, each as it was in the query that runs
    named: bool = False  # Spark runs no two queries of one name
    local: bool = True  # the checkpoint is on this machine's disk
    committed: bool = True  # there is a commit to copy from
    slots: int = 1
    needed: int = 1  # of both queries at once
    keys: float | None = None  # of state, where it is known


_NOTHING = RescaleTime(0.0)


@dataclass(frozen=True)
class RescaleChoice:
    overlap: bool
    why: str  # empty where there was nothing to choose
    takes: RescaleTime = _NOTHING  # as far as costs that were measured elsewhere can tell
    one_by_one: bool = False  # the second query is led through the first one's batches


def choose_rescale_mode(asked: RescaleMode, found: RescaleConditions, costs: RescaleCosts = MEASURED) -> RescaleChoice:
    if found.by_batches:
        costs = replace(costs, preparing=costs.preparing.times(_ONE_BY_ONE))
    choice = _chosen(asked, found, costs)
    takes, one_by_one = _takes(choice.overlap, found.keys, costs), choice.overlap and bool(found.by_batches)
    return replace(choice, takes=takes, one_by_one=one_by_one)


def _takes(overlap: bool, keys: float | None, costs: RescaleCosts) -> RescaleTime:
    known = ORDINARY_KEYS if keys is None else keys
    if overlap:
        return RescaleTime(costs.hand_over.at(known), costs.preparing.at(known))
    return RescaleTime(costs.in_place.at(known))


def _chosen(asked: RescaleMode, found: RescaleConditions, costs: RescaleCosts) -> RescaleChoice:
    if asked == "in-place":
        return RescaleChoice(False, "")
    if obstacle := _obstacle(found):
        return RescaleChoice(False, f"in place: {obstacle}")
    if asked == "overlap":
        return RescaleChoice(True, "overlap: as the job file says")
    keys = found.keys or 0.0
    stands, gap, both = (each.at(keys) for each in (costs.in_place, costs.hand_over, costs.preparing))
    said = f"{formatting.format_seconds(stands)} in place, {formatting.format_seconds(gap)} overlapped, {formatting.format_seconds(both)} of both"
    worth = stands - gap - max(_WORTH_SECONDS, both / _SECONDS_OF_BOTH)
    return (
        RescaleChoice(True, f"overlap: expected {said}")
        if worth > 0
        else RescaleChoice(False, f"in place: expected {said}")
    )


def _obstacle(found: RescaleConditions) -> str:
    """What forbids an overlap, in words; empty: nothing."""
    if found.not_replayable:
        return f"{' and '.join(found.not_replayable)} give each record only once"
    if not found.fenced:
        return (
            f"writes to {found.sink or 'an unknown sink'} cannot be cut off at an offset, only those of foreachBatch,"
            " to Spark's own files and to Kafka"
        )
    if found.by_batches and not found.can_follow:
        return f"it goes by {found.by_batches}, and what comes of them depends on where a batch ends"
    if found.named:
        return "it has a name, and Spark runs no two queries of one name"
    if not found.local:
        return "its checkpoint is not on this machine's own disk"
    if not found.committed:
        return "it has committed no batch that a second query could go on from"
    if found.needed > found.slots:
        return f"{found.slots} slots have no room for both, which need {found.needed}"
    return ""
