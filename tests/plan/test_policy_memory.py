"""What all policies keep to over several snapshots: bounds, slots, and a memory that travels."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from autotrascale.domain.decision import Decision
from autotrascale.domain.errors import InputError
from autotrascale.domain.snapshot import OperatorMetrics, Snapshot, Work
from autotrascale.domain.target import Target
from autotrascale.plan.policies.base import Policy, memory_of, with_memory
from autotrascale.plan.policies.drs import sojourn_seconds
from autotrascale.plan.policies.policy_walk import PolicyWalk
from autotrascale.plan.policies.registry import create, known
from autotrascale.plan.sizing.sizing import count_slots
from autotrascale.testing.chain_snapshots import ScriptedPolicy, chain_snapshot
from autotrascale.testing.strategies import whole_snapshots

TARGET = Target(0.5)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Small matrices on as many threads as there are cores wait for each other."""
    with threadpool_limits(1):
        yield


@st.composite
def looks(draw: st.DrawFn) -> list[tuple[Snapshot, bool]]:
    """The same job, looked at again and again: back-pressure and backlog come and go, the rate may change, and what was
    asked for is carried out or not."""
    first = draw(whole_snapshots(max_operators=3))
    seen = []
    for _ in range(draw(st.integers(1, 5))):
        operators = {name: draw(_later(metrics)) for name, metrics in first.operators.items()}
        factor = draw(st.sampled_from((1.0, 1.0, 1.02, 2.0)))
        rates = {name: rate * factor for name, rate in first.source_rates.items()}
        backlog = draw(st.sampled_from((0.0, 1e6)))
        seen.append(
            (replace(first, operators=operators, source_rates=rates, backlog_records=backlog), draw(st.booleans()))
        )
    return seen


@st.composite
def _later(draw: st.DrawFn, metrics: OperatorMetrics) -> OperatorMetrics:
    held = draw(st.sampled_from((0.0, 0.0, 0.3, 0.9)))
    return replace(metrics, backpressure=held, backlog_records=draw(st.sampled_from((None, 0.0, 1e6))))


def at(snapshot: Snapshot, k: dict[str, int]) -> Snapshot:
    """As if it had run on k; what instances did is told by their sums."""
    return replace(snapshot, operators={name: _on(metrics, k[name]) for name, metrics in snapshot.operators.items()})


def _on(metrics: OperatorMetrics, k: int) -> OperatorMetrics:
    total = metrics.total
    return replace(
        metrics,
        instances=(),
        parallelism=k,
        records_in=total.records_in,
        records_out=total.records_out,
        useful_seconds=total.useful_seconds,
    )


def answers(policy: Policy, seen: Sequence[tuple[Snapshot, bool]], *, travelling: bool) -> list[Decision]:
    """`travelling`: each answer is another process', which has what the one before it left as text."""
    given_, k = [], None
    for snapshot, carried_out in seen:
        if travelling:
            policy = with_memory(policy, json.loads(json.dumps(memory_of(policy), allow_nan=False)))
        decision = policy.decide(snapshot if k is None else at(snapshot, k))
        given_.append(decision)
        k = dict(decision.parallelism) if carried_out else k
    return given_


@settings(max_examples=80)
@given(looks(), st.sampled_from(known()))
def test_what_a_policy_remembers_travels_as_text(seen: list[tuple[Snapshot, bool]], name: str) -> None:
    once = answers(create(name, TARGET), seen, travelling=False)
    assert answers(create(name, TARGET), seen, travelling=False) == once
    assert answers(create(name, TARGET), seen, travelling=True) == once


@settings(max_examples=80)
@given(looks(), st.sampled_from(known()), st.integers(1, 60))
def test_no_answer_leaves_the_bounds_or_the_slots(seen: list[tuple[Snapshot, bool]], name: str, most: int) -> None:
    for limit in (None, most):
        policy = create(name, TARGET, {"slots": limit})
        for decision, (snapshot, _) in zip(answers(policy, seen, travelling=False), seen, strict=True):
            least = {each: metrics.minimum for each, metrics in snapshot.operators.items()}
            if decision.changed:
                for each, k in decision.parallelism.items():
                    assert least[each] <= k <= (snapshot.operators[each].maximum or snapshot.p_max)
            if limit is not None:
                minima = count_slots(
                    snapshot.execution,
                    dict.fromkeys(least, max(least.values())) if snapshot.execution == "shared" else least,
                )
                assert count_slots(snapshot.execution, decision.parallelism) <= max(limit, minima)


