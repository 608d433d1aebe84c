"""The stage times of simulated micro-batches, and the loads that sizing derives from them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotrascale.analyze.archive.snapshot_form import snapshot_as_dict
from autotrascale.domain.errors import InputError
from autotrascale.domain.snapshot import OperatorMetrics, Snapshot
from autotrascale.execute.simulator.engine import SimulatorEngine
from autotrascale.plan.sizing.sizing import Sizing, size
from autotrascale.validation import validate
from benchmarks.workloads import families
from benchmarks.workloads.case import Case
from benchmarks.workloads.problems import find_sustaining_floor
from benchmarks.workloads.shapes import RECIPES

EXACT = 1e-9
IN_BATCHES = tuple(name for name, recipe in RECIPES.items() if "micro-batch" in recipe.executions)


def observed(case: Case, k: tuple[int, ...], *, seed: int = 0, noise: float = 0.0) -> Snapshot:
    job = replace(case.job, noise=noise)
    engine = SimulatorEngine(job, case.topology, p_max=case.p_max, seed=seed, name=case.family)
    snapshot = engine.run(case.topology.named(k), case.source_rates).snapshot
    assert snapshot is not None
    return snapshot


def sized(snapshot: Snapshot, rate: float | None = None) -> Sizing:
    found = size(snapshot, rate=rate)
    assert isinstance(found, Sizing)
    return found


def untimed(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot of an engine that does not measure stages."""
    operators = {name: replace(each, stage_seconds=None) for name, each in snapshot.operators.items()}
    return replace(snapshot, operators=operators, slots=None)


def points(case: Case, rng: np.random.Generator, count: int = 4) -> Iterator[tuple[int, ...]]:
    """Yield the floor and points above it that sustain the rate. With waves or skew, the floor may not sustain it."""
    above = (tuple(int(rng.integers(low, case.p_max + 1)) for low in case.floor) for _ in range(count))
    for k in (case.floor, *above):
        if np.isfinite(case.compiled.steady(k).latency[0]):
            yield k


def in_batches(seed: int) -> Case:
    """Yield a micro-batch job of each family, without a target."""
    rng = np.random.default_rng(seed)
    if rng.random() < 0.2:
        return families.draw_case(str(rng.choice(["micro-batch", "stateful-micro-batch"])), int(rng.integers(200)))
    while True:
        family = str(rng.choice(IN_BATCHES))
        draft = RECIPES[family].draft(rng, None)
        floor = (
            find_sustaining_floor(draft.job(), draft.topology, draft.rates, draft.p_max) if draft.is_batched else None
        )
        if floor is not None:
            return Case(family, seed, draft.job(), draft.topology, draft.rates, floor, 1.0, draft.p_max)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32))
def test_what_no_stage_takes_of_a_batch_is_its_fixed_cost(seed: int) -> None:
    """Σ L_i / k_i = 1 − o/b holds in the steady state."""
    case = in_batches(seed)
    for k in points(case, np.random.default_rng(seed)):
        state, found = case.compiled.steady(k), sized(observed(case, k))
        busy = sum((each or 0.0) / own for each, own in zip(found.stage_loads, k, strict=True))
        assert busy == pytest.approx(1 - state.overhead_seconds[0] / state.batch_seconds[0], rel=EXACT)
        assert found.slots == case.job.batch.slots


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32))
def test_a_stage_lasts_no_shorter_than_its_records_say(seed: int) -> None:
    """Record counts show a hot key. Only the stage time shows waves, stragglers and calls to services."""
    case = in_batches(seed)
    for k in points(case, np.random.default_rng(seed)):
        snapshot = observed(case, k)
        by_records = sized(untimed(snapshot)).hottest
        assert all(lasts >= said * (1 - EXACT) for lasts, said in zip(sized(snapshot).hottest, by_records, strict=True))


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32), st.floats(0.2, 5.0))
def test_it_grows_with_the_rate_asked_about(seed: int, factor: float) -> None:
    case = in_batches(seed)
    snapshot = observed(case, case.floor, seed=seed, noise=case.job.noise)
    before, after = sized(snapshot), sized(snapshot, snapshot.target_rate * factor)
    assert after.stage_loads == pytest.approx(tuple(each and each * factor for each in before.stage_loads), rel=EXACT)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32))
