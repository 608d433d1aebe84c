"""What every policy keeps to, whatever was measured of whatever job."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from autotrascale.app.job_file import JobFile
from autotrascale.domain.decision import Decision
from autotrascale.domain.snapshot import Latency, NarrowWork, OperatorMetrics, Snapshot, Work
from autotrascale.domain.target import Target
from autotrascale.plan.policies.registry import create, known
from autotrascale.plan.sizing.floor_search import ThroughputSearch
from autotrascale.plan.sizing.sizing import Sizing, size
from autotrascale.testing.chain_snapshots import chain_snapshot
from autotrascale.testing.strategies import whole_snapshots
from autotrascale.validation import read_file

ALL = known()
SIZING = ("autrascale", "ds2", "drs-true", "drs-observed", "queueing", "queueing-path")  # what claims to satisfy
STALLED = Path(__file__).parents[2] / "configs" / "stalled-wordcount-simulated.yaml"

targets = st.builds(Target, st.floats(0.01, 20.0), st.sampled_from(("mean", "p95")))


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Small matrices on as many threads as there are cores wait for each other."""
    with threadpool_limits(1):
        yield


def codes(decision: Decision) -> set[str]:
    return {reason.code for reason in decision.reasons}


def sized_for(snapshot: Snapshot, target: Target | None) -> Sizing:
    sized = size(snapshot, target)
    assert isinstance(sized, Sizing)
    return sized


# --- What diverges is not approved


@settings(max_examples=200)
@given(whole_snapshots(), targets, st.sampled_from(SIZING))
def test_no_answer_falls_behind_without_saying_so(snapshot: Snapshot, target: Target, name: str) -> None:
    decision = create(name, target).decide(snapshot)
    if decision.hold:
        return
    busy = sized_for(snapshot, target).busy(tuple(decision.parallelism.values()))
    said = {"out-of-reach", "still-behind"} if name == "queueing-path" else {"out-of-reach"}
    assert busy <= 1 + 1e-8 or said & codes(decision)


@settings(max_examples=200)
@given(whole_snapshots(), targets, st.sampled_from(("drs-true", "drs-observed", "queueing")))
def test_a_latency_within_the_target_is_predicted_only_of_what_keeps_up(
    snapshot: Snapshot, target: Target, name: str
) -> None:
    decision = create(name, target).decide(snapshot)
    if decision.hold or "out-of-reach" in codes(decision) or "latency" not in codes(decision):
        return
    assert all(
        float(reason.numbers["predicted_seconds"]) <= target.latency_seconds
        for reason in decision.reasons
        if reason.code == "latency"
    )
    busy = sized_for(snapshot, target).busy(tuple(decision.parallelism.values()))
    assert busy < 1 or snapshot.target_rate == 0


@given(whole_snapshots(execution="micro-batch"), targets)
def test_drs_gives_batches_the_fewest_instances_that_it_predicts_to_be_enough(
    snapshot: Snapshot, target: Target
) -> None:
    decision = create("drs-true", target).decide(snapshot)
    sized = sized_for(snapshot, target)
    k = tuple(decision.parallelism.values())
    if "latency" not in codes(decision):
        assert all(
            own == most or not t or s == 1
            for own, most, t, s in zip(k, sized.upper, sized.known_loads, sized.hot, strict=True)
        )
        return
    for at, own in enumerate(k):
        fewer = (*k[:at], own - 1, *k[at + 1 :])
        batch = sized.batch_seconds(fewer) if own > sized.lower[at] else None
        assert batch is None or 1.5 * batch > target.latency_seconds * (1 - 1e-9)


@pytest.mark.parametrize("name", ["drs-true", "queueing-path", "ds2", "autrascale"])
def test_what_is_answered_on_the_stalled_word_count_carries_its_rate(name: str) -> None:
    """(1, 5, 1, 1), which stable queues would be content with, carries three quarters."""
    job, engine = read_file(STALLED, JobFile).open_engine("simulator", seed=0)
    target = job.target
    few = engine.run(job.topology.named((1, 5, 1, 1)), job.source_rates).snapshot
    assert few is not None
    assert few.throughput is not None
    assert few.throughput < 0.8 * job.rate
    seen: Snapshot | None = few
    for _ in range(40 if name == "queueing-path" else 4):  # which moves by one instance
        assert seen is not None
        decision = create(name, target).decide(seen)
        seen = engine.run(decision.parallelism, job.source_rates).snapshot
    assert seen is not None
    assert seen.throughput is not None
    assert seen.throughput >= job.rate * (1 - target.throughput_tolerance)


