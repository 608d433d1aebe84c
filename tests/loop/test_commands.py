"""Orders of people to a loop: what stands, what is carried out, and that neither crashes nor repetitions change it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotrascale.domain.errors import InputError, JobBusyError
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.topology import Operator, Topology
from autotrascale.knowledge.decision_journal import commands as rows
from autotrascale.knowledge.decision_journal.journal import FINISHED, DecisionJournal
from autotrascale.knowledge.decision_journal.replay import replay
from autotrascale.knowledge.decision_journal.serialization import (
    event_from_json,
    event_to_json,
    state_from_json,
    state_to_json,
)
from autotrascale.knowledge.decision_journal.sessions import SessionHeader
from autotrascale.loop import Loop, LoopCollaborators, LoopLease
from autotrascale.plan.control.commands import CommandsInForce, LoopCommand, PinBounds, accept_commands, clamp_pins
from autotrascale.plan.control.events import Event, Instruction, ObservationTaken
from autotrascale.plan.control.loop_state import DecisionEntry, Rules, State, entry_to_dict
from autotrascale.plan.control.manager.knobs import Knobs
from autotrascale.plan.control.step import step
from autotrascale.testing.scripted_live import ScriptedLive, drop_metrics, stale_metrics
from autotrascale.testing.strategies import snapshots
from tests.loop.scripts import KNOBS, RULES, START, TOPOLOGY, Diary, live

OPENING = SessionHeader("scripted", "simulator", True, TOPOLOGY.fingerprint, 0.5, "mean")
ADVISING = replace(RULES, advise=True)


def order(number: int, what: str, **pins: int) -> LoopCommand:
    return LoopCommand(number, what, "alice", 0.0, pins)  # type: ignore[arg-type]


PINS = st.dictionaries(st.sampled_from(["source", "work", "nobody"]), st.integers(1, 40), min_size=1)
ASKED = st.one_of(
    st.sampled_from(["pause", "resume", "apply"]).map(lambda what: (what, {})), PINS.map(lambda pins: ("pin", pins))
)


def orders(asked: list[tuple[str, dict[str, int]]]) -> list[LoopCommand]:
    return [order(n, what, **pins) for n, (what, pins) in enumerate(asked, 1)]


# --- what stands ------------------------------------------------------------------------------------------------------


@given(st.lists(ASKED, max_size=12), st.lists(st.integers(0, 12), max_size=6))
def test_the_last_of_pause_pin_and_resume_counts_however_often_orders_are_handed_in(
    asked: list[tuple[str, dict[str, int]]], again: list[int]
) -> None:
    given_ = orders(asked)
    in_force = CommandsInForce().accept_all(given_)
    last = next((each for each in reversed(given_) if each.what != "apply"), None)
    assert in_force.standing == (None if last is None or last.what == "resume" else last)
    assert in_force.last_number == len(given_)
    assert in_force.accept_all(given_[at] for at in again if at < len(given_)) == in_force
    part = len(given_) // 2
    assert CommandsInForce().accept_all(given_[:part]).accept_all(given_) == in_force
    told = [reason.numbers["order"] for reason in accept_commands(CommandsInForce(), given_)[1]]
    assert told == [each.number for each in given_]


@pytest.mark.parametrize(("what", "pins"), [("pause", {"work": 1}), ("pin", {}), ("pin", {"work": 0})])
def test_what_is_no_order_cannot_be_made(what: str, pins: dict[str, int]) -> None:
    with pytest.raises(InputError, match="parallelism"):
        order(1, what, **pins)


@given(snapshots(), st.data())
@settings(max_examples=60)
def test_a_pin_is_kept_within_the_bounds_of_the_job(snapshot: Snapshot, data: st.DataObject) -> None:
    names = list(snapshot.operators)
    pins = data.draw(st.dictionaries(st.sampled_from([*names, "nobody"]), st.integers(1, 10**6)))
    quota = data.draw(st.none() | st.integers(1, 500))
    bounds = PinBounds(Knobs(quota=quota), snapshot.topology, snapshot.p_max, snapshot)
    kept = clamp_pins(pins, snapshot.parallelism, bounds)
    assert set(kept) <= set(names)
    for name, k in kept.items():
        least, most = bounds.get(name)
        assert least <= k <= max(least, most or k)
    if snapshot.execution == "shared" and set(pins) & set(names):
        assert set(kept) == set(names)
    if quota is None and snapshot.execution != "shared":
        assert all(
            kept[name] == min(max(k, bounds.get(name)[0]), bounds.get(name)[1] or k)
            for name, k in pins.items()
            if name in kept
        )


def test_bounds_without_a_snapshot_are_those_that_were_declared() -> None:
    topology = Topology({"a": Operator(minimum=2, maximum=5), "b": Operator(("a",))})
    bounds = PinBounds(Knobs(maximum={"b": 7}), topology, 9)
    assert clamp_pins({"a": 1, "b": 30}, {"a": 3, "b": 3}, bounds) == {"a": 2, "b": 7}
    assert clamp_pins({"a": 30}, {"a": 3, "b": 3}, bounds) == {"a": 5}


# --- what a loop does with them ---------------------------------------------------------------------------------------


class Asking:
    """The journal's part of it: orders by number, handed in until they are taken."""

    def __init__(self) -> None:
        self.asked: list[LoopCommand] = []

    def ask(self, what: str, **pins: int) -> None:
        self.asked.append(order(len(self.asked) + 1, what, **pins))

    def begin(self, rules: Rules) -> None:
        pass

    def record(self, state: State, entry: DecisionEntry, event: Event) -> None:
        pass

    def commands_after(self, number: int) -> tuple[LoopCommand, ...]:
        return tuple(each for each in self.asked if each.number > number)


