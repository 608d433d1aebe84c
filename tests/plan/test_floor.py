from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrascale.domain.errors import InputError
from autotrascale.domain.snapshot import NarrowWork, Snapshot
from autotrascale.plan.sizing import floor as module
from autotrascale.plan.sizing.demand import measure_demand
from autotrascale.plan.sizing.floor import (
    Floor,
    compute_batch_latency,
    compute_batch_seconds,
    compute_busy_share,
    compute_floor,
    compute_stage_seconds,
    floor_micro_batch,
    floor_pipelined,
    floor_shared,
)
from autotrascale.testing.chain_snapshots import chain_snapshot
from autotrascale.testing.strategies import P_MAX, loads, snapshots
from autotrascale.validation import validate

GOLDEN = Path(__file__).parents[1] / "golden"


def floor_of(snapshot: Snapshot) -> Floor:
    return compute_floor(measure_demand(snapshot), snapshot)


def holds(snapshot: Snapshot, parallelism: dict[str, int]) -> bool:
    """Return whether the job keeps up by the inequality of the model, with a margin for rounding."""
    load = [value or 0.0 for value in measure_demand(snapshot).load.values()]
    k = list(parallelism.values())
    return (
        compute_busy_share(snapshot.execution, snapshot.overhead_share or 0.0, load, k, hot_shares(snapshot))
        <= 1 + 2e-9
    )


def hot_shares(snapshot: Snapshot) -> list[float]:
    return [metrics.hot_share for metrics in snapshot.operators.values()]


@pytest.mark.parametrize("case", json.loads((GOLDEN / "floor.json").read_text()), ids=lambda case: case["name"])
def test_golden_floors(case: dict[str, Any]) -> None:
    floor = floor_of(validate(case["snapshot"], Snapshot, place=case["name"]))
    assert floor.parallelism == case["parallelism"]
    assert floor.reachable


def test_golden_batch_shares() -> None:
    golden = json.loads((GOLDEN / "batch_share.json").read_text())
    for case in golden["cases"]:
        stages = sum(load / k for load, k in zip(golden["loads"], case["k"], strict=True))
        assert stages == pytest.approx(case["busy"])
        assert math.isfinite(compute_batch_seconds(0.5, golden["loads"], case["k"])) == case["keeps_up"]


@given(snapshots())
def test_the_floor_holds_the_rate_or_the_rate_is_out_of_reach(snapshot: Snapshot) -> None:
    floor = floor_of(snapshot)
    assert holds(snapshot, dict(floor.parallelism)) == floor.reachable
    assert all(1 <= k <= P_MAX for k in floor.parallelism.values())
    if snapshot.execution == "shared":
        assert len(set(floor.parallelism.values())) == 1


@given(snapshots())
def test_one_instance_less_does_not_hold_the_rate(snapshot: Snapshot) -> None:
    floor = floor_of(snapshot)
    if not floor.reachable:
        return
    if snapshot.execution == "shared":
        fewer = {name: k - 1 for name, k in floor.parallelism.items()}
        assert min(fewer.values()) == 0 or not holds(snapshot, fewer)
        return
    for name, k in floor.parallelism.items():
        assert k == 1 or not _holds_strictly(snapshot, {**floor.parallelism, name: k - 1})


def _holds_strictly(snapshot: Snapshot, parallelism: dict[str, int]) -> bool:
    load = [value or 0.0 for value in measure_demand(snapshot).load.values()]
    k = list(parallelism.values())
    return (
        compute_busy_share(snapshot.execution, snapshot.overhead_share or 0.0, load, k, hot_shares(snapshot))
        <= 1 - 2e-9
    )


@given(snapshots(), st.floats(1.0, 10.0))
def test_the_total_never_falls_when_rates_rise(snapshot: Snapshot, factor: float) -> None:
    faster = replace(snapshot, source_rates={n: rate * factor for n, rate in snapshot.source_rates.items()})
    assert sum(floor_of(faster).parallelism.values()) >= sum(floor_of(snapshot).parallelism.values())


