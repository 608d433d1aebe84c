"""Plan executors for a set of queries: their number, the partitions of each query, the order of steps, and the cost.

| symbol  | meaning                                                                          | unit       |
|---------|----------------------------------------------------------------------------------|------------|
| e       | executors of the application, MIN ≤ e ≤ MAX                                       | executors  |
| c       | slots of one executor: its cores, if a task takes one core                         | slots      |
| S       | e · c, tasks that run at once                                                     | slots      |
| k_q     | executors that query q needs; its share of e is e_q                               | executors  |
| P_q     | partitions of q's state and shuffles: tasks of a stage                            | partitions |
| w       | ⌈P / S⌉, waves in which the tasks of a stage run                                  |            |
| use     | P / (w · S), share of the slots that have work while a stage runs                 | (0, 1]     |

    executors   e = min(max(Σ k_q, MIN), MAX)

P fits e executors if every slot gets a task, the tasks run in few waves, and the last wave is nearly full:

    S ≤ P,  w ≤ MOST_WAVES (or MANY_WAVES, if P suits more executors within MIN:MAX),  use ≥ LEAST_USE

A stage lasts as long as its waves, which is 1 / use times its work over the slots. A change of P stops the query and
moves its state. So P changes only when it does not fit. The new P has at most NEW_WAVES waves and fits as many as
possible of the executors that may be wanted next: from half to twice as many, within MIN:MAX. The smallest such P is
taken. A stage with a marked number of its own follows the same rule and moves together with the query.

Scale-up adds executors first, because partitions for missing slots only add waves. Scale-down moves partitions first,
while all slots exist, and then releases executors.
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

# A task costs its start, and a partition of state its commit. Both are small compared with a move. So few executors
# keep a P that suits MAX: a query moved for few executors moves back when the rate is high and a standstill hurts most.
# Beyond MANY_WAVES the fixed costs of tasks dominate a batch.
MOST_WAVES, MANY_WAVES = 8, 24
NEW_WAVES = 3  # a new P suits three times the executors; more waves would save few moves
# Below this use a stage lasts a fifth longer than necessary, and one more executor may have no effect: 6 partitions
# take as long on 4 slots as on 3. That justifies a restart.
LEAST_USE = 0.85
_CANDIDATES = 64  # numbers of executors, or of partitions, that are tried


@dataclass(frozen=True)
class ExecutorRange:
    """The range MIN:MAX of an application's executors."""

    least: int
    most: int

    def __post_init__(self) -> None:
        checks.count("executors", self.least)
        checks.count("executors", self.most)
        if self.most < self.least:
            raise InputError(
                "executors", f"have a maximum below the minimum {self.least}", seen=self.most, remedy="write MIN:MAX"
            )

    def clamp(self, executors: int) -> int:
        """Return the nearest number of executors in the range."""
        return min(max(executors, self.least), self.most)


@dataclass(frozen=True)
class ExecutorSize:
    """The size of an executor.

    Args:
        cores: cores.
        memory: memory in Spark's notation, empty when it is not known.
        price: price of an hour; None when it is not known.
    """

    cores: int
    memory: str = ""
    price: float | None = None

    def __post_init__(self) -> None:
        checks.count("cores", self.cores)
        checks.optional(checks.non_negative, "price", self.price)


@dataclass(frozen=True)
class QueryNeed:
    """The executors that a query needs, and its partitions.

    Args:
        name: name of the query.
        needed: k_q.
        partitions: present P_q; None for a query without state and shuffles.
        stages: partitions of stages with a marked number of their own.
    """

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
    """A running application: executors without those that are leaving, their cores, and the queries."""

    executors: int
    cores: int
    queries: tuple[QueryNeed, ...]

    def __post_init__(self) -> None:
        checks.count("executors", self.executors, least=0)
        checks.count("cores", self.cores)


@dataclass(frozen=True)
class GrowExecutors:
    """A step that adds executors up to `total`."""

    total: int


@dataclass(frozen=True)
class MovePartitions:
    """A step that moves a query to `partitions`, and its marked `stages` to new numbers of their own."""

    query: str
    partitions: int
    reason: Reason
    stages: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ShrinkExecutors:
    """A step that releases executors down to `total`."""

    total: int


ExecutorStep = GrowExecutors | MovePartitions | ShrinkExecutors


@dataclass(frozen=True)
class ExecutorPlan:
    """The plan of an application: e, the shares e_q, the steps, and the queries that are `short` because of MAX."""

    executors: int
    shares: Mapping[str, int]
    steps: tuple[ExecutorStep, ...]
    short: tuple[str, ...] = ()


def compute_price(executors: float, seconds: float, per_hour: float) -> float:
    """Return the price of `executors` for `seconds`, in the currency of `per_hour`."""
    return executors * seconds / 3600 * per_hour


def sum_executor_seconds(changes: Sequence[tuple[float, int]], until: float) -> float:
    """Return the executor seconds of an application, from its (time, executors) changes until `until`.

    >>> sum_executor_seconds([(0.0, 1), (10.0, 3)], until=20.0)
    40.0
    """
    ends = [*changes, (until, 0)]
    return sum(count * max(0.0, min(end, until) - begin) for (begin, count), (end, _) in pairwise(ends))


