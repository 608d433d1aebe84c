"""The simulated engine: the contract of engines, determinism, exact windows, and failures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.trial import Trial, Verdict
from autotrascale.execute.engine import Engine
from autotrascale.execute.simulator.engine import SimulatorEngine
from autotrascale.plan.sizing.demand import measure_demand
from autotrascale.plan.sizing.floor import compute_floor
from autotrascale.testing.engine_contract import EngineContract, EngineDemand, stable_snapshot
from benchmarks.workloads.case import Case
from benchmarks.workloads.families import FAMILIES, draw_case
from benchmarks.workloads.presets import SPARK_STALLED, WORDCOUNT, YAHOO


def engine_of(case: Case, seed: int = 0, noise: float | None = None) -> SimulatorEngine:
    job = case.job if noise is None else replace(case.job, noise=noise)
    return SimulatorEngine(job, case.topology, p_max=case.p_max, seed=seed, name=case.family)


def run(case: Case, k: tuple[int, ...], *, seed: int = 0, noise: float | None = None) -> Trial:
    return engine_of(case, seed, noise).run(case.topology.named(k), case.source_rates)


def seen(trial: Trial) -> Snapshot:
    assert trial.snapshot is not None
    return trial.snapshot


class TestPipelined(EngineContract):
    calm = EngineDemand(WORDCOUNT.topology.named((5, 6, 16, 14)), WORDCOUNT.source_rates)
    other = WORDCOUNT.topology.named((6, 6, 16, 14))
    hopeless = EngineDemand(WORDCOUNT.topology.named((1, 1, 1, 1)), WORDCOUNT.source_rates)

    def open(self) -> Engine:
        return engine_of(WORDCOUNT)


class TestMicroBatch(EngineContract):
    calm = EngineDemand(SPARK_STALLED.topology.named((1, 12, 2, 1)), SPARK_STALLED.source_rates)
    other = SPARK_STALLED.topology.named((1, 14, 2, 1))
    hopeless = EngineDemand(SPARK_STALLED.topology.named((1, 4, 1, 1)), SPARK_STALLED.source_rates)

    def open(self) -> Engine:
        return engine_of(SPARK_STALLED)


def test_the_same_runs_with_the_same_seed_give_the_same_trials() -> None:
    first, second = engine_of(WORDCOUNT, seed=3), engine_of(WORDCOUNT, seed=3)
    for k in [(5, 6, 16, 14), (8, 6, 16, 14), (5, 6, 16, 14)]:
        named = WORDCOUNT.topology.named(k)
        assert first.run(named, WORDCOUNT.source_rates) == second.run(named, WORDCOUNT.source_rates)


def test_what_other_engines_do_in_between_changes_nothing() -> None:
    alone, together, noisy = engine_of(YAHOO, seed=1), engine_of(YAHOO, seed=1), engine_of(WORDCOUNT, seed=1)
    named = YAHOO.topology.named((4, 2, 1, 1, 36))
    expected = [alone.run(named, YAHOO.source_rates) for _ in range(3)]
    for trial in expected:
        assert together.run(named, YAHOO.source_rates) == trial
        noisy.run(WORDCOUNT.topology.named((9, 9, 19, 19)), WORDCOUNT.source_rates)


def test_each_run_draws_new_noise_of_the_size_asked_for() -> None:
    engine = engine_of(WORDCOUNT)
    k = (5, 6, 16, 14)
    means = [
        seen(engine.run(WORDCOUNT.topology.named(k), WORDCOUNT.source_rates)).latency_seconds.mean for _ in range(200)
    ]
    logs = np.log(np.array(means, dtype=float) / WORDCOUNT.latency(k)[0])
    assert abs(logs.mean()) < 4 * 0.05 / np.sqrt(200)
    assert 0.04 < logs.std() < 0.06


@pytest.mark.parametrize("family", FAMILIES)
def test_ds2_recovers_the_true_rates_from_a_snapshot(family: str) -> None:
    for seed in range(5):
        case = draw_case(family, seed)
        k = tuple(min(case.p_max, x + 2) for x in case.floor)
        trial = run(case, k, seed=seed)
        true = case.compiled.steady(k).load[0]
        measured = measure_demand(seen(trial)).load
        for load, name in zip(true, case.topology, strict=True):
            # An average over k instances each with log-normal noise; six standard deviations.
            assert measured[name] == pytest.approx(load, rel=6 * case.job.noise)


def floor_from(case: Case, k: tuple[int, ...]) -> tuple[int, ...]:
    snapshot = seen(run(case, k, noise=0.0))
    return case.topology.vector(compute_floor(measure_demand(snapshot), snapshot).parallelism)


@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "stateful-micro-batch"])
def test_the_floor_rule_on_a_snapshot_at_the_floor_says_stay(family: str) -> None:
    for seed in range(10):
        case = draw_case(family, seed)
        assert floor_from(case, case.floor) == case.floor


def test_the_floor_rule_on_skewed_stages_ends_where_batches_are_short_enough() -> None:
    """The floor of a case assumes balanced operators, but a stage lasts as long as its hottest instance."""
    grew = 0
    for seed in range(10):
        case = draw_case("stateful-micro-batch", seed)
        k, found = case.floor, floor_from(case, case.floor)
        while found != k:
            k, found = found, floor_from(case, found)
        longest = case.job.batch.longest_seconds * (1 + 1e-9)
        assert case.compiled.steady(k).batch_seconds[0] <= longest
        grew += bool(case.compiled.steady(case.floor).batch_seconds[0] > longest)
    assert grew > 0


def test_the_overhead_share_makes_the_floor_rule_say_when_batches_get_too_long() -> None:
    """h + Σ load_i/k_i ≤ 1 holds if and only if the steady batch is within the allowed length."""
    case = SPARK_STALLED
    for k in [(1, 6, 1, 1), (1, 7, 2, 1), (1, 9, 2, 1), (2, 16, 4, 2), (16, 16, 16, 16)]:
        state = case.compiled.steady(k)
        h = seen(run(case, k, noise=0.0)).overhead_share
        fits = h + float((state.load[0] / k).sum()) <= 1
        assert fits == bool(state.batch_seconds[0] <= case.job.batch.longest_seconds)


@pytest.mark.parametrize("family", FAMILIES)
def test_records_that_come_in_go_out_or_wait(family: str) -> None:
    for seed in range(5):
        case = draw_case(family, seed)
        for k in (case.floor, tuple(max(1, x // 2) for x in case.floor)):
            snapshot = seen(run(case, k, seed=seed))
            waiting = sum(snapshot.operators[name].backlog_records or 0.0 for name in case.topology.sources)
            taken = sum(snapshot.operators[name].total.records_in or 0.0 for name in case.topology.sources)
            assert taken + waiting == pytest.approx(case.rate * snapshot.window_seconds)
            assert waiting == pytest.approx(snapshot.backlog_records)
            for name, operator in snapshot.operators.items():
                if operator.upstream:
                    fed = sum(snapshot.operators[up].total.records_out or 0.0 for up in operator.upstream)
                    assert operator.total.records_in == pytest.approx(fed), name


def test_skew_shows_in_the_hottest_instance() -> None:
    case = next(case for case in (draw_case("skewed", seed) for seed in range(20)) if max(case.floor) > 2)
    k = tuple(x + 2 for x in case.floor)
    for name, operator in seen(run(case, k, noise=0.0)).operators.items():
        records = [work.records_in or 0.0 for work in operator.instances]
        simulated, width = case.job.operators[name], operator.parallelism
        expected = max(1.0, min(simulated.skew, width), simulated.hot_share * width)
        assert max(records) / np.mean(records) == pytest.approx(expected)


def test_a_saturated_job_says_who_waits_for_whom() -> None:
    k = (5, 6, 6, 14)  # count is short
    trial = run(WORDCOUNT, k)
    assert trial.verdict is Verdict.CANNOT_KEEP_UP
    pressure = {name: operator.backpressure for name, operator in seen(trial).operators.items()}
    assert (pressure["source"] or 0) > 0.2
    assert (pressure["flatmap"] or 0) > 0.2
    assert pressure["count"] == pressure["sink"] == 0
    assert seen(trial).latency_seconds.mean is None


def test_input_of_batches_that_grow_is_held_up_before_the_longest_stage() -> None:
    calm, late = seen(run(SPARK_STALLED, SPARK_STALLED.floor)), seen(run(SPARK_STALLED, (1, 5, 1, 1)))
    assert not any(operator.backpressure for operator in calm.operators.values())
    carried = (late.throughput or 0.0) / late.target_rate
    assert carried < 0.9
    held_up = {name for name, operator in late.operators.items() if operator.backpressure}
    assert held_up == {"source"}  # flatmap, the stalled one, comes next
    assert late.operators["source"].backpressure == pytest.approx(1 - carried)
    assert late.operators["flatmap"].backlog_records == 0.0  # a batch is done whole


def test_redis_caps_yahoo_and_its_instances_look_slower_the_more_there_are() -> None:
    """AuTraScale Fig. 5(b), simulated: beyond (4, 2, 1, 1, 34) more instances bring no more throughput."""
    rates = {"source": 60e3}
    engine = engine_of(YAHOO, noise=0.0)
    k: tuple[int, ...] = (1, 1, 1, 1, 1)
    path = [k]
    throughputs = []
    for _ in range(4):
        snapshot = seen(engine.run(YAHOO.topology.named(k), rates))
        throughputs.append(snapshot.throughput)
        k = YAHOO.topology.vector(compute_floor(measure_demand(snapshot), snapshot).parallelism)
        path.append(k)
    assert path[1] == (4, 2, 1, 1, 34)
    assert path[2] == path[3] == (4, 2, 1, 1, 40)
    assert throughputs[1] == throughputs[2] == pytest.approx(37.5e3)


def test_failures_can_be_ordered() -> None:
    def fails(parallelism: object) -> str | None:
        return "out of memory" if parallelism == WORDCOUNT.topology.named((40, 40, 40, 40)) else None

    engine = SimulatorEngine(WORDCOUNT.job, WORDCOUNT.topology, p_max=40, fails=fails)
    broken = engine.run(WORDCOUNT.topology.named((40, 40, 40, 40)), WORDCOUNT.source_rates)
    assert (broken.verdict, broken.snapshot, broken.detail) == (Verdict.FAILED, None, "out of memory")
    assert (
        stable_snapshot(engine.run(WORDCOUNT.topology.named((5, 6, 16, 14)), WORDCOUNT.source_rates)).throughput
        == 350e3
    )


def test_moving_state_takes_longer_with_more_partitions() -> None:
    engine = engine_of(SPARK_STALLED)
    rates = SPARK_STALLED.source_rates
    engine.run(SPARK_STALLED.topology.named((1, 12, 2, 1)), rates)
    few = engine.run(SPARK_STALLED.topology.named((1, 12, 3, 1)), rates).standstill_seconds
    many = engine.run(SPARK_STALLED.topology.named((1, 12, 13, 1)), rates).standstill_seconds
    assert many - few == pytest.approx(10 * SPARK_STALLED.job.rescale.partition_seconds)


def test_without_records_there_is_no_latency() -> None:
    snapshot = stable_snapshot(engine_of(WORDCOUNT).run(WORDCOUNT.topology.named(WORDCOUNT.floor), {"source": 0.0}))
    assert snapshot.throughput == 0
    assert snapshot.latency_seconds.mean is None
