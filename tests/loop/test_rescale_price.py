"""The loop knows what its rescales cost: it asks its engine, then measures, and does what pays. Laws over generated
histories of a scripted job."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest

from autotrascale.domain.observation import RescaleResult, RescaleTime
from autotrascale.knowledge.decision_journal.serialization import (
    event_from_json,
    event_to_json,
    rules_from_json,
    rules_to_json,
    state_from_json,
    state_to_json,
)
from autotrascale.loop import Loop, LoopCollaborators
from autotrascale.plan.control import rescale_time
from autotrascale.plan.control.autoscaling.autoscaling_plan import PlanningSettings
from autotrascale.plan.control.events import Event, RescaleEnded
from autotrascale.plan.control.loop_state import DecisionEntry, State
from autotrascale.plan.control.step import step
from tests.loop.scripts import KNOBS, RULES, TOPOLOGY, Diary, live

WEIGHED = PlanningSettings(late_worth=60.0, band=1.0, worth=0.0, review_seconds=600.0)
WEIGHING = replace(
    RULES,
    planning=WEIGHED,
    rescales_per_day=None,
    knobs=replace(KNOBS, interval_seconds=60.0, scale_down_delay_seconds=0.0),
)
HOURS = 5.0
STANDSTILLS = (0.0, 3.0, 30.0)


class Told(NamedTuple):
    entries: list[DecisionEntry]
    instances: float
    state: State
    events: list[Event]

    @property
    def moves(self) -> list[DecisionEntry]:
        return [each for each in self.entries if each.action == "rescale"]


def kept(
    rate: Callable[[float], float], standstill: float, *, start: int = 8, hours: float = HOURS, says: bool = True
) -> Told:
    job = live(rate, standstill_seconds=standstill, rescale_time=RescaleTime(standstill) if says else None)
    diary = Diary()
    events: list[Event] = []

    class Heard(Loop):
        def process_event(self, event: Event) -> None:
            events.append(event)
            super().process_event(event)

    loop = Heard(job, WEIGHING, initial={"source": 1, "work": start}, around=LoopCollaborators(listener=diary))
    state = loop.run(hours * 3600)
    return Told(diary.entries, state.totals.instance_seconds, state, events)


@cache
def history(seed: int) -> tuple[float, ...]:
    """Rates, minute by minute: a swing of its own length and depth, a step, and jitter."""
    rng = np.random.default_rng([seed, 16])
    period, phase, deep = rng.uniform(4, 12) * 3600, rng.uniform(0, 2 * math.pi), rng.uniform(0.2, 0.6)
    step_at, height = rng.uniform(0, HOURS) * 3600, rng.uniform(0.7, 1.4)
    minutes = np.arange(int(HOURS * 60) + 2) * 60.0
    swing = 250 * (1 + deep * np.cos(2 * math.pi * minutes / period + phase))
    rates = swing * np.where(minutes > step_at, height, 1.0) * np.exp(0.01 * rng.standard_normal(len(minutes)))
    return tuple(rates.tolist())


@cache
def kept_through(seed: int, standstill: float) -> Told:
    return kept(lambda t: history(seed)[int(t // 60)], standstill)


SEEDS = range(3)


@pytest.mark.parametrize("seed", SEEDS)
def test_dearer_rescales_are_no_more_of_them_and_free_ones_leave_no_more_instance_hours(seed: int) -> None:
    free, cheap, dear = (kept_through(seed, stop) for stop in STANDSTILLS)
    assert len(free.moves) >= len(cheap.moves) >= len(dear.moves)
    assert free.moves
    shifted = 1.001  # a standstill puts off what comes after it, and the end of the history
    assert free.instances <= cheap.instances * shifted
    assert cheap.instances <= dear.instances * shifted


@pytest.mark.parametrize(("step_at", "height"), [(1800.0, 1.3), (2700.0, 1.6), (4000.0, 2.0)])
def test_more_comes_no_later_however_dear_it_is(step_at: float, height: float) -> None:
    """A job that does not keep up is late until it has more, so no price is weighed against that."""
    told = [kept(lambda t: 300.0 * (height if t > step_at else 1.0), stop, hours=1.5) for stop in STANDSTILLS]
    first = [next(each for each in one.moves if each.at > step_at) for one in told]
    assert len({each.at for each in first}) == 1
    assert all(sum((each.wanted or {}).values()) > sum((each.running or {}).values()) for each in first)


@pytest.mark.parametrize("minutes", [40, 60, 90])
def test_a_load_that_swings_steeply_is_not_chased(minutes: int) -> None:
    """However cheap a rescale is: what is given back in a trough is missed on the way up, and that is remembered."""
    told = kept(lambda t: 350.0 - 250.0 * math.cos(2 * math.pi * t / (60.0 * minutes)), 0.2, hours=8.0)
    totals = told.state.totals
    assert totals.within / totals.seconds > 0.97
    assert len(told.moves) < 20


def test_at_a_steady_rate_a_job_is_only_given_less_however_free_rescales_are() -> None:
    """What is learned lets it take less, a step at a time; jitter moves nothing up and down again."""
    rng = np.random.default_rng(3)
    jitter = np.exp(0.02 * rng.standard_normal(600)).tolist()
    told = kept(lambda t: 300.0 * jitter[int(t // 60)], 0.0, start=12, hours=5.0)
    sizes = [12, *((each.wanted or {})["work"] for each in told.moves)]
    assert 2 <= len(sizes) <= 4
    assert all(after < before for before, after in pairwise(sizes))


def test_nothing_is_given_back_right_after_it_was_asked_for() -> None:
    for seed in SEEDS:
        moves = kept_through(seed, 0.0).moves
        sizes = [(each.at, sum((each.wanted or {}).values()) - sum((each.running or {}).values())) for each in moves]
        assert all(b[0] - a[0] >= 240 for a, b in pairwise(sizes) if a[1] > 0 > b[1]), sizes


def test_each_change_says_what_it_costs_and_what_it_saves() -> None:
    told = kept(lambda t: 500.0 if t < 3600 else 200.0, 3.0, start=12)
    downs = [each for each in told.moves if sum((each.wanted or {}).values()) < sum((each.running or {}).values())]
    assert downs
    for each in downs:
        [price] = [reason for reason in each.reasons if reason.code == "price"]
        assert price.numbers["standstill_seconds"] == pytest.approx(3.0)
        saved, cost = (float(price.numbers[name] or 0) for name in ("saved_instance_seconds", "price_instance_seconds"))
        assert saved >= cost > 0


def test_what_was_measured_counts_for_more_than_what_was_expected() -> None:
    said = RescaleTime(0.1, 5.0)
    price = rescale_time.price_next_rescale(WEIGHING, State(), said)
    assert price is not None
    assert price.expected == said
    state = State(observed={"source": 1, "work": 2})
    for seconds in (20.0, 22.0, 21.0):
        state = replace(
            state,
            rescale_times=rescale_time.remember_rescale_time(
                state, RescaleResult(0.0, True, {"source": 1, "work": 3}, seconds)
            ),
        )
    price = rescale_time.price_next_rescale(WEIGHING, state, said)
    assert price is not None
    assert price.expected == RescaleTime(20.5, 0.0)


def test_where_nobody_says_a_rescale_is_taken_to_be_in_place() -> None:
    unknown = rescale_time.price_next_rescale(WEIGHING, State(), None)
    assert unknown is not None
    assert unknown.expected == rescale_time.DEFAULT_RESCALE_TIME
    told = replace(WEIGHING, knobs=replace(WEIGHING.knobs, restart_seconds=12.0))
    guessed = rescale_time.price_next_rescale(told, State(), None)
    assert guessed is not None
    assert guessed.expected.standstill_seconds == 12.0
    assert rescale_time.price_next_rescale(RULES, State(), RescaleTime(0.1)) is None  # rules that weigh nothing


def test_a_rescale_that_had_nothing_to_do_teaches_nothing() -> None:
    state = State(observed={"source": 1, "work": 2})
    assert rescale_time.remember_rescale_time(state, RescaleResult(0.0, True, {"source": 1, "work": 2}, 0.0)) == ()


def test_a_weighed_history_is_decided_again_from_what_is_written_down() -> None:
    told = kept(lambda t: 500.0 if t < 3600 else 200.0, 3.0, start=12, hours=3.0)
    rules = rules_from_json(rules_to_json(replace(WEIGHING, topology=TOPOLOGY, p_max=16)))
    state, again = State(), []
    for event in told.events:
        event = event_from_json(event_to_json(event))
        state, instructions = step(rules, state, event, event.at)
        again += [each for each in instructions if isinstance(each, DecisionEntry)]
        if len(again) % 40 == 0:
            state = state_from_json(state_to_json(state))
    assert again == told.entries
    assert any(isinstance(event, RescaleEnded) for event in told.events)


def test_rules_without_a_price_weigh_nothing() -> None:
    rules = rules_from_json(rules_to_json(RULES))
    assert rules == replace(RULES)
    assert rules.planning.late_worth is None
    assert rules.rescales_per_day == 10