@settings(max_examples=30)
@given(looks(), st.sampled_from(known()))
def test_a_memory_is_not_shared(seen: list[tuple[Snapshot, bool]], name: str) -> None:
    policy = create(name, TARGET)
    kept = memory_of(policy)
    answers(with_memory(policy, {}), seen, travelling=False)
    assert memory_of(policy) == kept == memory_of(create(name, TARGET))


@pytest.mark.parametrize("name", known())
def test_slots_that_cannot_be(name: str) -> None:
    with pytest.raises(InputError) as caught:
        create(name, TARGET, {"slots": 0})
    assert str(caught.value).startswith(f"policy {name}: slots: must be at least 1")


# --- Asked after each run

START = {"source": 1, "map": 4}


def ran(k: dict[str, int]) -> Snapshot:
    return chain_snapshot(k, {"source": 1000.0, "map": 10.0}, 60.0, operators={"source": {"backpressure": 0.0}})


@pytest.mark.parametrize(
    ("script", "ended", "circle"),
    [
        ([{"map": 6}, {"map": 6}], "settled", [6]),
        ([{"map": 6}, {"map": 5}, {"map": 6}], "repeats", [6, 5]),
        ([{"map": 6}, {"map": 4}], "repeats", [4, 6]),
        ([{"map": 6}, None], "held", [6]),
    ],
)
def test_a_walk_ends_where_the_policy_goes_no_further(
    script: list[dict[str, int] | None], ended: str, circle: list[int]
) -> None:
    walk = PolicyWalk(ScriptedPolicy(script), START)
    while walk.next is not None:
        walk.tell(ran(walk.next))
    assert walk.ended == ended
    assert [each["map"] for each in walk.circle] == circle
    assert len(walk.decisions) == len(script)


def test_a_policy_that_waits_is_asked_again() -> None:
    policy = create("dhalion", options={"wait_windows": 2})
    walk = PolicyWalk(policy, START)
    pressed = [0.5, 0.5, 0.5, 0.0]  # carried out at the second look, waited for twice, then judged
    for share in pressed:
        assert walk.next is not None
        walk.tell(replace(chain_snapshot(walk.next, {}, 60.0, operators={"source": {"backpressure": share}})))
    assert [decision.hold for decision in walk.decisions] == [False, True, True, False]
    assert walk.ended == "settled"


# --- Dhalion, whole


def look(k: int, held: float = 0.0, waiting: float | None = 0.0, rate: float = 60.0) -> Snapshot:
    operators: dict[str, dict[str, Any]] = {
        "source": {"backpressure": held, "backlog_records": 0.0},
        "map": {"backlog_records": waiting},
    }
    return chain_snapshot({"source": 2, "map": k}, {}, rate, operators=operators)


def codes(decision: Decision) -> list[str]:
    return [reason.code for reason in decision.reasons]


def dhalion(**options: object) -> Policy:
    return create("dhalion", options={"wait_windows": 0, **options})


def test_dhalion_gives_back_until_it_was_too_much_and_takes_that_back() -> None:
    policy = dhalion()
    assert policy.decide(look(10)).parallelism == {"source": 2, "map": 8}  # from whoever has most
    down = policy.decide(look(8))
    assert down.parallelism["map"] == 6
    assert codes(down) == ["over-provisioned"]
    back = policy.decide(look(6, held=0.2))
    assert back.parallelism["map"] == 8
    assert codes(back) == ["too-few"]
    for _ in range(2):  # measured rates are never the same
        assert policy.decide(look(8, rate=61.0)).parallelism == {"source": 1, "map": 8}
    assert policy.decide(look(8, rate=30.0)).parallelism["map"] == 6  # other rates, another chance


def test_dhalion_gives_nothing_back_that_it_has_just_asked_for_or_that_records_wait_for() -> None:
    policy = dhalion()
    assert policy.decide(look(4, held=0.5)).parallelism["map"] == 8
    assert policy.decide(look(8)).parallelism["map"] == 8
    assert dhalion().decide(look(8, waiting=7.0)).parallelism["map"] == 8  # more than 0.1 s of input
    unknown = dhalion().decide(look(8, waiting=None))
    assert codes(unknown)[0] == "hold-unknown-backlog"
    assert unknown.parallelism["map"] == 8
    assert not dhalion(scale_down=1.0).decide(look(8)).changed
    assert codes(dhalion(scale_down=1.0).decide(look(8))) == ["no-backpressure"]


