"""The journal of decisions: durable at each step, spooled while its file is away, and enough to go on from."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from autotrascale.domain.errors import InputError, RunLostError
from autotrascale.domain.job import Job
from autotrascale.domain.target import Target
from autotrascale.knowledge.decision_journal.journal import DecisionJournal
from autotrascale.knowledge.decision_journal.serialization import state_from_json, state_to_json
from autotrascale.knowledge.decision_journal.session_writer import JournalSession
from autotrascale.knowledge.decision_journal.sessions import SessionHeader
from autotrascale.loop import Loop, LoopCollaborators, LoopLease
from autotrascale.plan.control.events import Event, Instruction
from autotrascale.plan.control.loop_state import DecisionEntry
from autotrascale.plan.search.benefit_model import BenefitModel
from autotrascale.plan.sizing.executor_plan import ExecutorSize
from autotrascale.testing.scripted_live import ScriptedLive
from tests.loop.scripts import RULES, START, TOPOLOGY, Diary, live

JOB = Job("scripted", TOPOLOGY, 16, {"source": 100.0}, Target(0.5))
OPENING = SessionHeader.of(JOB, "simulator", simulated=True, advise=False)


def changing(t: float) -> float:
    return 300.0 if 1200 <= t < 4000 else 100.0


@pytest.fixture
def decisions(tmp_path: Path) -> DecisionJournal:
    return DecisionJournal(tmp_path / "decisions.db")


def test_every_step_is_on_the_disk_with_the_state_it_left(decisions: DecisionJournal) -> None:
    session = decisions.open_session(OPENING)
    diary = Diary()
    loop = Loop(live(changing), RULES, initial=START, around=LoopCollaborators(session, listener=diary))
    loop.run(3000)
    entries = DecisionJournal(decisions.path).entries(session.id)
    assert [each["number"] for each in entries] == [entry.number for entry in diary.entries]
    assert [each["action"] for each in entries] == [entry.action for entry in diary.entries]
    assert all(each["reasons"][0]["text"] for each in entries)
    past = DecisionJournal(decisions.path).find("scripted")
    assert past is not None
    assert past.state == loop.state


def test_a_state_survives_being_written_down() -> None:
    loop = Loop(live(changing), RULES, initial=START)
    loop.run(6000)
    assert state_from_json(state_to_json(loop.state)) == loop.state


@pytest.mark.parametrize("seed", range(5))
def test_a_controller_killed_at_random_steps_comes_to_the_same_family_of_ends(seed: int, tmp_path: Path) -> None:
    """Killed before or after its journal, a dozen times: the job is adopted as it runs, no reading that was journalled
    is lost, and it ends where a loop that was never killed ends, give or take an instance."""
    undisturbed = live(changing)
    Loop(undisturbed, RULES, initial=START).run(9000)

    class Killed(Exception):  # noqa: N818 - a signal, not an error
        pass

    job, rng, deaths, known = live(changing), random.Random(seed), 0, 0
    while job.now < 9000 - 1:
        session = DecisionJournal(tmp_path / "decisions.db").open_session(OPENING)
        assert len(session.state.memory.readings.cells) >= known
        doomed = rng.randrange(5, 60) if deaths < 12 else -1
        loop = _Mortal(job, session, doomed, Killed, after=rng.random() < 0.5)
        try:
            loop.run(max(30.0, 9000 - job.now))
        except Killed:
            deaths += 1
        known = len(session.state.memory.readings.cells)
        session.owner.mark_inactive()
    assert deaths >= 5
    assert job.started == [START]  # it never stopped
    ended, expected = job.running or {}, undisturbed.running or {}
    assert abs(ended["work"] - expected["work"]) <= 1


class _Mortal(Loop):
    """Dies at one of its steps: before it is journalled, or after, with what it asked for not yet done."""

    def __init__(
        self, job: ScriptedLive, session: JournalSession, doomed: int, death: type[Exception], *, after: bool
    ) -> None:
        super().__init__(job, RULES, initial=START, state=session.state, around=LoopCollaborators(journal=session))
        self.doomed, self.death, self.after, self.steps = doomed, death, after, 0

    def _execute(self, instruction: Instruction, event: Event) -> None:
        self.steps += isinstance(instruction, DecisionEntry)
        dies = self.steps == self.doomed
        if dies and not self.after:
            raise self.death
        super()._execute(instruction, event)
        if dies:
            raise self.death


def test_while_the_file_is_away_the_job_goes_on_and_the_rows_come_later(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    decisions = DecisionJournal(folder / "decisions.db")
    session = decisions.open_session(OPENING)
    job = live(changing)
    loop = Loop(job, RULES, initial=START, around=LoopCollaborators(journal=session))
    loop.run(900)
    before = len(decisions.entries(session.id))
    decisions.close()
    folder.rename(tmp_path / "away")
    folder.write_text("not a folder")
    loop.run(900)
    assert session.trouble
    assert session.unrecorded
    assert job.asked  # the rate went up meanwhile, and was answered
    folder.unlink()
    (tmp_path / "away").rename(folder)
    loop.run(60)
    assert not session.trouble
    numbers = [each["number"] for each in decisions.entries(session.id)]
    assert len(numbers) > before
    assert numbers == list(range(1, len(numbers) + 1))


def test_a_library_that_is_away_does_not_stop_the_loop() -> None:
    from autotrascale.domain.errors import RunStoreError
    from autotrascale.knowledge.learned_models import LearnedModels

    class Away:
        @property
        def store(self) -> object:
            raise RunStoreError("the store is away")

    learned = LearnedModels(Away(), JOB, simulated=True, session="s")  # type: ignore[arg-type]
    job = live(changing)
    Loop(job, RULES, initial=START, around=LoopCollaborators(models=learned)).run(6000)
    assert job.asked
    assert learned.waiting
    assert "the store is away" in learned.trouble
    assert all(isinstance(model, BenefitModel) for model in learned.waiting.values())


def test_two_controllers_of_one_job_are_refused(decisions: DecisionJournal) -> None:
    session = decisions.open_session(OPENING)
    with pytest.raises(InputError, match="has a control loop already"):
        decisions.open_session(OPENING)
    session.end("interrupted")
    assert decisions.open_session(OPENING).id == session.id


def test_a_loop_whose_session_was_taken_over_writes_nothing_more(decisions: DecisionJournal) -> None:
    """By whoever has the job's lease by now: to that one, this process is as good as dead."""
    first = decisions.open_session(OPENING)
    loop = Loop(live(changing), RULES, initial=START, around=LoopCollaborators(journal=first))
    loop.run(300)
    others = DecisionJournal(decisions.path)
    again = others.open_session(OPENING, has_lease=True)
    assert (again.id, again.state) == (first.id, first.state)
    before = others.entries(first.id)
    with pytest.raises(RunLostError, match=f"session {first.id} was taken over by process"):
        loop.run(300)
    first.end("interrupted")
    assert others.entries(first.id) == before
    assert others.sessions()[0].ended is None
    again.end("finished")
    others.close()


