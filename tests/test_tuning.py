from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from autotrascale.domain.errors import EngineError, InputError
from autotrascale.domain.job import Job
from autotrascale.domain.snapshot import Latency, OperatorMetrics
from autotrascale.domain.target import Target
from autotrascale.domain.topology import Operator, Topology
from autotrascale.domain.trial import Trial, Verdict
from autotrascale.execute.engine import Engine
from autotrascale.execute.simulator.engine import SimulatorEngine
from autotrascale.execute.simulator.simulated_job import SharedMachine, SimulatedJob, SimulatedOperator
from autotrascale.plan.search.score import Benefit
from autotrascale.testing.engine_contract import EngineContract, EngineDemand
from autotrascale.testing.scripted_engine import ScriptedEngine
from autotrascale.tuning import Evaluation, JournalledTrial, Outcome, TuningProgress, TuningSettings, tune


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Ten by ten matrices on as many threads as there are cores wait for each other, and long on a busy machine."""
    with threadpool_limits(1):
        yield


CHAIN = Topology.chain("source", "work", "sink")
CAPACITY = {"source": 100.0, "work": 40.0, "sink": 60.0}  # 150/s want (2, 4, 3)
FLOOR = {"source": 2, "work": 4, "sink": 3}


def job(rate: float = 150.0, target: float = 0.7, p_max: int = 12, **changes: Any) -> Job:
    given = {"name": "scripted", "topology": CHAIN, "source_rates": {"source": rate}, "target": Target(target)}
    return Job(**{**given, "p_max": p_max, **changes})


def falling(parallelism: Mapping[str, int]) -> float:
    """0.94 s at the floor, 0.7 s at a quarter more of everything."""
    return 0.04 + sum(0.3 * (FLOOR[name] / k) ** 1.5 for name, k in parallelism.items())


def engine(**changes: Any) -> ScriptedEngine:
    return ScriptedEngine(**{"topology": CHAIN, "capacity": CAPACITY, "latency": falling, "p_max": 12, **changes})


def phases(outcome: Outcome) -> list[str]:
    return [evaluation.phase for evaluation in outcome.evaluations]


class TestScriptedEngine(EngineContract):
    calm: ClassVar[EngineDemand] = EngineDemand(FLOOR, {"source": 120.0})
    other: ClassVar[Mapping[str, int]] = {"source": 2, "work": 5, "sink": 3}
    hopeless: ClassVar[EngineDemand] = EngineDemand({"source": 1, "work": 1, "sink": 1}, {"source": 1e9})

    def open(self) -> Engine:
        return engine()


# --- the order -------------------------------------------------------------------------------------------------------


def test_floor_then_search_then_done() -> None:
    ran = engine()
    outcome = tune(job(), ran)
    assert dict(outcome.floor) == FLOOR
    assert phases(outcome)[:2] == ["floor", "floor"]
    assert "floor" not in phases(outcome)[2:]
    assert [dict(e.parallelism) for e in outcome.evaluations] == ran.asked
    assert ran.asked[:2] == [{"source": 1, "work": 1, "sink": 1}, FLOOR]
    assert outcome.met_target
    assert outcome.stop_reason == "target-met"
    assert outcome.simulated
    assert ran.closed == 0  # it is the caller's


def test_the_best_is_one_of_the_evaluations_and_scores_by_eq_4() -> None:
    outcome = tune(job(), engine())
    benefit = Benefit((2, 4, 3), 0.7, 0.5, 0.5)
    for evaluation in outcome.evaluations:
        k = tuple(evaluation.parallelism.values())
        if evaluation.phase == "floor":
            assert evaluation.score is None
        else:
            assert evaluation.latency_seconds == falling(evaluation.parallelism)
            assert evaluation.score == pytest.approx(float(benefit.score(k, evaluation.latency_seconds)))
    best = outcome.best
    assert any(e.number == best.number and e.parallelism == best.parallelism for e in outcome.evaluations)
    assert best.score == pytest.approx(
        float(benefit.score(tuple(best.parallelism.values()), best.latency_seconds or math.inf))
    )
    assert benefit.satisfied(tuple(best.parallelism.values()), best.latency_seconds or math.inf)


def test_a_floor_that_holds_the_latency_needs_no_search() -> None:
    outcome = tune(job(target=2.0), engine())
    assert phases(outcome) == ["floor", "floor"]
    assert dict(outcome.best.parallelism) == FLOOR
    assert outcome.best.score == 1.0
    assert outcome.stop_reason == "target-met"


def test_progress_is_said_before_and_after_each_trial_with_its_number() -> None:
    said: list[TuningProgress] = []
    clock = iter(range(1000))
    outcome = tune(
        job(), engine(), TuningSettings(total_trials=9), report=said.append, clock=lambda: float(next(clock))
    )
    assert [p.number for p in said] == [n for e in outcome.evaluations for n in (e.number, e.number)]
    assert [e.number for e in outcome.evaluations] == list(range(1, len(outcome.evaluations) + 1))
    assert [p.done for p in said[1::2]] == list(outcome.evaluations)
    assert all(p.done is None for p in said[::2])
    assert all(p.total == 9 for p in said)
    assert said[0].seconds_left is None
    assert said[1].seconds_left == 8.0
    assert {e.seconds for e in outcome.evaluations} == {1.0}


def test_a_reading_close_to_the_target_is_confirmed_at_the_same_configuration() -> None:
    """0.499 s for 0.5 s meets the rule and says little: a second look, but no third."""
    ran = engine(latency=lambda _: 0.499)
    outcome = tune(job(target=0.5), ran, TuningSettings(windows=2, total_trials=5))
    assert phases(outcome)[:3] == ["floor", "floor", "confirm"]
    assert ran.asked[2] == FLOOR
    windows = [sum(run == other for run in ran.asked) for other in ran.asked]
    assert max(windows) == 2


def test_with_one_window_nothing_is_confirmed() -> None:
    outcome = tune(job(target=0.5), engine(latency=lambda _: 0.499), TuningSettings(windows=1, total_trials=4))
    assert "confirm" not in phases(outcome)


def test_windows_are_averaged_in_what_is_reported_as_best() -> None:
    readings = iter([0.5, 0.498, 0.4, *[0.4] * 10])
    outcome = tune(job(target=0.5), engine(latency=lambda _: next(readings)), TuningSettings(total_trials=8))
    # Two readings that are so far apart settle nothing: there is a third, once something else has been tried.
    assert phases(outcome)[2:] == ["confirm", "search", "confirm"]
    assert dict(outcome.best.parallelism) == FLOOR
    assert outcome.best.latency_seconds == pytest.approx((0.498 * 0.4 * 0.4) ** (1 / 3))
    assert outcome.best.number == 5


# --- the budget ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trials", [1, 2, 3, 4])
def test_the_budget_holds_in_every_phase(trials: int) -> None:
    ran = engine(latency=lambda _: 0.499)
    outcome = tune(job(target=0.5), ran, TuningSettings(total_trials=trials))
    assert len(outcome.evaluations) == len(ran.asked) == trials


def test_running_out_while_the_floor_is_looked_for_is_not_called_out_of_reach() -> None:
    outcome = tune(job(), engine(), TuningSettings(total_trials=1))
    assert outcome.stop_reason == "budget"
    assert not outcome.met_target
    assert outcome.model is None
    assert outcome.best.score is None


def test_running_out_in_the_search_keeps_the_best_and_says_so() -> None:
    outcome = tune(job(target=0.01), engine(), TuningSettings(total_trials=4))
    assert outcome.stop_reason == "budget"
    assert not outcome.met_target
    assert outcome.model is not None
    assert outcome.best.score is not None


def test_a_lattice_without_another_point_ends_the_search() -> None:
    outcome = tune(job(target=0.01, p_max=4, rate=400.0), engine(capacity=dict.fromkeys(CHAIN, 100.0), p_max=4))
    assert dict(outcome.floor) == dict.fromkeys(CHAIN, 4)
    assert outcome.stop_reason == "exhausted"
    assert not outcome.met_target


# --- what goes wrong -------------------------------------------------------------------------------------------------


def test_a_rate_out_of_reach() -> None:
    outcome = tune(job(rate=5000.0), engine())
    assert outcome.stop_reason == "rate-out-of-reach"
    assert not outcome.met_target
    assert outcome.model is None
    assert outcome.best.throughput == max(e.throughput or 0.0 for e in outcome.evaluations) == 480.0


def blind(trial: Trial) -> Trial:
    """A snapshot in which nobody reported."""
    assert trial.snapshot is not None
    silent = {
        n: OperatorMetrics(parallelism=m.parallelism, upstream=m.upstream) for n, m in trial.snapshot.operators.items()
    }
    return replace(trial, verdict=Verdict.CANNOT_KEEP_UP, snapshot=replace(trial.snapshot, operators=silent))


def test_nothing_to_size_the_job_by() -> None:
    outcome = tune(job(), engine(surprises=dict.fromkeys(range(1, 9), blind)))
    assert outcome.stop_reason == "no-metrics"
    assert len(outcome.evaluations) == 2
    assert not outcome.met_target
    assert outcome.model is None


def test_one_failure_while_the_floor_is_looked_for_is_tried_again() -> None:
    ran = engine(surprises={1: "lost its host"})
    outcome = tune(job(), ran)
    assert ran.asked[0] == ran.asked[1]
    assert outcome.evaluations[0].verdict is Verdict.FAILED
    assert outcome.evaluations[0].detail == "lost its host"
    assert outcome.met_target


def test_failures_in_the_search_are_told_and_avoided() -> None:
    ran = engine(surprises={3: "out of memory", 4: "out of memory"})
    outcome = tune(job(), ran)
    assert [e.verdict for e in outcome.evaluations[2:4]] == [Verdict.FAILED] * 2
    assert outcome.evaluations[2].latency_seconds is None
    assert ran.asked[2] not in ran.asked[3:]
    assert outcome.met_target
    assert dict(outcome.best.parallelism) not in ran.asked[2:4]


def test_three_failures_in_a_row_are_a_broken_engine() -> None:
    ran = engine(surprises={n: f"broke {n}" for n in (3, 4, 5)})
    with pytest.raises(EngineError, match=r"3 trials in a row failed.*broke 5"):
        tune(job(), ran)
    assert len(ran.asked) == 5


def test_a_job_that_breaks_before_anything_is_measured_is_an_error_and_no_verdict() -> None:
    ran = engine(surprises=dict.fromkeys(range(1, 9), "no host; its log is /tmp/driver.log"))
    with pytest.raises(EngineError, match=r"2 trials in a row failed.*no host; its log is /tmp/dr"):
        tune(job(), ran)
    assert len(ran.asked) == 2
    with pytest.raises(EngineError, match=r"every trial failed.*no host"):
        tune(job(), engine(surprises={1: "no host"}), TuningSettings(total_trials=1))


@pytest.mark.parametrize("broken", [(1, 2), (3, 4, 5)], ids=["floor", "search"])
def test_a_run_that_broke_goes_on_as_if_the_broken_trials_had_not_been(broken: tuple[int, ...]) -> None:
    """Trials that an engine broke say nothing of the configurations that they were to run."""
    journal = Kept()
    with pytest.raises(EngineError):
        tune(job(), engine(surprises=dict.fromkeys(broken, "no host")), journal=journal)
    assert len(journal.trials) == broken[-1]
    ran, whole = engine(), engine()
    outcome = tune(job(), ran, past=journal.trials)
    tune(job(), whole)
    assert outcome.met_target
    assert ran.asked == whole.asked[broken[0] - 1 :]
    assert [e.number for e in outcome.evaluations] == list(range(1, len(outcome.evaluations) + 1))


def test_a_configuration_that_failed_once_in_the_floor_search_may_still_be_the_answer() -> None:
    outcome = tune(job(target=2.0), engine(surprises={2: "lost its host"}))
    assert dict(outcome.best.parallelism) == FLOOR
    assert outcome.met_target


# --- the verdict and the throughput agree ----------------------------------------------------------------------------


def behind(trial: Trial) -> Trial:
    """Judged to fall behind, at 98.2 % of the rate."""
    assert trial.snapshot is not None
    return replace(trial, verdict=Verdict.CANNOT_KEEP_UP, snapshot=replace(trial.snapshot, throughput=147.3))


def slow(trial: Trial) -> Trial:
    """Judged steady, at 97 % of the rate."""
    assert trial.snapshot is not None
    return replace(trial, snapshot=replace(trial.snapshot, throughput=145.5))


@pytest.mark.parametrize("change", [behind, slow])
def test_what_does_not_keep_up_or_carries_too_little_is_no_floor(change: Any) -> None:
    ran = engine(surprises={2: change})
    outcome = tune(job(target=2.0), ran)
    assert ran.asked[1] == FLOOR
    second = outcome.evaluations[1]
    assert (second.verdict, second.latency_seconds) == (Verdict.CANNOT_KEEP_UP, None)
    assert sum(outcome.floor.values()) > sum(FLOOR.values())
    assert all(outcome.floor[name] >= k for name, k in FLOOR.items())
    assert outcome.evaluations[2].verdict is Verdict.STABLE


def test_a_steady_trial_that_lets_too_little_through_says_so() -> None:
    assert tune(job(), engine(surprises={2: slow})).evaluations[1].detail == (
        "steady, but only 97.0% of the asked rate came through"
    )


def carrying(throughput: float) -> Any:
    def change(trial: Trial) -> Trial:
        assert trial.snapshot is not None
        return replace(trial, snapshot=replace(trial.snapshot, throughput=throughput))

    return change


def test_a_floor_that_was_not_seen_to_hold_the_rate_is_gone_on_from() -> None:
    """Each correction carried more, the last 97 %, and none is left: more instances may well be enough."""
    ran = engine(surprises={2: carrying(135.0), 3: carrying(145.5)})
    outcome = tune(job(target=2.0), ran)
    assert phases(outcome)[:4] == ["floor"] * 3 + ["search"]
    assert not outcome.floor_holds
    assert outcome.floor == outcome.evaluations[2].parallelism
    assert outcome.met_target


def test_where_more_of_what_is_busy_carries_no_more_the_look_back_is_the_nearest_miss() -> None:
    def capped(trial: Trial) -> Trial:
        """Something outside lets 120/s through, and every instance of `work` waits for it."""
        snapshot = trial.snapshot
        assert snapshot is not None
        if (snapshot.throughput or 0.0) <= 120.0:
            return trial
        work = replace(
            snapshot.operators["work"],
            records_in=120.0 * 60,
            records_out=120.0 * 60,
            useful_seconds=60.0 * snapshot.operators["work"].parallelism,
        )
        snapshot = replace(snapshot, throughput=120.0, operators={**snapshot.operators, "work": work})
        return replace(trial, verdict=Verdict.CANNOT_KEEP_UP, snapshot=snapshot)

    outcome = tune(job(), engine(surprises=dict.fromkeys(range(1, 99), capped)))
    assert outcome.stop_reason == "rate-out-of-reach"
    carried = [e for e in outcome.evaluations if e.throughput == 120.0]
    assert len(carried) > 1
    assert sum(outcome.best.parallelism.values()) == min(sum(e.parallelism.values()) for e in carried)


def test_a_search_above_a_floor_that_held_nothing_ends_where_more_carries_no_more() -> None:
    """The floor's own trials leave it open, and the first trial above it says that nothing helps."""

    def capped(trial: Trial) -> Trial:
        assert trial.snapshot is not None
        carried = min(trial.snapshot.throughput or 0.0, 139.0)
        return replace(trial, verdict=Verdict.CANNOT_KEEP_UP, snapshot=replace(trial.snapshot, throughput=carried))

    numbers = {2: carrying(134.0), 3: carrying(139.0), **dict.fromkeys(range(4, 99), capped)}
    outcome = tune(job(), engine(surprises=numbers))
    assert outcome.stop_reason == "rate-out-of-reach"
    assert phases(outcome).count("search") == 1
    assert outcome.best.throughput == 139.0
    assert sum(outcome.best.parallelism.values()) == min(
        sum(e.parallelism.values()) for e in outcome.evaluations if e.throughput == 139.0
    )


