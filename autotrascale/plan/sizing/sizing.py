"""What a job needs at one rate, worked out once and handed to everybody who asks.

| symbol   | meaning                                                                            | unit      |
|----------|------------------------------------------------------------------------------------|-----------|
| demand_i | records that operator i takes in when everything before it keeps up                 | records/s |
| capacity_i | what one instance of i does when it never waits (its true rate)                   | records/s |
| load_i   | demand_i / capacity_i                                                               | instances |
| skew_i   | what the hottest instance takes in, over the mean                                   |           |
| s_i      | share of i's records that one instance takes in alone (a hot key)                   | [0, 1]    |
| L_i      | k_i times the seconds that i's stage lasts for each second of input, as measured at k | instances |
| l_i, u_i | least and most instances that i may have                                            | instances |
| h        | share of the longest batch allowed in which no operator is busy                     | [0, 1]    |
| o, b     | fixed cost of a batch, as measured; the batch time that repeats itself               | s         |
| k'       | the floor: least parallelism that sustains the rate                                 | instances |

`size` is the one way from measurements to these numbers. Policies, tuning runs, studies, stored models, the control
loop and explanations all take the `Sizing` that it gives, so that all of them give the same answer.

A record waits for the whole of its own batch, so no batch may be longer than the latency target. Where the target
cannot be had with all the slots there are, the floor is the one that holds the rate alone, and `batch_limit` is None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import get_args

from autotrascale.domain import checks
from autotrascale.domain.errors import InputError
from autotrascale.domain.snapshot import Execution, NarrowWork, OperatorMetrics, Snapshot
from autotrascale.domain.target import Target
from autotrascale.domain.true_rates import finite_or_none
from autotrascale.plan.sizing.demand import Demand, Gap, measure_demand
from autotrascale.plan.sizing.floor import (
    compute_batch_seconds,
    compute_busy_share,
    compute_floor,
    compute_stage_seconds,
)

Vector = tuple[int, ...]
Numbers = tuple[float | None, ...]

MOST_REACH = 1e6  # of a job with nothing to do: a number that JSON can carry


@dataclass(frozen=True)
class Sizing:
    """Vectors are in the order of `operators`. A load is None where a source's own true rate is not known: such a
    source stays as it runs. `reach` is how many times the demand the upper bounds sustain."""

    operators: tuple[str, ...]
    rate: float
    execution: Execution | None
    floor: Vector
    lower: Vector
    upper: Vector
    demand: Numbers
    capacity: Numbers
    load: Numbers
    skew: tuple[float, ...]
    overhead: float = 0.0
    overhead_known: bool = True
    batch_limit: float | None = None  # seconds: the longest batch that the latency target allows
    fixed_seconds: float | None = None  # o, where the engine runs batches and it is known
    hot: tuple[float, ...] = ()  # s_i; none where no operator was measured instance by instance
    narrow: tuple[
        NarrowWork | None, ...
    ] = ()  # what so many instances share at most; none where nobody has such a part
    reach: float = MOST_REACH
    lasting: Numbers = ()  # L_i; none where no operator's stages were timed
    slots: int | None = None  # tasks that can run at once
    upstream: tuple[tuple[int, ...], ...] = ()  # positions of what each operator reads from; none where not known

    def __post_init__(self) -> None:
        for name in ("floor", "lower", "upper", "demand", "capacity", "load", "skew"):
            if len(getattr(self, name)) != len(self.operators):
                raise InputError(
                    name,
                    f"must be {len(self.operators)} numbers",
                    seen=getattr(self, name),
                    remedy="give one for each operator",
                )
        if self.lasting and len(self.lasting) != len(self.operators):
            raise InputError(
                "lasting",
                f"must be {len(self.operators)} numbers, or none",
                seen=self.lasting,
                remedy="give one for each operator",
            )
        for operator, load in zip(self.operators, self.load, strict=True):
            checks.optional(checks.non_negative, f"load of {operator}", load)
        checks.share("overhead", self.overhead)
        if self.slots is not None:
            checks.count("slots", self.slots)
        _check_demand(self.operators, self.demand)
        _check_upstream(self.upstream, len(self.operators))
        if self.execution is not None and self.execution not in get_args(Execution):
            raise InputError(
                "execution",
                "is not an execution model",
                seen=self.execution,
                remedy=f"use one of {', '.join(get_args(Execution))}, or leave it out",
            )

    @classmethod
    def of_loads(
        cls,
        floor: Sequence[int],
        upper: Sequence[int],
        loads: Sequence[float] | None = None,
        *,
        rate: float = 0.0,
        execution: Execution | None = None,
        overhead: float = 0.0,
        operators: Sequence[str] = (),
        slots: int | None = None,
        demand: Sequence[float | None] = (),
        upstream: tuple[tuple[int, ...], ...] = (),
    ) -> Sizing:
        """For those who know loads, and have no snapshot: `Sizing.of_loads((3, 4), (40, 40), [2.4, 3.9])`."""
        names = tuple(operators) or tuple(f"operator {i + 1}" for i in range(len(floor)))
        unknown: Numbers = (None,) * len(names)
        return cls(
            names,
            rate,
            execution,
            tuple(floor),
            (1,) * len(names),
            tuple(upper),
            tuple(demand) or unknown,
            unknown,
            unknown if loads is None else tuple(float(load) for load in loads),
            (1.0,) * len(names),
            overhead,
            slots=slots,
            upstream=upstream,
        )

    @property
    def reachable(self) -> bool:
        return self.reach >= 1 - 1e-9

    @property
    def named_floor(self) -> dict[str, int]:
        return dict(zip(self.operators, self.floor, strict=True))

    @property
    def named_load(self) -> dict[str, float | None]:
        return dict(zip(self.operators, self.load, strict=True))

    @cached_property
    def hottest(self) -> tuple[float, ...]:
        """The loads that latency follows. Of micro-batches, L_i where it is known: a stage lasts until its last task,
        whatever the records say. Else those of the hottest instance, which has its queue, or its task, to itself.
        An operator of unknown load has half an instance less than its floor, which is the best guess."""
        lasting = self.lasting or (None,) * len(self.operators)
        return tuple(
            known if known is not None else k - 0.5 if load is None else load * skew
            for known, k, load, skew in zip(lasting, self.floor, self.load, self.skew, strict=True)
        )

    @property
    def service(self) -> tuple[float, ...]:
        """What one record takes of one instance, times the demand of the operator to which the fewest come; none where
        it is not known how many come to each."""
        known = [rate for rate in self.demand if rate]
        if not self.measured or len(known) < len(self.demand):
            return ()
        return tuple(load * (min(known) / rate) for load, rate in zip(self.hottest, known, strict=True))

    @property
    def measured(self) -> bool:
        """Whether any load is known."""
        return any(load is not None for load in self.load)

    def busy(self, k: Sequence[int]) -> float:
        """The share of each second that the busiest part of the job needs at `k`: above 1 it falls behind."""
        return compute_busy_share(
            self.execution or "pipelined", self.overhead, self.known_loads, k, self.hot, self.narrow
        )

    @property
    def known_loads(self) -> list[float]:
        """An unknown load counts as none: what then lacks from the sum, `unmeasured` names."""
        return [load or 0.0 for load in self.load]

    def stages(self, k: Sequence[int]) -> list[float]:
        """t_i: how long the stage of each operator lasts at `k`, in seconds for each second of input."""
        return compute_stage_seconds(self.known_loads, k, self.hot, self.narrow)

    def batch_seconds(self, k: Sequence[int]) -> float | None:
        """b at `k`; infinite when the job falls behind, None when the fixed cost of a batch is not known.
        That cost grows with the instances, by how much one window does not say: it is taken as it was measured."""
        if self.fixed_seconds is None:
            return None
        return compute_batch_seconds(self.fixed_seconds, self.known_loads, k, self.hot, self.narrow)

    @property
    def unmeasured(self) -> tuple[str, ...]:
        """The fields without which `busy` is too low: where operators share their time, what is not known of one
        counts as nothing for all."""
        if self.execution == "pipelined":
            return ()
        sources = [f"useful_seconds of {name}" for name, load in self.named_load.items() if load is None]
        return (*sources, *(() if self.overhead_known else ("overhead_share and batch_seconds",)))

    def summarize(self, rate: float) -> Sizing:
        """What a stored model keeps of it: the points that were searched, and what latency was expected to follow."""
        loads = self.hottest if self.measured else None
        return Sizing.of_loads(
            self.floor,
            self.upper,
            loads,
            rate=rate,
            execution=self.execution,
            overhead=self.overhead,
            slots=self.slots,
            demand=self.demand if self.service else (),
            upstream=self.upstream,
        )

    def above(self, floor: Sequence[int]) -> Sizing:
        """The same measurements over a floor that was found by running it."""
        return replace(self, floor=tuple(floor))


@dataclass(frozen=True)
class Unsized:
    """What was measured is not enough to size the job by; `demand` has what is known."""

    demand: Demand

    @property
    def gaps(self) -> tuple[Gap, ...]:
        return self.demand.gaps


def size(
    snapshot: Snapshot,
    target: Target | None = None,
    *,
    rate: float | None = None,
    capacity: Mapping[str, float] | None = None,
    scaling: Mapping[str, float] | None = None,
) -> Sizing | Unsized:
    """Everything sized for what the world offers, or for `rate` with its sources in the same proportions.

    `capacity`: what one instance of an operator is known to do, where more is known than this one window says.
    `scaling`: how much of it each operator loses with more instances (γ of `scaling.py`); loads stay those of now.
    """
    if rate is not None and snapshot.target_rate > 0:
        snapshot = offer_rate(snapshot, rate)
    demand = _with_capacity(measure_demand(snapshot), capacity or {})
    if demand.gaps:
        return Unsized(demand)
    fixed = _fixed_seconds(snapshot)
    limit = None if target is None or fixed is None else target.latency_seconds
    tight = snapshot if limit is None else snapshot.with_batch_limit(limit)
    floor = compute_floor(demand, tight, scaling)
    if limit is not None and not floor.reachable:
        tight, limit, floor = snapshot, None, compute_floor(demand, snapshot, scaling)
    lower, upper = get_bounds(snapshot)
    operators = snapshot.operators.items()
    return Sizing(
        operators=tuple(snapshot.operators),
        rate=snapshot.target_rate,
        execution=snapshot.execution,
        floor=tuple(floor.parallelism.values()),
        lower=lower,
        upper=upper,
        demand=tuple(demand.rate[name] for name, _ in operators),
        capacity=tuple(demand.capacity[name] for name, _ in operators),
        load=tuple(demand.load[name] for name, _ in operators),
        skew=tuple(metrics.skew for _, metrics in operators),
        overhead=tight.overhead_share or 0.0,
        overhead_known=_overhead_known(snapshot, target),
        batch_limit=limit,
        fixed_seconds=fixed,
        hot=tuple(metrics.hot_share for _, metrics in operators),
        narrow=tuple(metrics.narrow for _, metrics in operators),
        reach=min(floor.reach, MOST_REACH),
        lasting=_lasting(snapshot, demand),
        slots=snapshot.slots,
        upstream=tuple(
            tuple(list(snapshot.operators).index(name) for name in metrics.upstream) for _, metrics in operators
        ),
    )


def offer_rate(snapshot: Snapshot, rate: float) -> Snapshot:
    """The same window as if the world had offered `rate`, its sources in the same proportions."""
    factor = rate / snapshot.target_rate
    return replace(snapshot, source_rates={name: each * factor for name, each in snapshot.source_rates.items()})


def get_bounds(snapshot: Snapshot) -> tuple[Vector, Vector]:
    """l and u. Workers that run every operator are bounded by the tightest of them."""
    lower, upper = zip(*(get_limits(snapshot, name) for name in snapshot.operators), strict=True)
    if snapshot.execution == "shared":
        return (max(lower),) * len(lower), (min(upper),) * len(upper)
    return lower, upper


def count_slots(execution: Execution | None, k: Mapping[str, int]) -> int:
    """What a parallelism takes. The stages of a micro-batch, and the operators of a worker, take turns on the same.
    Of an engine that does not say, as if every operator owned its instances."""
    return sum(k.values()) if execution in ("pipelined", None) else max(k.values(), default=0)


def get_limits(snapshot: Snapshot, name: str) -> tuple[int, int]:
    """Least and most instances that one operator may have."""
    metrics: OperatorMetrics = snapshot.operators[name]
    return metrics.minimum, min(metrics.maximum or snapshot.p_max, snapshot.p_max)


def _check_demand(operators: Sequence[str], demand: Numbers) -> None:
    for operator, rate in zip(operators, demand, strict=True):
        checks.optional(checks.non_negative, f"demand of {operator}", rate)


def _check_upstream(upstream: tuple[tuple[int, ...], ...], operators: int) -> None:
    if not upstream:
        return
    known = all(isinstance(up, int) and 0 <= up < operators for each in upstream for up in each)
    if len(upstream) != operators or not known:
        raise InputError(
            "upstream",
            f"must name, for each of {operators} operators, those that it reads from",
            seen=upstream,
            remedy="give their positions, from 0 on",
        )
    try:
        TopologicalSorter(dict(enumerate(upstream))).prepare()
    except CycleError as error:
        raise InputError(
            "upstream", "goes round in a circle", seen=error.args[1], remedy="leave out what no record takes"
        ) from None


def _fixed_seconds(snapshot: Snapshot) -> float | None:
    """o of a micro-batch."""
    if snapshot.execution != "micro-batch" or snapshot.overhead_share is None or snapshot.batch_seconds is None:
        return None
    return snapshot.overhead_share * snapshot.batch_seconds


def _lasting(snapshot: Snapshot, demand: Demand) -> Numbers:
    """L: every stage lasts in proportion to its records. Nothing where no stage was timed."""
    if snapshot.execution != "micro-batch":
        return ()
    each = tuple(_lasts(metrics, demand.rate[name]) for name, metrics in snapshot.operators.items())
    return each if any(known is not None for known in each) else ()


def _lasts(metrics: OperatorMetrics, demanded: float | None) -> float | None:
    taken, seconds = metrics.total.records_in, metrics.stage_seconds
    if not taken or not seconds or not demanded:
        return None
    return finite_or_none(metrics.parallelism * seconds / taken * demanded)


def _overhead_known(snapshot: Snapshot, target: Target | None) -> bool:
    """A share of batches of unknown length says nothing of the batches that a target allows."""
    if snapshot.execution != "micro-batch":
        return True
    return snapshot.overhead_share is not None and (target is None or snapshot.batch_seconds is not None)


def _with_capacity(demand: Demand, capacity: Mapping[str, float]) -> Demand:
    """The same demand over other capacities. A source whose rate this one window does not say has the one known."""
    if not capacity:
        return demand
    known = {name: each for name, each in capacity.items() if each > 0 and demand.rate.get(name)}
    load = {
        name: (demand.rate[name] or 0.0) / known[name] if name in known else each for name, each in demand.load.items()
    }
    return replace(demand, capacity={**demand.capacity, **known}, load=load)
