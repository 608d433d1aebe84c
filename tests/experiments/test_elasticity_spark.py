"""The elasticity experiment on real Spark, without Spark: all policies begin alike, and its tables can be told."""

from __future__ import annotations

import json

import pytest

from autotrascale.app.job_file import JobFile
from autotrascale.domain.job import Job
from autotrascale.domain.target import Target
from autotrascale.domain.topology import Topology
from autotrascale.execute.spark.jobs.wordcount import WordCount
from autotrascale.plan.policies.registry import known
from autotrascale.testing.scripted_engine import ScriptedEngine
from autotrascale.tuning import choose_starting_point
from autotrascale.validation import validate
from examples.jobs.yahoo import Yahoo
from experiments.elasticity_spark.cases import POLICIES, all_cases
from experiments.elasticity_spark.measure import measure
from experiments.elasticity_spark.run import RECORD
from experiments.shared.record import Case, without
from experiments.shared.spark_jobs import BENCHES, WORDCOUNT, content
from experiments.shared.trials import SameStart

TOPOLOGIES: dict[str, Topology] = {"wordcount": WordCount.topology, "yahoo": Yahoo.topology}
CAPACITY = {"source": 5000.0, "flatmap": 250.0, "count": 300.0, "sink": 5000.0}


def test_a_case_is_measured_again_alone_and_another_machine_measures_all_again() -> None:
    result = {"slow": 1.0, "cases": {case.name: {} for case in all_cases()}}
    left = without(RECORD, result, [Case("yahoo", "up", "ds2")], 1.0)
    assert result["cases"].keys() - left["cases"].keys() == {"yahoo up ds2"}  # type: ignore[attr-defined]
    assert without(RECORD, result, [], 4.0)["cases"] == {}


def test_every_case_can_be_run_and_is_of_a_policy_that_is_known() -> None:
    names = [case.name for case in all_cases()]
    assert len(set(names)) == len(names) == 2 + len(BENCHES) * 2 * len(POLICIES)
    assert set(POLICIES) <= set(known())
    for bench in BENCHES.values():
        file = validate(content(bench.name), JobFile, place=bench.name)
        job = Job(bench.name, TOPOLOGIES[bench.name], file.p_max, file.source_rates, file.target)
        for start in (bench.up, bench.down):
            assert choose_starting_point(job, start) == start


@pytest.fixture
def engine() -> ScriptedEngine:
    return ScriptedEngine(WordCount.topology, CAPACITY, p_max=12)


def test_all_policies_begin_with_the_same_reading(engine: ScriptedEngine) -> None:
    job = Job("wordcount", WordCount.topology, 12, {"source": 800.0}, Target(0.5))
    same, rows = SameStart(engine), {}
    for policy in POLICIES:
        rows[policy] = measure(Case("wordcount", "up", policy), job, same, seed=0)
    assert engine.asked.count(WORDCOUNT.up) == 1
    assert all(row["trials"][0]["k"] == list(WORDCOUNT.up.values()) for row in rows.values())
    assert rows["ds2"]["qos"]
    assert not rows["none"]["qos"]
    assert rows["none"]["k"] == list(WORDCOUNT.up.values())
    swept = measure(Case("wordcount", "sweep"), job, same, seed=0)
    assert [point["p"] for point in swept["points"]] == [1, 2, 3, 4, 5, 6]
    raised = measure(Case("wordcount", "rates"), job, same, seed=0)
    assert [point["rate"] for point in raised["points"]] == [200, 300, 400, 500, 600]
    cases = {f"wordcount up {policy}": {**row, "load_before": 1.0, "seconds": 1.0} for policy, row in rows.items()}
    result = {
        "engine": "Spark, micro-batch",
        "machine": {"cores": 2, "python": "3"},
        "slow": 1.0,
        "cases": {
            **cases,
            "wordcount sweep": {**swept, "load_before": 1, "seconds": 1.0},
            "wordcount rates": {**raised, "load_before": 1, "seconds": 1.0},
        },
    }
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    for name, told in RECORD.figures.items():
        block = f"<!-- measured: {name} -->\n<!-- end -->"
        assert told(result) in RECORD.rewritten(block, result)
    assert "| ds2 | (1, 4, 3, 1) | 9 | 4 |" in RECORD.figures["elasticity"](result)
