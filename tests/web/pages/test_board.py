"""Which session of a job is shown, and what the board knows of it without reading more than has changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from autotrascale.domain.decision import Reason
from autotrascale.domain.observation import Observation
from autotrascale.domain.target import Target
from autotrascale.knowledge.decision_journal.journal import FINISHED, DecisionJournal, JournalSession, SessionHeader
from autotrascale.plan.control.autoscaling.prediction import AutoscalingSettings
from autotrascale.plan.control.loop_state import DecisionEntry, LoopAction, Rules, State
from autotrascale.plan.control.manager.knobs import Knobs
from autotrascale.plan.control.step import ObservationTaken
from autotrascale.web.pages.loop_board import LoopBoard

RULES = Rules(AutoscalingSettings(Target(0.5)), Knobs(interval_seconds=30.0))


@pytest.fixture
def decisions(tmp_path: Path) -> Iterator[DecisionJournal]:
    opened = DecisionJournal(tmp_path / "decisions.db")
    yield opened
    opened.close()


def begin(
    decisions: DecisionJournal, job: str = "words", *, advise: bool = False, target: float = 0.5
) -> JournalSession:
    session = decisions.open_session(SessionHeader(job, "simulator", True, "t", target, "mean", advise))
    session.begin(RULES)
    return session


def write(session: JournalSession, action: LoopAction = "stay", rate: float | None = 1000.0) -> None:
    number = session.state.number + 1
    entry = DecisionEntry(number, 30.0 * number, action, {"a": 1}, {"a": 2}, (Reason("so", "because"),), rate=rate)
    event = ObservationTaken(Observation(30.0 * number, {"a": 1}, None))
    session.record(replace(session.state, number=number, observed={"a": 1}), entry, event)


def test_what_is_new_is_added_to_what_was_known(decisions: DecisionJournal) -> None:
    board, session = LoopBoard(decisions), begin(decisions)
    board.look()
    assert board.sessions["words"].last is None
    told: list[tuple[int | None, int | None, int | None]] = []
    for action, rate in (("rescale", 1.0), ("stay", None), ("stay", 2.0), ("would-rescale", None)):
        write(session, action, rate)  # type: ignore[arg-type]
        board.look()
        shown = board.sessions["words"]
        told.append(
            tuple(None if each is None else each.number for each in (shown.last, shown.measured, shown.changed))
        )  # type: ignore[arg-type]
    assert told == [(1, 1, 1), (2, 1, 1), (3, 3, 1), (4, 3, 4)]
    fresh = LoopBoard(decisions)
    fresh.look()
    assert fresh.sessions == board.sessions


def test_who_acts_is_shown_before_who_advises_and_who_lives_before_all(decisions: DecisionJournal) -> None:
    board, acts = LoopBoard(decisions), begin(decisions)
    advises = begin(decisions, advise=True)
    for _ in range(2):  # whoever wrote last
        write(acts)
        board.look()
        assert board.sessions["words"].mark.id == acts.id
        write(advises)
        board.look()
        assert board.sessions["words"].mark.id == acts.id
    acts.owner.leave()  # killed: it never said that it ended
    board.look()
    assert board.sessions["words"].mark.id == advises.id
    advises.end(FINISHED)
    board.look()
    shown = board.sessions["words"]
    assert (shown.mark.id, shown.lives, shown.loop.ended) == (acts.id, False, None)


def test_an_earlier_session_is_found_by_its_id(decisions: DecisionJournal) -> None:
    board, first = LoopBoard(decisions), begin(decisions)
    write(first, "rescale")
    first.end(FINISHED)
    second = begin(decisions, target=0.7)
    write(second)
    board.look()
    assert [mark.id for mark in board.marks["words"]] == [second.id, first.id]
    earlier = board.session("words", first.id)
    assert earlier is not None
    assert (earlier.mark.ended, earlier.target.latency_seconds) == (FINISHED, 0.5)
    assert [each.number for each in board.looks(earlier)] == [1]
    assert board.session("words", "other") is None
    assert board.session("nobody") is None
    assert board.snapshot(earlier) is None
    second.end("interrupted")
    board.look()
    assert not board.sessions["words"].lives


def test_looks_go_on_from_the_last_that_was_told(decisions: DecisionJournal) -> None:
    board, session = LoopBoard(decisions), begin(decisions)
    for action in ("stay", "rescale", "stay", "rescaled", "stay"):
        write(session, action)  # type: ignore[arg-type]
    board.look()
    shown = board.sessions["words"]
    whole = board.looks(shown)
    assert [each.requested for each in whole] == [None, {"a": 2}, {"a": 2}, None, None]
    for cut in range(5):
        assert board.looks(shown, whole[cut]) == whole[cut + 1 :]


def test_without_a_journal_there_is_nothing_to_show() -> None:
    board = LoopBoard(None)
    board.look()
    assert (board.sessions, board.problem, board.session("words")) == ({}, "", None)


def test_a_state_that_is_not_of_this_program_is_shown_as_far_as_it_goes(decisions: DecisionJournal) -> None:
    session = begin(decisions)
    write(session)
    with decisions.changing() as connection:
        connection.execute("UPDATE session SET state = ?", ('{"version": 1, "number": 3}',))
    board = LoopBoard(decisions)
    board.look()
    assert board.sessions["words"].past.state == State(number=3)