@given(snapshots(bounded=True))
def test_bounds_of_operators_are_kept(snapshot: Snapshot) -> None:
    most = {name: min(metrics.maximum or P_MAX, P_MAX) for name, metrics in snapshot.operators.items()}
    least = {name: metrics.minimum for name, metrics in snapshot.operators.items()}
    if snapshot.execution == "shared" and max(least.values()) > min(most.values()):
        with pytest.raises(InputError, match="no common number of workers"):
            floor_of(snapshot)
        return
    floor = floor_of(snapshot)
    for name, k in floor.parallelism.items():
        assert least[name] <= k <= most[name]


@given(snapshots())
def test_reach_is_the_multiple_of_the_rate_that_the_bounds_sustain(snapshot: Snapshot) -> None:
    floor = floor_of(snapshot)
    if math.isinf(floor.reach) or snapshot.overhead_share == 1:
        return
    for share, reachable in ((0.999, True), (1.001, False)):
        rates = {name: rate * floor.reach * share for name, rate in snapshot.source_rates.items()}
        assert floor_of(replace(snapshot, source_rates=rates)).reachable == reachable


small = st.lists(st.one_of(st.just(0.0), st.floats(0.01, 6.0)), min_size=1, max_size=4)


@given(small, st.floats(0.0, 0.9), st.data())
def test_greedy_equals_exhaustive_search(loads: list[float], overhead: float, data: st.DataObject) -> None:
    lower = [data.draw(st.integers(1, 2)) for _ in loads]
    upper = [data.draw(st.integers(least, 6)) for least in lower]
    hot = [data.draw(st.sampled_from((0.0, 0.1, 0.9))) for _ in loads]
    found = floor_micro_batch(loads, lower, upper, overhead, hot)
    everything = product(*(range(least, most + 1) for least, most in zip(lower, upper, strict=True)))

    def busy(k: Sequence[int]) -> float:
        return compute_busy_share("micro-batch", overhead, loads, k, hot)

    enough = [sum(k) for k in everything if busy(k) <= 1 + 1e-9]
    if any(abs(busy(found) - 1 - 1e-9) < 1e-12 for _ in enough):
        return  # a sum at the edge of the slack depends on its order
    if enough:
        assert sum(found) == min(enough)
    else:
        assert found == [most if load else least for load, least, most in zip(loads, lower, upper, strict=True)]


@given(snapshots(execution="micro-batch"))
def test_a_stage_lasts_as_long_as_its_hottest_instance(snapshot: Snapshot) -> None:
    """This holds at the measured parallelism. No parallelism divides the records of a hot key."""
    loads = [value or 0.0 for value in measure_demand(snapshot).load.values()]
    k, hot = list(snapshot.parallelism.values()), hot_shares(snapshot)
    skews = [metrics.skew for metrics in snapshot.operators.values()]
    hottest = [load * skew / own for load, skew, own in zip(loads, skews, k, strict=True)]
    assert compute_stage_seconds(loads, k, hot) == pytest.approx(hottest)
    alone = [load * s for load, s in zip(loads, hot, strict=True)]
    for more in (k, [2 * own for own in k], [10**6] * len(k)):
        assert all(t >= least for t, least in zip(compute_stage_seconds(loads, more, hot), alone, strict=True))


def test_a_hot_key_is_not_divided() -> None:
    """With a load of 0.5, one of four instances receives 95 %: the stage lasts 0.475 s of each second at any k."""
    assert compute_stage_seconds([0.5], [4], [0.95 - 0.05 / 3]) == pytest.approx([0.475])
    even, hot = ([1.0, 4.0], [1, 1], [40, 40], 0.1), [0.0, 0.5]
    assert floor_micro_batch(*even) == [4, 7]
    assert floor_micro_batch([0.2, 1.0], [1, 1], [40, 40], 0.1, hot) == [2, 2]  # 0.1 + 0.1 + 0.75
    assert floor_micro_batch([0.2, 2.0], [1, 1], [40, 40], 0.1, hot) == [40, 40]  # 1 s of each second at any k


narrows = st.builds(NarrowWork, st.sampled_from((0.0, 0.2, 0.7, 1.0)), st.sampled_from((0.5, 1.0, 2.5, 4.0)))