# --- what is cheaper -------------------------------------------------------------------------------------------------


def near_at_the_floor(readings: Iterator[float]) -> Any:
    return lambda k: next(readings) if dict(k) == FLOOR else 0.3


@pytest.mark.parametrize(("later", "floor_wins"), [(0.40, True), (0.499, False)])
def test_a_cheaper_configuration_that_was_within_the_target_is_looked_at_again(later: float, floor_wins: bool) -> None:
    """It takes the place of another that is trusted once it is surely within the target: readings so far apart show
    that where the later ones are far within."""
    readings = iter([0.48, 0.49, *[later] * 20])
    outcome = tune(job(target=0.5), engine(latency=near_at_the_floor(readings)))
    assert phases(outcome)[:4] == ["floor", "floor", "confirm", "search"]
    second_looks = [e for e in outcome.evaluations[4:] if e.phase == "confirm"]
    assert 1 <= len(second_looks) <= 2
    assert all(dict(e.parallelism) == FLOOR for e in second_looks)
    assert (dict(outcome.best.parallelism) == FLOOR) == floor_wins
    assert outcome.met_target


def test_both_looks_after_acceptance_are_at_what_is_cheaper() -> None:
    """A look that did not settle it is followed by one more, and not by something new."""
    readings = iter([0.48, 0.49, *[0.485] * 20])
    outcome = tune(job(target=0.5), engine(latency=near_at_the_floor(readings)))
    assert outcome.met_target
    accepted = next(each.number for each in outcome.evaluations if each.phase == "search")
    looks = outcome.evaluations[accepted:]
    assert [each.phase for each in looks] == ["confirm"] * len(looks)
    assert all(dict(each.parallelism) == FLOOR for each in looks)
    assert 1 <= len(looks) <= 2