def plan_executors(application: RunningApplication, bounds: ExecutorRange) -> ExecutorPlan:
    """Return the executors and partitions that `application` should have, and the steps to get there.

    A step starts when the previous step is done. If the cluster grants fewer executors, plan again with these as MAX.

    Raises:
        InputError: two queries have the same name.
    """
    needed = {query.name: query.needed for query in application.queries}
    if len(needed) < len(application.queries):
        raise InputError("queries", "have the same name twice", seen=[query.name for query in application.queries])
    wanted = bounds.clamp(sum(needed.values()))
    shares = share_executors(needed, wanted)
    moves = tuple(
        move
        for query in application.queries
        if (move := _plan_move(query, shares[query.name], application.cores, bounds)) is not None
    )
    steps: tuple[ExecutorStep, ...] = moves
    if wanted > application.executors:
        steps = (GrowExecutors(wanted), *moves)
    elif wanted < application.executors:
        steps = (*moves, ShrinkExecutors(wanted))
    return ExecutorPlan(wanted, shares, steps, tuple(name for name, k in needed.items() if shares[name] < k))


def _plan_move(query: QueryNeed, executors: int, cores: int, bounds: ExecutorRange) -> MovePartitions | None:
    if query.partitions is None:
        return None
    partitions, reason = choose_partitions(executors, cores, query.partitions, bounds)
    found = {name: choose_partitions(executors, cores, number, bounds) for name, number in query.stages.items()}
    stages = {name: wanted for name, (wanted, _) in found.items() if wanted != query.stages[name]}
    if partitions == query.partitions and not stages:
        return None
    if partitions == query.partitions:
        reason = found[next(iter(stages))][1]
    return MovePartitions(query.name, partitions, reason, stages)


def share_executors(needed: Mapping[str, int], executors: int) -> dict[str, int]:
    """Return the share of each query in `executors`: its need and a part of the rest, or a part of too few.

    Each share is at least one: a query without a share would still run, on slots of other queries.
    """
    if not needed:
        return {}
    if sum(needed.values()) <= executors:
        return share_out(needed, needed, executors)
    one = dict.fromkeys(needed, 1)
    return share_out(one, {name: k - 1 for name, k in needed.items()}, executors)


def choose_partitions(executors: int, cores: int, now: int, bounds: ExecutorRange | None = None) -> tuple[int, Reason]:
    """Return P for a query, and the reason. P stays `now` if it fits.

    Args:
        executors: executors that the query may use.
        cores: slots of an executor.
        now: present P.
        bounds: executors that the query may have later. Default: as many as now.

    >>> choose_partitions(3, 2, now=6)[0], choose_partitions(3, 2, now=4)[0]
    (6, 12)
    """
    slots = executors * cores
    if partitions_fit(now, slots, NEW_WAVES * bounds.most * cores if bounds else 0):
        numbers = {"partitions": now, "slots": slots, "use": compute_slot_usage(now, slots)}
        return now, Reason("partitions-fit", f"{now} partitions keep {slots} slots busy", numbers)
    wanted = _choose_new_partitions(executors, bounds) * cores
    numbers = {"partitions": now, "wanted": wanted, "slots": slots, "use": compute_slot_usage(now, slots)}
    return wanted, Reason("partitions-move", f"{_describe_misfit(now, slots)}. Next: {wanted} partitions", numbers)


def partitions_fit(partitions: int, slots: int, wanted_at_most: int = 0) -> bool:
    """Return whether P fits `slots`. `wanted_at_most`: largest P that suits more executors, default none."""
    most = max(MOST_WAVES * slots, min(wanted_at_most, MANY_WAVES * slots))
    return slots <= partitions <= most and compute_slot_usage(partitions, slots) >= LEAST_USE


def compute_slot_usage(partitions: int, slots: int) -> float:
    """Return `use`."""
    return partitions / (math.ceil(partitions / slots) * slots)


def _choose_new_partitions(executors: int, bounds: ExecutorRange | None) -> int:
    """Return the best new P / c. P is a multiple of c, so the result does not depend on c."""
    low, high = max(1, executors // 2), 2 * executors
    if bounds is not None:
        low, high = min(executors, max(low, bounds.least)), max(executors, min(high, bounds.most))
    others = _list_candidates(low, high)
    best = executors
    for candidate in _list_candidates(executors, NEW_WAVES * executors):
        # Candidates are tried in order, so the smallest of equally good ones is taken.
        if partitions_fit(candidate, executors) and _count_fitting(candidate, others) > _count_fitting(best, others):
            best = candidate
    return best


def _count_fitting(partitions: int, executors: Iterable[int]) -> int:
    return sum(partitions_fit(partitions, each) for each in executors)


def _list_candidates(first: int, last: int) -> range:
    return range(first, last + 1, max(1, (last - first) // _CANDIDATES))


def _describe_misfit(partitions: int, slots: int) -> str:
    if partitions < slots:
        return f"{partitions} partitions leave {slots - partitions} of {slots} slots without a task"
    waves = math.ceil(partitions / slots)
    if waves > MOST_WAVES:
        return f"{partitions} partitions run in {waves} waves on {slots} slots"
    return f"{partitions} partitions keep {compute_slot_usage(partitions, slots):.0%} of {slots} slots busy"