def test_dhalion_takes_a_source_that_records_wait_for_as_the_cause() -> None:
    """Nobody stands before it who could be held up."""
    behind = chain_snapshot(
        {"source": 2, "map": 4},
        {"source": 10.0},
        60.0,
        backlog_records=2400.0,
        operators={"source": {"backpressure": 0.0}},
    )
    assert dhalion().decide(behind).parallelism == {"source": 6, "map": 4}  # it takes in a third
    held_up = replace(
        behind, operators={**behind.operators, "source": replace(behind.operators["source"], backpressure=0.5)}
    )
    assert dhalion().decide(held_up).parallelism == {"source": 2, "map": 8}
    assert dhalion().decide(replace(behind, backlog_records=1.0)).parallelism["source"] == 1


def test_dhalion_leaves_alone_what_parallelism_does_not_mend() -> None:
    def instances(taken: list[float], useful: list[float]) -> Snapshot:
        work = tuple(Work(r, r, u) for r, u in zip(taken, useful, strict=True))
        snapshot = look(len(work), held=0.6)
        operators = {**snapshot.operators, "map": replace(snapshot.operators["map"], instances=work)}
        return replace(snapshot, operators=operators)

    skewed = dhalion().decide(instances([900, 30, 30, 40], [50, 2, 2, 2]))
    slow = dhalion().decide(instances([250, 250, 250, 250], [50, 10, 10, 10]))
    for decision, code in ((skewed, "skewed"), (slow, "slow-instance")):
        assert codes(decision) == [code, "no-action-left"]
        assert not decision.changed
        assert decision.reasons[0].numbers["operator"] == "map"
    even = dhalion().decide(instances([250, 240, 260, 250], [10, 11, 9, 10]))
    assert even.parallelism["map"] == 10
    half = dhalion().decide(instances([250, 250, 250, 250], [50, 50, 10, 10]))  # what an instance can do
    assert half.parallelism["map"] == 10


def test_dhalion_refuses_what_it_did_not_write() -> None:
    with pytest.raises(InputError) as caught:
        with_memory(dhalion(), {"mood": "good"})
    assert str(caught.value).startswith("policy dhalion: memory: is of another version of this program (seen: {'mood'")


# --- DRS, with a limit on slots in all


@settings(max_examples=40)
@given(st.integers(2, 40), st.floats(0.05, 0.6))
def test_drs_spends_its_slots_as_well_as_can_be(most: int, seconds: float) -> None:
    """Against every other way to spend them."""
    k, capacity = {"source": 1, "a": 1, "b": 1}, {"source": 200.0, "a": 30.0, "b": 25.0}
    snapshot = chain_snapshot(k, capacity, 100.0, selectivity={"a": 2.0})
    found = create("drs-true", Target(seconds), {"slots": most}).decide(snapshot).parallelism
    total = sum(found.values())
    assert total <= max(most, 3)

    def latency(source: int, a: int, b: int) -> float:
        return (
            sojourn_seconds(100.0, 200.0, source)
            + sojourn_seconds(100.0, 30.0, a)
            + 2 * sojourn_seconds(200.0, 25.0, b)
        )

    ours = latency(found["source"], found["a"], found["b"])
    for source in range(1, total - 1):
        for a in range(1, total - source):
            assert latency(source, a, total - source - a) >= ours * (1 - 1e-9)
    if ours > seconds and total < most:  # it stopped though it may have gone on: nothing lowers it any more
        assert latency(found["source"] + 1, found["a"] + 1, found["b"] + 1) >= ours * (1 - 1e-6)


def test_drs_with_too_few_slots_for_stable_queues_spreads_the_work() -> None:
    snapshot = chain_snapshot({"source": 1, "a": 1, "b": 1}, {"source": 200.0, "a": 10.0, "b": 5.0}, 100.0)
    decision = create("drs-true", TARGET, {"slots": 16}).decide(snapshot)
    assert decision.parallelism == {"source": 1, "a": 5, "b": 10}  # 10 and 20 would be needed
    assert "out-of-reach" in codes(decision)
