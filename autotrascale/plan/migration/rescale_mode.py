"""Choose whether a query is rescaled in place or by an overlap, and give the reason.

In place, the query stands still while its state is moved. In an overlap, a second query is prepared from a copy of the
checkpoint while the first query runs on, and then takes over (blue/green).

An overlap is exact only under three conditions: the output to the sink can be cut off at an offset, the sources can be
replayed, and the results of records do not depend on the batches they fell into. The third condition is not needed when
the second query follows the batches of the first (`catch_up`). Other conditions cannot be seen from outside, so the
default is in place, and the owner of the job decides.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from autotrascale.domain.observation import RescaleTime
from autotrascale.plan.formatting import format_seconds
from autotrascale.plan.migration.rescale_costs import LinearCost, RescaleCosts

RescaleMode = Literal["overlap", "in-place", "auto"]

# Measured by `python -m benchmarks.speed.handover_bench` on two busy cores, with --keys of 10000, 100000 and 1000000
# (docs/explanation/rescaling.md), and fitted by --fit.
MEASURED = RescaleCosts(
    in_place=LinearCost(0.65, 3.4e-6), hand_over=LinearCost(0.38, 1.4e-7), preparing=LinearCost(3.25, 5.3e-6)
)
_FOLLOWING_FACTOR = 1.5  # longer preparation when batches are followed (--windowed: 2.8 s instead of 2.0 s)
ORDINARY_KEYS = 100_000.0  # keys of state that are assumed when the number is not known

_WORTH_SECONDS = 0.5  # least saving of standstill for which `auto` chooses an overlap
_SECONDS_OF_BOTH = 60.0  # time with two queries that is worth one second of standstill


@dataclass(frozen=True)
class RescaleConditions:
    """The conditions of a rescale.

    Args:
        fenced: the output to the sink can be cut off at an offset.
        sink: name of the sink.
        not_replayable: sources that give each record only once.
        by_batches: operation whose results depend on the batch of a record; empty when there is none.
        can_follow: the second query can follow the batches of the first.
        named: the query has a name; Spark does not run two queries of one name.
        local: the checkpoint is on a disk of this machine.
        committed: there is a committed batch to copy.
        slots: available slots.
        needed: slots that both queries need.
        keys: keys of state; None when not known.
    """

    fenced: bool
    sink: str = ""
    not_replayable: tuple[str, ...] = ()
    by_batches: str = ""
    can_follow: bool = False
    named: bool = False
    local: bool = True
    committed: bool = True
    slots: int = 1
    needed: int = 1
    keys: float | None = None


@dataclass(frozen=True)
class RescaleChoice:
    """The chosen mode.

    Args:
        overlap: True for an overlap, False for in place.
        why: the reason; empty when the caller asked for in place.
        takes: expected durations, from costs measured elsewhere.
        one_by_one: the second query follows the batches of the first.
    """

    overlap: bool
    why: str
    takes: RescaleTime = RescaleTime(0.0)  # noqa: RUF009 - immutable
    one_by_one: bool = False


def choose_rescale_mode(
    asked: RescaleMode, conditions: RescaleConditions, costs: RescaleCosts = MEASURED
) -> RescaleChoice:
    """Return the mode for a rescale: `asked` if the conditions allow it; "auto" compares the costs."""
    if conditions.by_batches:
        costs = replace(costs, preparing=costs.preparing.times(_FOLLOWING_FACTOR))
    overlap, why = _choose(asked, conditions, costs)
    known = ORDINARY_KEYS if conditions.keys is None else conditions.keys
    if not overlap:
        return RescaleChoice(False, why, RescaleTime(costs.in_place.at(known)))
    takes = RescaleTime(costs.hand_over.at(known), costs.preparing.at(known))
    return RescaleChoice(True, why, takes, one_by_one=bool(conditions.by_batches))


def _choose(asked: RescaleMode, conditions: RescaleConditions, costs: RescaleCosts) -> tuple[bool, str]:
    """Return whether to overlap, and the reason."""
    if asked == "in-place":
        return False, ""
    if obstacle := _find_obstacle(conditions):
        return False, f"in place: {obstacle}"
    if asked == "overlap":
        return True, "overlap: as configured"
    keys = conditions.keys or 0.0
    standstill, gap, both = (each.at(keys) for each in (costs.in_place, costs.hand_over, costs.preparing))
    expected = (
        f"expected standstill {format_seconds(standstill)} in place or {format_seconds(gap)} overlapped, "
        f"with two queries for {format_seconds(both)}"
    )
    is_worth_it = standstill - gap - max(_WORTH_SECONDS, both / _SECONDS_OF_BOTH) > 0
    return is_worth_it, f"{'overlap' if is_worth_it else 'in place'}: {expected}"


def _find_obstacle(conditions: RescaleConditions) -> str:
    """Return the reason that forbids an overlap; empty when there is none."""
    if conditions.not_replayable:
        return f"{' and '.join(conditions.not_replayable)} give each record only once"
    if not conditions.fenced:
        return (
            f"the output to {conditions.sink or 'an unknown sink'} cannot be cut off at an offset; only foreachBatch, "
            "Spark's file sinks and Kafka allow that"
        )
    if conditions.by_batches and not conditions.can_follow:
        return f"the query uses {conditions.by_batches}, whose results depend on the end of a batch"
    if conditions.named:
        return "the query has a name, and Spark does not run two queries of one name"
    if not conditions.local:
        return "the checkpoint is not on a disk of this machine"
    if not conditions.committed:
        return "the query has committed no batch yet, so there is no state to copy"
    if conditions.needed > conditions.slots:
        return f"both queries need {conditions.needed} slots, and {conditions.slots} are available"
    return ""
