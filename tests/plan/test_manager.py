"""One test for each knob that fails when nothing reads it, and the laws of all of them together."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrascale.domain.decision import Decision
from autotrascale.domain.errors import InputError
from autotrascale.domain.snapshot import Snapshot
from autotrascale.plan.control.manager import (
    adjustments,
    gates,
    guards,
    manager_state,
    rescale_feedback,
    scaling_manager,
)
from autotrascale.plan.control.manager.knobs import Knobs
from autotrascale.plan.control.manager.manager_state import ManagerState
from autotrascale.plan.control.manager.rescale_feedback import FORGET_SECONDS
from autotrascale.plan.control.manager.scaling_manager import manage, record_standstill
from autotrascale.plan.policies.base import Policy
from autotrascale.plan.policies.registry import create
from autotrascale.testing.chain_snapshots import ScriptedPolicy, chain_snapshot
from autotrascale.testing.strategies import P_MAX, snapshots
from autotrascale.validation import validate

CAPACITY = {"source": 1000.0, "map": 10.0}


def job(k: int = 4, rate: float = 60.0, **fields: Any) -> Snapshot:
    """A source with capacity to spare and a map of ten records a second for each instance."""
    return chain_snapshot({"source": 1, "map": k}, CAPACITY, rate, **fields)


def codes(decision: Decision) -> list[str]:
    return [reason.code for reason in decision.reasons]


def numbers(decision: Decision, code: str) -> Mapping[str, Any]:
    return next(reason.numbers for reason in decision.reasons if reason.code == code)


class Driver:
    """Steps through snapshots a minute apart, as a loop would, keeping the state."""

    def __init__(self, policy: Policy, **knobs: Any) -> None:
        self.knobs, self.policy, self.state, self.now = Knobs(**knobs), policy, ManagerState(), 0.0

    def see(self, snapshot: Snapshot, after: float = 60.0) -> Decision:
        self.state, decision, _ = manage(self.knobs, self.policy, self.state, snapshot, self.now)
        self.now += after
        return decision


def ds2(**knobs: Any) -> Driver:
    return Driver(create("ds2"), **knobs)


def wants(*answers: int | None, **knobs: Any) -> Driver:
    return Driver(ScriptedPolicy([None if k is None else {"map": k} for k in answers]), **knobs)


def test_without_knobs_the_bare_policy_comes_through() -> None:
    bare, managed = create("ds2").decide(job()), ds2().see(job())
    assert managed == bare


# --- Whether to act at all


def test_paused() -> None:
    decision = ds2(paused=True).see(job())
    assert (decision.changed, codes(decision)) == (False, ["hold-paused"])


def test_policy_interval() -> None:
    driver = wants(6, interval_seconds=100.0)
    assert driver.see(job()).changed
    decision = driver.see(job())
    assert (decision.changed, codes(decision)) == (False, ["hold-interval"])
    assert numbers(decision, "hold-interval") == {"since_seconds": 60.0, "interval_seconds": 100.0}
    assert driver.see(job()).changed


def test_warm_up_intervals_are_ignored_after_a_rescale_whoever_did_it() -> None:
    driver = wants(6, 8, warm_up_intervals=2)
    assert driver.see(job(4)).parallelism["map"] == 6
    assert [codes(driver.see(job(6))) for _ in range(2)] == [["hold-warm-up"], ["hold-warm-up"]]
    assert driver.see(job(6)).parallelism["map"] == 8
    assert codes(driver.see(job(5))) == ["hold-warm-up"]


def test_warm_up_counts_policy_intervals_not_looks() -> None:
    driver = wants(6, warm_up_intervals=1, interval_seconds=120.0)
    driver.see(job(4))
    looks = [codes(driver.see(job(6)))[0] for _ in range(5)]
    assert looks == ["hold-interval", "hold-warm-up", "hold-interval", "scripted", "hold-interval"]


def test_policy_running_time() -> None:
    driver = wants(6, 8, running_seconds=100.0)
    driver.see(job(4))
    assert codes(driver.see(job(6))) == ["hold-settling"]
    assert codes(driver.see(job(6))) == ["hold-settling"]
    assert driver.see(job(6)).parallelism["map"] == 8


def test_garbage_collection_holds() -> None:
    snapshot = job(operators={"map": {"gc_seconds": 60.0}})  # of 240 useful
    decision = ds2(max_gc_share=0.2).see(snapshot)
    assert (decision.changed, codes(decision)) == (False, ["hold-garbage"])
    assert numbers(decision, "hold-garbage") == {"operator": "map", "gc_share": 0.25, "limit": 0.2}
    assert ds2(max_gc_share=0.3).see(snapshot).changed


# --- What the policy is shown


def test_target_rate_ratio_divides_measured_capacity_by_what_was_achieved() -> None:
    """Six are enough for 60/s by every measurement, and 48/s is what comes through, twice: 60/48 times as many."""
    driver = ds2(target_rate_ratio=0.95)
    assert driver.see(job(6, throughput=48.0)).parallelism["map"] == 6  # one window may be bad by chance
    decision = driver.see(job(6, throughput=48.0))
    assert decision.parallelism["map"] == 8
    assert numbers(decision, "corrected")["factor"] == pytest.approx(0.8)
    assert driver.see(job(6, throughput=48.0)).parallelism["map"] == 8  # not applied yet, not counted twice
    assert driver.see(job(8, throughput=60.0)).parallelism["map"] == 8  # and it stays when it has helped
    driver.see(job(8, throughput=55.0))
    assert driver.see(job(8, throughput=55.0)).parallelism["map"] == 9  # and adds up when it has not helped enough
    assert driver.see(job(9, rate=45.0, throughput=45.0)).parallelism["map"] == 5  # 48/s were seen to pass uncorrected


def test_one_bad_window_is_unlearned_by_the_next_good_ones() -> None:
    driver = ds2(target_rate_ratio=0.9)
    carried = (59.0, 18.0, 59.0, 59.0, 59.0)
    assert [driver.see(job(6, throughput=each)).parallelism["map"] for each in carried] == [6] * 5


def test_a_bad_spell_is_unlearned_after_a_while_and_more_slowly_where_that_was_wrong() -> None:
    driver = ds2(target_rate_ratio=0.9)
    for _ in range(2):
        driver.see(job(6, throughput=18.0))
    ran = [driver.see(job(20, throughput=60.0)).parallelism["map"] for _ in range(150)]
    assert ran[0] == 20
    assert ran[-1] <= 7  # half of it, in logarithms, each time
    assert driver.state.correction.patience > 20


def test_target_rate_ratio_says_nothing_about_operators_that_say_nothing() -> None:
    blind = chain_snapshot({"source": 1, "map": 6}, {}, 60.0, throughput=30.0)
    assert codes(wants(7, target_rate_ratio=0.95).see(blind)) == ["scripted"]


def test_target_rate_ratio_corrects_by_ten_times_at_most() -> None:
    driver = ds2(target_rate_ratio=0.95)
    driver.see(job(6, throughput=1e-300))
    assert driver.see(job(6, throughput=1e-300)).parallelism["map"] == 60


def test_target_rate_ratio_blames_capacity_only_where_instances_suffice() -> None:
    def twice(snapshot: Snapshot, **knobs: Any) -> int:
        driver = ds2(**knobs)
        driver.see(snapshot)
        return driver.see(snapshot).parallelism["map"]

    assert twice(job(3, throughput=30.0), target_rate_ratio=0.95) == 6
    assert twice(job(6, throughput=48.0), target_rate_ratio=0.75) == 6
    assert twice(job(6, throughput=48.0)) == 6
    assert twice(job(6), target_rate_ratio=0.95) == 6  # throughput unknown
    with_instances = job(2, rate=20.0, throughput=10.0)
    work = replace(with_instances.operators["map"].total, records_in=600, records_out=600, useful_seconds=60.0)
    split = replace(
        with_instances.operators["map"], records_in=None, records_out=None, useful_seconds=None, instances=(work, work)
    )
    snapshot = replace(with_instances, operators={**with_instances.operators, "map": split})
    assert twice(snapshot, target_rate_ratio=0.95) == 4


def test_utilisation_target() -> None:
    decision = ds2(utilisation=0.75).see(job())
    assert decision.parallelism["map"] == 8
    assert numbers(decision, "utilisation") == {"utilisation": 0.75}


def test_catch_up_time_adds_the_backlog_to_the_demand() -> None:
    decision = ds2(catch_up_seconds=120.0).see(job(backlog_records=2400))
    assert decision.parallelism["map"] == 8
    assert numbers(decision, "backlog") == {"backlog": 2400, "extra_rate": 20.0}


def test_catch_up_works_off_a_backlog_when_nothing_comes_in_any_more() -> None:
    assert ds2(catch_up_seconds=10.0).see(job(4, rate=0.0, backlog_records=600)).parallelism["map"] == 6


def test_no_scale_down_while_catching_up_or_while_nobody_knows() -> None:
    for backlog, code in ((1200, "catching-up"), (None, "backlog-unknown")):
        decision = ds2(catch_up_seconds=600.0).see(job(20, backlog_records=backlog))
        assert decision.parallelism["map"] == 20
        assert code in codes(decision)
    assert ds2(catch_up_seconds=600.0).see(job(20, backlog_records=0)).parallelism["map"] == 6


def test_a_backlog_of_a_few_seconds_counts_as_none() -> None:
    snapshot = job(20, backlog_records=240)  # four seconds of input
    assert ds2(catch_up_seconds=60.0, backlog_seconds=5.0).see(snapshot).parallelism["map"] == 6
    assert ds2(catch_up_seconds=60.0, backlog_seconds=3.0).see(snapshot).parallelism["map"] == 20


def test_restart_time_is_counted_in_when_a_rescale_is_due() -> None:
    knobs: dict[str, Any] = {"restart_seconds": 60.0, "catch_up_seconds": 180.0}
    decision = ds2(**knobs).see(job(backlog_records=0))
    assert decision.parallelism["map"] == 8
    assert numbers(decision, "restart") == {"extra_rate": 20.0}
    assert not ds2(**knobs).see(job(6, backlog_records=0)).changed
    assert not ds2(**knobs).see(job(8, backlog_records=0)).changed  # where it ended is where it stays
    assert ds2(**knobs).see(job(12, backlog_records=0)).parallelism["map"] == 8  # and so it does from above


@pytest.mark.parametrize("restart", [0.0, 60.0, 300.0, 3600.0])
def test_a_restart_never_makes_more_of_what_is_enough(restart: float) -> None:
    """85 % busy, 10 instances: what a restart leaves behind is there once, and no rescale is due."""
    driver = ds2(restart_seconds=restart, catch_up_seconds=60.0)
    looks = [driver.see(job(10, rate=85.0, backlog_records=0)).parallelism["map"] for _ in range(5)]
    assert looks == [9 if restart == 0 else 10] * 5


def test_a_long_restart_asks_for_twice_the_rate_at_most() -> None:
    knobs: dict[str, Any] = {"restart_seconds": 3600.0, "catch_up_seconds": 60.0}
    assert ds2(**knobs).see(job(4, backlog_records=0)).parallelism["map"] == 12


def test_the_restart_time_is_learned_from_what_was_seen() -> None:
    driver = ds2(restart_seconds=180.0, catch_up_seconds=180.0)
    for seconds in (20.0, 18.0, 400.0, 19.0):
        driver.state = record_standstill(driver.state, seconds)
    decision = driver.see(job(backlog_records=0))
    assert decision.parallelism["map"] == 7  # 60/s · 20 s / 180 s more
    driver.state = replace(driver.state, standstills=())
    assert ds2(catch_up_seconds=180.0).see(job(backlog_records=0)).parallelism["map"] == 6


# --- What becomes of the answer


def test_activation_waits_for_consecutive_decisions_and_combines_them() -> None:
    for how, together in (("max", 9), ("median", 8)):
        driver = wants(8, 9, 7, 6, activation_intervals=3, activation=how)
        assert [driver.see(job()).changed for _ in range(2)] == [False, False]
        decision = driver.see(job())
        assert decision.parallelism["map"] == together
        assert codes(decision)[-1] == "activation"


def test_activation_compares_the_latest_decisions_only() -> None:
    driver = wants(9, 6, 6, activation_intervals=2)
    driver.see(job())
    assert driver.see(job()).parallelism["map"] == 9
    assert driver.see(job()).parallelism["map"] == 6


def test_activation_starts_anew_after_a_hold_and_after_a_rescale() -> None:
    driver = wants(6, None, 6, 6, activation_intervals=2)
    assert [driver.see(job()).changed for _ in range(4)] == [False, False, False, True]
    assert not driver.see(job(5)).changed


def rescaled(driver: Driver, before: Snapshot, after: Snapshot) -> Decision:
    assert driver.see(before).parallelism == after.parallelism
    return driver.see(after)


def test_rollback_of_what_made_things_worse() -> None:
    driver = wants(6, 6, 6, 7, rollback_loss=0.1)
    decision = rescaled(driver, job(4, throughput=40.0), job(6, throughput=30.0))
    assert codes(decision) == ["hold-judging"]  # the first window after a change may show anything
    decision = driver.see(job(6, throughput=30.0))
    assert decision.parallelism["map"] == 4
    assert numbers(decision, "rollback") == {"before": 40.0, "after": 30.0, "loss": 0.25, "limit": 0.1}
    waiting = driver.see(job(6, throughput=30.0))
    assert (waiting.parallelism["map"], codes(waiting)) == (4, ["rollback"])
    back = driver.see(job(4, throughput=40.0))
    assert (back.parallelism["map"], codes(back)) == (4, ["scripted", "rejected"])
    assert driver.see(job(4, rate=29.0, throughput=29.0)).parallelism["map"] == 6  # 30/s it did carry
    assert driver.see(job(4, throughput=40.0)).parallelism["map"] == 7  # another one may be tried


def test_a_first_window_that_shows_nothing_rejects_nothing() -> None:
    driver = wants(6, rollback_loss=0.1)
    rescaled(driver, job(4, throughput=40.0), job(6, throughput=0.0))
    assert driver.see(job(6, throughput=60.0)).parallelism["map"] == 6
    assert driver.state.rejected == ()


def test_what_was_rejected_may_be_tried_again_after_some_hours() -> None:
    driver = wants(6, rollback_loss=0.1)
    rescaled(driver, job(4, throughput=40.0), job(6, throughput=0.0))
    driver.see(job(6, throughput=0.0))
    assert driver.see(job(4, throughput=40.0)).parallelism["map"] == 4
    driver.now += FORGET_SECONDS
    assert driver.see(job(4, throughput=40.0)).parallelism["map"] == 6


def test_no_rollback_when_the_world_offers_less_or_the_loss_is_small_or_the_knob_is_not_set() -> None:
    cases: list[tuple[dict[str, Any], Snapshot]] = [
        ({"rollback_loss": 0.1}, job(6, rate=30.0, throughput=30.0)),
        ({"rollback_loss": 0.3}, job(6, throughput=30.0)),
        ({}, job(6, throughput=30.0)),
    ]
    for knobs, after in cases:
        assert rescaled(wants(6, **knobs), job(4, throughput=40.0), after).parallelism["map"] == 6


def test_only_our_own_rescales_are_rolled_back() -> None:
    driver = wants(4, 9, rollback_loss=0.1)
    driver.see(job(4, throughput=40.0))
    assert driver.see(job(6, throughput=30.0)).parallelism["map"] == 9


def test_a_rescale_that_cannot_be_judged_is_said_to_be_so() -> None:
    decision = rescaled(wants(6, rollback_loss=0.1), job(4, throughput=40.0), job(6))
    assert codes(decision) == ["not-judged", "scripted"]


def test_a_number_of_small_gains_ends_scaling_up() -> None:
    driver = wants(6, 8, 10, 10, 10, 2, small_gain=0.1, max_small_gains=2)
    rescaled(driver, job(4, rate=100.0, throughput=40.0), job(6, rate=100.0, throughput=42.0))
    decision = driver.see(job(8, rate=100.0, throughput=43.0))
    assert decision.parallelism["map"] == 8
    assert numbers(decision, "small-gains") == {"small_gains": 2, "limit": 2}
    assert driver.see(job(8, rate=100.0, throughput=43.0)).parallelism["map"] == 8
    assert driver.see(job(8, rate=40.0, throughput=40.0)).parallelism["map"] == 10  # less is offered: all is forgotten
    assert driver.see(job(8, rate=100.0, throughput=43.0)).parallelism["map"] == 2  # down is always allowed


def test_what_counts_as_small_is_a_knob_and_a_large_gain_starts_the_count_anew() -> None:
    for gain, expected in ((0.01, 10), (0.1, 8)):
        driver = wants(6, 8, 10, small_gain=gain, max_small_gains=2)
        rescaled(driver, job(4, rate=100.0, throughput=40.0), job(6, rate=100.0, throughput=42.0))
        assert driver.see(job(8, rate=100.0, throughput=43.0)).parallelism["map"] == expected
    driver = wants(6, 8, 10, small_gain=0.1, max_small_gains=2)
    rescaled(driver, job(4, rate=100.0, throughput=40.0), job(6, rate=100.0, throughput=42.0))
    assert driver.see(job(8, rate=100.0, throughput=60.0)).parallelism["map"] == 10


def slower(k: int, capacity: float) -> Snapshot:
    return chain_snapshot({"source": 1, "map": k}, {**CAPACITY, "map": capacity}, 100.0)


def test_ineffective_scaling_is_shown_with_numbers_and_not_repeated() -> None:
    driver = wants(8, 12, 12, 3, 12, min_effectiveness=0.3)
    assert codes(rescaled(driver, slower(4, 10.0), slower(8, 5.5))) == ["hold-judging"]
    decision = driver.see(slower(8, 5.5))
    assert decision.parallelism["map"] == 8
    assert numbers(decision, "ineffective-scaling") == {
        "operator": "map",
        "added": pytest.approx(4.0),
        "expected": 40.0,
        "least": 0.3,
    }
    assert codes(driver.see(slower(8, 5.5)))[-1] == "ineffective"
    assert driver.see(slower(8, 5.5)).parallelism["map"] == 3
    assert driver.see(slower(3, 10.0)).parallelism["map"] == 12  # below it, it may grow again


def test_a_job_that_comes_back_with_other_operators_starts_anew() -> None:
    driver = wants(8, 12, 12, min_effectiveness=0.3, activation_intervals=1, rollback_loss=0.1)
    rescaled(driver, slower(4, 10.0), slower(8, 5.5))
    driver.policy = create("ds2")
    other = chain_snapshot({"source": 1, "flatmap": 2}, {"source": 1000.0, "flatmap": 10.0}, 60.0)
    assert driver.see(other).parallelism == {"source": 1, "flatmap": 6}


def test_effective_scaling_goes_on() -> None:
    assert rescaled(wants(8, 12, min_effectiveness=0.3), slower(4, 10.0), slower(8, 8.0)).parallelism["map"] == 12
    assert rescaled(wants(8, 12), slower(4, 10.0), slower(8, 5.5)).parallelism["map"] == 12


def test_dead_band() -> None:
    assert ds2(dead_band=0.3).see(job(8)).parallelism["map"] == 8  # 75 % busy
    decision = ds2(dead_band=0.2, utilisation=0.6).see(job(8))
    assert decision.parallelism["map"] == 8
    assert numbers(decision, "dead-band") == {"utilisation": 0.6, "band": 0.2}
    assert ds2(dead_band=0.2).see(job(8)).parallelism["map"] == 6
    assert ds2(dead_band=0.5).see(job(5)).parallelism["map"] == 6  # more than all of its time: no band


@pytest.mark.parametrize("execution", ["shared", "micro-batch"])
def test_the_dead_band_looks_at_the_whole_job_where_operators_share(execution: Any) -> None:
    snapshot = chain_snapshot({"source": 8, "map": 8}, CAPACITY, 60.0, execution=execution, overhead_share=0.0)
    assert not ds2(dead_band=0.3).see(snapshot).changed
    assert ds2(dead_band=0.1).see(snapshot).changed


def test_a_backlog_is_seen_through_the_dead_band() -> None:
    """89 % busy, within the band, and a million records behind: 890/s of 1000/s."""
    knobs: dict[str, Any] = {"utilisation": 0.8, "dead_band": 0.1, "catch_up_seconds": 60.0}
    for backlog, changed in ((0, False), (1_000_000, True)):
        decision = ds2(**knobs).see(job(10, rate=89.0, backlog_records=backlog))
        assert decision.changed is changed
    driver = ds2(utilisation=0.8, dead_band=0.1)
    assert not driver.see(job(10, rate=89.0, backlog_records=20)).changed
    assert driver.see(job(10, rate=89.0, backlog_records=40)).changed  # it grows


def test_small_changes_are_ignored_unless_the_job_is_behind() -> None:
    decision = ds2(ignore_instances=2).see(job(8))
    assert (decision.changed, codes(decision)[-1]) == (False, "ignored")
    assert ds2(ignore_instances=1).see(job(8)).parallelism["map"] == 6
    assert wants(9, ignore_instances=1).see(job(8)).parallelism["map"] == 8
    assert wants(9, ignore_instances=1).see(job(8, backlog_records=600)).parallelism["map"] == 9
    assert ds2(ignore_instances=2).see(job(5)).parallelism["map"] == 6  # busier than it can be


def test_scale_down_goes_to_the_largest_recommendation_of_the_window() -> None:
    driver = wants(5, 9, 4, 4, 4, 4, scale_down_delay_seconds=180.0)
    down = [driver.see(job(12)).parallelism["map"] for _ in range(6)]
    assert down == [12, 12, 12, 9, 4, 4]  # what runs is a member of the window at first
    assert wants(20, scale_down_delay_seconds=180.0).see(job(12)).parallelism["map"] == 20


def test_the_scale_down_window_starts_anew_with_a_rescale() -> None:
    driver = wants(5, scale_down_delay_seconds=100.0)
    assert [driver.see(job(k)).parallelism["map"] for k in (12, 12, 10, 10, 10)] == [12, 12, 10, 10, 5]


def test_largest_steps() -> None:
    decision = wants(20, max_step_up=3).see(job(8))
    assert (decision.parallelism["map"], codes(decision)[-2:]) == (11, ["max-step", "below-need"])
    assert numbers(decision, "below-need") == {"need": 20, "given": 11}
    assert wants(2, max_step_down=3).see(job(8)).parallelism["map"] == 5
    assert wants(2, max_step_up=3).see(job(8)).parallelism["map"] == 2


def test_one_direction() -> None:
    assert [wants(k, direction="up").see(job(8)).parallelism["map"] for k in (4, 9)] == [8, 9]
    assert [wants(k, direction="down").see(job(8)).parallelism["map"] for k in (4, 9)] == [4, 8]
    assert codes(wants(4, direction="up").see(job(8)))[-1] == "direction"


def test_alignment_to_divisors() -> None:
    """Of 12: 1, 2, 3, 4, 6, 12. Up to the next that divides, or else to the largest; never against the direction."""
    aligned: dict[str, Any] = {"align_to": {"map": 12}}
    moves = {(4, 5): 6, (4, 7): 12, (12, 5): 6, (12, 11): 12, (4, 20): 12, (5, 5): 5, (12, 12): 12, (3, 4): 4}
    assert {(k, w): wants(w, **aligned).see(job(k)).parallelism["map"] for k, w in moves} == moves
    assert wants(5, maximum={"map": 5}, **aligned).see(job(3)).parallelism["map"] == 4
    assert codes(wants(5, **aligned).see(job(4)))[-1] == "aligned"
    decision = wants(13, **aligned).see(job(4))
    assert (decision.parallelism["map"], codes(decision)[-1]) == (12, "below-need")


def test_minimum_and_maximum() -> None:
    decision = wants(2, minimum={"map": 3}).see(job(8))
    assert (decision.parallelism["map"], codes(decision)[-1]) == (3, "bounds")
    assert wants(20, maximum={"map": 10}).see(job(8)).parallelism["map"] == 10
    assert wants(8, maximum={"map": 5}).see(job(8)).parallelism["map"] == 5


def test_a_policy_cannot_leave_the_jobs_own_bounds() -> None:
    snapshot = job(4, operators={"map": {"minimum": 3, "maximum": 7}})
    assert [wants(k).see(snapshot).parallelism["map"] for k in (1, 100)] == [3, 7]


def test_excluded_operators_stay_as_they_run() -> None:
    decision = ds2(excluded=("map",)).see(job())
    assert (decision.changed, codes(decision)[-2:]) == (False, ["excluded", "below-need"])


def test_pinned_operators_get_their_number_and_keep_it() -> None:
    driver = ds2(pinned={"map": 9})
    decision = driver.see(job())
    assert (decision.parallelism["map"], codes(decision)[-1]) == (9, "pinned")
    assert not driver.see(job(9)).changed
    assert not driver.see(job(9, rate=600.0)).changed


def test_a_quota_cuts_above_the_need_and_says_so() -> None:
    snapshot = chain_snapshot({"source": 1, "map": 4}, CAPACITY, 60.0)
    driver = Driver(ScriptedPolicy([{"source": 4, "map": 10}]), quota=10)
    decision = driver.see(snapshot)
    assert sum(decision.parallelism.values()) == 10
    assert decision.parallelism["map"] >= 6
    assert {"quota", "below-need"} <= set(codes(decision))
    assert ds2(quota=5).see(snapshot).parallelism == {"source": 1, "map": 4}
    stages = chain_snapshot({"source": 4, "map": 4}, CAPACITY, 60.0, execution="micro-batch")
    assert max(ds2(quota=5).see(stages).parallelism.values()) <= 5


def test_shared_workers_are_not_torn_apart() -> None:
    snapshot = chain_snapshot({"source": 4, "map": 4}, CAPACITY, 60.0, execution="shared")
    assert ds2().see(snapshot).parallelism == {"source": 7, "map": 7}
    decision = ds2(pinned={"map": 9}).see(snapshot)
    assert (decision.changed, codes(decision)[-2:]) == (False, ["shared-workers", "below-need"])


# --- Together


def test_a_hold_of_the_policy_is_a_hold() -> None:
    decision = wants(None, minimum={"map": 9}, pinned={"source": 3}).see(job())
    assert (decision.changed, codes(decision)) == (False, ["hold-scripted"])


def read_knobs() -> set[str]:
    """Every attribute that the manager's code takes from its knobs."""
    modules = (scaling_manager, gates, adjustments, guards, manager_state, rescale_feedback)
    trees = [ast.parse(Path(module.__file__ or "").read_text()) for module in modules]
    return {node.attr for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def test_every_knob_is_read_by_code_and_tested_here() -> None:
    names = {field.name for field in fields(Knobs)}
    assert names <= read_knobs()
    here = Path(__file__).read_text()
    assert not {name for name in names if f"{name}=" not in here and f'"{name}"' not in here}


@pytest.mark.parametrize(
    ("knobs", "problem"),
    [
        ({"interval_seconds": -1}, "interval_seconds: must not be negative"),
        ({"utilisation": 0}, "utilisation: must be above zero"),
        ({"utilisation": 1.5}, "utilisation: must lie between 0 and 1"),
        ({"activation_intervals": 0}, "activation_intervals: must be at least 1"),
        ({"warm_up_intervals": 1.5}, "warm_up_intervals"),
        ({"restart_seconds": 30}, "restart_seconds: has no effect without catch_up_seconds"),
        ({"backlog_seconds": 3}, "backlog_seconds: has no effect without catch_up_seconds"),
        ({"catch_up_seconds": 0}, "catch_up_seconds: must be above zero"),
        ({"minimum": {"map": 4}, "maximum": {"map": 3}}, "maximum.map: is below the minimum of 4"),
        ({"excluded": ["map"], "pinned": {"map": 3}}, "pinned.map: is excluded too"),
        ({"direction": "sideways"}, "direction: is not one of the allowed values"),
        ({"activation": "mean"}, "activation: is not one of the allowed values"),
        ({"align_to": {"map": 0}}, "align_to.map: must be at least 1"),
        ({"cooldown": 3}, "cooldown: is not a known key"),
        ({"paused": "yes"}, "paused"),
    ],
)
def test_knobs_that_cannot_be(knobs: dict[str, object], problem: str) -> None:
    with pytest.raises(InputError) as caught:
        validate(knobs, Knobs, place="job.yaml: manager")
    assert problem in str(caught.value)


def test_knobs_read_from_a_file() -> None:
    knobs = validate({"excluded": ["map"], "minimum": {"map": 2}, "direction": "up"}, Knobs, place="job.yaml: manager")
    assert knobs == Knobs(excluded=("map",), minimum={"map": 2}, direction="up")


@pytest.mark.parametrize(
    ("knobs", "problem"),
    [
        ({"pinned": {"mop": 3}}, "pinned.mop: names an operator that does not exist; use one of source, map"),
        ({"excluded": ("mop",)}, "excluded.mop: names an operator that does not exist"),
        ({"minimum": {"map": 65}}, "minimum.map: leaves no parallelism: 65 or more, 64 at most"),
        ({"pinned": {"map": 65}}, "pinned.map: is outside of 1 to 64"),
    ],
)
def test_knobs_that_do_not_fit_the_job(knobs: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        ds2(**knobs).see(job())


@st.composite
def any_knobs(draw: st.DrawFn) -> Knobs:
    some = st.one_of(st.none(), st.integers(1, 5))
    names = st.sampled_from(["op0", "op1"])
    least = draw(st.dictionaries(names, st.integers(1, 4)))
    return Knobs(
        warm_up_intervals=draw(st.integers(0, 1)),
        target_rate_ratio=draw(st.sampled_from([None, 0.9])),
        utilisation=draw(st.sampled_from([1.0, 0.7])),
        catch_up_seconds=draw(st.sampled_from([None, 60.0])),
        activation_intervals=draw(st.integers(1, 2)),
        rollback_loss=draw(st.sampled_from([None, 0.1])),
        max_small_gains=draw(some),
        small_gain=0.05,
        min_effectiveness=draw(st.sampled_from([None, 0.5])),
        dead_band=draw(st.sampled_from([0.0, 0.3])),
        ignore_instances=draw(st.integers(0, 2)),
        scale_down_delay_seconds=draw(st.sampled_from([0.0, 90.0])),
        max_step_up=draw(some),
        max_step_down=draw(some),
        direction=draw(st.sampled_from(["both", "up", "down"])),
        align_to=draw(st.dictionaries(names, st.integers(1, 24))),
        minimum=least,
        maximum={name: k + draw(st.integers(0, 30)) for name, k in least.items()},
    )


@st.composite
def stories(draw: st.DrawFn) -> tuple[Knobs, list[Snapshot]]:
    """A few windows of one job: rates and throughput differ, what runs is what was drawn or what was asked for."""
    execution = draw(st.sampled_from(["pipelined", "micro-batch"]))
    first = draw(snapshots(execution=execution, max_operators=3).filter(lambda s: len(s.operators) > 1))
    looks = [
        replace(
            first,
            source_rates={name: draw(st.floats(0.0, 1e5)) for name in first.source_rates},
            throughput=draw(st.one_of(st.none(), st.floats(0.0, 1e5))),
        )
        for _ in range(3)
    ]
    return draw(any_knobs()), [first, *looks]


def running(snapshot: Snapshot, parallelism: Mapping[str, int]) -> Snapshot:
    """The snapshot as if this parallelism ran, where sums allow to say so."""
    operators = {
        name: metrics if metrics.instances else replace(metrics, parallelism=parallelism[name])
        for name, metrics in snapshot.operators.items()
    }
    return replace(snapshot, operators=operators)


@given(stories(), st.booleans())
def test_whatever_happens_bounds_hold_and_holds_hold(story: tuple[Knobs, list[Snapshot]], obeyed: bool) -> None:
    knobs, looks = story
    state, policy = ManagerState(), create("ds2")
    decision: Decision | None = None
    for i, look in enumerate(looks):
        snapshot = running(look, decision.parallelism) if decision and obeyed else look
        state, decision, _ = manage(knobs, policy, state, snapshot, i * 60.0)
        assert decision.changed == (decision.parallelism != snapshot.parallelism)
        if any(code.startswith("hold") for code in codes(decision)):
            assert not decision.changed
        assert decision.reasons
        for name, k in decision.parallelism.items():
            moved = k != snapshot.parallelism[name]
            assert 1 <= k <= P_MAX
            assert not moved or knobs.minimum.get(name, 1) <= k <= knobs.maximum.get(name, P_MAX)
            assert not moved or k > snapshot.parallelism[name] or knobs.direction != "up" or name in knobs.maximum


@given(stories())
def test_the_same_step_twice_says_the_same(story: tuple[Knobs, list[Snapshot]]) -> None:
    knobs, looks = story
    policy, state = create("ds2"), ManagerState()
    for i, look in enumerate(looks):
        first = manage(knobs, policy, state, look, i * 60.0)
        assert manage(knobs, policy, state, look, i * 60.0) == first
        state = first[0]


@given(stories(), st.integers(1, P_MAX))
def test_pinned_stays_pinned(story: tuple[Knobs, list[Snapshot]], pin: int) -> None:
    knobs, looks = story
    pinned = replace(knobs, pinned={"op0": pin}, minimum={}, maximum={}, warm_up_intervals=0)
    state = ManagerState()
    for i, look in enumerate(looks):
        state, decision, _ = manage(pinned, create("ds2"), state, look, i * 60.0)
        if decision.changed:
            assert decision.parallelism["op0"] == pin


@given(snapshots(execution="pipelined"))
def test_what_ds2_wants_it_wants_again_when_it_runs(snapshot: Snapshot) -> None:
    once = create("ds2").decide(snapshot)
    there = running(snapshot, once.parallelism)
    again = create("ds2").decide(there)
    assert again.parallelism == once.parallelism


@pytest.mark.parametrize(("standstills", "stands"), [((), True), ((0.0, 0.0, 6.0), False), ((4.0, 0.0, 6.0), True)])
def test_whether_rescales_stop_the_job_is_what_was_seen(standstills: tuple[float, ...], stands: bool) -> None:
    """Of a job that keeps running a part of a scale-down is better than none."""
    assert ManagerState(standstills=standstills).rescales_stop_job == stands