def test_the_first_answer_of_drs_on_the_stalled_word_count_carries_its_rate() -> None:
    job, engine = read_file(STALLED, JobFile).open_engine("simulator", seed=0)
    few = engine.run(job.topology.named((1, 5, 1, 1)), job.source_rates).snapshot
    assert few is not None
    decision = create("drs-true", job.target).decide(few)
    then = engine.run(decision.parallelism, job.source_rates).snapshot
    assert then is not None
    assert then.throughput is not None
    assert then.throughput >= job.rate * (1 - job.target.throughput_tolerance)


def test_workers_that_run_every_operator_are_one_station() -> None:
    """Two operators of load 3: four workers would be enough for each, and are not for both."""
    both = chain_snapshot({"source": 4, "map": 4}, {"source": 20.0, "map": 20.0}, 60.0, execution="shared")
    for name in ("drs-true", "queueing"):
        decision = create(name, Target(1.0)).decide(both)
        assert set(decision.parallelism.values()) == {7}
        assert not decision.hold
    step = create("queueing-path", Target(1.0)).decide(both)
    assert set(step.parallelism.values()) == {5}
    assert "still-behind" in codes(step)


@pytest.mark.parametrize(
    ("name", "execution"), [("drs-observed", "shared"), ("drs-observed", "micro-batch"), ("queueing", "micro-batch")]
)
def test_a_formula_without_a_counterpart_is_not_used(name: str, execution: Any) -> None:
    snapshot = chain_snapshot({"source": 4, "map": 4}, {"source": 20.0, "map": 20.0}, 60.0, execution=execution)
    decision = create(name, Target(1.0)).decide(snapshot)
    assert decision.hold
    assert codes(decision) == {"hold-no-counterpart"}


# --- Unknown is never good news

_SNAPSHOT_FIELDS = ("overhead_share", "batch_seconds", "throughput", "backlog_records")
_OPERATOR_FIELDS = ("backpressure", "backlog_records")
_CV2 = ("arrival_cv2", "service_cv2")
_WORK_FIELDS = tuple(field.name for field in fields(Work))


@st.composite
def with_less(draw: st.DrawFn, snapshot: Snapshot, operator_fields: tuple[str, ...] = _OPERATOR_FIELDS) -> Snapshot:
    """The same job, of which less was measured."""
    less: dict[str, Any] = dict.fromkeys(draw(st.sets(st.sampled_from(_SNAPSHOT_FIELDS))))
    if draw(st.booleans()):
        less["latency_seconds"] = Latency()
    operators = {
        name: _less_of(metrics, draw(st.sets(st.sampled_from(operator_fields))), draw(_few(_WORK_FIELDS)))
        for name, metrics in snapshot.operators.items()
    }
    return replace(snapshot, operators=operators, **less)


def _few(names: tuple[str, ...]) -> st.SearchStrategy[set[str]]:
    return st.one_of(st.just(set()), st.sets(st.sampled_from(names), max_size=2))


def _less_of(metrics: OperatorMetrics, operator_fields: set[str], work_fields: set[str]) -> OperatorMetrics:
    gone: dict[str, Any] = dict.fromkeys(operator_fields)
    if not metrics.upstream and "records_in" in work_fields:  # a source is then measured by what it puts out
        work_fields = work_fields | {"records_out"}
    without = dict.fromkeys(work_fields)
    if metrics.instances:
        return replace(metrics, instances=tuple(replace(work, **without) for work in metrics.instances), **gone)
    return replace(metrics, **gone, **without)


@settings(max_examples=300)
@given(st.data(), whole_snapshots(max_operators=3), targets, st.sampled_from(ALL))
def test_what_is_not_measured_gives_no_instance_back(
    data: st.DataObject, snapshot: Snapshot, target: Target, name: str
) -> None:
    whole = create(name, target).decide(snapshot)
    less = create(name, target).decide(data.draw(with_less(snapshot)))
    for operator, running in snapshot.parallelism.items():
        assert less.parallelism[operator] >= min(running, whole.parallelism[operator]), operator