def loop_on(job: ScriptedLive, rules: Rules = RULES, lease: LoopLease | None = None) -> tuple[Loop, Asking, Diary]:
    asking, diary = Asking(), Diary()
    return (
        Loop(job, rules, initial=START, around=LoopCollaborators(asking, lease=lease or LoopLease(), listener=diary)),
        asking,
        diary,
    )


def turns(loop: Loop, count: int) -> None:
    for _ in range(count):
        loop.live.wait(30.0)
        loop.run_once()


def rising(t: float) -> float:
    return 300.0 if t >= 900 else 100.0


def test_a_paused_job_is_looked_at_and_not_rescaled_until_it_is_resumed() -> None:
    job = live(rising)
    loop, asking, diary = loop_on(job)
    loop.run(300)
    asking.ask("pause")
    turns(loop, 60)
    assert job.asked == []
    assert "paused" in diary.last
    assert any(entry.action == "would-rescale" for entry in diary.entries)
    assert loop.state.totals.observations > 60
    assert sum(loop.state.planned.values()) > sum(START.values())  # type: ignore[union-attr]
    asking.ask("resume")
    turns(loop, 20)
    assert job.asked
    assert "paused" not in diary.last


def test_a_paused_job_that_died_is_started_again() -> None:
    job = live()
    loop, asking, diary = loop_on(job)
    loop.run(300)
    asking.ask("pause")
    turns(loop, 1)
    job.kill()
    turns(loop, 2)
    assert job.running == START
    assert "start" in {entry.action for entry in diary.entries}


@pytest.mark.parametrize("change", [None, drop_metrics, stale_metrics(900.0)], ids=["measured", "blind", "late"])
def test_a_pin_is_taken_at_the_next_look_whatever_can_be_measured_and_holds(change: object) -> None:
    looks = {} if change is None else dict.fromkeys(range(12, 10_000), change)
    job = live(rising, looks=looks)
    loop, asking, _ = loop_on(job)
    loop.run(300)
    asking.ask("pin", work=5)
    turns(loop, 2)
    assert job.asked == [{"source": 1, "work": 5}]
    turns(loop, 60)
    assert (job.running or {})["work"] == 5
    assert loop.state.planned is not None
    assert loop.state.planned["work"] == 5


def test_a_pin_out_of_bounds_is_brought_to_the_bound_and_not_asked_for_again() -> None:
    job = live()
    loop, asking, diary = loop_on(job)
    loop.run(300)
    asking.ask("pin", work=50)
    turns(loop, 20)
    assert job.asked == [{"source": 1, "work": 16}]
    assert "pinned-by" in diary.last


def test_what_is_not_pinned_goes_on_being_scaled_and_a_pin_counts_for_more_than_the_job_file() -> None:
    job = live(lambda t: 1500.0 if t >= 900 else 100.0)
    job.capacity = {"source": 1000.0, "work": 500.0}
    loop, asking, _ = loop_on(job, replace(RULES, knobs=replace(KNOBS, excluded=("work",))))
    loop.run(300)
    asking.ask("pin", work=6)
    turns(loop, 60)
    assert (job.running or {})["work"] == 6
    assert (job.running or {})["source"] > 1


