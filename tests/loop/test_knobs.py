"""Every knob moves a decision of the whole loop in the direction that it names; `tests/plan/test_manager.py` has the
same for the manager around any policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any

import pytest

from autotrascale.domain.observation import Observation
from autotrascale.domain.target import Target
from autotrascale.loop import Loop, LoopCollaborators, LoopListener
from autotrascale.plan.control.autoscaling.autoscaling_plan import PlanningSettings
from autotrascale.plan.control.autoscaling.prediction import AutoscalingSettings
from autotrascale.plan.control.loop_state import Rules
from autotrascale.plan.control.manager.knobs import Knobs
from autotrascale.testing.scripted_live import ScriptedLive, stale_metrics
from tests.loop.scripts import TOPOLOGY, queue

Rate = Callable[[float], float]
BASE = Knobs(interval_seconds=30.0, running_seconds=60.0)
WITH_BACKLOG = replace(BASE, catch_up_seconds=300.0, backlog_seconds=1.0)


class Contended(ScriptedLive):
    """More than eight workers get into each other's way, which the true rates do not show: `loss` for each of them."""

    loss: float = 0.0
    optimism: float = 1.0  # what the true rates promise, over what is carried

    def _carried(self, offered: float) -> float:
        work = (self.running or {})["work"]
        most = min(1000.0 * (self.running or {})["source"], 50.0 * work / self.optimism)
        most *= max(0.1, 1 - self.loss * max(0, work - 8))
        return most if self.backlog > 0 else min(offered, most)


@dataclass
class Run:
    asked: list[tuple[float, dict[str, int]]]
    ended: dict[str, int]
    codes: set[str]
    instances: float  # of `work`, on average

    @property
    def first(self) -> float:
        return self.asked[0][0] if self.asked else float("inf")

    @property
    def most(self) -> int:
        return max((k["work"] for _, k in self.asked), default=0)

    @property
    def downs(self) -> int:
        return sum(b < a for a, b in pairwise([3, *(k["work"] for _, k in self.asked)]))


