"""What executors cost, how many a set of queries needs, and how many partitions their state and shuffles get then.

| symbol  | meaning                                                                          | unit       |
|---------|----------------------------------------------------------------------------------|------------|
| e       | executors of the application, MIN ≤ e ≤ MAX                                       | executors  |
| c       | slots of one of them, tasks that it runs at once: its cores where a task takes one | slots      |
| S       | e · c, tasks that run at once                                                     | slots      |
| n_qi    | slots that stage i of query q needs                                               | slots      |
| k_q     | executors that query q needs; its share of e is e_q                               | executors  |
| P_q     | partitions of q's state and shuffles: tasks of a stage                            | partitions |
| w       | ⌈P / S⌉, waves in which the tasks of a stage run                                  |            |
| use     | P / (w · S), share of the slots that have work while a stage runs                 | (0, 1]     |

    slots       Σ_q max_i n_qi              the stages of one query take turns, queries run together
    executors   e = min(max(Σ k_q, MIN), MAX)
    cost        e · c · t core-seconds, or e · t / 3600 times the price of an executor hour

P fits e executors when every slot gets a task, the tasks run in a few waves, and the last wave is not much emptier
than the others: S ≤ P, w ≤ MOST_WAVES (MANY_WAVES of a P that is right for more executors), use ≥ LEAST_USE. A stage
lasts as long as its waves, so it is 1 / use times as long as its work would take on those slots. To change P is to stop
the query and move its state: it is done only where P does not fit, and then P becomes the number of at most NEW_WAVES
waves that fits the most of the executors that may be wanted next (from half to twice as many, within MIN:MAX), the
smallest such. A stage that a mark gives a number of its own is held to the same rule, and moved with the others.

Up: executors first, since partitions for slots that are not there yet would only make more waves. Down: partitions
first, while there are still slots for all; then the executors that are not needed any more.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from autotrascale.domain import checks
from autotrascale.domain.decision import Reason
from autotrascale.domain.errors import InputError
from autotrascale.plan.sizing.quota import share_out

# Every task costs its start, and a partition of state its commit. That is little beside a move: what is right for the
# most executors that there may be is kept for few, since a query that is moved when they are few is moved back when
# they are wanted, at a rate at which a standstill hurts most. With more than MANY_WAVES a batch is all tasks' own cost.
MOST_WAVES, MANY_WAVES = 8, 24
NEW_WAVES = 3  # of a P that is chosen anew: room for thrice the executors; more waves would save few moves more
# Below, a stage lasts a fifth longer than it has to, and one executor more may bring nothing: 6 partitions last as long
# on 4 slots as on 3. That is worth a restart.
LEAST_USE = 0.85
_LOOKED_AT = 64  # numbers of executors, however many there may be


@dataclass(frozen=True)
class ExecutorRange:
    """MIN:MAX executors of the application."""

    least: int
    most: int

    def __post_init__(self) -> None:
        checks.count("executors", self.least)
        checks.count("executors", self.most)
        if self.most < self.least:
            raise InputError(
                "executors", f"the most are fewer than the least, {self.least}", seen=self.most, remedy="write MIN:MAX"
            )

    def hold(self, executors: int) -> int:
        return min(max(executors, self.least), self.most)


@dataclass(frozen=True)
class ExecutorSize:
    """One executor. `memory` is as Spark writes it, empty where it is not known; `price` of an hour of it, if known."""

    cores: int
    memory: str = ""
    price: float | None = None

    def __post_init__(self) -> None:
        checks.count("cores", self.cores)
        checks.optional(checks.non_negative, "price", self.price)


@dataclass(frozen=True)
class QueryNeed:
    """`needed` is k. `partitions` is P as it runs; None: it has neither state nor a shuffle, and nothing to move.
    `stages`: those that are marked with a number of their own."""

    name: str
    needed: int
    partitions: int | None
    stages: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checks.count(f"queries.{self.name}.needed", self.needed)
        if self.partitions is not None:
            checks.count(f"queries.{self.name}.partitions", self.partitions)
        for stage, number in self.stages.items():
            checks.count(f"queries.{self.name}.stages.{stage}", number)


@dataclass(frozen=True)
class RunningApplication:
    """What runs: executors (those that leave not counted) of so many cores, and the queries on them."""

    executors: int
    cores: int
    queries: tuple[QueryNeed, ...]

    def __post_init__(self) -> None:
        checks.count("executors", self.executors, least=0)
        checks.count("cores", self.cores)


@dataclass(frozen=True)
class GrowExecutors:
    total: int


@dataclass(frozen=True)
class MovePartitions:
    """`stages`: those of the marked ones that get another number."""

    query: str
    partitions: int
    reason: Reason
    stages: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ShrinkExecutors:
    total: int


ExecutorStep = GrowExecutors | MovePartitions | ShrinkExecutors


@dataclass(frozen=True)
class ExecutorPlan:
    """`shares` is e_q. `short` names queries that get fewer executors than they need: MAX forbids more."""

    executors: int
    shares: Mapping[str, int]
    steps: tuple[ExecutorStep, ...]
    short: tuple[str, ...] = ()


def sum_slots(stages: Mapping[str, Sequence[int]]) -> int:
    """Of the slots that each stage of each query needs.

    >>> slots_needed({"orders": [4, 6, 2], "clicks": [3]})
    9
    """
    return sum(max(needs, default=0) for needs in stages.values())


def count_executors(slots: int, cores: int) -> int:
    return max(1, math.ceil(slots / cores))


def compute_core_seconds(executors: float, cores: int, seconds: float) -> float:
    return executors * cores * seconds


def compute_price(executors: float, seconds: float, per_hour: float) -> float:
    """In whatever the price of an executor hour is given in."""
    return executors * seconds / 3600 * per_hour


def sum_executor_seconds(changes: Sequence[tuple[float, int]], until: float) -> float:
    """Of an application that had so many executors from each moment on.

    >>> executor_seconds([(0.0, 1), (10.0, 3)], until=20.0)
    40.0
    """
    ends = [*changes, (until, 0)]
    return sum(count * max(0.0, min(end, until) - begin) for (begin, count), (end, _) in pairwise(ends))


def plan_executors(application: RunningApplication, bounds: ExecutorRange) -> ExecutorPlan:
    """What should run, and the steps to there. Each step is made when the one before has come about; where a cluster
    does not grant what it was asked for, plan again with what it granted as the most."""
    needed = {query.name: query.needed for query in application.queries}
    if len(needed) < len(application.queries):
        raise InputError("queries", "have the same name twice", seen=[query.name for query in application.queries])
    wanted = bounds.hold(sum(needed.values()))
    shares = share_executors(needed, wanted)
    moves = tuple(
        move
        for query in application.queries
        if (move := _move(query, shares[query.name], application.cores, bounds)) is not None
    )
    steps: tuple[ExecutorStep, ...] = moves
    if wanted > application.executors:
        steps = (GrowExecutors(wanted), *moves)
    elif wanted < application.executors:
        steps = (*moves, ShrinkExecutors(wanted))
    return ExecutorPlan(wanted, shares, steps, tuple(name for name, k in needed.items() if shares[name] < k))


def _move(query: QueryNeed, executors: int, cores: int, bounds: ExecutorRange) -> MovePartitions | None:
    """A stage with a number of its own is moved by the same rule as state and shuffles, and with them."""
    if query.partitions is None:
        return None
    partitions, reason = choose_partitions(executors, cores, query.partitions, bounds)
    found = {name: choose_partitions(executors, cores, number, bounds) for name, number in query.stages.items()}
    stages = {name: wanted for name, (wanted, _) in found.items() if wanted != query.stages[name]}
    if partitions == query.partitions and not stages:
        return None
    return MovePartitions(
        query.name, partitions, reason if partitions != query.partitions else found[next(iter(stages))][1], stages
    )


def share_executors(needed: Mapping[str, int], executors: int) -> dict[str, int]:
    """Who may count on how many: each what it needs and a part of the rest, or, of too few, a part; one at least, for
    queries without a share still run, on what the others leave."""
    if not needed:
        return {}
    if sum(needed.values()) <= executors:
        return share_out(needed, needed, executors)
    one = dict.fromkeys(needed, 1)
    return share_out(one, {name: k - 1 for name, k in needed.items()}, executors)


def choose_partitions(executors: int, cores: int, now: int, bounds: ExecutorRange | None = None) -> tuple[int, Reason]:
    """P for a query that may use so many executors, and why. `now` where a restart is not worth it. `bounds`: how many
    executors it may have another time.

    >>> partitions_for(3, 2, now=6)[0], partitions_for(3, 2, now=4)[0]
    (6, 12)
    """
    slots = executors * cores
    if partitions_fit(now, slots, NEW_WAVES * bounds.most * cores if bounds else 0):
        numbers = {"partitions": now, "slots": slots, "use": compute_slot_usage(now, slots)}
        return now, Reason("partitions-fit", f"{now} partitions keep {slots} slots busy", numbers)
    wanted = _suits_most(executors, bounds) * cores
    numbers = {"partitions": now, "wanted": wanted, "slots": slots, "use": compute_slot_usage(now, slots)}
    return wanted, Reason("partitions-move", f"{_misfit(now, slots)}: {wanted} are better", numbers)


def partitions_fit(partitions: int, slots: int, wanted_at_most: int = 0) -> bool:
    """`wanted_at_most`: up to how many partitions it may want with more executors."""
    most = max(MOST_WAVES * slots, min(wanted_at_most, MANY_WAVES * slots))
    return slots <= partitions <= most and compute_slot_usage(partitions, slots) >= LEAST_USE


def compute_slot_usage(partitions: int, slots: int) -> float:
    return partitions / (math.ceil(partitions / slots) * slots)


def _suits_most(executors: int, bounds: ExecutorRange | None) -> int:
    """P / c. Whole executors' worth: whether it fits does then not depend on c."""
    low, high = max(1, executors // 2), 2 * executors
    if bounds is not None:
        low, high = min(executors, max(low, bounds.least)), max(executors, min(high, bounds.most))
    others = _some(low, high)
    best = executors
    for candidate in _some(executors, NEW_WAVES * executors):
        # The smallest of equals, since they are tried in order.
        if partitions_fit(candidate, executors) and _count(candidate, others) > _count(best, others):
            best = candidate
    return best


def _count(partitions: int, executors: Iterable[int]) -> int:
    return sum(partitions_fit(partitions, each) for each in executors)


def _some(first: int, last: int) -> range:
    return range(first, last + 1, max(1, (last - first) // _LOOKED_AT))


def _misfit(partitions: int, slots: int) -> str:
    if partitions < slots:
        return f"{slots - partitions} of {slots} slots get no task of {partitions} partitions"
    waves = math.ceil(partitions / slots)
    if waves > MOST_WAVES:
        return f"{partitions} partitions take {waves} waves on {slots} slots"
    return f"{partitions} partitions keep {compute_slot_usage(partitions, slots):.0%} of {slots} slots busy"