def test_an_engine_that_decides_for_itself_is_not_asked_for_a_pin_again_and_again() -> None:
    class Stubborn(ScriptedLive):
        def rescale(self, parallelism: Mapping[str, int]):  # type: ignore[no-untyped-def]
            return super().rescale({**parallelism, "work": 4})

    job = Stubborn(TOPOLOGY, {"source": 1000.0, "work": 50.0})
    loop, asking, _ = loop_on(job)
    loop.run(300)
    asking.ask("pin", work=8)
    turns(loop, 30)
    assert job.asked == [{"source": 1, "work": 4}]
    asking.ask("pin", work=8, source=2)  # who says it again means it
    turns(loop, 30)
    assert job.asked[1:] == [{"source": 2, "work": 4}]
    asking.ask("pin", work=9)
    turns(loop, 30)
    assert len(job.asked) == 2  # and Stubborn runs it already


def test_a_pin_that_failed_is_tried_again_later() -> None:
    job = live(rescales={1: "no room"})
    loop, asking, diary = loop_on(job)
    loop.run(300)
    asking.ask("pin", work=8)
    turns(loop, 10)
    assert [asked["work"] for asked in job.asked] == [8, 8]
    failed = [n for n, entry in enumerate(diary.entries) if entry.action == "failed"]
    again = [n for n, entry in enumerate(diary.entries) if entry.action == "rescale"]
    assert diary.entries[again[1]].at - diary.entries[failed[0]].at >= KNOBS.running_seconds
    assert (job.running or {})["work"] == 8


def test_apply_carries_out_once_what_an_advising_loop_recommends() -> None:
    job = live(rising)
    job.start(START)
    loop, asking, diary = loop_on(job, ADVISING)
    loop.run(1800)
    assert job.asked == []
    assert diary.entries[-1].action == "would-rescale"  # it stands for as long as it is right
    wanted = loop.state.planned
    asking.ask("apply")
    turns(loop, 2)
    assert job.asked == [wanted]
    assert loop.state.commands.applying is None
    job.capacity = {"source": 1000.0, "work": 30.0}
    turns(loop, 60)
    assert len(job.asked) == 1  # it goes on advising
    assert "would-rescale" in {entry.action for entry in diary.entries[-20:]}


def test_apply_on_a_paused_loop_leaves_it_paused_and_without_a_recommendation_says_so() -> None:
    job = live(rising)
    loop, asking, diary = loop_on(job)
    loop.run(300)
    asking.ask("pause")
    asking.ask("apply")
    turns(loop, 1)
    assert "nothing-to-apply" in diary.last
    assert loop.state.commands.applying is None
    turns(loop, 40)
    assert job.asked == []
    asking.ask("apply")
    turns(loop, 2)
    assert len(job.asked) == 1
    assert loop.state.commands.paused


def test_apply_waits_for_a_look_that_can_be_decided_on() -> None:
    job = live(rising, looks=dict.fromkeys(range(60, 64), drop_metrics))
    job.start(START)
    loop, asking, diary = loop_on(job, ADVISING)
    loop.run(1770)
    asking.ask("apply")
    turns(loop, 3)
    assert job.asked == []
    assert "applying" in diary.last
    turns(loop, 3)
    assert len(job.asked) == 1


def test_apply_where_somebody_else_keeps_the_job_fails_and_says_why() -> None:
    class Busy(LoopLease):
        def for_rescale(self) -> AbstractContextManager[object]:
            raise JobBusyError("job words", "is being autoscaled already by process 7 on here")

    job = live(rising)
    job.start(START)
    loop, asking, diary = loop_on(job, ADVISING, Busy())
    loop.run(1800)
    asking.ask("apply")
    turns(loop, 1)
    assert job.asked == []
    assert "is being autoscaled already by process 7" in diary.entries[-1].reasons[-1].text
    assert loop.state.commands.applying is None


def test_advice_that_nobody_follows_is_not_counted_as_in_vain() -> None:
    """A loop that only advises goes on recommending what would help, for as long as it would."""
    job = ScriptedLive(TOPOLOGY, {"source": 1000.0, "work": 50.0}, lambda _: 100.0, lambda k, _: 4.0 / k["work"])
    job.start(START)
    loop, _, diary = loop_on(job, ADVISING)
    loop.run(3600)
    assert loop.state.memory.ineffective_scale_ups == 0
    assert diary.entries[-1].action == "would-rescale"


def test_ages_of_metrics_and_of_decisions_are_those_of_the_last_that_were_good() -> None:
    job = live(looks=dict.fromkeys(range(11, 10_000), drop_metrics))
    loop, _, _ = loop_on(job)
    loop.run(300)
    assert loop.state.measured_at == loop.state.clock.passed
    assert loop.state.decided_at == loop.state.clock.passed
    turns(loop, 10)
    assert loop.state.clock.passed - (loop.state.measured_at or 0.0) == 300.0
    assert loop.state.clock.passed - (loop.state.decided_at or 0.0) == 300.0