def test_with_one_window_or_no_budget_left_nothing_cheaper_is_looked_at() -> None:
    for asked in (TuningSettings(windows=1), TuningSettings(total_trials=4)):
        outcome = tune(job(target=0.5), engine(latency=near_at_the_floor(iter([0.48, 0.49] * 9))), asked)
        assert [e.phase for e in outcome.evaluations[3:]].count("confirm") == 0
        assert outcome.met_target


def test_met_means_trusted() -> None:
    """0.499 s for 0.5 s is within the target, and as likely beyond it."""
    outcome = tune(job(target=0.5), engine(latency=lambda _: 0.499), TuningSettings(total_trials=6))
    assert not outcome.met_target
    assert outcome.best.latency_seconds == pytest.approx(0.499)


# --- out of reach ----------------------------------------------------------------------------------------------------


def in_batches(seconds: float) -> Any:
    """Micro-batches of which `seconds` pass without any operator busy."""

    def change(trial: Trial) -> Trial:
        assert trial.snapshot is not None
        batch = trial.snapshot.latency_seconds.mean or 4.0
        snapshot = replace(trial.snapshot, execution="micro-batch", batch_seconds=batch, overhead_share=seconds / batch)
        return replace(trial, snapshot=snapshot)

    return change


def test_a_target_below_what_a_batch_costs_ends_after_one_trial_above_the_floor() -> None:
    slow_batches = dict.fromkeys(range(1, 99), in_batches(0.9))
    ran = engine(capacity=dict.fromkeys(CHAIN, 600.0), latency=lambda _: 2.0, surprises=slow_batches)
    outcome = tune(job(target=1.0), ran)
    assert outcome.stop_reason == "target-out-of-reach"
    assert phases(outcome).count("search") == 1
    assert outcome.fixed_seconds == pytest.approx(0.9)
    assert outcome.least_latency is not None
    assert outcome.least_latency >= 1.5 * 0.9
    assert tune(job(target=3.0), replace(ran, asked=[])).stop_reason == "target-met"


