"""A kept job as a line: what it says of every state that a loop may be in."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrascale.domain.decision import Reason
from autotrascale.domain.target import Target
from autotrascale.plan.control.commands import CommandsInForce, LoopCommand
from autotrascale.plan.control.loop_state import State, Totals
from autotrascale.plan.control.manager import scaling_manager
from autotrascale.plan.sizing.executor_plan import ExecutorSize
from autotrascale.views.loop_line import UNKNOWN, LoopFacts, describe_loop

RUNNING = {"source": 2, "count": 4}
MORE = {"source": 2, "count": 6}


def entry(**changed: Any) -> dict[str, Any]:
    return {
        "rate": 1000.0,
        "latency_seconds": 0.1,
        "action": "stay",
        "hold": False,
        "running": RUNNING,
        "wanted": RUNNING,
        "reasons": [{"code": "in-band", "text": "it fits"}],
        **changed,
    }


def loop(state: State | None = None, **changed: Any) -> LoopFacts:
    usual: dict[str, Any] = {
        "lives": True,
        "ended": None,
        "advises": False,
        "simulated": False,
        "last": entry(),
        "measured": entry(),
    }
    return LoopFacts("words", Target(0.2), state or State(observed=RUNNING, planned=RUNNING), **{**usual, **changed})


vectors = st.none() | st.fixed_dictionaries({"source": st.integers(1, 9), "count": st.integers(1, 9)})
entries = st.none() | st.builds(
    entry, rate=st.none() | st.floats(0, 1e9), latency_seconds=st.none() | st.floats(1e-6, 1e4), hold=st.booleans()
)
totals = st.builds(
    Totals,
    seconds=st.floats(0, 1e7),
    within=st.floats(0, 1e7),
    unknown=st.floats(0, 1e7),
    instance_seconds=st.floats(0, 1e9),
    most_instances=st.integers(0, 1000),
    held_in_a_row=st.integers(0, 3),
)
orders = st.lists(st.sampled_from(["pause", "resume", "pin", "apply"]), max_size=4).map(
    lambda asked: CommandsInForce().taking_all(
        LoopCommand(n, what, "somebody", 0.0, {"count": 3} if what == "pin" else {}) for n, what in enumerate(asked, 1)
    )
)
states = st.builds(
    State,
    manager=st.builds(scaling_manager.ManagerState, requested=vectors),
    observed=vectors,
    planned=vectors,
    down=st.booleans(),
    totals=totals,
    orders=orders,
)
loops = st.builds(
    loop,
    states,
    lives=st.booleans(),
    ended=st.sampled_from([None, "finished", "interrupted"]),
    advises=st.booleans(),
    executor=st.none() | st.builds(ExecutorSize, st.integers(1, 8), st.just("4g"), st.none() | st.floats(0, 9)),
    last=entries,
    measured=entries,
)


@given(loops)
def test_every_line_says_something_of_each_but_what_does_not_differ(given_: LoopFacts) -> None:
    told = describe_loop(given_)
    for each in fields(told):
        said = getattr(told, each.name)
        assert said or each.name in ("recommended", "requested")
        assert "None" not in said
        assert "nan" not in said
    assert (told.tone == "bad") <= (told.state in ("the job is down", "killed", "interrupted", "kept"))
    if not given_.lives:
        assert "no loop keeps this job now" in told.next


@given(loops)
def test_what_people_asked_for_is_what_a_line_says_first(given_: LoopFacts) -> None:
    """As `autotrascale status` does: whoever paused a job on its page sees there that it is, and what ends that."""
    told, orders = describe_loop(given_), given_.state.orders
    steered = given_.lives and not given_.state.down and orders.standing is not None
    what = "paused" if orders.paused else "pinned"
    assert told.state.startswith(("paused", "pinned")) == steered
    if steered:
        assert told.state == f"{what} by somebody"
    if steered and orders.paused:
        assert told.requested == ""
        assert told.next.startswith("what it recommends is carried out" if orders.applying else "nothing is rescaled")


@pytest.mark.parametrize(
    ("changed", "state", "tone"),
    [
        ({}, "kept", "good"),
        ({"measured": entry(latency_seconds=0.3)}, "kept", "bad"),
        ({"measured": None}, "kept", "good"),
        ({"advises": True}, "only advising", "good"),
        ({"lives": False, "ended": "finished"}, "finished", "quiet"),
        ({"lives": False}, "killed", "bad"),
        ({"lives": False, "ended": "interrupted"}, "interrupted", "bad"),
    ],
)
def test_states_and_their_tones(changed: dict[str, Any], state: str, tone: str) -> None:
    told = describe_loop(loop(**changed))
    assert (told.state, told.tone) == (state, tone)


def test_what_is_requested_and_recommended_is_told_where_it_differs() -> None:
    waiting = State(manager=scaling_manager.ManagerState(requested=MORE), observed=RUNNING, planned=MORE)
    told = describe_loop(loop(waiting))
    assert (told.requested, told.recommended) == ("count 4 → 6", "count 4 → 6")
    assert "until what was requested is seen to run" in told.next
    advised = describe_loop(loop(waiting, advises=True))
    assert (advised.requested, advised.recommended) == ("", "count 4 → 6")
    assert "only advises" in advised.next
    assert describe_loop(loop()).recommended == ""


def test_a_job_that_is_down_or_cannot_be_decided_on_is_not_well() -> None:
    down = describe_loop(loop(State(observed=RUNNING, down=True)))
    assert (down.state, down.tone, down.size) == ("the job is down", "bad", "nothing runs")
    totals = Totals(seconds=60.0).holding(Reason("hold-unbelievable", "stale"))
    held = describe_loop(loop(State(observed=RUNNING, totals=totals)))
    assert (held.state, held.tone) == ("cannot decide for 1 look", "waiting")


def test_what_it_costs_and_saves() -> None:
    totals = Totals(seconds=7200.0, instance_seconds=6 * 3600.0, most_instances=6)
    state = State(observed={"clicks": 3}, totals=totals)
    paid = describe_loop(loop(state, executor=ExecutorSize(2, "4g", 0.12)))
    assert paid.size == "3 executors of 2 cores and 4g, 0.36 $ an hour"
    assert paid.saved.endswith("0.72 $ saved")
    assert describe_loop(loop(state)).saved == "50% of the instance-hours of its most, 6, all the time"
    assert describe_loop(loop(replace(state, totals=Totals()))).saved == UNKNOWN
