"""The pure step: what it decides from what it is shown, and the laws that hold whatever that is."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise

import pytest

from autotrascale.domain.errors import EngineError
from autotrascale.domain.observation import Observation, RescaleResult
from autotrascale.domain.snapshot import NarrowWork, Work
from autotrascale.loop import MAX_FAILED_STARTS, Loop, LoopCollaborators
from autotrascale.plan.control import rescale_budget
from autotrascale.plan.control.clock import Clock
from autotrascale.plan.control.events import (
    Event,
    Instruction,
    KeepModel,
    ObservationTaken,
    RescaleEnded,
    RescaleJob,
    StartJob,
)
from autotrascale.plan.control.loop_state import DecisionEntry, PastRescale, Rules, State
from autotrascale.plan.control.step import step
from autotrascale.testing.scripted_live import ScriptedLive, drop_metrics, shift_clock, stale_metrics, unreachable_error
from tests.loop.scripts import KNOBS, RULES, START, TOPOLOGY, Diary, live, queue


def run(job: ScriptedLive, seconds: float, rules: Rules = RULES, state: State | None = None) -> tuple[Loop, Diary]:
    diary = Diary()
    loop = Loop(job, rules, initial=START, state=state, around=LoopCollaborators(listener=diary))
    loop.run(seconds)
    return loop, diary


def test_a_job_within_its_target_at_a_steady_rate_is_left_alone() -> None:
    job = live()
    _, diary = run(job, 1800)
    assert job.asked == []
    assert "in-band" in diary.codes


def test_a_higher_rate_is_answered_and_a_lower_one_too_but_later() -> None:
    job = live(lambda t: 300.0 if 1200 <= t < 3600 else 100.0)
    loop, diary = run(job, 7200)
    assert {"hold-jump", "rate-up", "rate-down"} <= diary.codes
    first, *_, last = job.asked
    assert first["work"] >= 6
    assert last["work"] <= 4
    up = next(entry.at for entry in diary.entries if entry.action == "rescale")
    down = next(entry.at for entry in diary.entries if entry.action == "rescale" and entry.wanted == last)
    assert up < 1200 + 200
    assert down >= 3600 + KNOBS.scale_down_delay_seconds
    assert loop.state.totals.rescales == len(job.asked)


def test_a_prediction_is_made_for_each_rescale_and_judged_when_it_is_seen() -> None:
    job = live(lambda t: 250.0 if t >= 1200 else 100.0)
    loop, diary = run(job, 3600)
    assert any(entry.predicted for entry in diary.entries if entry.action == "rescale")
    assert loop.state.checked
    assert all(each.observed > 0 and each.sd > 0 for each in loop.state.checked)


def test_a_job_below_its_floor_goes_to_the_floor_before_latency_is_asked_for() -> None:
    job = live(lambda _: 400.0)
    _, diary = run(job, 600)
    rescales = [entry for entry in diary.entries if entry.action == "rescale"]
    assert "floor-first" in {reason.code for reason in rescales[0].reasons}
    assert job.asked[0]["work"] >= 8


def test_a_scale_down_that_misses_the_target_is_taken_back() -> None:
    def cliff(running: Mapping[str, int], rate: float) -> float:  # noqa: ARG001 - as a script is asked
        return 0.1 if running["work"] >= 8 else 0.9

    job = ScriptedLive(TOPOLOGY, {"source": 1000.0, "work": 50.0}, lambda _: 100.0, cliff)
    diary = Diary()
    Loop(job, RULES, initial={"source": 1, "work": 12}, around=LoopCollaborators(listener=diary)).run(7200)
    tried = [asked for asked in job.asked if asked["work"] < 8]
    assert tried
    assert "go-back" in diary.codes
    bad = [entry for entry in diary.entries if (entry.latency_seconds or 0) > 0.5]
    assert sum(1 for _ in bad) * KNOBS.interval_seconds <= len(tried) * (KNOBS.running_seconds + 120)


def test_a_target_that_no_parallelism_meets_is_not_chased() -> None:
    job = ScriptedLive(TOPOLOGY, {"source": 1000.0, "work": 50.0}, lambda _: 100.0, lambda _, __: 2.0)
    _, diary = run(job, 6 * 3600)
    assert "out-of-reach" in diary.codes
    assert len(job.asked) <= 6


def test_paused_asks_for_nothing() -> None:
    job = live(lambda t: 100.0 + t)
    _, diary = run(job, 1800, replace(RULES, knobs=replace(KNOBS, paused=True)))
    assert job.asked == []
    assert "hold-paused" in diary.codes


def test_advice_touches_nothing_and_says_what_it_would_do() -> None:
    job = live(lambda t: 300.0 if t >= 600 else 100.0)
    job.start(START)
    _, diary = run(job, 1800, replace(RULES, advise=True))
    assert job.asked == []
    assert "would-rescale" in {entry.action for entry in diary.entries}


def test_the_budget_of_a_day_keeps_what_is_left_for_scale_ups() -> None:
    job = live(lambda t: 300.0 if (t // 1800) % 2 else 100.0)
    _, diary = run(job, 20 * 3600, replace(RULES, rescales_per_day=6))
    assert "budget" in diary.codes
    assert len(job.asked) <= 8


def test_a_rate_that_swings_faster_than_the_loop_follows_does_not_make_it_thrash() -> None:
    knobs = replace(KNOBS, scale_down_delay_seconds=60.0)
    job = live(lambda t: 400.0 if (t // 900) % 2 else 100.0)
    loop, _ = run(job, 8 * 3600, replace(RULES, knobs=knobs, rescales_per_day=1000))
    assert len(job.asked) < 16  # of 32 swings
    assert loop.state.totals.within > 0.9 * loop.state.totals.seconds


def test_up_and_down_and_up_again_within_a_short_time_halves_the_pace_until_it_is_quiet() -> None:
    swings = (PastRescale(1000.0, 4), PastRescale(1400.0, -4), PastRescale(1800.0, 4))
    slow = (PastRescale(0.0, 4), PastRescale(9000.0, -4), PastRescale(18000.0, 4))
    state = State(rescales=swings, clock=Clock(1800.0, 1800.0))
    assert rescale_budget.next_backoff(state, KNOBS) == 2.0
    assert rescale_budget.next_backoff(replace(state, rescales=swings[:2]), KNOBS) == 1.0
    assert rescale_budget.next_backoff(replace(state, rescales=slow), KNOBS) == 1.0
    slower = replace(state, backoff=2.0)
    assert rescale_budget.reset_backoff_when_quiet(slower, KNOBS) == 2.0
    assert rescale_budget.reset_backoff_when_quiet(replace(slower, clock=Clock(20_000.0, 20_000.0)), KNOBS) == 1.0
    assert rescale_budget.apply_backoff(KNOBS, 2.0, target_missed=False).interval_seconds == 2 * KNOBS.interval_seconds
    assert rescale_budget.apply_backoff(KNOBS, 2.0, target_missed=True).interval_seconds == KNOBS.interval_seconds


# --- signals that lie -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("change", "why"), [(drop_metrics, "missing"), (stale_metrics(600.0), "stale")])
def test_missing_and_old_metrics_hold(change: Callable[[Observation], Observation], why: str) -> None:
    job = live(lambda t: 100.0 + t, looks=dict.fromkeys(range(1, 1000), change))
    loop, diary = run(job, 1800)
    assert job.asked == []
    assert "hold-unbelievable" in diary.codes
    assert loop.state.totals.held[f"hold-unbelievable: {why}"] >= 60


def test_a_clock_that_jumps_is_said_and_moves_nothing() -> None:
    job = live(looks={20: shift_clock(-5000.0), 30: shift_clock(80_000.0)})
    loop, diary = run(job, 3600)
    assert "clock" in diary.codes
    assert job.asked == []
    assert loop.state.clock.now <= 3600 + 2 * KNOBS.interval_seconds + 5000


def test_a_hot_key_is_named_and_no_parallelism_thrown_at_it() -> None:
    def hot(look: Observation) -> Observation:
        snapshot = look.snapshot
        assert snapshot is not None
        work = snapshot.operators["work"]
        each = [Work(100.0, 100.0, snapshot.window_seconds * (1.0 if i == 0 else 0.1)) for i in range(work.parallelism)]
        split = replace(work, records_in=None, records_out=None, useful_seconds=None, instances=tuple(each))
        slow = replace(snapshot.latency_seconds, mean=2.0)
        return replace(
            look, snapshot=replace(snapshot, operators={**snapshot.operators, "work": split}, latency_seconds=slow)
        )

    job = live(looks=dict.fromkeys(range(2, 1000), hot))
    _, diary = run(job, 3600)
    assert "hold-skew" in diary.codes
    assert job.asked == []


@pytest.mark.parametrize(("share", "told"), [(0.5, True), (0.0, False)])
def test_instances_that_wait_for_a_topic_are_named_at_each_look(share: float, told: bool) -> None:
    def narrow(look: Observation) -> Observation:
        assert look.snapshot is not None
        work = replace(look.snapshot.operators["work"], narrow=NarrowWork(share, 1.5))
        return replace(look, snapshot=replace(look.snapshot, operators={**look.snapshot.operators, "work": work}))

    _, diary = run(live(looks=dict.fromkeys(range(2, 1000), narrow)), 600)
    assert ("source-partitions" in diary.codes) == told


def test_a_slow_service_is_named_and_no_parallelism_thrown_at_it() -> None:
    slow = [0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.3, 0.6, 0.9, 1.2, 1.5, 1.8, 2.0]
    state, asked = State(), []
    job = live()
    job.start(START)
    for n, service in enumerate(slow):
        job.wait(30)
        look = job.observe()
        assert look.snapshot is not None
        backlog = 0.0 if n < 9 else 2000.0 * (slow[n - 1])
        late_by = 0.2 if n < 9 else 3.0
        look = replace(
            look,
            snapshot=replace(
                look.snapshot,
                backlog_records=backlog,
                throughput=100.0 if n < 9 else 50.0,
                latency_seconds=replace(look.snapshot.latency_seconds, mean=late_by),
            ),
        )
        state, instructions = step(RULES, state, ObservationTaken(look, {"payments": service}), look.at)
        asked += instructions
    codes = {reason.code for each in asked if isinstance(each, DecisionEntry) for reason in each.reasons}
    assert "hold-external" in codes
    assert not [each for each in asked if isinstance(each, RescaleJob)]


# --- faults of the job ------------------------------------------------------------------------------------------------


def test_a_job_that_died_is_started_again_at_the_last_good_parallelism() -> None:
    job = live(lambda t: 300.0 if t >= 900 else 100.0)
    loop, _ = run(job, 2400)
    grown = dict(job.running or {})
    assert grown != START
    job.kill()
    job.left_running = None  # the machine is gone, and what it knew
    diary = Diary()
    again = Loop(job, RULES, initial=START, state=loop.state, around=LoopCollaborators(listener=diary))
    again.run_once()
    assert job.running == grown
    assert [entry.action for entry in diary.entries] == ["start"]


def test_a_rescale_that_fails_half_way_leaves_the_job_and_is_tried_again_later() -> None:
    job = live(lambda t: 300.0 if t >= 900 else 100.0, rescales={1: "the executors did not come"})
    _, diary = run(job, 2400)
    failed = next(entry for entry in diary.entries if entry.action == "failed")
    assert failed.running == START
    assert "the executors did not come" in failed.reasons[-1].text
    again = [entry.at for entry in diary.entries if entry.action == "rescale"]
    assert again[1] - again[0] >= KNOBS.running_seconds
    assert job.running == job.asked[-1]


def test_a_rescale_that_brings_the_job_down_starts_it_again() -> None:
    def down(rescaled: RescaleResult) -> RescaleResult:
        job.kill()
        return replace(rescaled, done=False, running=None, detail="lost")

    job = live(lambda t: 300.0 if t >= 900 else 100.0, rescales={1: down})
    _, diary = run(job, 2400)
    assert "start" in {entry.action for entry in diary.entries}
    assert job.running is not None


def test_an_engine_that_cannot_be_reached_is_waited_for() -> None:
    job = live(
        lambda t: 300.0 if t >= 900 else 100.0,
        looks={10: unreachable_error(), 11: unreachable_error()},
        rescales={1: unreachable_error()},
    )
    _, diary = run(job, 2400)
    assert "hold-unbelievable" in diary.codes
    assert "rescale-failed" in diary.codes
    assert job.running == job.asked[-1] != START


def test_an_engine_that_never_starts_the_job_again_ends_the_loop() -> None:
    class Broken(ScriptedLive):
        def start(self, parallelism: Mapping[str, int]) -> Observation:
            if self.started:
                raise unreachable_error()
            return super().start(parallelism)

    job = Broken(TOPOLOGY, {"source": 1000.0, "work": 50.0})
    loop, diary = run(job, 300)  # type: ignore[arg-type]
    job.kill()
    for _ in range(MAX_FAILED_STARTS - 1):
        loop.run_once()
    with pytest.raises(EngineError):
        loop.run_once()
    assert [entry.action for entry in diary.entries].count("start") == MAX_FAILED_STARTS


def test_a_rescale_by_somebody_else_is_noticed() -> None:
    job = live()
    loop, _ = run(job, 1200)
    job.running = {"source": 2, "work": 9}
    loop.run_once()
    assert loop.state.observed == {"source": 2, "work": 9}
    assert loop.state.memory.sized_for is None


# --- laws -------------------------------------------------------------------------------------------------------------


def random_days(seed: int) -> tuple[list[tuple[Event, float]], list[list[Instruction]], State]:
    """A loop over a random rate with random faults; every event that it saw, what it answered, where it ended."""
    rng = random.Random(seed)
    levels = [rng.choice([60.0, 100.0, 200.0, 350.0]) for _ in range(20)]
    faults = {
        rng.randrange(300): rng.choice([drop_metrics, stale_metrics(500.0), shift_clock(-100.0), shift_clock(9000.0)])
        for _ in range(20)
    }
    job = live(
        lambda t: levels[min(19, int(t // 600))], looks=faults, rescales={rng.randrange(1, 6): "failed on purpose"}
    )
    events: list[tuple[Event, float]] = []
    answers: list[list[Instruction]] = []

    class Listening(Loop):
        def process_event(self, event: Event) -> None:
            events.append((event, event.at))
            self.state, instructions = step(self.rules, self.state, event, event.at)
            answers.append(instructions)
            for instruction in instructions:
                self._execute(instruction, event)

    loop = Listening(job, RULES, initial=START)
    loop.run(9000)
    return events, answers, loop.state


@pytest.mark.parametrize("seed", range(4))
def test_the_same_events_give_the_same_answers_and_the_same_state(seed: int) -> None:
    events, answers, ended = random_days(seed)
    state = State()
    for (event, now), expected in zip(events, answers, strict=True):
        state, instructions = step(replace(RULES, topology=TOPOLOGY), state, event, now)
        assert instructions == expected
    assert state == ended


@pytest.mark.parametrize("seed", range(4))
def test_every_step_leaves_one_entry_with_a_reason_and_a_hold_changes_nothing(seed: int) -> None:
    _, answers, _ = random_days(seed)
    for instructions in answers:
        [entry] = [each for each in instructions if isinstance(each, DecisionEntry)]
        assert entry.reasons
        others = [each for each in instructions if not isinstance(each, DecisionEntry)]
        if entry.hold:
            assert others == []
            assert any(reason.code.startswith("hold") for reason in entry.reasons)
        if entry.action == "stay":
            assert entry.wanted == entry.running
            assert others == []
        assert all(isinstance(each, RescaleJob | StartJob | KeepModel) for each in others)


def test_a_changed_event_without_a_question_is_survived() -> None:
    state, [entry] = step(RULES, State(), RescaleEnded(RescaleResult(10.0, True, START, 1.0)), 10.0)
    assert isinstance(entry, DecisionEntry)
    assert state.observed == START


def test_an_operator_whose_engine_decides_is_asked_once_and_then_left() -> None:
    """A source such as Kafka has partitions of its own, whatever it is asked to run on."""

    class OwnPartitions(ScriptedLive):
        def rescale(self, parallelism: Mapping[str, int]) -> RescaleResult:
            done = super().rescale({**parallelism, "source": 3})
            return replace(done, running=dict(self.running or {}))

    diary = Diary()
    kafka = OwnPartitions(
        TOPOLOGY, {"source": 50.0, "work": 50.0}, lambda t: 100.0 if t < 1500 else 400.0, queue
    )  # two sources' worth of work at first, eight later
    loop = Loop(kafka, RULES, initial={"source": 3, "work": 4}, around=LoopCollaborators(listener=diary))
    loop.run(6000)
    said = [entry for entry in diary.entries for reason in entry.reasons if reason.code == "engine-decides"]
    assert len(said) == 1
    assert dict(loop.state.engine_fixed) == {"source": 3}
    assert all(asked["source"] == 3 for asked in kafka.asked)
    assert all(asked != before for before, asked in pairwise(kafka.asked))  # never the same rescale again
    assert (loop.state.observed or {})["work"] > 4  # what can be moved is
    kafka.running = {**(kafka.running or {}), "source": 6}  # the topic has more partitions now
    loop.live.wait(30)
    loop.run_once()
    assert not loop.state.engine_fixed