def steps(*levels: float, every: float = 1800.0) -> Rate:
    return lambda t: levels[min(len(levels) - 1, int(t // every))]


def ramp(t: float) -> float:
    return 100.0 + max(0.0, t - 1200.0) / 20


def run(
    rules: Rules,
    rate: Rate,
    seconds: float,
    *,
    job: type[ScriptedLive] = ScriptedLive,
    start: int = 3,
    standstill_seconds: float = 2.0,
    looks: Mapping[int, Any] | None = None,
    **more: Any,
) -> Run:
    live = job(
        TOPOLOGY,
        {"source": 1000.0, "work": 50.0},
        rate,
        queue,
        p_max=40,
        standstill_seconds=standstill_seconds,
        looks=looks or {},
    )
    for name, value in more.items():
        setattr(live, name, value)
    asked: list[tuple[float, dict[str, int]]] = []
    codes: set[str] = set()
    ran: list[int] = []

    class Watch(LoopListener):
        def on_entry(self, state: object, entry: Any) -> None:  # noqa: ARG002 - the signature of a listener
            codes.update(reason.code for reason in entry.reasons)
            ran.append((live.running or {})["work"])
            if entry.action == "rescale":
                asked.append((live.now, dict(entry.wanted)))

    Loop(live, rules, initial={"source": 1, "work": start}, around=LoopCollaborators(listener=Watch())).run(seconds)
    return Run(asked, dict(live.running or {}), codes, sum(ran) / len(ran))


def with_garbage(look: Observation) -> Observation:
    shot = look.snapshot
    if shot is None:
        return look
    work = shot.operators["work"]
    slow = replace(work, gc_seconds=0.5 * (work.useful_seconds or 0.0))
    return replace(look, snapshot=replace(shot, operators={**shot.operators, "work": slow}))


def without_backlog(look: Observation) -> Observation:
    return look if look.snapshot is None else replace(look, snapshot=replace(look.snapshot, backlog_records=None))


UP, DOWN = steps(100.0, 300.0), steps(100.0, 500.0, 100.0)
UP_UP = steps(100.0, 250.0, 500.0, every=600.0)
SHORT = {"seconds": 3600.0}
EVERY_LOOK = range(1, 10_000)
NO_BACKLOG = dict.fromkeys(EVERY_LOOK, without_backlog)

# knob → (value, base knobs, scenario, what must hold of the run without it and the run with it)
KNOBS: dict[str, tuple[Any, Knobs, dict[str, Any], Callable[[Run, Run], bool]]] = {
    "paused": (True, BASE, dict(rate=UP, **SHORT), lambda a, b: bool(a.asked) and not b.asked),
    "interval_seconds": (300.0, BASE, dict(rate=UP, **SHORT), lambda a, b: b.first > a.first),
    "warm_up_intervals": (20, BASE, dict(rate=UP_UP, **SHORT), lambda a, b: b.asked[1][0] > a.asked[1][0]),
    "running_seconds": (900.0, BASE, dict(rate=UP_UP, **SHORT), lambda a, b: b.asked[1][0] > a.asked[1][0]),
    "max_gc_share": (
        0.1,
        BASE,
        dict(rate=UP, looks=dict.fromkeys(EVERY_LOOK, with_garbage), **SHORT),
        lambda a, b: bool(a.asked) and not b.asked,
    ),
    "target_rate_ratio": (
        0.95,
        replace(WITH_BACKLOG, activation_intervals=3),
        dict(rate=steps(300.0), start=6, job=Contended, optimism=1.6, looks=NO_BACKLOG, **SHORT),
        lambda a, b: b.asked[0][1]["work"] > a.asked[0][1]["work"],
    ),
    "utilisation": (0.5, BASE, dict(rate=UP, **SHORT), lambda a, b: b.ended["work"] > a.ended["work"]),
    "catch_up_seconds": (20.0, WITH_BACKLOG, dict(rate=steps(100.0, 600.0), **SHORT), lambda a, b: b.most > a.most),
    "backlog_seconds": (
        1e6,
        replace(WITH_BACKLOG, catch_up_seconds=20.0),
        dict(rate=steps(100.0, 600.0), **SHORT),
        lambda a, b: b.most < a.most,
    ),
    "restart_seconds": (
        300.0,
        replace(WITH_BACKLOG, catch_up_seconds=200.0),
        dict(rate=UP, standstill_seconds=100.0, **SHORT),
        lambda a, b: b.asked[0][1]["work"] > a.asked[0][1]["work"],
    ),
    "activation_intervals": (10, BASE, dict(rate=UP, **SHORT), lambda a, b: b.first > a.first),
    "activation": (
        "median",
        replace(BASE, activation_intervals=9),
        {"rate": lambda t: 100 + t / 5, "seconds": 7200.0},
        lambda a, b: b.asked[0][1]["work"] < a.asked[0][1]["work"],
    ),
    "rollback_loss": (
        0.1,
        WITH_BACKLOG,
        dict(rate=steps(100.0, 600.0), job=Contended, loss=0.2, start=8, **SHORT),
        lambda a, b: "rollback" in b.codes and "rollback" not in a.codes,
    ),
    "max_small_gains": (
        1,
        replace(WITH_BACKLOG, small_gain=0.1),
        dict(rate=steps(100.0, 700.0), job=Contended, loss=0.1, start=8, **SHORT),
        lambda a, b: b.most < a.most or b.instances < a.instances,
    ),
    "small_gain": (
        0.9,
        replace(WITH_BACKLOG, max_small_gains=1, max_step_up=2),
        dict(rate=steps(100.0, 900.0), **SHORT),
        lambda a, b: b.instances < a.instances,
    ),
    "dead_band": (
        0.9,
        replace(BASE, utilisation=0.9),
        {"rate": DOWN, "seconds": 9000.0},
        lambda a, b: a.downs > 0 and b.downs == 0,
    ),
    "ignore_instances": (30, BASE, {"rate": DOWN, "seconds": 9000.0}, lambda a, b: a.downs > 0 and b.downs == 0),
    "scale_down_delay_seconds": (
        3000.0,
        BASE,
        {"rate": DOWN, "seconds": 9000.0},
        lambda a, b: b.instances > a.instances,
    ),
    "max_step_up": (1, BASE, dict(rate=UP, **SHORT), lambda a, b: b.asked[0][1]["work"] == 4 < a.asked[0][1]["work"]),
    "max_step_down": (2, BASE, {"rate": DOWN, "seconds": 9000.0}, lambda a, b: b.instances > a.instances),
    "direction": ("down", BASE, dict(rate=UP, **SHORT), lambda a, b: bool(a.asked) and not b.asked),
    "align_to": ({"work": 24}, BASE, dict(rate=UP, **SHORT), lambda _, b: all(24 % k["work"] == 0 for _, k in b.asked)),
    "minimum": ({"work": 12}, BASE, dict(rate=UP, **SHORT), lambda a, b: a.ended["work"] < 12 <= b.ended["work"]),
    "maximum": ({"work": 5}, BASE, dict(rate=UP, **SHORT), lambda a, b: a.ended["work"] > 5 >= b.ended["work"]),
    "excluded": (("work",), BASE, dict(rate=UP, **SHORT), lambda a, b: a.ended["work"] > 3 == b.ended["work"]),
    "pinned": (
        {"work": 9},
        BASE,
        {"rate": DOWN, "seconds": 9000.0},
        lambda a, b: a.ended["work"] < 9 == b.ended["work"],
    ),
    "quota": (6, BASE, dict(rate=UP, **SHORT), lambda a, b: sum(a.ended.values()) > 6 >= sum(b.ended.values())),
}


@pytest.mark.parametrize("knob", KNOBS)
def test_a_knob_of_the_manager_moves_what_the_loop_does(knob: str) -> None:
    value, base, scenario, holds = KNOBS[knob]
    without = run(Rules(AutoscalingSettings(Target(0.5)), base), **scenario)
    with_it = run(Rules(AutoscalingSettings(Target(0.5)), replace(base, **{knob: value})), **scenario)
    assert holds(without, with_it), (without, with_it)


def test_ineffective_operators_are_left_alone_by_the_loop() -> None:
    """The capacity of an instance falls as fast as there are more of them."""

    def shared(look: Observation) -> Observation:
        shot = look.snapshot
        if shot is None:
            return look
        work = shot.operators["work"]
        slow = replace(
            work,
            useful_seconds=min(
                shot.window_seconds * work.parallelism, (work.useful_seconds or 0.0) * work.parallelism / 3
            ),
        )
        return replace(look, snapshot=replace(shot, operators={**shot.operators, "work": slow}))

    looks = dict.fromkeys(EVERY_LOOK, shared)
    rules = Rules(AutoscalingSettings(Target(0.5)), WITH_BACKLOG)
    rising = steps(100.0, 300.0, 600.0)
    without = run(rules, rising, 5400.0, looks=looks)
    with_it = run(replace(rules, knobs=replace(WITH_BACKLOG, min_effectiveness=0.7)), rising, 5400.0, looks=looks)
    assert "ineffective-scaling" in with_it.codes
    assert with_it.most < without.most


PLANNING: dict[str, tuple[float, float, dict[str, Any], Callable[[Run, Run], bool]]] = {
    "headroom": (0.0, 0.6, dict(rate=UP, **SHORT), lambda a, b: b.ended["work"] > a.ended["work"]),
    "band": (1.05, 30.0, {"rate": DOWN, "seconds": 5400.0}, lambda a, b: b.instances > a.instances),
    "horizon_seconds": (60.0, 7200.0, {"rate": ramp, "seconds": 5400.0}, lambda a, b: b.most > a.most),
    "worth": (0.05, 0.95, {"rate": DOWN, "seconds": 9000.0}, lambda a, b: b.downs < a.downs),
    "recall_seconds": (60.0, 5000.0, {"rate": DOWN, "seconds": 9000.0}, lambda a, b: b.instances > a.instances),
    "review_seconds": (
        120.0,
        20_000.0,
        {"rate": steps(100.0), "start": 20, "seconds": 9000.0},
        lambda a, b: b.instances >= a.instances and b.first >= a.first,
    ),
    "late_worth": (
        1.0,
        600.0,
        {"rate": DOWN, "seconds": 9000.0, "standstill_seconds": 20.0},
        lambda a, b: a.downs > 0 and b.instances > a.instances,
    ),
}


@pytest.mark.parametrize("name", PLANNING)
def test_a_planning_setting_moves_what_the_loop_does(name: str) -> None:
    low, high, scenario, holds = PLANNING[name]
    rules = Rules(AutoscalingSettings(Target(0.5)), BASE)
    runs = [
        run(replace(rules, planning=replace(PlanningSettings(), **{name: value})), **scenario) for value in (low, high)
    ]
    assert holds(*runs), runs


def test_confidence_the_budget_and_the_age_of_metrics_move_what_the_loop_does() -> None:
    bold, sure = (run(Rules(AutoscalingSettings(Target(0.3), confidence=c), BASE), UP, 5400.0) for c in (0.3, 0.99))
    assert sure.asked[0][1]["work"] > bold.asked[0][1]["work"]
    swings = steps(*([100.0, 400.0] * 12), every=3600.0)
    many, few = (
        run(replace(Rules(AutoscalingSettings(Target(0.5)), BASE), rescales_per_day=n), swings, 80_000.0)
        for n in (50, 5)
    )
    assert few.downs < many.downs
    assert "budget" in few.codes
    old = dict.fromkeys(EVERY_LOOK, stale_metrics(40.0))
    patient, strict = (
        run(replace(Rules(AutoscalingSettings(Target(0.5)), BASE), stale_seconds=s), UP, 3600.0, looks=old)
        for s in (60.0, 20.0)
    )
    assert patient.asked
    assert not strict.asked


def test_no_knob_is_without_a_test() -> None:
    assert {each.name for each in fields(Knobs)} == set(KNOBS) | {"min_effectiveness"}
    assert {each.name for each in fields(PlanningSettings)} == set(PLANNING)
