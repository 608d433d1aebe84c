"""The sizing of a job at one rate: loads, bounds and the throughput floor, computed once from a snapshot.

| symbol   | meaning                                                                            | unit      |
|----------|------------------------------------------------------------------------------------|-----------|
| demand_i | input rate of operator i when everything before it keeps up                         | records/s |
| capacity_i | true rate of one instance of i, which never waits                                 | records/s |
| load_i   | demand_i / capacity_i                                                               | instances |
| skew_i   | input of the hottest instance over the mean input                                   |           |
| s_i      | share of i's records that one instance receives alone (a hot key)                   | [0, 1]    |
| L_i      | k_i times the duration of i's stage for each second of input, as measured at k      | instances |
| l_i, u_i | least and most instances that i may have                                            | instances |
| h        | share of the longest batch allowed in which no operator is busy                     | [0, 1]    |
| o, b     | fixed cost of a batch, as measured; steady batch time                                | s         |
| k'       | the floor: least parallelism that sustains the rate                                 | instances |

Only `size` computes these numbers from measurements. Policies, tuning runs, studies, models, the control loop and
explanations use its `Sizing`, so all of them agree.

A record waits for the whole of its own batch, so no batch may be longer than the latency target. When the upper bounds
cannot meet the target, the floor only holds the rate, and `batch_limit` is None.
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

MOST_REACH = 1e6  # reach of a job without load; JSON has no infinity


@dataclass(frozen=True)
class Sizing:
    """The sizing of a job. Vectors are in the order of `operators`; None means not known.

    Args:
        operators: names of the operators.
        rate: input rate in records per second.
        execution: execution model of the engine.
        floor: k'.
        lower: l, least instances.
        upper: u, most instances.
        demand: demand in records per second.
        capacity: capacity of one instance in records per second.
        load: loads in instances. A source of unknown true rate has None and keeps its parallelism.
        skew: skew of each operator.
        overhead: h, default 0.
        overhead_known: the overhead was measured, default True.
        batch_limit: longest batch that the latency target allows, in seconds.
        fixed_seconds: o, for an engine that runs batches.
        hot: s_i; empty when no operator was measured instance by instance.
        narrow: narrow work of each operator; empty when no operator has any.
        reach: largest multiple of the demand that the upper bounds sustain.
        stage_loads: L_i; empty when no stage was timed.
        slots: tasks that can run at once.
        upstream: positions of the operators that each operator reads from; empty when not known.

    Raises:
        InputError: a vector has a wrong length, or a value is out of range.
    """

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
    batch_limit: float | None = None
    fixed_seconds: float | None = None
    hot: tuple[float, ...] = ()
    narrow: tuple[NarrowWork | None, ...] = ()
    reach: float = MOST_REACH
    stage_loads: Numbers = ()
    slots: int | None = None
    upstream: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        for name in ("floor", "lower", "upper", "demand", "capacity", "load", "skew"):
            if len(getattr(self, name)) != len(self.operators):
                problem = f"must be {len(self.operators)} numbers"
                raise InputError(name, problem, seen=getattr(self, name), remedy="give one for each operator")
        if self.stage_loads and len(self.stage_loads) != len(self.operators):
            problem = f"must be {len(self.operators)} numbers, or none"
            raise InputError("stage_loads", problem, seen=self.stage_loads, remedy="give one for each operator")
        for operator, load in zip(self.operators, self.load, strict=True):
            checks.optional(checks.non_negative, f"load of {operator}", load)
        checks.share("overhead", self.overhead)
        if self.slots is not None:
            checks.count("slots", self.slots)
        for operator, rate in zip(self.operators, self.demand, strict=True):
            checks.optional(checks.non_negative, f"demand of {operator}", rate)
        _check_upstream(self.upstream, len(self.operators))
        if self.execution is not None and self.execution not in get_args(Execution):
            remedy = f"use one of {', '.join(get_args(Execution))}, or leave it out"
            raise InputError("execution", "is not an execution model", seen=self.execution, remedy=remedy)

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
        """Return a sizing from known loads, without a snapshot: `Sizing.of_loads((3, 4), (40, 40), [2.4, 3.9])`."""
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
        """True when the upper bounds sustain the demand."""
        return self.reach >= 1 - 1e-9

    @property
    def named_floor(self) -> dict[str, int]:
        """The floor by operator."""
        return dict(zip(self.operators, self.floor, strict=True))

    @property
    def named_load(self) -> dict[str, float | None]:
        """The loads by operator."""
        return dict(zip(self.operators, self.load, strict=True))

    @cached_property
    def hottest(self) -> tuple[float, ...]:
        """The loads that determine latency.

        For micro-batches this is L_i where it is known, because a stage lasts until its last task. Otherwise it is the
        load of the hottest instance, which has a queue or task of its own. An unknown load is estimated as half an
        instance less than the floor.
        """
        stage_loads = self.stage_loads or (None,) * len(self.operators)
        return tuple(
            known if known is not None else k - 0.5 if load is None else load * skew
            for known, k, load, skew in zip(stage_loads, self.floor, self.load, self.skew, strict=True)
        )

    @property
    def service(self) -> tuple[float, ...]:
        """Time that a record takes of one instance, times the lowest demand; empty when a demand is not known."""
        known = [rate for rate in self.demand if rate]
        if not self.measured or len(known) < len(self.demand):
            return ()
        return tuple(load * (min(known) / rate) for load, rate in zip(self.hottest, known, strict=True))

    @property
    def measured(self) -> bool:
        """True when at least one load is known."""
        return any(load is not None for load in self.load)

    def busy(self, k: Sequence[int]) -> float:
        """Return the share of each second that the busiest part needs at `k`; above 1 the job falls behind."""
        return compute_busy_share(
            self.execution or "pipelined", self.overhead, self.known_loads, k, self.hot, self.narrow
        )

    @property
    def known_loads(self) -> list[float]:
        """The loads, with 0 for an unknown load; `unmeasured` names these."""
        return [load or 0.0 for load in self.load]

    def stages(self, k: Sequence[int]) -> list[float]:
        """Return t_i: duration of the stage of each operator at `k`, in seconds for each second of input."""
        return compute_stage_seconds(self.known_loads, k, self.hot, self.narrow)

    def batch_seconds(self, k: Sequence[int]) -> float | None:
        """Return b at `k`; infinite when the job falls behind, None when the fixed cost of a batch is not known.

        The fixed cost grows with the instances by an unknown amount, so it is used as measured.
        """
        if self.fixed_seconds is None:
            return None
        return compute_batch_seconds(self.fixed_seconds, self.known_loads, k, self.hot, self.narrow)

    @property
    def unmeasured(self) -> tuple[str, ...]:
        """Names of missing measurements that make `busy` too low, for engines whose operators share their time."""
        if self.execution == "pipelined":
            return ()
        sources = [f"useful_seconds of {name}" for name, load in self.named_load.items() if load is None]
        return (*sources, *(() if self.overhead_known else ("overhead_share and batch_seconds",)))

    def summarize(self, rate: float) -> Sizing:
        """Return the part of this sizing that a benefit model at `rate` stores: bounds, loads, execution and graph."""
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
        """Return the same measurements with a floor that was found by running the job."""
        return replace(self, floor=tuple(floor))


@dataclass(frozen=True)
class Unsized:
    """A job that cannot be sized, with the known part of its demand."""

    demand: Demand

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """The missing measurements."""
        return self.demand.gaps


def size(
    snapshot: Snapshot,
    target: Target | None = None,
    *,
    rate: float | None = None,
    capacity: Mapping[str, float] | None = None,
    scaling: Mapping[str, float] | None = None,
) -> Sizing | Unsized:
    """Return the sizing of the job in `snapshot`, or `Unsized` when measurements are missing.

    Args:
        snapshot: measurements of one window.
        target: latency target, which limits batch times. Default: no limit.
        rate: input rate to size for, in records per second. Default: the offered rate.
        capacity: capacity of one instance by operator, where more is known than this window says. Default: none.
        scaling: scaling loss γ by operator (see `scaling_loss`). Default: none.
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
        stage_loads=_compute_stage_loads(snapshot, demand),
        slots=snapshot.slots,
        upstream=tuple(
            tuple(list(snapshot.operators).index(name) for name in metrics.upstream) for _, metrics in operators
        ),
    )