def test_a_stop_rule_that_nothing_meets_together_with_the_target_ends_the_run() -> None:
    outcome = tune(job(target=0.5), engine(), TuningSettings(over_allocation=0.05, total_trials=40))
    assert outcome.stop_reason == "rule-unsatisfiable"
    assert len(outcome.evaluations) < 20
    assert outcome.met_target
    assert falling(outcome.best.parallelism) <= 0.5


@pytest.mark.parametrize("error", [KeyboardInterrupt(), EngineError("gone"), RuntimeError("bug")])
@pytest.mark.parametrize("run", [1, 3])
def test_what_the_engine_raises_comes_through(error: BaseException, run: int) -> None:
    with pytest.raises(type(error)):
        tune(job(), engine(surprises={run: error}))


def test_a_statistic_that_the_engine_does_not_measure() -> None:
    with pytest.raises(InputError, match=r"target\.statistic: is not measured by this engine"):
        tune(replace(job(), target=Target(0.5, "p99")), engine())


def test_a_target_on_another_statistic_is_judged_by_that_one() -> None:
    outcome = tune(replace(job(), target=Target(1.4, "p95")), engine())
    assert outcome.met_target
    assert outcome.best.latency_seconds == pytest.approx(2 * falling(outcome.best.parallelism))


def test_a_latency_of_zero_is_a_short_one() -> None:
    """It happens where an engine counts whole milliseconds. It ended the run with an error."""

    def instant(trial: Trial) -> Trial:
        assert trial.snapshot is not None
        return replace(trial, snapshot=replace(trial.snapshot, latency_seconds=Latency(mean=0.0)))

    third = tune(job(), engine(surprises={3: instant}), TuningSettings(total_trials=4)).evaluations[2]
    assert third.latency_seconds == 1e-6
    assert third.score == pytest.approx(float(Benefit((2, 4, 3), 0.7).score(tuple(third.parallelism.values()), 1e-6)))


