"""What /healthz knows of control loops: which run now, and how many looks in a row they could not decide on."""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from autotrascale.domain.decision import Reason
from autotrascale.knowledge.decision_journal.journal import FINISHED, DecisionJournal, SessionHeader
from autotrascale.plan.control.loop_state import State, Totals
from autotrascale.web.api.loop_metrics import LoopMonitor

HOLD = Reason("hold-unknown", "nothing is known", {"why": "stale"})


@given(st.lists(st.booleans(), max_size=30))
def test_holds_in_a_row_are_those_since_the_last_decision(held: list[bool]) -> None:
    totals = Totals()
    for each in held:
        totals = totals.holding(HOLD) if each else totals.not_holding()
    assert totals.held_in_a_row == len(list(takewhile(bool, reversed(held))))
    assert sum(totals.held.values()) == sum(held)


def test_loops_that_run_are_known_with_what_they_hold_for(tmp_path: Path) -> None:
    decisions = DecisionJournal(tmp_path / "decisions.db")
    loops = LoopMonitor(decisions)
    loops.look()
    assert loops.now == ()
    for job in ("holds", "ended"):
        session = decisions.open_session(SessionHeader(job, "simulator", True, "t", 0.5, "mean"))
        session.state = replace(State(), totals=replace(Totals(), looks=5).holding(HOLD).holding(HOLD))
        session.flush(FINISHED if job == "ended" else None)
    fresh = LoopMonitor(decisions)
    fresh.look()
    (found,) = fresh.now
    assert (found.job, found.looks, found.held_in_a_row, found.holds_for) == ("holds", 5, 2, "hold-unknown: stale")
    assert found.written_seconds_ago < 60


def test_a_server_without_a_journal_of_loops_knows_none(tmp_path: Path) -> None:
    for decisions in (None, DecisionJournal(tmp_path / "nowhere" / "decisions.db")):
        loops = LoopMonitor(decisions)
        loops.look()
        assert loops.now == ()
    assert not (tmp_path / "nowhere").exists()