def offer_rate(snapshot: Snapshot, rate: float) -> Snapshot:
    """Return the same window with an offered rate of `rate` records per second, its sources in the same proportions."""
    factor = rate / snapshot.target_rate
    return replace(snapshot, source_rates={name: each * factor for name, each in snapshot.source_rates.items()})


def get_bounds(snapshot: Snapshot) -> tuple[Vector, Vector]:
    """Return l and u. With shared execution, every worker runs every operator, so the tightest bounds hold for all."""
    lower, upper = zip(*(get_limits(snapshot, name) for name in snapshot.operators), strict=True)
    if snapshot.execution == "shared":
        return (max(lower),) * len(lower), (min(upper),) * len(upper)
    return lower, upper


def count_slots(execution: Execution | None, k: Mapping[str, int]) -> int:
    """Return the slots that a parallelism needs.

    Stages of a micro-batch, and operators of a shared worker, use the same slots in turn. In a pipelined or unknown
    engine every operator owns its slots.
    """
    return sum(k.values()) if execution in ("pipelined", None) else max(k.values(), default=0)


def get_limits(snapshot: Snapshot, name: str) -> tuple[int, int]:
    """Return the least and the most instances of one operator."""
    metrics: OperatorMetrics = snapshot.operators[name]
    return metrics.minimum, min(metrics.maximum or snapshot.p_max, snapshot.p_max)