# --- settings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("initial", [{"source": 9, "work": 12, "sink": 8}, {"work": 9}])
def test_starting_above_the_floor_comes_down_to_it(initial: dict[str, int]) -> None:
    """Table II scales down from (36, 32, 24, 20): where a run starts is not what the job needs."""
    ran = engine()
    outcome = tune(job(), ran, TuningSettings(initial=initial))
    assert ran.asked[0] == {"source": 1, "work": 1, "sink": 1, **initial}
    assert dict(outcome.floor) == FLOOR


@given(
    st.lists(st.floats(0.3, 3.0), min_size=2, max_size=4), st.floats(0.0, 0.3), st.integers(2, 8), st.integers(4, 16)
)
@settings(max_examples=40, deadline=None)
def test_a_job_with_too_much_comes_down_to_nearly_what_one_from_below_finds(
    needs: list[float], contention: float, cores: int, start: int
) -> None:
    """Instances that share a machine seem to carry less, the more there are: a floor from one look is too high."""
    names = [f"o{i}" for i in range(len(needs))]
    rate, p_max = 1000.0, 16
    made = SimulatedJob(
        {name: SimulatedOperator(service_seconds=need / rate) for name, need in zip(names, needs, strict=True)},
        noise=0.0,
        machine=SharedMachine(cores, contention),
    )
    wanted = Job("shared", Topology.chain(*names), p_max, {names[0]: rate}, Target(60.0))

    def tuned(initial: Mapping[str, int] | None) -> Outcome:
        with SimulatorEngine(made, wanted.topology, p_max=p_max, seed=0, name="shared") as running:
            return tune(wanted, running, TuningSettings(initial=initial))

    above, below = tuned(dict.fromkeys(names, start)), tuned(None)
    assume(above.evaluations[0].verdict is Verdict.STABLE and below.floor_holds)
    assert above.floor_holds
    assert sum(above.floor.values()) <= 1.2 * sum(below.floor.values()) + len(names)
    assert sum(each.phase == "floor" for each in above.evaluations) <= 8