def test_a_job_without_input_has_nothing_to_decide_and_that_is_no_trouble() -> None:
    job = live(lambda t: 0.0 if t >= 600 else 100.0)
    loop, _, diary = loop_on(job)
    loop.run(1800)
    assert "hold-no-input" in diary.last
    assert loop.state.decided_at == loop.state.clock.passed


# --- laws over orders and crashes -------------------------------------------------------------------------------------


class Killed(Exception):  # noqa: N818 - a signal, not an error
    pass


@dataclass
class Disk:
    """What outlives a loop: the last state that it wrote, every entry and what it was made from."""

    state: State = field(default_factory=State)
    steps: list[tuple[State, Event, DecisionEntry]] = field(default_factory=list)
    asking: Asking = field(default_factory=Asking)

    def begin(self, rules: Rules) -> None: ...

    def record(self, state: State, entry: DecisionEntry, event: Event) -> None:
        self.steps.append((self.state, event, entry))
        self.state = state

    def commands_after(self, number: int) -> tuple[LoopCommand, ...]:
        return self.asking.commands_after(number)


class Mortal(Loop):
    """Dies at the next entry, before it is written or after; what it asks for is not done then."""

    dies: str = ""

    def _execute(self, instruction: Instruction, event: Event) -> None:
        if self.dies == "before" and isinstance(instruction, DecisionEntry):
            raise Killed
        super()._execute(instruction, event)
        if self.dies == "after" and isinstance(instruction, DecisionEntry):
            raise Killed


HAPPENINGS = st.one_of(ASKED, st.sampled_from(["look", "look", "look", "before", "after", "down", "blind"]))


