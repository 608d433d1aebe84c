"""The action log of sizes: added to and never changed, read back to the last digit, and nothing written twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotrascale.domain.decision import Reason
from autotrascale.domain.errors import DecisionJournalError
from autotrascale.domain.executor_window import ExecutorSizes
from autotrascale.knowledge.decision_journal import size_action_log as action_log
from autotrascale.knowledge.decision_journal.journal import DecisionJournal
from autotrascale.plan.executor_size.size_changes import SizeChange, SizeChangeStage
from autotrascale.plan.executor_size.size_step import restore_state

BEFORE, AFTER = ExecutorSizes(1024, 384, 2, 3), ExecutorSizes(1536, 384, 2, 3)


def action(number: int, what: SizeChangeStage = "asked", at: float = 1.1) -> SizeChange:
    reason = Reason("P1-heap", "collections take 30%", {"gc_share": 1 / 3, "heap_mb": 1024, "why": "full"})
    return SizeChange(number, what, at, "P1", "heap", BEFORE, AFTER, reason, load=0.1 + 0.2)


def test_actions_are_read_as_they_were_written(tmp_path: Path) -> None:
    decisions = DecisionJournal(tmp_path / "decisions.db")
    written = [action(1), action(1, "seen", 2.0), action(1, "kept", 3.0), action(2, at=4.0)]
    assert action_log.append_actions(decisions, "orders", written[:2]) == 2
    assert action_log.append_actions(decisions, "orders", written) == 2  # the log of windows was read again
    assert action_log.append_actions(decisions, "clicks", [action(1, at=9.0)]) == 1
    decisions.close()
    again = DecisionJournal(tmp_path / "decisions.db")
    assert action_log.read_actions(again, "orders") == tuple(written)
    assert restore_state(action_log.read_actions(again, "orders")).in_flight == written[-1]
    assert action_log.list_applications(again) == ["clicks", "orders"]
    assert action_log.requests_of_other_applications(again, "clicks", since=2.0) == (4.0,)
    again.close()


def test_a_missing_file_has_no_actions_and_is_not_created(tmp_path: Path) -> None:
    decisions = DecisionJournal(tmp_path / "decisions.db")
    assert action_log.read_actions(decisions, "orders") == ()
    assert not (tmp_path / "decisions.db").exists()


def test_a_damaged_entry_is_an_error_in_one_line(tmp_path: Path) -> None:
    decisions = DecisionJournal(tmp_path / "decisions.db")
    action_log.append_actions(decisions, "orders", [action(1)])
    with decisions.transaction() as connection:
        connection.execute("UPDATE size_change SET entry = '{\"number\": 1}'")
    with pytest.raises(DecisionJournalError, match="a size change of orders in the journal cannot be read: ") as caught:
        action_log.read_actions(decisions, "orders")
    assert "\n" not in str(caught.value)
    decisions.close()