def test_a_loop_that_lost_its_job_touches_it_no_more() -> None:
    """It is told so before a rescale, a start, or whatever else the job or the store would notice."""
    job, asked = live(changing), []

    class Lost(LoopLease):
        def check(self, *, is_change: bool) -> None:
            asked.append(is_change)
            if is_change and len(job.asked) == 1:
                raise RunLostError("the job was taken over")

    loop = Loop(job, RULES, initial=START, around=LoopCollaborators(lease=Lost()))
    with pytest.raises(RunLostError, match="the job was taken over"):
        loop.run(20_000)
    assert len(job.asked) == 1
    assert True in asked
    assert False in asked


def test_a_finished_session_is_begun_anew_where_that_was_asked_for(decisions: DecisionJournal) -> None:
    first = decisions.open_session(OPENING)
    first.end("finished")
    again = decisions.open_session(OPENING)
    assert again.id == first.id
    again.end("finished")
    assert decisions.open_session(OPENING, restart_finished=True).id != first.id


def test_another_target_is_another_session(decisions: DecisionJournal) -> None:
    first = decisions.open_session(OPENING)
    first.end("interrupted")
    assert decisions.open_session(replace(OPENING, latency_target=0.7)).id != first.id


def test_an_executor_that_costs_something_else_is_the_same_session(decisions: DecisionJournal) -> None:
    opened = [replace(OPENING, executor=executor) for executor in (ExecutorSize(2, price=0.12), ExecutorSize(2, "4g"))]
    first = decisions.open_session(opened[0])
    first.end("interrupted")
    again = decisions.open_session(opened[1])
    past = decisions.find(again.id)
    assert past is not None
    assert (again.id, past.header.executor) == (first.id, ExecutorSize(2, "4g"))


def test_somebody_elses_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "decisions.db"
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA application_id = 77")
        other.execute("CREATE TABLE theirs (x)")
    from autotrascale.domain.errors import DecisionJournalError

    with pytest.raises(DecisionJournalError, match="not a decision journal"):
        DecisionJournal(path).open_session(OPENING)


def test_what_is_requested_when_the_controller_dies_is_read_off_the_job(decisions: DecisionJournal) -> None:
    """Killed between asking and hearing: the job runs at the new parallelism, and the next loop takes it as it is."""
    job = live(changing)
    session = decisions.open_session(OPENING)
    loop = Loop(job, RULES, initial=START, around=LoopCollaborators(journal=session))
    loop.run(900)
    wanted: Mapping[str, int] = {"source": 1, "work": 9}
    session.state = replace(loop.state, manager=replace(loop.state.manager, requested=wanted))
    job.rescale(wanted)
    session.end("killed")
    again = decisions.open_session(OPENING)
    later = Loop(job, RULES, initial=START, state=again.state, around=LoopCollaborators(journal=again))
    later.run(60)
    assert later.state.requested is None
    assert later.state.observed == wanted
    assert job.running == wanted
