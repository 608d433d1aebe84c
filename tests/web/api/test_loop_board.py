"""The loops of a store as the server reads them: which loop of a job is shown, and what changes are noticed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import takewhile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrascale.domain.decision import Reason
from autotrascale.domain.observation import Observation
from autotrascale.domain.target import Target
from autotrascale.knowledge.decision_journal.commands import append_command
from autotrascale.knowledge.decision_journal.journal import FINISHED, DecisionJournal
from autotrascale.knowledge.decision_journal.loop_status import ENTRIES_READ
from autotrascale.knowledge.decision_journal.session_writer import JournalSession
from autotrascale.knowledge.decision_journal.sessions import SessionHeader
from autotrascale.plan.control.autoscaling.prediction import AutoscalingSettings
from autotrascale.plan.control.loop_state import DecisionEntry, LoopAction, Rules, State, Totals
from autotrascale.plan.control.manager.knobs import Knobs
from autotrascale.plan.control.step import ObservationTaken
from autotrascale.web.api.loop_board import LoopBoard
from autotrascale.web.api.loop_metrics import list_loop_health

RULES = Rules(AutoscalingSettings(Target(0.5)), Knobs(interval_seconds=30.0))
HOLD = Reason("hold-unknown", "nothing is known", {"why": "stale"})


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[DecisionJournal]:
    opened = DecisionJournal(tmp_path / "decisions.db")
    yield opened
    opened.close()


def begin(journal: DecisionJournal, job: str = "words", *, advise: bool = False, target: float = 0.5) -> JournalSession:
    session = journal.open_session(SessionHeader(job, "simulator", True, "t", target, "mean", advise))
    session.begin(RULES)
    return session


def write(session: JournalSession, action: LoopAction = "stay", rate: float | None = 1000.0) -> None:
    number = session.state.number + 1
    entry = DecisionEntry(number, 30.0 * number, action, {"a": 1}, {"a": 2}, (Reason("so", "because"),), rate=rate)
    event = ObservationTaken(Observation(30.0 * number, {"a": 1}, None))
    session.record(replace(session.state, number=number, observed={"a": 1}), entry, event)


def read(board: LoopBoard) -> LoopBoard:
    board.refresh()
    return board


# --- one loop per job -------------------------------------------------------------------------------------------------


def test_the_last_entry_and_the_last_measurement_are_read(journal: DecisionJournal) -> None:
    board, session = LoopBoard(journal), begin(journal)
    assert read(board).loops["words"].last is None
    numbers = []
    for action, rate in (("rescale", 1.0), ("stay", None), ("stay", 2.0), ("would-rescale", None)):
        write(session, action, rate)  # type: ignore[arg-type]
        shown = read(board).loops["words"]
        numbers.append(tuple(None if each is None else each.number for each in (shown.last, shown.measured)))
    assert numbers == [(1, 1), (2, 1), (3, 3), (4, 3)]
    assert read(LoopBoard(journal)).loops == board.loops
    for _ in range(ENTRIES_READ):
        write(session, rate=None)
    assert read(board).loops["words"].status().rate is None


def test_a_loop_that_acts_comes_before_advice_and_a_running_loop_before_a_dead_one(journal: DecisionJournal) -> None:
    board, acts = LoopBoard(journal), begin(journal)
    advises = begin(journal, advise=True)
    for session in (acts, advises, acts, advises):
        write(session)
        assert read(board).loops["words"].session.id == acts.id
    acts.owner.mark_inactive()  # the process was killed
    assert read(board).loops["words"].session.id == advises.id
    advises.end(FINISHED)
    shown = read(board).loops["words"]
    assert (shown.session.id, shown.is_alive, shown.status().state) == (acts.id, False, "killed")


def test_an_earlier_session_is_found_by_its_id(journal: DecisionJournal) -> None:
    board, first = LoopBoard(journal), begin(journal)
    write(first, "rescale")
    first.end(FINISHED)
    second = begin(journal, target=0.7)
    write(second)
    read(board)
    assert [mark.id for mark in board.marks["words"]] == [second.id, first.id]
    earlier = board.loop("words", first.id)
    assert earlier is not None
    assert (earlier.session.ended, earlier.session.header.latency_target) == (FINISHED, 0.5)
    assert [each.number for each in board.observations(earlier)] == [1]
    assert board.loop("words", "other") is None
    assert board.loop("nobody") is None
    assert board.snapshot(earlier) is None
    second.end("interrupted")
    assert not read(board).loops["words"].is_alive


def test_a_command_changes_the_mark_of_its_loop_alone(journal: DecisionJournal) -> None:
    board, _ = LoopBoard(journal), begin(journal)
    begin(journal, advise=True)
    before = {id: mark for id, (mark, _) in read(board)._known.items()}
    append_command(journal, "words", advises=False, what="pause", asked_by="alice", at=0.0)
    changed = [id for id, (mark, _) in read(board)._known.items() if mark != before[id]]
    assert changed == [board.loops["words"].session.id]
    assert [each.what for each in board.loops["words"].status().waiting] == ["pause"]


def test_observations_continue_after_the_last_one_that_was_shown(journal: DecisionJournal) -> None:
    board, session = LoopBoard(journal), begin(journal)
    for action in ("stay", "rescale", "stay", "rescaled", "stay"):
        write(session, action)  # type: ignore[arg-type]
    shown = read(board).loops["words"]
    whole = board.observations(shown)
    assert [each.requested for each in whole] == [None, {"a": 2}, {"a": 2}, None, None]
    for cut in range(5):
        assert board.observations(shown, whole[cut]) == whole[cut + 1 :]


def test_a_server_without_a_journal_has_no_loops(tmp_path: Path) -> None:
    for journal in (None, DecisionJournal(tmp_path / "nowhere" / "decisions.db")):
        board = read(LoopBoard(journal))
        assert (board.loops, board.problem, board.loop("words"), board.list_reported()) == ({}, "", None, [])
    assert not (tmp_path / "nowhere").exists()


def test_a_state_of_another_version_is_shown_as_empty(journal: DecisionJournal) -> None:
    write(begin(journal))
    with journal.transaction() as connection:
        connection.execute("UPDATE session SET state = ?", ('{"version": 1, "number": 3}',))
    session = read(LoopBoard(journal)).loops["words"].session
    assert session.state == State()
    assert "format 1" in session.unreadable


# --- health -----------------------------------------------------------------------------------------------------------


@given(st.lists(st.booleans(), max_size=30))
def test_holds_in_a_row_are_counted_since_the_last_decision(held: list[bool]) -> None:
    totals = Totals()
    for each in held:
        totals = totals.add_hold(HOLD) if each else totals.end_hold()
    assert totals.held_in_a_row == len(list(takewhile(bool, reversed(held))))
    assert sum(totals.held.values()) == sum(held)


def test_health_lists_running_loops_with_the_reason_for_their_holds(journal: DecisionJournal) -> None:
    for job in ("holds", "ended"):
        session = journal.open_session(SessionHeader(job, "simulator", True, "t", 0.5, "mean"))
        session.state = replace(State(), totals=replace(Totals(), observations=5).add_hold(HOLD).add_hold(HOLD))
        session.flush(FINISHED if job == "ended" else None)
    (found,) = list_loop_health(read(LoopBoard(journal)).list_reported())
    assert (found.job, found.looks, found.held_in_a_row, found.holds_for) == ("holds", 5, 2, "hold-unknown: stale")
    assert found.written_seconds_ago < 60
