"""The state of a loop as text, for every state that a loop may be in."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrascale.domain.decision import Reason
from autotrascale.knowledge.decision_journal.loop_status import CommandStatus, JournaledLoop
from autotrascale.knowledge.decision_journal.recent_entries import JournalEntry
from autotrascale.knowledge.decision_journal.sessions import PastSession, SessionHeader
from autotrascale.knowledge.process_identity import ProcessIdentity
from autotrascale.plan.control.commands import CommandsInForce, LoopCommand
from autotrascale.plan.control.loop_state import State, Totals
from autotrascale.plan.control.manager import scaling_manager
from autotrascale.plan.sizing.executor_plan import ExecutorSize
from autotrascale.views.loop_status_text import (
    UNKNOWN,
    describe_loop,
    format_age,
    format_command,
    format_recommendation,
    format_running,
)

RUNNING = {"source": 2, "count": 4}
MORE = {"source": 2, "count": 6}
ALIVE = ProcessIdentity.current()
ALIVE.mark_active()


def entry(**changed: Any) -> JournalEntry:
    usual = {
        "rate": 1000.0,
        "latency_seconds": 0.1,
        "backlog_records": None,
        "action": "stay",
        "hold": False,
        "running": RUNNING,
        "wanted": RUNNING,
        "reasons": [{"code": "in-band", "text": "it fits"}],
    }
    return JournalEntry(1, 0.0, {**usual, **changed})


ENTRY = entry()


def loop(
    state: State | None = None,
    *,
    alive: bool = True,
    ended: str | None = None,
    advises: bool = False,
    executor: ExecutorSize | None = None,
    last: JournalEntry | None = ENTRY,
    measured: JournalEntry | None = ENTRY,
) -> JournaledLoop:
    header = SessionHeader("words", "simulator", False, "t", 0.2, "mean", advises, executor)
    shown = state or State(observed=RUNNING, planned=RUNNING)
    session = PastSession("1", header, 0.0, 0.0, ALIVE if alive else None, None if alive else ended, shown)
    return JournaledLoop(session, last, measured)


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
commands = st.lists(st.sampled_from(["pause", "resume", "pin", "apply"]), max_size=4).map(
    lambda asked: CommandsInForce().accept_all(
        LoopCommand(n, what, "alice", 0.0, {"count": 3} if what == "pin" else {}) for n, what in enumerate(asked, 1)
    )
)
states = st.builds(
    State,
    manager=st.builds(scaling_manager.ManagerState, requested=vectors),
    observed=vectors,
    planned=vectors,
    down=st.booleans(),
    totals=totals,
    commands=commands,
)
loops = st.builds(
    loop,
    states,
    alive=st.booleans(),
    ended=st.sampled_from([None, "finished", "interrupted"]),
    advises=st.booleans(),
    executor=st.none() | st.builds(ExecutorSize, st.integers(1, 8), st.just("4g"), st.none() | st.floats(0, 9)),
    last=entries,
    measured=entries,
)


@given(loops)
def test_every_text_is_there_except_for_differences_that_do_not_exist(given_: JournaledLoop) -> None:
    text = describe_loop(given_)
    for each in fields(text):
        value = getattr(text, each.name)
        assert value or each.name in ("recommended", "requested", "commands")
        assert "None" not in value
        assert "nan" not in value
    assert (text.tone == "bad") <= (text.state in ("job is down", "killed", "interrupted", "scales the job"))
    if not given_.is_alive:
        assert "No loop" in text.next_step


@given(loops)
def test_a_command_in_force_is_the_state_that_is_shown(given_: JournaledLoop) -> None:
    text, in_force = describe_loop(given_), given_.session.state.commands
    is_shown = given_.is_alive and not given_.session.state.down and in_force.standing is not None
    what = "paused" if in_force.paused else "pinned"
    assert text.state.startswith(("paused", "pinned")) == is_shown
    if is_shown:
        assert text.state == f"{what} by alice"
        assert text.commands
    if is_shown and in_force.paused:
        assert text.requested == ""
        assert ("carried out" if in_force.applying else "until the job is resumed") in text.next_step


@pytest.mark.parametrize(
    ("changed", "state", "tone"),
    [
        ({}, "scales the job", "good"),
        ({"measured": entry(latency_seconds=0.3)}, "scales the job", "bad"),
        ({"measured": None}, "scales the job", "good"),
        ({"advises": True}, "advises only", "good"),
        ({"alive": False, "ended": "finished"}, "finished", "quiet"),
        ({"alive": False}, "killed", "bad"),
        ({"alive": False, "ended": "interrupted"}, "interrupted", "bad"),
    ],
)
def test_states_and_their_tones(changed: dict[str, Any], state: str, tone: str) -> None:
    text = describe_loop(loop(**changed))
    assert (text.state, text.tone) == (state, tone)


def test_requested_and_recommended_are_shown_where_they_differ() -> None:
    waiting = State(manager=scaling_manager.ManagerState(requested=MORE), observed=RUNNING, planned=MORE)
    text = describe_loop(loop(waiting))
    assert (text.requested, text.recommended) == ("count 4 → 6", "count 4 → 6")
    assert "waits until the requested" in text.next_step
    advised = describe_loop(loop(waiting, advises=True))
    assert (advised.requested, advised.recommended) == ("", "count 4 → 6")
    assert "only advises" in advised.next_step
    assert describe_loop(loop()).recommended == ""


def test_a_job_that_is_down_and_a_loop_without_a_decision() -> None:
    down = describe_loop(loop(State(observed=RUNNING, down=True)))
    assert (down.state, down.tone, down.cost) == ("job is down", "bad", "nothing runs")
    held = Totals(seconds=60.0).add_hold(Reason("hold-unbelievable", "stale"))
    text = describe_loop(loop(State(observed=RUNNING, totals=held)))
    assert (text.state, text.tone) == ("no decision for 1 observation", "waiting")


def test_cost_and_savings() -> None:
    used = Totals(seconds=7200.0, instance_seconds=6 * 3600.0, most_instances=6)
    state = State(observed={"clicks": 3}, totals=used)
    text = describe_loop(loop(state, executor=ExecutorSize(2, "4g", 0.12)))
    assert text.cost == "3 executors of 2 cores and 4g, 0.36 $/h"
    assert text.saved.endswith("saved 50%, 0.72 $ of 1.44 $")
    assert describe_loop(loop(state)).saved.endswith("6 instances all the time: saved 50%")
    assert describe_loop(loop(replace(state, totals=Totals()))).saved == UNKNOWN


def test_unknown_values_and_ages() -> None:
    assert [format_running(None), *map(format_age, (None, 0.0, 12.0))] == ["–", "never", "now", "12.00 s ago"]


def test_a_command_names_its_author_and_its_age() -> None:
    assert format_command(CommandStatus(1, "pin", {"work": 8}, "alice", 12.0)) == "pin work 8, by alice 12.00 s ago"
    assert format_command(CommandStatus(2, "pause", {}, "bob@here", 300.0)) == "pause, by bob@here 300 s ago"


def test_a_recommendation_is_the_difference() -> None:
    assert format_recommendation({"a": 1, "work": 3}, {"a": 1, "work": 9}) == "work 3 → 9"
    for running, planned in ((None, {"a": 1}), ({"a": 1}, None), ({"a": 1}, {"a": 1}), ({"a": 1}, {"b": 2})):
        assert format_recommendation(running, planned) == "no change"
