"""Trials on Spark: verdicts, measured numbers, and exact counts."""

from __future__ import annotations

import socket
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from conftest import QUICK, Bench, settings

from autotrascale.domain.errors import EngineError, InputError
from autotrascale.domain.trial import Verdict
from autotrascale.execute.spark.controller.trial_engine import SparkEngine
from autotrascale.execute.spark.jobs.wordcount import WordCount, read_results

pytestmark = pytest.mark.spark


def test_a_steady_job_is_measured_instance_by_instance(bench: Bench) -> None:
    """A stall of 5 ms limits the true rate to 200 records per second on any machine."""
    trial = bench.run((2, 4, 3, 1), rate=200.0, word_count={"flatmap_stall": 0.005})
    assert trial.verdict is Verdict.STABLE, trial.detail
    snapshot = trial.snapshot
    assert snapshot is not None
    assert snapshot.execution == "micro-batch"
    assert snapshot.parallelism == {"source": 2, "flatmap": 4, "count": 3, "sink": 1}
    flatmap, count = snapshot.operators["flatmap"], snapshot.operators["count"]
    assert len(flatmap.instances) == 4
    assert flatmap.total.records_out == pytest.approx(3 * (flatmap.total.records_in or 0))
    assert count.total.records_in == pytest.approx(flatmap.total.records_out)
    assert 80 < (flatmap.total.records_in or 0) / (flatmap.total.useful_seconds or 1) < 200
    assert snapshot.throughput == pytest.approx(200.0, rel=0.2)
    latency = snapshot.latency_seconds
    assert latency.p50 is not None
    assert latency.p99 is not None
    assert 0 < latency.p50 < latency.p99
    assert 0 < snapshot.overhead_share < 1
    assert bench.engine.window is not None
    stages = sum(operator.stage_seconds or 0.0 for operator in snapshot.operators.values())
    assert stages == pytest.approx((1 - snapshot.overhead_share) * bench.engine.window.batches * snapshot.batch_seconds)
    assert snapshot.slots == 8  # of local[8]
    assert bench.engine.window.phases["addBatch"] > 0
    assert bench.engine.window.state_keys > 0


def test_falling_behind_is_found_out_early(bench: Bench) -> None:
    """With load 8 on two instances no window can be steady, so the trial ends early."""
    trial = bench.run((1, 2, 2, 1), rate=400.0, word_count={"flatmap_stall": 0.02})
    assert trial.verdict is Verdict.CANNOT_KEEP_UP, trial.detail
    assert "no batch size is enough" in trial.detail
    assert trial.snapshot is not None
    work = trial.snapshot.operators["flatmap"].total
    assert 25 < (work.records_in or 0) / (work.useful_seconds or 1) < 50
    assert bench.engine.window is not None
    assert bench.engine.window.seconds < QUICK.max_seconds


def test_counts_are_those_of_a_plain_python_oracle(bench: Bench, tmp_path: Path) -> None:
    """The counts of the first records are exact at each parallelism, stateful operators included."""
    trial = bench.run((2, 3, 4, 2), rate=500.0, word_count={"results": str(tmp_path), "vocabulary": 40})
    assert trial.verdict is not Verdict.FAILED, trial.detail
    counts = read_results(tmp_path)
    total = sum(counts.values())
    assert total % 3 == 0
    job = WordCount(vocabulary=40)
    oracle = Counter(word for line in job.sentences(np.arange(total // 3))[0] for word in line.split())
    assert counts == dict(oracle)


def test_an_error_in_users_code_fails_the_trial_with_its_own_words(bench: Bench) -> None:
    trial = bench.run((1, 1, 1, 1), rate=100.0, raises="amount is -3")
    assert trial.verdict is Verdict.FAILED
    assert trial.detail.startswith("ValueError: amount is -3; see ")
    assert "\n" not in trial.detail
    assert bench.engine.log.exists()
    after = bench.run((1, 1, 1, 1), rate=50.0)
    assert after.verdict is Verdict.STABLE, after.detail


def test_a_job_that_cannot_be_built_fails_the_trial(bench: Bench) -> None:
    trial = bench.run((1, 1, 1, 1), rate=100.0, word_count={"vocabulary": 0})
    assert trial.verdict is Verdict.FAILED
    assert "vocabulary: must be at least 1" in trial.detail


@pytest.mark.parametrize(
    ("k", "says"),
    [
        ({"source": 1, "flatmap": 1, "count": 1}, "has no entry for 'sink'"),
        ({"source": 1, "flatmap": 1, "count": 1, "sink": 99}, "parallelism.sink: is above p_max"),
        ({"source": 1, "flatmap": 0, "count": 1, "sink": 1}, "parallelism.flatmap: "),
        ({"source": 1, "flatmap": 1, "count": 1, "sink": 1, "x": 1}, "parallelism.x: names an operator"),
    ],
)
def test_a_vector_that_cannot_be_is_refused_before_anything_runs(bench: Bench, k: dict[str, int], says: str) -> None:
    with pytest.raises(InputError) as refused:
        bench.engine.run(k, {"source": 1.0})
    assert says in str(refused.value)


def test_a_load_of_nothing_is_refused(bench: Bench) -> None:
    with pytest.raises(InputError, match="source_rates: are all zero"):
        bench.engine.run(dict.fromkeys(WordCount.topology, 1), {"source": 0.0})


def test_a_job_that_does_not_exist_is_an_error_of_the_run(tmp_path: Path) -> None:
    with SparkEngine(settings(tmp_path, job="flavoured:Missing")) as engine, pytest.raises(EngineError) as failed:
        engine.run(dict.fromkeys(WordCount.topology, 1), {"source": 1.0})
    assert str(failed.value) == "spark.job: module flavoured has no 'Missing'; correct it"


def test_a_port_that_is_taken_is_an_error_of_the_run(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        conf = {"spark.driver.port": str(taken.getsockname()[1]), "spark.port.maxRetries": "0"}
        with SparkEngine(settings(tmp_path, conf=conf)) as engine, pytest.raises(EngineError) as failed:
            engine.run(dict.fromkeys(WordCount.topology, 1), {"source": 1.0})
    assert "port" in str(failed.value)


def test_a_closed_engine_says_so(tmp_path: Path) -> None:
    engine = SparkEngine(settings(tmp_path))
    engine.close()
    engine.close()
    with pytest.raises(EngineError, match="closed"):
        engine.run({}, {})