@given(whole_snapshots("pipelined"), targets, st.sampled_from(("drs-true", "queueing-path")))
def test_a_latency_that_lacks_a_source_gives_no_instance_back(snapshot: Snapshot, target: Target, name: str) -> None:
    """The time that a record takes there is in no sum, so what is predicted is too good."""
    first = snapshot.topology.sources[0]
    source = _less_of(snapshot.operators[first], set(), {"useful_seconds"})
    less = replace(snapshot, operators={**snapshot.operators, first: source})
    decision = create(name, target).decide(less)
    for operator, running in snapshot.parallelism.items():
        metrics = snapshot.operators[operator]
        assert decision.parallelism[operator] >= min(running, metrics.maximum or running)
    assert f"useful_seconds of {first}" in str([reason.numbers for reason in decision.reasons]) or decision.changed


@given(st.data(), whole_snapshots(max_operators=3), targets, st.sampled_from(ALL))
def test_whatever_is_missing_there_is_an_answer_within_bounds(
    data: st.DataObject, snapshot: Snapshot, target: Target, name: str
) -> None:
    less = data.draw(with_less(snapshot, (*_OPERATOR_FIELDS, *_CV2)))
    decision = create(name, target).decide(less)
    assert decision.reasons
    assert decision.hold <= (decision.parallelism == snapshot.parallelism)
    assert not decision.hold or any(code.startswith("hold") for code in codes(decision))
    if not decision.hold:
        for operator, k in decision.parallelism.items():
            metrics = snapshot.operators[operator]
            assert metrics.minimum <= k <= (metrics.maximum or snapshot.p_max)


@pytest.mark.parametrize(("name", "field"), [("dhalion", "backpressure"), ("threshold", "backlog_records")])
def test_a_signal_that_no_engine_gave_is_named_with_its_operators(name: str, field: str) -> None:
    decision = create(name).decide(chain_snapshot({"source": 1, "map": 4, "sink": 2}, {}, 60.0))
    (reason,) = decision.reasons
    assert decision.hold
    assert reason.code.startswith("hold-unknown-")
    assert reason.numbers["field"] == field
    assert field in reason.text
    silent = {"source", "map"} if name == "dhalion" else {"source", "map", "sink"}  # the last one pushes to nobody
    assert set(str(reason.numbers["operators"]).split(", ")) == silent


def batches(**given_: Any) -> Snapshot:
    fields_ = {"overhead_share": 0.1, "batch_seconds": 1.0, "throughput": 60.0, **given_}
    return chain_snapshot(
        {"source": 4, "map": 20}, {"source": 1000.0, "map": 10.0}, 60.0, execution="micro-batch", **fields_
    )


@pytest.mark.parametrize("name", ["ds2", "drs-true", "queueing-path", "autrascale"])
@pytest.mark.parametrize("missing", ["overhead_share", "batch_seconds"])
def test_batches_of_unknown_overhead_give_nothing_back(name: str, missing: str) -> None:
    latency = {"latency_seconds": Latency(mean=0.1)}
    assert sum(create(name, Target(2.0)).decide(batches(**latency)).parallelism.values()) < 24
    decision = create(name, Target(2.0)).decide(batches(**latency, **{missing: None}))
    assert decision.hold
    assert any("overhead_share and batch_seconds" in reason.text for reason in decision.reasons)


def test_one_unknown_backlog_keeps_that_operator() -> None:
    operators = {"source": {"backlog_records": 0.0}, "map": {}}
    decision = create("threshold").decide(chain_snapshot({"source": 3, "map": 4}, {}, 60.0, operators=operators))
    assert decision.parallelism == {"source": 2, "map": 4}


def test_within_a_batch_nothing_waits_so_the_backlog_of_the_job_is_everybodys() -> None:
    """No queue in front of `map` says nothing of `map`."""
    operators = {"source": {"backlog_records": 900.0}, "map": {"backlog_records": 0.0}}
    late = chain_snapshot({"source": 3, "map": 4}, {}, 60.0, operators=operators, execution="micro-batch")
    assert create("threshold").decide(late).parallelism == {"source": 4, "map": 5}
    assert create("threshold").decide(replace(late, backlog_records=0.0)).parallelism == {"source": 2, "map": 3}
    unsaid = {"source": {}, "map": {"backlog_records": 0.0}}
    blind = chain_snapshot({"source": 3, "map": 4}, {}, 60.0, operators=unsaid, execution="micro-batch")
    decision = create("threshold").decide(blind)
    assert decision.hold
    assert decision.reasons[0].numbers == {"operators": "source", "field": "backlog_records"}


