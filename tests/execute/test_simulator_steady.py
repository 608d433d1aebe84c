"""The shapes of the simulated steady state, compared with the figures of the paper (Flink) and of Spark.

Our figures are simulated, on jobs calibrated to those.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotrascale.domain.errors import InputError
from autotrascale.domain.topology import Operator, Topology
from autotrascale.execute.simulator.simulated_job import MicroBatch, SimulatedJob, SimulatedOperator, to_section
from autotrascale.execute.simulator.steady_state import steady_state
from autotrascale.validation import validate
from benchmarks.workloads.families import FAMILIES
from benchmarks.workloads.families import draw_case as draw_anew
from benchmarks.workloads.presets import PRESETS, SPARK_STALLED, SPARK_WORDCOUNT, WORDCOUNT, WORDCOUNT_SMALL, YAHOO

draw = cache(draw_anew)  # a case is the same each time: draw it once
ONE = Topology.chain("only")


def uniform(*sizes: int) -> np.ndarray:
    return np.repeat(np.array(sizes)[:, None], 4, axis=1)


def one(operator: SimulatedOperator, k: int, rate: float, **settings: object) -> tuple[float, float]:
    """Return latency and throughput of a job with a single operator."""
    state = steady_state(SimulatedJob({"only": operator}, **settings), ONE, [k], {"only": rate})  # type: ignore[arg-type]
    return float(state.latency[0]), float(state.throughput[0])


class TestPaperSimulated:
    def test_observation_1_beyond_capacity_throughput_stays_and_latency_has_no_bound(self) -> None:
        """§II, case 1: parallelism 2; 100k to 300k/s; holds up to 200k/s, stays at 250k/s."""
        for rate in (100e3, 150e3, 200e3):
            state = steady_state(WORDCOUNT_SMALL.job, WORDCOUNT_SMALL.topology, uniform(2), {"source": rate})
            assert state.throughput[0] == rate
            assert np.isfinite(state.latency[0])
        state = steady_state(WORDCOUNT_SMALL.job, WORDCOUNT_SMALL.topology, uniform(2), {"source": 300e3})
        assert state.throughput[0] == pytest.approx(250e3, rel=0.05)
        assert np.isinf(state.latency[0])

    def test_observation_2_1_throughput_is_not_linear_in_parallelism(self) -> None:
        """§II, case 2, 300k/s: 150k, 250k, 275k/s at parallelism 1, 2, 3."""
        throughput = WORDCOUNT_SMALL.compiled.steady(uniform(1, 2, 3)).throughput
        assert throughput == pytest.approx([150e3, 250e3, 275e3], rel=0.05)

    def test_observation_2_2_more_parallelism_may_be_slower(self) -> None:
        """§II, case 2: latency falls with parallelism, then 100 ms at 5 and 125 ms at 6."""
        latency = WORDCOUNT_SMALL.latency(uniform(3, 4, 5, 6))
        assert latency[0] > latency[1] > latency[2]
        assert latency[2:] == pytest.approx([0.100, 0.125], rel=0.02)

    def test_wordcount_has_the_floor_and_the_latencies_of_table_2(self) -> None:
        assert WORDCOUNT.floor == (3, 4, 12, 10)
        table = {(10, 16, 12, 10): 0.160, (7, 8, 12, 38): 0.172, (23, 33, 40, 16): 0.246}
        assert WORDCOUNT.latency(list(table)) == pytest.approx(list(table.values()), rel=0.05)
        assert (WORDCOUNT.latency(list(table)) <= WORDCOUNT.latency_target).tolist() == [True, True, False]
        assert np.isinf(WORDCOUNT.latency((2, 1, 8, 8))[0])  # DRS's choice misses the throughput
        assert WORDCOUNT.latency(WORDCOUNT.floor)[0] > WORDCOUNT.latency_target

    def test_yahoo_has_the_latencies_of_table_3(self) -> None:
        table = {(4, 2, 1, 1, 40): 0.224, (22, 2, 1, 1, 36): 0.246, (40, 33, 33, 33, 33): 0.276}
        assert YAHOO.latency(list(table)) == pytest.approx(list(table.values()), rel=0.07)


class TestSparkSimulated:
    def test_batches_are_shortest_in_between(self) -> None:
        """Seen on local[16] with 2 cores: 511, 392, 675 ms."""
        seen = SPARK_WORDCOUNT.compiled.steady(uniform(1, 4, 8)).batch_seconds
        assert seen == pytest.approx([0.511, 0.392, 0.675], rel=0.01)

    def test_a_stalled_operator_needs_more_than_its_load(self) -> None:
        """Seen: diverges at 4, settles at 1.0–1.8 s with 8, at 0.7 s with 16."""
        seen = SPARK_STALLED.compiled.steady([(1, 4, 2, 1), (1, 8, 2, 1), (1, 16, 2, 1)]).batch_seconds
        assert np.isinf(seen[0])
        assert 1.0 < seen[1] < 1.8
        assert 0.4 < seen[2] < 0.9

    def test_two_stages_of_load_3_diverge_at_4_each(self) -> None:
        """Seen: (4, 4) diverges although the pipelined rule calls it enough; (8, 8) and (14, 14) hold."""
        operators = {"first": SimulatedOperator(1e-3), "second": SimulatedOperator(1e-3)}
        job = SimulatedJob(operators, execution="micro-batch", batch=MicroBatch(slots=16))
        latency = steady_state(
            job, Topology.chain("first", "second"), [(4, 4), (8, 8), (14, 14)], {"first": 3000}
        ).latency
        assert np.isinf(latency[0])
        assert latency[1] > latency[2]

    def test_tasks_beyond_the_slots_run_in_a_second_wave(self) -> None:
        job = SimulatedJob({"only": SimulatedOperator(1e-3)}, execution="micro-batch", batch=MicroBatch(slots=8))
        busy = steady_state(job, ONE, [[8], [9], [16]], {"only": 3000}).utilisation[:, 0]
        assert busy == pytest.approx([3 / 8, 2 * 3 / 9, 2 * 3 / 16])


class TestLaws:
    def test_a_single_server_waits_as_mm1_does(self) -> None:
        """M/M/1: E[T] = 1/(μ − λ)."""
        for rate in (10.0, 50.0, 95.0):
            assert one(SimulatedOperator(0.01), 1, rate)[0] == pytest.approx(1 / (100 - rate))

    def test_the_tightest_operator_sets_the_throughput(self) -> None:
        operators = {"only": SimulatedOperator(0.01), "next": SimulatedOperator(0.02)}
        state = steady_state(SimulatedJob(operators), Topology.chain("only", "next"), [(1, 1)], {"only": 80.0})
        assert state.throughput[0] == pytest.approx(50)
        assert state.capacity[0] == pytest.approx(50 / 80)

    def test_an_external_limit_holds_whatever_the_parallelism(self) -> None:
        limited = SimulatedOperator(0.01, external_limit=60.0)
        assert [one(limited, k, 80.0)[1] for k in (1, 2, 40)] == pytest.approx([60, 60, 60])
        assert one(limited, 2, 59.0)[0] > one(limited, 2, 30.0)[0]

    def test_skew_saturates_the_hottest_instance_first(self) -> None:
        assert one(SimulatedOperator(0.01, skew=1.5), 3, 250.0)[1] == pytest.approx(200)
        assert one(SimulatedOperator(0.01, skew=1.5), 1, 90.0)[1] == pytest.approx(90)

    def test_a_hot_key_is_not_helped_by_more_instances(self) -> None:
        hot = SimulatedOperator(0.01, hot_share=0.5)
        assert [one(hot, k, 1000.0)[1] for k in (2, 10, 40)] == pytest.approx([200, 200, 200])

    def test_a_join_waits_for_its_slower_branch(self) -> None:
        topology = Topology(
            {"a": Operator(), "b": Operator(), "join": Operator(upstream=("a", "b")), "sink": Operator(("join",))}
        )
        hops = {"a": 0.1, "b": 0.5, "join": 0.01, "sink": 0.02}
        job = SimulatedJob({name: SimulatedOperator(1e-9, hop_seconds=hop) for name, hop in hops.items()})
        assert steady_state(job, topology, [1, 1, 1, 1], {"a": 1.0, "b": 1.0}).latency[0] == pytest.approx(0.53)

    def test_one_vector_or_many_give_the_same(self) -> None:
        rng = np.random.default_rng(5)
        for family in FAMILIES:
            case = draw(family, 0)
            K = rng.integers(1, 41, size=(30, len(case.floor)))
            assert case.latency(K) == pytest.approx(np.concatenate([case.latency(k) for k in K]), rel=1e-12)

    @settings(max_examples=60, deadline=None)
    @given(st.sampled_from(FAMILIES), st.integers(0, 9), st.floats(0.05, 3.0), st.integers(0, 2**32))
    def test_latency_and_utilisation_grow_with_the_rate(
        self, family: str, seed: int, factor: float, point: int
    ) -> None:
        case = draw(family, seed)
        k = np.random.default_rng(point).integers(1, 41, size=len(case.floor))
        rates = {name: rate * factor for name, rate in case.source_rates.items()}
        more = {name: rate * 1.05 for name, rate in rates.items()}
        before = steady_state(case.job, case.topology, k, rates)
        after = steady_state(case.job, case.topology, k, more)
        assert after.latency[0] >= before.latency[0]
        assert (after.utilisation >= before.utilisation).all()
        # What can be carried is the job's own, whatever is offered.
        assert after.capacity[0] * sum(more.values()) == pytest.approx(before.capacity[0] * sum(rates.values()))
        assert before.throughput[0] == pytest.approx(sum(rates.values()) * min(1, before.capacity[0]))

    @settings(max_examples=40, deadline=None)
    @given(st.sampled_from(FAMILIES), st.integers(0, 9), st.integers(0, 2**32))
    def test_batches_repeat_themselves(self, family: str, seed: int, point: int) -> None:
        """b = o + b · Σ stage shares, wherever there is a batch."""
        case = draw(family, seed)
        state = case.compiled.steady(np.random.default_rng(point).integers(1, 41, size=len(case.floor)))
        length, busy = state.batch_seconds[0], state.utilisation[0].sum()
        if case.job.execution == "pipelined":
            assert length == 0
        elif busy < 1:
            assert length == pytest.approx(state.overhead_seconds[0] + length * busy)
            assert state.latency[0] == pytest.approx(1.5 * length)
        else:
            assert np.isinf(state.latency[0])


class TestInput:
    @pytest.mark.parametrize("name", PRESETS)
    def test_a_job_comes_back_from_plain_data(self, name: str) -> None:
        job = PRESETS[name].job
        assert validate(to_section(job), SimulatedJob, place="simulator") == job

    @pytest.mark.parametrize(
        ("data", "said"),
        [
            ({"operators": {}}, "operators"),
            ({"operators": {"a": {"service_seconds": "1"}}}, "service_seconds"),
            ({"operators": {"a": {"service_seconds": 0}}}, "above zero"),
            ({"operators": {"a": {"service_seconds": 1, "skew": 0.5}}}, "skew"),
            ({"operators": {"a": {"service_seconds": 1, "speed": 1}}}, "not a known key"),
            ({"operators": {"a": {"service_seconds": 1}}, "execution": "batch"}, "execution"),
            ({"operators": {"a": {"service_seconds": 1}}, "batch": {"slots": 0}}, "slots"),
            ({"operators": {"a": {"service_seconds": 1}}, "noise": -1}, "noise"),
        ],
    )
    def test_what_is_wrong_is_said_in_one_line(self, data: dict[str, object], said: str) -> None:
        with pytest.raises(InputError, match=said) as caught:
            validate(data, SimulatedJob, place="simulator")
        assert "\n" not in str(caught.value)

    def test_job_and_topology_must_name_the_same_operators(self) -> None:
        job = SimulatedJob({"only": SimulatedOperator(0.01)})
        with pytest.raises(InputError, match="not in the topology"):
            steady_state(
                replace(job, operators={**job.operators, "other": job.operators["only"]}), ONE, [1], {"only": 1.0}
            )
        with pytest.raises(InputError, match="next: is missing"):
            steady_state(job, Topology.chain("only", "next"), [1, 1], {"only": 1.0})

    def test_a_source_has_no_selectivity(self) -> None:
        job = SimulatedJob({"only": SimulatedOperator(0.01, selectivity=2.0)})
        with pytest.raises(InputError, match="selectivity"):
            steady_state(job, ONE, [1], {"only": 1.0})