@given(st.floats(0.01, 6.0), st.floats(0.0, 0.9), st.sampled_from((0.0, 0.1, 0.9)), narrows, st.integers(1, 8))
def test_the_floor_of_narrow_work_equals_exhaustive_search(
    load: float, overhead: float, hot: float, part: NarrowWork, most: int
) -> None:
    """For one operator: the least instances that suffice, else all instances that help."""
    (found,) = floor_micro_batch([load], [1], [most], overhead, [hot], [part])

    def busy(k: int) -> float:
        return compute_busy_share("micro-batch", overhead, [load], [k], [hot], [part])

    enough = [k for k in range(1, most + 1) if busy(k) <= 1 + 1e-9]
    if any(abs(busy(k) - 1 - 1e-9) < 1e-12 for k in range(1, most + 1)):
        return
    useful = most if part.share < 1 else min(most, math.ceil(part.width))
    assert found == min(enough, default=useful)
    assert busy(useful) == pytest.approx(busy(most))


@given(small, st.floats(0.0, 0.9), st.data())
def test_narrow_work_never_lowers_the_floor_and_holds_the_rate_if_possible(
    loads: list[float], overhead: float, data: st.DataObject
) -> None:
    lower, upper = [1] * len(loads), [data.draw(st.integers(1, 6)) for _ in loads]
    narrow = [data.draw(st.none() | narrows) for _ in loads]
    found = floor_micro_batch(loads, lower, upper, overhead, narrow=narrow)
    assert all(least <= k <= most for least, k, most in zip(lower, found, upper, strict=True))
    assert (compute_busy_share("micro-batch", overhead, loads, found, (), narrow) <= 1 + 2e-9) or (
        compute_busy_share("micro-batch", overhead, loads, upper, (), narrow) > 1
    )
    wide = [None if part is None else replace(part, width=100.0) for part in narrow]
    assert floor_micro_batch(loads, lower, upper, overhead, narrow=[None] * len(loads)) == floor_micro_batch(
        loads, lower, upper, overhead
    )
    wider = floor_micro_batch(loads, lower, upper, overhead, narrow=wide)
    if compute_busy_share("micro-batch", overhead, loads, found, (), narrow) <= 1:
        assert sum(wider) <= sum(found)


@given(loads, st.integers(1, 40), narrows)
def test_more_instances_than_its_width_do_not_shorten_narrow_work(loads: list[float], k: int, part: NarrowWork) -> None:
    now, more = (compute_stage_seconds(loads, [own] * len(loads), (), [part] * len(loads)) for own in (k, k + 1))
    for load, t, then in zip(loads, now, more, strict=True):
        assert t >= then * (1 - 1e-12)
        assert t * (1 + 1e-9) >= max(load / k, load * part.share / part.width)
        if k <= part.width:
            assert t == pytest.approx(load / k)


@given(snapshots(execution="micro-batch", max_operators=1), narrows, st.floats(0.0, 0.4))
def test_a_floor_with_scaling_loss_includes_narrow_work(snapshot: Snapshot, part: NarrowWork, loss: float) -> None:
    operators = {name: replace(metrics, narrow=part) for name, metrics in snapshot.operators.items()}
    narrow, demand = replace(snapshot, operators=operators), measure_demand(snapshot)
    (name,) = operators
    plain = compute_floor(demand, snapshot, {name: loss})
    found = compute_floor(demand, narrow, {name: loss})
    assert found.reach <= plain.reach * (1 + 1e-9)
    if found.reachable and plain.reachable:
        assert found.parallelism[name] >= plain.parallelism[name]


@given(loads, st.floats(0.0, 0.95), st.integers(1, 3), st.integers(40, 3000))
def test_the_start_by_bisection_leads_to_the_greedy_result(
    loads: list[float], overhead: float, least: int, most: int
) -> None:
    lower, upper = [least] * len(loads), [most] * len(loads)
    budget = 1 - overhead + 1e-9
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_FEW_STEPS", 0)
        jumped = floor_micro_batch(loads, lower, upper, overhead)
    if sum(load / most for load in loads) <= budget:
        assert jumped == module._greedy(loads, lower, upper, budget)