# --- A hot key


def hot(execution: Any, share: float = 0.95, k: int = 4) -> Snapshot:
    """One of `k` instances takes in `share` of the records."""
    records = [600.0 * share, *[600.0 * (1 - share) / (k - 1)] * (k - 1)]
    count = OperatorMetrics(
        parallelism=k, upstream=("source",), instances=tuple(Work(each, 0.0, each / 50) for each in records)
    )
    source = OperatorMetrics(600.0, 600.0, 1.0, parallelism=1)
    return Snapshot(
        job="hot",
        window_seconds=60.0,
        p_max=16,
        source_rates={"source": 20.0},
        execution=execution,
        operators={"source": source, "count": count},
        overhead_share=0.01,
        batch_seconds=1.0,
    )


@pytest.mark.parametrize("execution", ["pipelined", "shared", "micro-batch"])
@pytest.mark.parametrize("name", SIZING)
def test_a_hot_key_is_named_by_whoever_sizes(name: str, execution: Any) -> None:
    decision = create(name, Target(1.0)).decide(hot(execution))
    if codes(decision) == {"hold-no-counterpart"}:
        return
    (reason,) = [reason for reason in decision.reasons if reason.code == "skew"]
    assert reason.numbers["operator"] == "count"
    assert reason.numbers["hottest_share"] == pytest.approx(0.95)
    assert "skew" not in codes(create(name, Target(1.0)).decide(hot(execution, share=0.4)))


def test_the_floor_of_batches_gives_a_hot_key_nothing_that_it_cannot_use() -> None:
    """Its stage lasts 0.38 s of each second at best; the other stages have to make room, and a rate that keeps that
    one instance busy all the time is out of reach however many there are."""
    snapshot = hot("micro-batch", k=16)
    assert sized_for(snapshot, None).floor[1] == 1
    busier = sized_for(replace(snapshot, source_rates={"source": 55.0}), None)
    assert not busier.reachable
    mean = 55.0 / 50.0
    assert busier.load[1] == pytest.approx(mean)


# --- One sizing


@given(whole_snapshots(), st.one_of(st.none(), targets))
def test_every_way_to_the_floor_gives_the_same(snapshot: Snapshot, target: Target | None) -> None:
    """A decision, a tuning run, and the control loop when it sizes for the same rate."""
    sized = sized_for(snapshot, target)
    search = ThroughputSearch(snapshot.topology, snapshot.source_rates, snapshot.p_max, target=target)
    assert search.recommend(snapshot) == sized.named_floor
    assert create("ds2", target).decide(snapshot).parallelism == sized.named_floor
    wanted = {
        reason.numbers["operator"]: reason.numbers["wanted"]
        for reason in create("autrascale", target).decide(snapshot).reasons
        if "wanted" in reason.numbers
    }
    if snapshot.execution == "shared":
        assert set(sized.floor) == {next(iter(wanted.values()))} == set(wanted.values())
    else:
        assert wanted == sized.named_floor
    looped = size(snapshot, target, rate=snapshot.target_rate)
    assert isinstance(looped, Sizing)
    assert looped.floor == sized.floor
    assert looped.load == pytest.approx(sized.load)


@pytest.mark.parametrize("name", SIZING)
def test_executors_that_wait_for_a_topic_are_spoken_of_by_whoever_sizes(name: str) -> None:
    """Half of the work is reading, which two partitions let one executor do."""
    for share, told in ((0.5, True), (0.0, False)):
        snapshot = chain_snapshot(
            {"executors": 4},
            {"executors": 10.0},
            18.0,
            execution="micro-batch",
            overhead_share=0.01,
            batch_seconds=1.0,
            operators={"executors": {"narrow": NarrowWork(share, 1.0)}},
        )
        decision = create(name, Target(1.0)).decide(snapshot)
        if codes(decision) == {"hold-no-counterpart"}:
            return
        found = [reason for reason in decision.reasons if reason.code == "source-partitions"]
        assert bool(found) == (told and decision.parallelism["executors"] > 1)
        for reason in found:
            assert reason.numbers["reading"] == pytest.approx(0.9)