@given(st.lists(HAPPENINGS, max_size=40), st.booleans())
@settings(max_examples=60, deadline=None)
def test_orders_hold_whatever_dies_and_every_one_is_journalled_once(happenings: list[object], advise: bool) -> None:
    rules, disk = replace(RULES, advise=advise), Disk()
    asking = disk.asking
    job = live(lambda t: 90.0 if (t // 450) % 2 else 350.0)
    job.start(START)

    def begun() -> Mortal:
        return Mortal(job, rules, initial=START, state=disk.state, around=LoopCollaborators(disk))

    loop = begun()
    for happening in [*happenings, "look", "look"]:
        if isinstance(happening, tuple):
            asking.ask(happening[0], **happening[1])
            continue
        job.looks = {job.observed + 1: drop_metrics} if happening == "blind" else {}
        if happening == "down" and not advise:
            job.kill()
        asked, applying = len(job.asked), disk.state.commands.applying
        loop.dies = happening if happening in ("before", "after") else ""
        job.wait(30.0)
        try:
            loop.run_once()
        except Killed:
            loop = begun()
        loop.dies = ""
        pins = {name: min(16, k) for name, k in disk.state.commands.pinned.items() if name in START}
        if pins and not advise and happening in ("look", "blind"):  # at once, whatever else is the matter
            assert {name: (job.running or {})[name] for name in pins} == pins
        acts = disk.state.acts(rules) or applying or any(each.what == "apply" for each in asking.asked)
        assert acts or len(job.asked) == asked

    # Whatever was asked for is taken in, in order, once; and what stands is what was asked last.
    assert disk.state.commands.accept_all(asking.asked) == disk.state.commands
    assert disk.state.commands.standing == CommandsInForce().accept_all(asking.asked).standing
    told = [
        reason.numbers["order"] for _, _, entry in disk.steps for reason in entry.reasons if reason.code == "ordered"
    ]
    assert told == [each.number for each in asking.asked]
    # Nothing is rescaled while it is paused, nor by a loop that only advises, unless somebody asked for just that.
    if not any(each.what == "apply" for each in asking.asked):
        for before, event, entry in disk.steps:
            in_force = before.commands.accept_all(event.commands if isinstance(event, ObservationTaken) else ())
            assert entry.action != "rescale" or not (advise or in_force.paused)
    deaths = sum(happening in ("before", "after") for happening in happenings)
    assert not advise or len(job.asked) <= deaths + sum(each.what == "apply" for each in asking.asked)
    # Every step can be made again from what was written.
    for before, event, entry in disk.steps:
        again = event_from_json(event_to_json(event))
        _, instructions = step(loop.rules, state_from_json(state_to_json(before)), again, again.at)
        [now] = [each for each in instructions if isinstance(each, DecisionEntry)]
        assert json.dumps(entry_to_dict(now)) == json.dumps(entry_to_dict(entry))


# --- in the journal ---------------------------------------------------------------------------------------------------


@pytest.fixture
def decisions(tmp_path: Path) -> DecisionJournal:
    return DecisionJournal(tmp_path / "decisions.db")


def ask(decisions: DecisionJournal, what: str, *, advises: bool = False, **pins: int) -> LoopCommand:
    return rows.append_command(
        decisions,
        "scripted",
        advises=advises,
        what=what,
        asked_by="bob@here",
        at=5.0,  # type: ignore[arg-type]
        parallelism=pins,
    )


def test_orders_reach_a_loop_by_way_of_the_file_and_can_be_replayed(decisions: DecisionJournal) -> None:
    session = decisions.open_session(OPENING)
    job = live(rising)
    loop = Loop(job, RULES, initial=START, state=session.state, around=LoopCollaborators(journal=session))
    loop.run(300)
    other = DecisionJournal(decisions.path)
    asked = [ask(other, "pin", work=7), ask(other, "pin", work=9), ask(other, "apply", advises=True)]
    assert [each.number for each in asked] == [1, 2, 3]
    turns(loop, 3)
    assert job.asked == [{"source": 1, "work": 9}]  # the later wins, the advising loop's is not this one's
    assert loop.state.commands.last_number == 2
    texts = [
        reason["text"]
        for entry in decisions.entries(session.id)
        for reason in entry["reasons"]
        if reason["code"] == "ordered"
    ]
    assert [("bob@here" in text, "pin work" in text, text[-2]) for text in texts] == [
        (True, True, "7"),
        (True, True, "9"),
    ]
    session.end("interrupted")
    assert [each.number for each in replay(decisions, session.id) if not each.same] == []
    other.close()


def test_what_was_asked_for_holds_for_the_next_session_of_the_job_but_is_not_carried_out_twice(
    decisions: DecisionJournal,
) -> None:
    first = decisions.open_session(OPENING)
    ask(decisions, "pause")
    ask(decisions, "apply")
    first.end("interrupted")
    other_target = replace(OPENING, latency_target=0.7)
    second = decisions.open_session(other_target)
    assert second.id != first.id
    assert second.state.commands.paused
    assert (second.state.commands.applying, second.state.commands.last_number) == (None, 2)
    second.end(FINISHED)
    assert decisions.open_session(other_target, restart_finished=True).state.commands == CommandsInForce(
        2
    )  # another day


def test_a_loop_that_died_before_it_took_an_order_takes_it_when_it_is_back(decisions: DecisionJournal) -> None:
    session = decisions.open_session(OPENING)
    Loop(live(), RULES, initial=START, state=session.state, around=LoopCollaborators(journal=session)).run(60)
    session.owner.mark_inactive()
    ask(decisions, "pause")
    again = decisions.open_session(OPENING)
    assert again.id == session.id
    loop = Loop(live(), RULES, initial=START, state=again.state, around=LoopCollaborators(journal=again))
    loop.run_once()
    assert loop.state.commands.paused


def test_askers_at_once_are_all_journalled_and_the_latest_wins(decisions: DecisionJournal) -> None:
    def asks(k: int) -> list[int]:
        own = DecisionJournal(decisions.path)
        numbers = [ask(own, "pin", work=k).number for _ in range(8)]
        own.close()
        return numbers

    with ThreadPoolExecutor(4) as pool:
        numbers = [number for own in pool.map(asks, (1, 2, 3, 4)) for number in own]
    assert sorted(numbers) == list(range(1, 33))
    journalled = rows.read_commands(decisions, "scripted", 0, advises=False)
    assert [each.number for each in journalled] == sorted(numbers)
    assert rows.read_commands_in_force(decisions, "scripted", advises=False).standing == journalled[-1]


def test_more_orders_than_a_loop_takes_in_are_refused(decisions: DecisionJournal) -> None:
    decisions.open_session(OPENING)
    for _ in range(rows.MAX_WAITING_COMMANDS):
        ask(decisions, "pause")
    with pytest.raises(InputError, match="has 100 commands"):
        ask(decisions, "resume")
    rows.append_command(
        decisions, "scripted", advises=False, what="resume", asked_by="a\nb", at=0.0, taken=rows.MAX_WAITING_COMMANDS
    )
    assert rows.read_commands(decisions, "scripted", rows.MAX_WAITING_COMMANDS, advises=False)[0].asked_by == "ab"
