"""Hypothesis strategies for property tests: random graphs, measurements, rates and bounds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from autotrascale.domain.snapshot import Execution, Latency, OperatorMetrics, Snapshot, Work
from autotrascale.domain.topology import Operator, Topology
from autotrascale.plan.search.score import Benefit

P_MAX = 48
WINDOW = 60.0

executions: SearchStrategy[Execution] = st.sampled_from(("pipelined", "shared", "micro-batch"))
rates = st.floats(min_value=0.01, max_value=1e6)
loads = st.lists(st.one_of(st.just(0.0), st.floats(min_value=1e-3, max_value=40.0)), min_size=1, max_size=8)


@st.composite
def topologies(draw: DrawFn, max_operators: int = 7, bounded: bool = False) -> Topology:
    """Draw a DAG. Each operator reads from some of the operators before it; without any it is a source."""
    size = draw(st.integers(1, max_operators))
    operators: dict[str, Operator] = {}
    for i in range(size):
        before = list(operators)
        upstream = draw(st.lists(st.sampled_from(before), unique=True, max_size=3)) if before else []
        least, most = draw(bounds()) if bounded else (1, None)
        operators[f"op{i}"] = Operator(tuple(upstream), minimum=least, maximum=most)
    return Topology(operators)


@st.composite
def bounds(draw: DrawFn) -> tuple[int, int | None]:
    least = draw(st.integers(1, 4))
    return least, draw(st.one_of(st.none(), st.integers(least, P_MAX)))


@st.composite
def works(draw: DrawFn) -> Work:
    """Draw the complete measurements of one instance."""
    return Work(
        records_in=draw(st.integers(1, 1_000_000)),
        records_out=draw(st.integers(0, 1_000_000)),
        useful_seconds=draw(st.floats(min_value=0.01, max_value=WINDOW)),
    )


@st.composite
def operator_metrics(draw: DrawFn, operator: Operator) -> OperatorMetrics:
    """Draw the metrics of an operator with 1 to P_MAX instances, as single instances or as sums."""
    shape: dict[str, Any] = {"upstream": operator.upstream, "minimum": operator.minimum, "maximum": operator.maximum}
    if draw(st.booleans()):
        instances = draw(st.lists(works(), min_size=1, max_size=3))
        return OperatorMetrics(parallelism=len(instances), instances=tuple(instances), **shape)
    k, work = draw(st.integers(1, P_MAX)), draw(works())
    return OperatorMetrics(work.records_in, work.records_out, work.useful_seconds, parallelism=k, **shape)


@st.composite
def snapshots(
    draw: DrawFn, execution: Execution | None = None, max_operators: int = 7, bounded: bool = False
) -> Snapshot:
    """Draw a snapshot with all required fields. With `bounded`, operators have a minimum and a maximum."""
    topology = draw(topologies(max_operators, bounded))
    return Snapshot(
        job="generated",
        window_seconds=WINDOW,
        p_max=P_MAX,
        source_rates={name: draw(rates) for name in topology.sources},
        operators={name: draw(operator_metrics(operator)) for name, operator in topology.operators.items()},
        execution=draw(executions) if execution is None else execution,
        overhead_share=draw(st.floats(0.0, 0.5)),
        throughput=draw(st.one_of(st.none(), rates)),
        backlog_records=draw(st.one_of(st.none(), st.integers(0, 1_000_000))),
    )


@st.composite
def whole_snapshots(draw: DrawFn, execution: Execution | None = None, max_operators: int = 4) -> Snapshot:
    """Draw a snapshot with all optional fields, of a job that may be bounded, skewed, partly idle or have a hot key."""
    snapshot = draw(snapshots(execution, max_operators, bounded=draw(st.booleans())))
    assume(snapshot.execution != "shared" or _has_common_parallelism(snapshot))
    operators = {name: draw(_whole_metrics(metrics)) for name, metrics in snapshot.operators.items()}
    return replace(
        snapshot,
        operators=operators,
        batch_seconds=draw(st.floats(0.01, 10.0)),
        throughput=snapshot.target_rate * draw(st.floats(0.5, 1.0)),
        latency_seconds=Latency(*(draw(st.floats(0.0, 5.0)) for _ in range(4))),
        backlog_records=sum(operators[name].backlog_records or 0.0 for name in snapshot.topology.sources),
    )


@st.composite
def _whole_metrics(draw: DrawFn, metrics: OperatorMetrics) -> OperatorMetrics:
    instances = metrics.instances
    if instances:  # with few keys, some instances get none
        idle = Work(records_in=0, records_out=0, useful_seconds=draw(st.floats(1e-3, 0.01)))
        instances = (*instances, *[idle] * draw(st.integers(0, 6)))
    return replace(
        metrics,
        instances=instances,
        parallelism=len(instances) or metrics.parallelism,
        backpressure=draw(st.floats(0.0, 1.0)),
        backlog_records=draw(st.integers(0, 400)),
        arrival_cv2=draw(st.floats(0.0, 4.0)),
        service_cv2=draw(st.floats(0.0, 4.0)),
    )


def _has_common_parallelism(snapshot: Snapshot) -> bool:
    operators = snapshot.operators.values()
    return max(each.minimum for each in operators) <= min(each.maximum or P_MAX for each in operators)


# --- inputs of the search ----------------------------------------------------------------

latencies = st.floats(min_value=1e-4, max_value=1e3)  # seconds


@st.composite
def boxes(draw: DrawFn, max_operators: int = 4, top: int = 12) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Draw a floor and an upper bound for each operator. The two may be equal."""
    lower = draw(st.lists(st.integers(1, top), min_size=1, max_size=max_operators))
    return tuple(lower), tuple(draw(st.integers(low, top)) for low in lower)


def points_within(lower: tuple[int, ...], upper: tuple[int, ...]) -> SearchStrategy[tuple[int, ...]]:
    return st.tuples(*(st.integers(low, high) for low, high in zip(lower, upper, strict=True)))


def points_above(floor: tuple[int, ...], by: int = 40) -> SearchStrategy[tuple[int, ...]]:
    return points_within(floor, tuple(low + by for low in floor))


@st.composite
def benefits(draw: DrawFn, max_operators: int = 6) -> Benefit:
    return Benefit(
        floor=tuple(draw(st.lists(st.integers(1, 40), min_size=1, max_size=max_operators))),
        latency_target=draw(st.floats(1e-3, 10.0)),
        alpha=draw(st.floats(0.0, 1.0)),
        over_allocation=draw(st.floats(0.0, 5.0)),
    )
