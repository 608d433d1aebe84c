"""Laws of the whole loop: what is not known is never good news, time passes as it does, hot keys have names."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotrascale.domain.errors import InputError
from autotrascale.domain.observation import Observation, RescaleResult
from autotrascale.domain.snapshot import Latency, Snapshot, Work
from autotrascale.domain.target import Target
from autotrascale.loop import Loop, LoopCollaborators
from autotrascale.plan.control.events import ObservationTaken, RescaleEnded, RescaleJob
from autotrascale.plan.control.loop_state import DecisionEntry, PastRescale, State
from autotrascale.plan.control.observations import observation_checks
from autotrascale.plan.control.observations.observation_checks import AGREEING_OBSERVATIONS
from autotrascale.plan.control.observations.observation_history import ObservationContext, ObservationHistory
from autotrascale.plan.control.step import step
from autotrascale.plan.policies.registry import create
from autotrascale.testing.scripted_live import ScriptedLive
from autotrascale.testing.strategies import snapshots
from benchmarks.workloads.bad_histories import make_observation
from tests.loop.scripts import KNOBS, RULES, START, TOPOLOGY, Diary, live

EVERY_LOOK = range(1, 10_000)


def without_latency(look: Observation) -> Observation:
    return look if look.snapshot is None else replace(look, snapshot=replace(look.snapshot, latency_seconds=Latency()))


@pytest.mark.parametrize("policy", [None, "ds2"])
def test_a_latency_that_nobody_measures_never_lets_a_job_shrink(policy: str | None) -> None:
    knobs = replace(KNOBS, scale_down_delay_seconds=0.0)
    rules = replace(RULES, knobs=knobs, policy=None if policy is None else create(policy))
    for looks, shrinks in (({}, True), (dict.fromkeys(EVERY_LOOK, without_latency), False)):
        job = live(looks=looks)
        loop = Loop(job, rules, initial={"source": 1, "work": 14})
        loop.run(4 * 3600)
        assert ((job.running or {})["work"] < 14) is shrinks
        if not shrinks:
            assert loop.state.memory.good == 0
            assert loop.state.totals.within == 0


def test_a_latency_that_is_lost_ends_what_was_good() -> None:
    job = live(looks=dict.fromkeys(range(20, 1000), without_latency))
    loop = Loop(job, RULES, initial={"source": 1, "work": 14})
    loop.run(19 * 30)
    assert loop.state.memory.good > 0
    loop.run(60)
    assert loop.state.memory.good == 0


def test_a_day_of_rescales_is_a_day_of_wall_time() -> None:
    """A process that was down for three days has its budget back."""
    used = tuple(PastRescale(float(at), 1) for at in range(10))
    job = live()
    job.start({"source": 1, "work": 14})
    state = State(rescales=used)
    for at in (0.0, 30.0, 3 * 86_400.0):
        state, _ = step(replace(RULES, rescales_per_day=10), state, ObservationTaken(Observation(at, START, None)), at)
    job.now = 3 * 86_400.0
    job.wait(30.0)
    look = job.observe()
    later, _ = step(RULES, state, ObservationTaken(look), look.at)
    assert later.rescales == ()


def test_a_clock_that_goes_back_does_not_freeze_the_budget() -> None:
    state = State(rescales=(PastRescale(0.0, 1),))
    at = 1e6
    for _ in range(3000):
        at += 30.0 if at < 1.01e6 else -9e5
        state, _ = step(RULES, state, ObservationTaken(Observation(at, START, None)), at)
    assert state.clock.passed > 80_000


@given(st.lists(st.sampled_from(["look", "stale", "future", "again", "back", "leap", "nothing"]), max_size=25))
@settings(max_examples=60)
def test_a_window_is_learned_from_once_and_a_clock_may_do_anything(events: list[str]) -> None:
    job = live()
    job.start(START)
    job.wait(30.0)
    state, at, learned = State(), 0.0, False
    look = job.observe()
    for event in events:
        if event in ("look", "back", "leap"):
            job.wait(30.0)
            by = {"back": -500.0, "leap": 9000.0}.get(event, 0.0)
            look, learned = job.observe(), False
            look = replace(look, at=look.at + by, measured_at=look.at + by)
        at = look.at
        made = {"stale": at - 500.0, "future": at + 500.0}.get(event, look.measured_at)
        shown = replace(look, at=at, measured_at=made, snapshot=None if event == "nothing" else look.snapshot)
        before = state
        state, instructions = step(replace(RULES, topology=TOPOLOGY), state, ObservationTaken(shown), at)
        assert not [each for each in instructions if isinstance(each, RescaleJob)]
        [entry] = [each for each in instructions if isinstance(each, DecisionEntry)]
        if event in ("stale", "future", "nothing") or learned:
            assert entry.hold
            assert state.memory == before.memory
            assert sum(state.totals.held.values()) == sum(before.totals.held.values()) + 1
        learned = learned or state.memory != before.memory


@given(snapshots(), snapshots(), st.floats(), st.one_of(st.none(), st.floats()))
@settings(max_examples=150)
def test_no_pair_of_snapshots_and_no_clock_makes_a_step_raise(
    one: Snapshot, other: Snapshot, at: float, measured_at: float | None
) -> None:
    """Snapshots of two different jobs, at any time, with and without a topology to hold them against."""
    state = State()
    for topology in (None, one.topology):
        rules = replace(RULES, topology=topology)
        for shot, when in ((one, 0.0), (other, at), (one, 60.0)):
            look = Observation(when, shot.parallelism, shot, measured_at)
            state, instructions = step(rules, state, ObservationTaken(look), when)
            assert any(isinstance(each, DecisionEntry) for each in instructions)
        state, _ = step(rules, state, RescaleEnded(RescaleResult(at, True, other.parallelism, at)), at)


def test_numbers_that_no_snapshot_can_hold_are_not_measured_and_nobody_falls_over() -> None:
    def broken() -> Snapshot:
        raise InputError("window_seconds", "must be finite", seen=math.nan)

    look = make_observation(10.0, START, broken, 9.0)
    assert look.snapshot is None
    assert "must be finite" in look.detail

    class Broken(ScriptedLive):
        def observe(self) -> Observation:
            raise InputError("operators.work", "must not be negative", seen=-1.0)

    job = Broken(TOPOLOGY, {"source": 1000.0, "work": 50.0})
    loop = Loop(job, RULES, initial=START)
    loop.run(120)
    assert loop.state.totals.held["hold-unbelievable: missing"] == 5
    assert job.running == START


# --- the table of checks ----------------------------------------------------------------------------------------------


def good(at: float = 60.0, **more: Any) -> Observation:
    job = live(lambda _: 100.0)
    job.start(START)
    job.wait(at)
    look = job.observe()
    assert look.snapshot is not None
    return replace(look, snapshot=replace(look.snapshot, **more))


def why(look: Observation, before: Observation | None = None) -> object:
    beliefs = ObservationHistory()
    if before is not None:
        beliefs, _ = observation_checks.check_observation(
            ObservationContext(before, Target(0.5), 90.0, beliefs, TOPOLOGY, before.at)
        )
    _, reason = observation_checks.check_observation(
        ObservationContext(look, Target(0.5), 90.0, beliefs, TOPOLOGY, look.at)
    )
    return None if reason is None else reason.numbers["why"]


def work(look: Observation, **change: Any) -> Observation:
    shot = look.snapshot
    assert shot is not None
    changed = replace(shot.operators["work"], **change)
    return replace(look, snapshot=replace(shot, operators={**shot.operators, "work": changed}))


OBJECTIONS: Mapping[str, Observation] = {
    "missing": replace(good(), snapshot=None),
    "clock": replace(good(), measured_at=math.nan),
    "stale": replace(good(), measured_at=-60.0),
    "future": replace(good(), measured_at=100.0),
    "operators": replace(
        good(), snapshot=replace(good().snapshot, operators={"source": good().snapshot.operators["source"]})
    ),  # type: ignore[type-var,union-attr]
    "parallelism": replace(good(), running={"source": 1, "work": 4}),
    "window": good(window_seconds=1e-6),
    "rate": good(source_rates={"source": 1e300}),
    "useful-time": work(good(), useful_seconds=1e5),
    "throughput": good(throughput=1e6),
    "size": work(good(), records_in=1e-9),
    "latency": good(latency_seconds=Latency(mean=1e9)),
    "balance": good(source_rates={"source": 1e5}),
}


@pytest.mark.parametrize("expected", OBJECTIONS)
def test_each_check_objects_to_what_it_is_for_and_to_nothing_else(expected: str) -> None:
    assert why(good()) is None
    assert why(OBJECTIONS[expected]) == expected


def test_checks_that_compare_object_to_what_cannot_follow() -> None:
    before, after = good(30.0), good(60.0)
    assert why(after, before) is None
    assert why(replace(before, at=60.0), before) == "repeated"
    assert why(work(after, useful_seconds=0.01), before) == "true-rate"
    assert why(replace(after, snapshot=replace(after.snapshot, backlog_records=1e6)), before) == "balance"  # type: ignore[type-var]
    assert {name for name, _ in (*observation_checks.CHECKS, *observation_checks.COMPARISONS)} == {
        *OBJECTIONS,
        "repeated",
        "true-rate",
    }


BACKLOGS = st.floats(100.0, 1e6)


@given(BACKLOGS, BACKLOGS, st.floats(10.0, 500.0), st.integers(1, 8), st.integers(1, 20))
@settings(max_examples=80)
def test_a_backlog_goes_no_faster_than_it_can_be_worked_off(
    first: float, then: float, rate: float, k: int, looks: int
) -> None:
    """150 records a second at most with three instances: what is gone beyond that was never measured right."""
    job = live(lambda _: rate)
    job.start({"source": 1, "work": k})
    job.backlog = first
    job.wait(30.0)
    before, gone = job.observe(), 30.0 * looks
    shown = before.snapshot
    assert shown is not None
    waited = shown.backlog_records or 0.0
    job.wait(gone)
    after = job.observe()
    assert why(after, before) is None  # honest
    lied = replace(after, snapshot=replace(after.snapshot, backlog_records=then))  # type: ignore[type-var]
    least = waited + (rate - 1.25 * max(50.0 * k, job._carried(rate))) * gone - rate
    if then < least - 1e-6 * waited:
        assert why(lied, before) in ("balance", "latency")


@given(st.lists(st.floats(1.0, 400.0), min_size=3, max_size=6), st.floats(0.0, 90.0), st.integers(0, 100_000))
@settings(max_examples=10)
def test_a_monitor_that_tells_the_truth_is_believed(
    levels: list[float], standstill_seconds: float, backlog: int
) -> None:
    """Whatever the rate does, and however long rescales last. The scripted job tells the rate at the end of a window,
    and carried what came at its beginning: a window in which the rate changes adds up for nobody."""
    job = live(lambda t: levels[min(len(levels) - 1, int(t // 600))], standstill_seconds=standstill_seconds)
    job.start(START)
    job.backlog = float(backlog)
    loop = Loop(job, RULES, initial=START)
    loop.run(600.0 * len(levels))
    doubts = {name: n for name, n in loop.state.totals.held.items() if "unbelievable" in name}
    assert doubts.pop("hold-unbelievable: balance", 0) <= AGREEING_OBSERVATIONS * (len(levels) - 1)
    assert set(doubts) <= {"hold-unbelievable: missing"}, doubts  # before the first window, and within a rescale


def test_a_backlog_that_is_not_measured_any_more_still_waits() -> None:
    """Its latency is not that of the parallelism, and nobody scales up for it again and again."""

    def unknown(look: Observation) -> Observation:
        return look if look.snapshot is None else replace(look, snapshot=replace(look.snapshot, backlog_records=None))

    for looks in ({}, dict.fromkeys(range(4, 1000), unknown)):
        job = live(lambda _: 140.0, looks=looks)
        job.start(START)
        job.backlog = 50_000.0
        loop = Loop(job, replace(RULES, policy=None, advise=True), initial=START)
        loop.run(900)
        assert loop.state.memory.missed == 0
        assert not any(run for cell in loop.state.memory.readings.cells for run in cell.runs)


def test_a_source_that_is_not_measured_in_one_window_is_sized_by_what_is_known_of_it() -> None:
    """20 of 50 records a second wait for the source: more of `work` alone would bring nothing."""

    def without_source(look: Observation) -> Observation:
        shot = look.snapshot
        if shot is None:
            return look
        source = replace(shot.operators["source"], records_in=None, records_out=None, useful_seconds=None)
        return replace(look, snapshot=replace(shot, operators={**shot.operators, "source": source}))

    for looks in ({}, dict.fromkeys(range(20, 1000), without_source)):
        job = live(lambda t: 100.0 if t < 300 else 2500.0, looks=looks, p_max=80)
        loop = Loop(job, RULES, initial=START)
        loop.run(900)
        assert (job.running or {})["source"] >= 3, looks


def test_a_job_that_really_changed_is_believed_after_some_looks() -> None:
    beliefs, said = ObservationHistory(), []
    for n in range(1, 12):
        look = good(30.0 * n) if n < 3 else work(good(30.0 * n), useful_seconds=0.1 * n)
        beliefs, reason = observation_checks.check_observation(
            ObservationContext(look, Target(0.5), 90.0, beliefs, TOPOLOGY, look.at)
        )
        said.append(reason is None)
    assert said == [True, True, *[False] * (AGREEING_OBSERVATIONS - 1), *[True] * (10 - AGREEING_OBSERVATIONS)]


def test_a_hot_key_is_named_even_where_nothing_is_missed() -> None:
    def hot(look: Observation) -> Observation:
        shot = look.snapshot
        if shot is None:
            return look
        parts = [Work(95.0 if i == 0 else 2.5, 95.0, 1.0) for i in range(3)]
        split = replace(
            shot.operators["work"], records_in=None, records_out=None, useful_seconds=None, instances=tuple(parts)
        )
        return replace(look, snapshot=replace(shot, operators={**shot.operators, "work": split}))

    diary = Diary()
    Loop(
        live(looks=dict.fromkeys(EVERY_LOOK, hot)), RULES, initial=START, around=LoopCollaborators(listener=diary)
    ).run(300)
    shares = [reason.numbers for entry in diary.entries for reason in entry.reasons if reason.code == "hot-key"]
    assert shares[0]["share"] == 0.95


def test_the_restart_time_is_learned_by_the_loop_without_a_first_guess() -> None:
    """The first rescale tells how long one lasts, and the next one makes up for it."""
    ended = []
    for standstill_seconds in (2.0, 150.0):
        job = live(
            lambda t: 100.0 if t < 600 else 250.0 if t < 2400 else 600.0,
            standstill_seconds=standstill_seconds,
            p_max=80,
        )
        loop = Loop(job, replace(RULES, policy=create("ds2")), initial=START)
        loop.run(3600)
        assert set(loop.state.manager.standstills) == {standstill_seconds}
        ended.append([each["work"] for each in job.asked])
    assert ended[0][0] == ended[1][0]
    assert max(ended[1]) > max(ended[0])