class Kept:
    """A journal that keeps what it is told."""

    def __init__(self) -> None:
        self.trials: list[JournalledTrial] = []

    def begin(self, number: int, phase: str, parallelism: Mapping[str, int]) -> None:
        assert number == len(self.trials) + 1
        assert phase in ("floor", "search", "confirm")
        assert list(parallelism) == list(CHAIN)

    def done(self, trial: JournalledTrial) -> None:
        self.trials.append(trial)


@pytest.mark.parametrize("after", [1, 2, 3])
def test_a_run_goes_on_after_any_of_its_trials_as_if_it_had_not_stopped(after: int) -> None:
    settings, journal, rest = TuningSettings(initial={"work": 9}, total_trials=6), Kept(), engine()
    whole = tune(job(), engine(), settings, journal=journal)
    resumed = tune(job(), rest, settings, past=journal.trials[:after])
    assert rest.asked == [dict(e.parallelism) for e in whole.evaluations[after:]]
    assert resumed.best.parallelism == whole.best.parallelism
    assert resumed.stop_reason == whole.stop_reason


def test_starting_at_the_floor_stays_there() -> None:
    outcome = tune(job(target=2.0), engine(), TuningSettings(initial=FLOOR))
    assert dict(outcome.floor) == FLOOR
    assert len(outcome.evaluations) == 1


