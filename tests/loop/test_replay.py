"""A whole simulated day, killed and started again in between, decided once more from its journal alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from autotrascale.domain.errors import DecisionJournalError
from autotrascale.domain.job import Job
from autotrascale.domain.target import Target
from autotrascale.execute.simulator.live_job import SimulatedLiveJob
from autotrascale.execute.simulator.rate_functions import random_day
from autotrascale.knowledge.decision_journal.journal import DecisionJournal
from autotrascale.knowledge.decision_journal.replay import read_checkpoints, read_events, replay
from autotrascale.knowledge.decision_journal.serialization import (
    event_from_json,
    event_to_json,
    rules_from_json,
    rules_to_json,
)
from autotrascale.knowledge.decision_journal.session_writer import DAY_SECONDS, EVENTS_PER_PART
from autotrascale.knowledge.decision_journal.sessions import SessionHeader
from autotrascale.loop import Loop, LoopCollaborators
from autotrascale.plan.control.autoscaling.prediction import AutoscalingSettings
from autotrascale.plan.control.events import Event, Instruction
from autotrascale.plan.control.loop_state import DecisionEntry, Rules, State
from autotrascale.plan.policies.registry import create
from benchmarks.workloads.presets import SPARK_STALLED
from tests.loop.scripts import KNOBS, RULES, START, TOPOLOGY, live

CASE = SPARK_STALLED
DAY_RULES = Rules(AutoscalingSettings(Target(CASE.latency_target), noise=CASE.job.noise), KNOBS)
OPENING = SessionHeader.of(
    Job("a day", CASE.topology, CASE.p_max, CASE.source_rates, Target(CASE.latency_target)),
    "simulator",
    simulated=True,
    advise=False,
)


class Killed(Exception):  # noqa: N818 - a signal, not an error
    pass


class Mortal(Loop):
    """Dies right after it has written an entry, before it does what the entry says."""

    dies_at = 1500

    def _execute(self, instruction: Instruction, event: Event) -> None:
        super()._execute(instruction, event)
        if isinstance(instruction, DecisionEntry) and instruction.number == self.dies_at:
            raise Killed


@pytest.fixture(scope="module")
def a_day(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[DecisionJournal, str]]:
    decisions = DecisionJournal(tmp_path_factory.mktemp("day") / "decisions.db")
    schedule = random_day(1, 0.2 * CASE.rate, 0.85 * CASE.rate, spikes=2, sigma=0.03)
    job = SimulatedLiveJob(CASE.job, CASE.topology, CASE.source_rates, schedule, p_max=CASE.p_max, seed=1)
    initial = CASE.topology.named(CASE.floor)
    first = decisions.open_session(OPENING)
    with pytest.raises(Killed):
        Mortal(job, DAY_RULES, initial=initial, state=first.state, around=LoopCollaborators(journal=first)).run(
            DAY_SECONDS
        )
    first.owner.mark_inactive()
    again = decisions.open_session(OPENING)
    assert again.id == first.id
    Loop(job, DAY_RULES, initial=initial, state=again.state, around=LoopCollaborators(journal=again)).run(
        DAY_SECONDS / 2
    )
    again.end("finished")
    yield decisions, first.id
    decisions.close()


def test_a_day_decided_again_is_the_same_day_entry_by_entry(a_day: tuple[DecisionJournal, str]) -> None:
    decisions, session = a_day
    steps = list(replay(decisions, session))
    assert len(steps) > 2800
    assert [each.number for each in steps] == list(range(1, len(steps) + 1))
    assert [each.number for each in steps if not each.same] == []
    assert sum(each.written["action"] == "rescaled" for each in steps) >= 3
    assert any(each.written["hold"] for each in steps)


def test_what_the_looks_lead_to_is_what_the_checkpoints_say(a_day: tuple[DecisionJournal, str]) -> None:
    """The state that was written, and read back, is the one that a replay comes to, to the last bit."""
    from autotrascale.plan.control.step import step

    decisions, session = a_day
    checkpoints = read_checkpoints(decisions, session)
    assert len(checkpoints) >= 2800 // EVENTS_PER_PART
    state = State()
    for checkpoint in checkpoints:
        assert state == checkpoint.state or checkpoint.number == 0
        state = checkpoint.state
        upto = min((each.number for each in checkpoints if each.number > checkpoint.number), default=None)
        for _, event, _ in read_events(decisions, session, checkpoint.number, upto or 2**62):
            state, _ = step(checkpoint.rules, state, event, event.at)


def test_one_decision_is_found_without_what_came_after_it(a_day: tuple[DecisionJournal, str]) -> None:
    decisions, session = a_day
    *_, last = replay(decisions, session, last=1501)
    assert last.number == 1501


def test_a_look_takes_a_few_hundred_bytes(a_day: tuple[DecisionJournal, str]) -> None:
    decisions, _ = a_day
    with sqlite3.connect(decisions.path) as file:
        [(looks, bytes_)] = file.execute("SELECT count(*), sum(length(body)) FROM event")
        [(states,)] = file.execute("SELECT sum(length(rules) + length(state)) FROM checkpoint")
    assert (bytes_ + states) / looks < 700


def test_looks_are_forgotten_after_some_days_and_what_is_left_can_be_decided_again(tmp_path: Path) -> None:
    now = [0.0]
    decisions = DecisionJournal(tmp_path / "decisions.db", clock=lambda: now[0])
    session = decisions.open_session(OPENING, keep_events_days=1.0)
    job = live(lambda t: 100.0 + t / 100)

    class Clocked(Loop):
        def run_once(self) -> None:
            now[0] += 200.0
            super().run_once()

    Clocked(job, RULES, initial=START, around=LoopCollaborators(journal=session)).run(40_000.0)
    steps = list(replay(decisions, session.id))
    assert all(each.same for each in steps)
    assert DAY_SECONDS / 200.0 <= len(steps) <= DAY_SECONDS / 200.0 + 2 * EVENTS_PER_PART
    assert len(decisions.entries(session.id)) > 1300  # decisions themselves stay


def test_rules_and_events_come_back_as_they_were() -> None:
    rules = replace(RULES, topology=TOPOLOGY, policy=create("ds2", RULES.settings.target), stale_seconds=77.0)
    assert rules_from_json(rules_to_json(rules)) == rules
    events: list[Event] = []

    class Listening(Loop):
        def process_event(self, event: Event) -> None:
            events.append(event)
            super().process_event(event)

    Listening(live(lambda t: 100.0 + t), RULES, initial=START).run(1800)
    assert [event_from_json(event_to_json(event)) for event in events] == events
    assert {type(event).__name__ for event in events} == {"ObservationTaken", "RescaleEnded"}


def test_a_session_of_another_version_begins_anew_and_says_so(tmp_path: Path) -> None:
    decisions = DecisionJournal(tmp_path / "decisions.db")
    session = decisions.open_session(OPENING)
    Loop(live(), RULES, initial=START, around=LoopCollaborators(journal=session)).run(1800)
    session.end("interrupted")
    with sqlite3.connect(decisions.path) as file:
        file.execute("UPDATE session SET state = json_set(state, '$.version', 1)")
    again = decisions.open_session(OPENING)
    assert again.renewed
    assert again.id != session.id
    assert again.state.number == 0
    later = Loop(live(), RULES, initial=START, state=again.state, around=LoopCollaborators(journal=again))
    later.run(300)
    assert all(each.same for each in replay(decisions, again.id))


def test_a_file_of_a_later_version_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "decisions.db"
    DecisionJournal(path).open_session(OPENING)
    with sqlite3.connect(path) as file:
        file.execute("PRAGMA user_version = 99")
    with pytest.raises(DecisionJournalError, match="format 99"):
        DecisionJournal(path).sessions()


def test_parts_are_short_enough_to_be_decided_again_at_once() -> None:
    assert EVENTS_PER_PART <= 1000