def test_where_no_stage_was_timed_loads_and_skew_say_it(seed: int) -> None:
    case = in_batches(seed)
    found = sized(untimed(observed(case, case.floor)))
    assert (found.stage_loads, found.slots) == ((), None)
    assert found.hottest == tuple(
        low - 0.5 if load is None else load * skew
        for low, load, skew in zip(found.floor, found.load, found.skew, strict=True)
    )


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32), st.data())
def test_nothing_else_of_a_sizing_follows_it(seed: int, data: st.DataObject) -> None:
    """Loads of operators without stage times do not change either."""
    case = in_batches(seed)
    snapshot = observed(case, case.floor, seed=seed, noise=case.job.noise)
    blind = data.draw(st.sets(st.sampled_from(list(snapshot.operators))))
    partly = replace(
        snapshot,
        operators={
            name: replace(each, stage_seconds=None) if name in blind else each
            for name, each in snapshot.operators.items()
        },
    )
    found, whole, without = sized(partly), sized(snapshot), sized(untimed(snapshot))
    assert replace(found, stage_loads=(), slots=None) == without
    for name, each, timed, plain in zip(found.operators, found.hottest, whole.hottest, without.hottest, strict=True):
        assert each == (plain if name in blind else timed)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000))
def test_a_stage_lasts_as_much_longer_as_its_tasks_do(seed: int) -> None:
    """Stage and tasks have the same noise if all tasks are alike."""
    case = in_batches(seed)
    for k in points(case, np.random.default_rng(seed)):
        snapshot, exact = observed(case, k, seed=seed, noise=case.job.noise), observed(case, k)
        for name, metrics in snapshot.operators.items():
            known, noisy = exact.operators[name].stage_seconds, metrics.stage_seconds
            assert known is not None
            assert noisy is not None
            times = [(work.useful_seconds or 0.0) / (work.records_in or 1.0) for work in metrics.instances]
            calm = [(work.useful_seconds or 0.0) / (work.records_in or 1.0) for work in exact.operators[name].instances]
            cut = any(work.useful_seconds == snapshot.window_seconds for work in metrics.instances)
            if not cut and noisy < snapshot.window_seconds and snapshot.throughput == exact.throughput:
                noise = float(np.mean(np.array(times) / np.array(calm)))
                assert noisy == pytest.approx(known * noise, rel=1e-6)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 500))
def test_pipelines_have_no_stages(number: int) -> None:
    case = families.draw_case("diamond", number)
    snapshot = observed(case, case.floor, seed=number, noise=case.job.noise)
    assert snapshot == untimed(snapshot)
    assert sized(snapshot).stage_loads == ()


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32))
def test_snapshots_travel_as_json(seed: int) -> None:
    case = in_batches(seed)
    snapshot = observed(case, case.floor, seed=seed, noise=case.job.noise)
    assert validate(json.loads(json.dumps(snapshot_as_dict(snapshot))), Snapshot, place="here") == snapshot


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_no_stage_lasts_for_less_than_no_time(seconds: float) -> None:
    with pytest.raises(InputError, match="stage_seconds"):
        OperatorMetrics(parallelism=1, stage_seconds=seconds)


@pytest.mark.parametrize("slots", [0, -4, 2.5, True])
def test_slots_are_counted(slots: float) -> None:
    case = in_batches(0)
    snapshot = observed(case, case.floor)
    with pytest.raises(InputError, match="slots"):
        replace(snapshot, slots=slots)
    with pytest.raises(InputError, match="slots"):
        Sizing.of_loads((1,), (4,), slots=slots)  # type: ignore[arg-type]


@pytest.mark.parametrize("slots", [None, 12])
def test_a_stored_model_knows_the_slots(slots: int | None) -> None:
    sized = Sizing.of_loads((1, 2), (4, 4), (0.5, 1.5), rate=10.0, execution="micro-batch", slots=slots)
    assert sized.summarize(20.0).slots == slots