@pytest.mark.parametrize(
    ("initial", "says"),
    [
        ({"wrok": 2}, "tuning.initial.wrok: names an operator that does not exist"),
        ({"work": 13}, "tuning.initial.work: lies outside [1, 12] (seen: 13)"),
        ({"sink": 7}, "tuning.initial.sink: lies outside [2, 6] (seen: 7)"),
        ({"sink": 1}, "tuning.initial.sink: lies outside [2, 6] (seen: 1)"),
        ({"work": 2.0}, "tuning.initial.work: must be a whole number"),
    ],
)
def test_a_start_that_cannot_be_run_is_refused_before_anything_runs(initial: dict[str, Any], says: str) -> None:
    bounded = Topology({**CHAIN.operators, "sink": Operator(("work",), minimum=2, maximum=6)})
    ran = engine(topology=bounded)
    with pytest.raises(InputError) as caught:
        tune(job(topology=bounded), ran, TuningSettings(initial=initial))
    assert str(caught.value).startswith(says)
    assert ran.asked == []


def test_operators_keep_their_own_bounds() -> None:
    bounded = Topology({**CHAIN.operators, "sink": Operator(("work",), minimum=2, maximum=4)})
    ran = engine(topology=bounded)
    tune(job(topology=bounded, target=0.2), ran, TuningSettings(total_trials=6))
    assert all(2 <= run["sink"] <= 4 for run in ran.asked)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"alpha": 2}, "alpha: must lie"),
        ({"over_allocation": -1}, "over_allocation: must not"),
        ({"total_trials": 0}, "total_trials: must be at least 1"),
        ({"total_trials": 2.5}, "total_trials: must be a whole number"),
        ({"seed": -1}, "seed: must be at least 0"),
        ({"noise": 0}, "noise: must be above zero"),
        ({"noise": 2}, "noise: must lie between 0 and 1"),
        ({"confidence": 1.5}, "confidence: must lie"),
        ({"windows": 0}, "windows: must be at least 1"),
    ],
)
def test_bad_settings(change: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError) as caught:
        TuningSettings(**change)
    assert str(caught.value).startswith(says)


# --- warm start ------------------------------------------------------------------------------------------------------


