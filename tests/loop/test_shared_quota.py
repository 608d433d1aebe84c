"""Jobs whose loops keep one journal share a quota of slots: together they never grow beyond it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from autotrascale.knowledge.decision_journal.journal import DecisionJournal
from autotrascale.knowledge.decision_journal.session_writer import JournalSession
from autotrascale.knowledge.decision_journal.sessions import SessionHeader
from autotrascale.loop import Loop, LoopCollaborators, LoopInputs
from tests.loop.scripts import RULES, START, Diary, live
from tests.loop.test_loop_journal import JOB

QUOTA = 16


class SharedQuota(LoopInputs):
    def __init__(self, decisions: DecisionJournal, job: str) -> None:
        self.decisions, self.job = decisions, job

    def slots_left(self) -> int:
        return QUOTA - self.decisions.slots_of_other_jobs(self.job)


class OneSlotLeft(LoopInputs):
    def slots_left(self) -> int:
        return 1


class Shared:
    """Two loops on one file, looking in turns; each job's rate rises so far that both would want more than the
    quota."""

    def __init__(self, path: Path) -> None:
        self.decisions = DecisionJournal(path / "decisions.db")
        self.diaries = {"first": Diary(), "second": Diary()}
        self.sessions: dict[str, JournalSession] = {}
        self.loops = {name: self._loop(name) for name in self.diaries}

    def _loop(self, name: str) -> Loop:
        opening = SessionHeader.of(replace(JOB, name=name), "simulator", simulated=True, advise=False)
        self.sessions[name] = self.decisions.open_session(opening)
        return Loop(
            live(lambda t: 100.0 if t < 600 else 420.0),
            RULES,
            initial=START,
            around=LoopCollaborators(
                self.sessions[name], inputs=SharedQuota(self.decisions, name), listener=self.diaries[name]
            ),
        )

    def run(self, looks: int) -> Iterator[int]:
        """The slots that both take after each round."""
        for loop in self.loops.values():
            loop.run(0.0)
        for _ in range(looks):
            for loop in self.loops.values():
                loop.live.wait(RULES.knobs.interval_seconds)
                loop.run_once()
            yield sum(sum((loop.state.observed or {}).values()) for loop in self.loops.values())


def test_two_jobs_never_grow_beyond_what_they_share_and_say_so(tmp_path: Path) -> None:
    shared = Shared(tmp_path)
    taken = list(shared.run(120))
    assert max(taken) <= QUOTA
    assert taken[-1] >= QUOTA - 1  # they use it
    alone = Loop(live(lambda t: 100.0 if t < 600 else 420.0), RULES, initial=START)
    alone.run(120 * RULES.knobs.interval_seconds)
    assert 2 * sum((alone.state.observed or {}).values()) > QUOTA  # each wanted more than its half
    codes = {code for diary in shared.diaries.values() for code in diary.codes}
    assert {"quota", "below-need"} & codes


def test_what_a_job_has_is_not_taken_back(tmp_path: Path) -> None:
    """Two that are told to make room for each other would shrink and grow in turns."""
    shared = Shared(tmp_path)
    list(shared.run(60))
    before = {name: sum((loop.state.observed or {}).values()) for name, loop in shared.loops.items()}
    for name, loop in shared.loops.items():
        loop.around = replace(loop.around, inputs=OneSlotLeft())
        loop.live.wait(RULES.knobs.interval_seconds)
        loop.run_once()
        assert sum((loop.state.observed or {}).values()) == before[name]


@pytest.mark.parametrize("advise", [True, False])
def test_a_loop_that_ended_or_only_advises_takes_nothing_from_others(tmp_path: Path, advise: bool) -> None:
    decisions = DecisionJournal(tmp_path / "decisions.db")
    opening = SessionHeader.of(replace(JOB, name="other"), "simulator", simulated=True, advise=advise)
    session = decisions.open_session(opening)
    loop = Loop(live(), replace(RULES, advise=advise), initial=START, around=LoopCollaborators(journal=session))
    loop.live.start(START)
    loop.run(300)
    assert decisions.slots_of_other_jobs("mine") == (0 if advise else 4)
    assert decisions.slots_of_other_jobs("other") == 0
    session.end("interrupted")
    assert decisions.slots_of_other_jobs("mine") == 0