@pytest.mark.parametrize("loads", [[7.0] * 150, [0.001] * 500, [1e-3, 90.0, 5.0] * 20, [12.5] * 100 + [0.0] * 100])
def test_the_start_by_bisection_leads_to_the_greedy_result_for_large_and_equal_loads(loads: list[float]) -> None:
    lower, upper = [1] * len(loads), [50_000] * len(loads)
    assert floor_micro_batch(loads, lower, upper, 0.2) == module._greedy(loads, lower, upper, 0.8 + 1e-9)


@given(loads)
def test_pipelined_is_the_least_that_suffices(loads: list[float]) -> None:
    k = floor_pipelined(loads, [1] * len(loads), [10**6] * len(loads))
    for load, instances in zip(loads, k, strict=True):
        assert load <= instances * (1 + 1e-8)
        assert instances == 1 or load > (instances - 1) * (1 - 1e-8)


def test_rounding_adds_no_instance() -> None:
    for load in (10.000000000001, 9.999999999999, 0.1 * 3 / 0.3 * 10):
        assert floor_pipelined([load], [1], [40]) == [10]
        assert floor_shared([load / 2, load / 2], [1, 1], [40, 40]) == [10, 10]
    assert floor_pipelined([10.0001], [1], [40]) == [11]
    assert floor_micro_batch([0.1, 0.2, 0.7], [1, 1, 1], [9, 9, 9]) == [1, 1, 1]


def test_a_load_beyond_counting_ends_at_the_bound() -> None:
    assert floor_pipelined([1e300], [1], [40]) == [40]
    assert floor_micro_batch([1e300, 1.0], [1, 1], [40, 40]) == [40, 40]


def test_minimums_above_the_need_are_kept() -> None:
    assert floor_micro_batch([100.0] * 10, [2000] * 10, [4000] * 10) == [2000] * 10
    assert floor_micro_batch([100.0] * 10, [2000] * 9 + [1], [4000] * 10)[-1] == 182  # 100/k ≤ 1 − 9 · 100/2000


def test_a_rate_out_of_reach_has_a_reach_below_one() -> None:
    snapshot = chain_snapshot({"source": 1, "map": 1}, {"map": 1.0}, 100.0, p_max=40)
    floor = floor_of(snapshot)
    assert (dict(floor.parallelism), floor.reachable, floor.reach) == ({"source": 1, "map": 40}, False, 0.4)
    batches = floor_of(replace(snapshot, execution="micro-batch", overhead_share=0.5))
    assert batches.reach == pytest.approx(0.2)
    assert floor_of(replace(snapshot, execution="shared")).reach == pytest.approx(0.4)


def test_a_source_of_unknown_capacity_keeps_its_parallelism_within_its_bounds() -> None:
    snapshot = chain_snapshot({"source": 7, "map": 1}, {"map": 10.0}, 35.0, operators={"source": {"maximum": 5}})
    assert floor_of(snapshot).parallelism == {"source": 5, "map": 4}
    assert floor_of(replace(snapshot, execution="micro-batch")).parallelism == {"source": 5, "map": 4}
    assert floor_of(replace(snapshot, execution="shared")).parallelism == {"source": 4, "map": 4}


def test_no_demand_needs_the_minimum() -> None:
    snapshot = chain_snapshot(
        {"source": 7, "map": 9}, {"source": 1.0, "map": 10.0}, 0.0, operators={"map": {"minimum": 2}}
    )
    assert floor_of(snapshot).parallelism == {"source": 1, "map": 2}
    assert floor_of(snapshot).reach == math.inf


def test_a_demand_with_gaps_is_refused() -> None:
    snapshot = chain_snapshot({"source": 1, "map": 1}, {}, 10.0)
    with pytest.raises(InputError, match="map reports no useful time"):
        floor_of(snapshot)


def test_batch_time_and_latency() -> None:
    assert compute_batch_seconds(0.5, [3, 3], [8, 8]) == pytest.approx(2.0)
    assert compute_batch_latency(2.0) == 3.0
    assert compute_batch_seconds(0.5, [3, 3], [6, 6]) == math.inf