def test_a_model_of_one_rate_saves_runs_at_another() -> None:
    cold = tune(job(), engine())
    faster = {name: 1.25 * capacity for name, capacity in CAPACITY.items()}
    moved = job(rate=1.25 * 150.0)
    assert cold.model is not None
    warm = tune(moved, engine(capacity=faster), sources=[cold.model])
    again = tune(moved, engine(capacity=faster))
    assert warm.met_target
    assert len(warm.evaluations) <= len(again.evaluations)
    assert warm.model is not None
    assert warm.model.ancestors[0].rate == 150.0
    assert warm.remarks == ()


def test_a_warm_run_computes_the_lower_floor_that_a_cold_one_would_run() -> None:
    cold = tune(job(), engine())
    assert cold.model is not None
    slower = job(rate=60.0)
    ran, asked = engine(), engine()
    warm = tune(slower, ran, sources=[replace(cold.model, rate=50.0)])
    tune(slower, asked, TuningSettings(initial=ran.asked[0]))
    assert warm.met_target
    assert [e.phase for e in warm.evaluations].count("floor") == 1
    first = list(ran.asked[0].values())
    assert all(low <= k for low, k in zip(warm.floor.values(), first, strict=True))
    assert sum(warm.floor.values()) < sum(first)
    assert dict(warm.floor) == dict(asked.asked[1])


def test_the_floor_is_looked_for_where_the_nearest_model_leads_to_expect_it() -> None:
    cold = tune(job(), engine())
    assert cold.model is not None
    ran = engine()
    warm = tune(job(rate=300.0), ran, sources=[replace(cold.model, rate=15.0), cold.model])
    assert list(ran.asked[0].values()) == [min(2 * k, 12) for k in cold.model.floor]
    assert warm.met_target
    assert [e.phase for e in warm.evaluations].count("floor") <= 2
    given = engine()
    tune(job(), given, TuningSettings(initial={"work": 9}), sources=[cold.model])
    assert given.asked[0] == {"source": 1, "work": 9, "sink": 1}
    paper = engine()
    tune(job(), paper, TuningSettings(faithful=True, total_trials=2), sources=[cold.model])
    assert set(paper.asked[0].values()) == {1}


def test_a_model_that_misleads_is_left_out_and_said() -> None:
    """Its latencies are all over the place: the same noise at every rate, and none of it true here."""

    def wild(k: Mapping[str, int]) -> float:
        return 0.2 + 0.05 * (sum((i + 7) * x**3 for i, x in enumerate(k.values())) % 97)

    lies = tune(job(target=0.5), engine(latency=wild), TuningSettings(total_trials=14))
    assert lies.model is not None
    outcome = tune(job(), engine(), TuningSettings(total_trials=10), sources=[lies.model])
    (remark,) = outcome.remarks
    assert "150 records/s" in remark
    assert outcome.met_target


def test_the_papers_algorithms_run_the_bootstrap_set() -> None:
    outcome = tune(job(target=0.01), engine(), TuningSettings(faithful=True, total_trials=6))
    assert [tuple(e.parallelism.values()) for e in outcome.evaluations[2:5]] == [(4, 4, 4), (6, 6, 6), (7, 7, 7)]
    assert outcome.model is not None
    assert outcome.model.kind == "score"


def test_one_operator() -> None:
    single = Topology.chain("only")
    ran = ScriptedEngine(single, {"only": 50.0}, lambda k: 0.9 / k["only"], p_max=9)
    outcome = tune(Job("one", single, 9, {"only": 90.0}, Target(0.35)), ran)
    assert dict(outcome.best.parallelism) == {"only": 3}
    assert outcome.met_target


def test_evaluations_say_what_each_trial_was() -> None:
    first: Evaluation = tune(job(), engine()).evaluations[0]
    assert (first.number, first.phase, first.verdict) == (1, "floor", Verdict.CANNOT_KEEP_UP)
    assert (first.latency_seconds, first.throughput, first.detail) == (None, 40.0, "falls behind")
