"""The contract suite of engines. Inherit the class and name a job that the engine can run:

    class TestMyEngine(EngineContract):
        calm = Demand({"source": 2, "count": 4}, {"source": 100.0})
        other = {"source": 1, "count": 4}
        hopeless = Demand({"source": 1, "count": 1}, {"source": 1e9})

        def open(self) -> Engine: ...

Each test gets its own engine. Override the `engine` fixture with a wider scope if it is slow to open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import pytest

from autotrascale.domain.errors import EngineError, InputError
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.trial import Trial, Verdict
from autotrascale.execute.engine import Engine


@dataclass(frozen=True)
class EngineDemand:
    """A parallelism, and the source rates in records per second to run it at."""

    parallelism: Mapping[str, int]
    source_rates: Mapping[str, float]


class EngineContract:
    """Tests that every engine must pass."""

    calm: ClassVar[EngineDemand]  # keeps up easily
    other: ClassVar[Mapping[str, int]]  # another parallelism that keeps up at the calm rates
    hopeless: ClassVar[EngineDemand]  # cannot keep up
    tolerance: ClassVar[float] = 0.02  # of throughput, and of clocks against the window

    def open(self) -> Engine:
        raise NotImplementedError("the inheriting class opens the engine")

    @pytest.fixture
    def engine(self) -> Iterator[Engine]:
        with self.open() as engine:
            yield engine

    def test_a_calm_job_is_stable_and_keeps_up(self, engine: Engine) -> None:
        trial = run_trial(engine, self.calm)
        snapshot = stable_snapshot(trial)
        assert not engine.simulated or trial.shortage is None  # a simulated machine is never short of anything
        assert snapshot.throughput is not None
        assert snapshot.throughput >= snapshot.target_rate * (1 - self.tolerance)
        assert snapshot.latency_seconds.mean is not None

    def test_the_trial_has_the_request_and_the_snapshot_has_the_running_job(self, engine: Engine) -> None:
        trial = run_trial(engine, self.calm)
        assert dict(trial.parallelism) == dict(self.calm.parallelism)
        assert stable_snapshot(trial).parallelism == dict(self.calm.parallelism)
        assert dict(stable_snapshot(trial).source_rates) == dict(self.calm.source_rates)

    def test_every_operator_reports_its_work(self, engine: Engine) -> None:
        for name, operator in stable_snapshot(run_trial(engine, self.calm)).operators.items():
            total = operator.total
            assert total.records_in is not None, name
            assert total.records_out is not None, name
            assert total.useful_seconds is not None, name
            assert total.useful_seconds > 0, name
            assert operator.silent_instances == 0, name

    def test_no_instance_is_useful_for_longer_than_the_window(self, engine: Engine) -> None:
        snapshot = stable_snapshot(run_trial(engine, self.calm))
        for name, operator in snapshot.operators.items():
            for work in operator.instances:
                assert (work.useful_seconds or 0.0) <= snapshot.window_seconds * (1 + self.tolerance), name

    def test_quantiles_of_latency_rise(self, engine: Engine) -> None:
        latency = stable_snapshot(run_trial(engine, self.calm)).latency_seconds
        known = [value for value in (latency.p50, latency.p95, latency.p99) if value is not None]
        assert known == sorted(known)

    def test_an_unchanged_parallelism_causes_no_standstill_and_a_change_reports_its_own(self, engine: Engine) -> None:
        run_trial(engine, self.calm)
        assert run_trial(engine, self.calm).standstill_seconds == 0
        moved = run_trial(engine, EngineDemand(self.other, self.calm.source_rates))
        assert moved.standstill_seconds > 0
        assert stable_snapshot(moved).parallelism == dict(self.other)

    def test_falling_behind_is_a_verdict(self, engine: Engine) -> None:
        trial = run_trial(engine, self.hopeless)
        assert trial.verdict is Verdict.CANNOT_KEEP_UP
        if trial.snapshot is not None and trial.snapshot.throughput is not None:
            assert trial.snapshot.throughput < sum(self.hopeless.source_rates.values())

    def test_a_parallelism_for_other_operators_is_refused(self, engine: Engine) -> None:
        _, *others = self.calm.parallelism
        for wrong in (dict.fromkeys(others, 1), {**self.calm.parallelism, "no-such-operator": 1}):
            assert_refused(engine, EngineDemand(wrong, self.calm.source_rates))

    @pytest.mark.parametrize("instances", [0, -1, True, 1.0, 10**9])
    def test_an_impossible_number_of_instances_is_refused(self, engine: Engine, instances: int) -> None:
        name = next(iter(self.calm.parallelism))
        assert_refused(engine, EngineDemand({**self.calm.parallelism, name: instances}, self.calm.source_rates))

    def test_rates_of_unknown_sources_are_refused(self, engine: Engine) -> None:
        assert_refused(engine, EngineDemand(self.calm.parallelism, {**self.calm.source_rates, "no-such-source": 1.0}))
        assert_refused(engine, EngineDemand(self.calm.parallelism, {}))

    def test_a_refusal_leaves_the_job_as_it_was(self, engine: Engine) -> None:
        run_trial(engine, self.calm)
        assert_refused(engine, EngineDemand(self.calm.parallelism, {}))
        assert run_trial(engine, self.calm).standstill_seconds == 0

    def test_an_engine_may_be_closed_twice_and_then_runs_nothing(self) -> None:
        engine = self.open()
        engine.close()
        engine.close()
        with pytest.raises(EngineError):
            run_trial(engine, self.calm)

    def test_it_reports_whether_it_is_simulated(self, engine: Engine) -> None:
        assert isinstance(engine.simulated, bool)


def run_trial(engine: Engine, demand: EngineDemand) -> Trial:
    return engine.run(demand.parallelism, demand.source_rates)


def stable_snapshot(trial: Trial) -> Snapshot:
    assert trial.verdict is Verdict.STABLE, trial.detail
    assert trial.snapshot is not None
    return trial.snapshot


def assert_refused(engine: Engine, demand: EngineDemand) -> None:
    """Assert that bad input raises an error of one line, and gives no verdict about the job."""
    with pytest.raises(InputError) as caught:
        run_trial(engine, demand)
    assert "\n" not in str(caught.value)