def _check_upstream(upstream: tuple[tuple[int, ...], ...], operators: int) -> None:
    if not upstream:
        return
    known = all(isinstance(up, int) and 0 <= up < operators for each in upstream for up in each)
    if len(upstream) != operators or not known:
        problem = f"must hold, for each of {operators} operators, the positions of its upstreams"
        raise InputError("upstream", problem, seen=upstream, remedy="count positions from 0")
    try:
        TopologicalSorter(dict(enumerate(upstream))).prepare()
    except CycleError as error:
        raise InputError(
            "upstream", "has a cycle", seen=error.args[1], remedy="remove one stream of the cycle"
        ) from None


def _fixed_seconds(snapshot: Snapshot) -> float | None:
    if snapshot.execution != "micro-batch" or snapshot.overhead_share is None or snapshot.batch_seconds is None:
        return None
    return snapshot.overhead_share * snapshot.batch_seconds


def _compute_stage_loads(snapshot: Snapshot, demand: Demand) -> Numbers:
    """Return L. The duration of a stage is in proportion to its records."""
    if snapshot.execution != "micro-batch":
        return ()
    each = tuple(_compute_stage_load(metrics, demand.rate[name]) for name, metrics in snapshot.operators.items())
    return each if any(known is not None for known in each) else ()


def _compute_stage_load(metrics: OperatorMetrics, demanded: float | None) -> float | None:
    taken, seconds = metrics.total.records_in, metrics.stage_seconds
    if not taken or not seconds or not demanded:
        return None
    return finite_or_none(metrics.parallelism * seconds / taken * demanded)


def _overhead_known(snapshot: Snapshot, target: Target | None) -> bool:
    """Return whether the overhead is known. A share of batches of unknown length does not fit other batches."""
    if snapshot.execution != "micro-batch":
        return True
    return snapshot.overhead_share is not None and (target is None or snapshot.batch_seconds is not None)


def _with_capacity(demand: Demand, capacity: Mapping[str, float]) -> Demand:
    """Return the same demand with other capacities, which also give a source of unknown true rate a load."""
    if not capacity:
        return demand
    known = {name: each for name, each in capacity.items() if each > 0 and demand.rate.get(name)}
    load = {
        name: (demand.rate[name] or 0.0) / known[name] if name in known else each for name, each in demand.load.items()
    }
    return replace(demand, capacity={**demand.capacity, **known}, load=load)
