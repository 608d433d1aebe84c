"""Experiments on real Spark, without Spark: what they run can be run, and their READMEs say what their results say."""

from __future__ import annotations

import json
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import pytest

from autotrascale.app.job_file import JobFile
from autotrascale.domain.errors import EngineError
from autotrascale.domain.job import Job
from autotrascale.domain.target import Target
from autotrascale.domain.topology import Topology
from autotrascale.execute.spark.jobs.job_loading import load_job
from autotrascale.plan.policies.registry import known
from autotrascale.testing.scripted_engine import ScriptedEngine
from autotrascale.validation import validate
from experiments.ds2_spark import measure as ds2
from experiments.ds2_spark.tables import near
from experiments.floors_spark.run import new
from experiments.live_policies import measure as live
from experiments.rate_changes_spark import measure as rates
from experiments.shared.record import NAMES, Case, Record, Sitting, nothing, read, sit
from experiments.shared.spark_jobs import BENCHES, QUERIES, SLOTS, all_at, content
from experiments.shared.trials import find_floor, way

RECORDS: dict[str, Record] = {name: import_module(f"experiments.{name}.run").RECORD for name in NAMES}


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS)
def test_the_readme_says_what_the_result_says(record: Record) -> None:
    text = record.readme.read_text(encoding="utf-8")
    result = read(record, record.result_file)
    assert record.rewritten(text, result) == text, f"python -m experiments.{record.name}.run --tables"
    assert all(f"<!-- measured: {name} -->" in text for name in record.figures)
    assert "real Spark" in text.splitlines()[0]
    assert not result["simulated"]


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS)
def test_cases_have_names_of_their_own_and_policies_that_are_known(record: Record) -> None:
    cases = record.cases()
    names = [case.name for case in cases]
    assert len(set(names)) == len(names)
    assert {case.policy for case in cases} - {""} <= set(known())
    assert set(read(record, record.result_file)["cases"]) <= set(names)


@pytest.mark.parametrize("name", [*BENCHES, *QUERIES])
@pytest.mark.parametrize("slow", [1.0, 4.0])
def test_what_an_operator_needs_does_not_depend_on_how_slow_the_machine_is(name: str, slow: float) -> None:
    usual, slowed = (validate(content(name, each), JobFile, place=name) for each in (1.0, slow))
    assert usual.spark is not None
    assert slowed.spark is not None
    assert slowed.p_max == SLOTS
    for option, value in usual.spark.options.items():
        if option.endswith("_stall"):
            rates = [sum(each.source_rates.values()) for each in (usual, slowed)]
            assert slowed.spark.options[option] * rates[1] == pytest.approx(value * rates[0])
    topology: Topology = load_job(usual.spark.job, usual.spark.options).topology
    assert {topology.named(topology.vector(all_at(topology, 8)))[each] for each in topology.sources} == {1}


@pytest.mark.parametrize("policy", live.POLICIES)
def test_the_live_job_is_a_job_file_that_its_policy_can_decide_for(policy: str) -> None:
    file = validate(live.content(policy, 1.0), JobFile, place=policy)
    assert file.choose_policy(None).create(file.target).name == policy


def test_floors_ways_and_changes_of_rate_are_plain_data_and_can_be_told() -> None:
    """On an engine whose operators carry what they are told to: 1, 3 and 2 instances are enough."""
    topology = Topology.chain("bids", "count", "sink")
    job = Job("q5", topology, SLOTS, {"bids": 900.0}, Target(0.5, throughput_tolerance=0.05))
    engine = ScriptedEngine(topology, {"bids": 5000.0, "count": 350.0, "sink": 500.0}, p_max=SLOTS)
    floor = find_floor(job, engine)
    assert floor["floor"] == [1, 3, 2]
    assert floor["met"]
    assert new(floor) == 1
    ways = {f"q5 from {k} ds2": ds2.measure(Case("q5", f"from {k}", "ds2"), job, engine, 0) for k in ds2.STARTS}
    assert all(each["k"] == [1, 3, 2] and each["stop_reason"] == "policy-settled" for each in ways.values())
    changes = {case.name: rates.measure(case, job, engine, 0) for case in rates.cases() if case.bench == "q5"}
    assert changes["q5 change ds2"]["after"]["k"] == [1, 3, 2]
    assert changes["q5 change autrascale"]["after"]["qos"]
    for name, cases in (("floors_spark", {"q5 floor": floor}), ("ds2_spark", ways), ("rate_changes_spark", changes)):
        assert json.loads(json.dumps(cases, allow_nan=False)) == cases
        result = {**nothing(RECORDS[name], 1.0), "cases": cases}
        for each in cases.values():
            each.update(seconds=1.0, load_before=1.0)
        for told in RECORDS[name].figures.values():
            assert "not measured" not in told(result).lower() or name == "ds2_spark"
        assert "(1, 3, 2)" in "".join(told(result) for told in RECORDS[name].figures.values())


def _looks(*good: bool) -> list[dict[str, Any]]:
    return [
        {
            "at": 10.0 * i + 10,
            "latency_seconds": 1.0 if each else 99.0,
            "running": {"a": 2, "b": 1},
            "action": "stay",
            "reasons": [],
        }
        for i, each in enumerate(good)
    ]


def test_a_phase_is_settled_from_where_on_the_target_is_met() -> None:
    """Of looks every ten seconds: four, five and four in the three phases."""
    phases = [True] * 4 + [False, True, False, True, True] + [True, True, True, False]
    found = live.judged(_looks(*phases), 1.0)
    assert found["settled"] == [10.0, 40.0, None]
    assert (found["measured"], found["within"]) == (13, 10)
    assert found["instances"] == 3.0


def test_what_could_not_be_measured_is_left_out_and_the_rest_goes_on(tmp_path: Any) -> None:
    @contextmanager
    def broken(_: Sitting) -> Any:
        def measured(case: Case) -> dict[str, Any]:
            if case.kind == "breaks":
                raise EngineError("broke")
            return {"said": case.name}

        yield measured

    record = Record("floors_spark", "Spark", list, broken, {}, lambda found: str(found["said"]))
    result, path = nothing(record, 1.0), tmp_path / "result.json"
    sit(record, Sitting("job"), [Case("job", "breaks"), Case("job", "runs"), Case("other", "runs")], result, path)
    assert list(read(record, path)["cases"]) == ["job runs"]


def test_the_way_leaves_out_what_ran_twice_and_near_what_noise_moves() -> None:
    steps = [{"k": [1, 1]}, {"k": [1, 1]}, {"k": [1, 6]}, {"k": [1, 5]}]
    assert way(steps) == "(1, 1) → (1, 6) → (1, 5)"
    assert near({"trials": steps[1:]}) == 1
