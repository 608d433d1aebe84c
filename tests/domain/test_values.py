"""Snapshot, target, decision, errors and checks: their values and refusals."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from autotrascale.domain import checks
from autotrascale.domain.decision import Decision, Reason
from autotrascale.domain.errors import AuTraScaleError, EngineError, InputError, StudyError
from autotrascale.domain.snapshot import WORK_FIELDS, Latency, OperatorMetrics, Snapshot, Work
from autotrascale.domain.target import Target
from autotrascale.testing.strategies import snapshots


@given(snapshots())
def test_a_snapshot_has_its_graph_and_parallelism(snapshot: Snapshot) -> None:
    assert list(snapshot.topology) == list(snapshot.operators)
    assert snapshot.parallelism == {name: metrics.parallelism for name, metrics in snapshot.operators.items()}
    assert snapshot.target_rate == pytest.approx(sum(snapshot.source_rates.values()))


@given(snapshots())
def test_total_sums_the_instances(snapshot: Snapshot) -> None:
    for metrics in snapshot.operators.values():
        total = metrics.total
        works = metrics.instances or (metrics,)
        for name in WORK_FIELDS:
            known = [getattr(work, name) for work in works]
            assert getattr(total, name) == (None if None in known else pytest.approx(sum(known)))


def test_a_sum_with_an_unknown_part_is_unknown() -> None:
    metrics = OperatorMetrics(parallelism=2, instances=(Work(3, 3, 1.0), Work(4, None, 1.0)))
    assert (metrics.total.records_in, metrics.total.records_out) == (7, None)


def test_silent_instances_did_not_report() -> None:
    assert OperatorMetrics(parallelism=3, instances=(Work(1), Work(1))).silent_instances == 1
    assert OperatorMetrics(parallelism=3, records_in=1).silent_instances == 0
    assert OperatorMetrics(parallelism=3).silent_instances == 0


def test_latency_by_statistic() -> None:
    latency = Latency(mean=0.1, p99=0.4)
    assert (latency.of("mean"), latency.of("p99"), latency.of("p50")) == (0.1, 0.4, None)


@pytest.mark.parametrize(
    "given_",
    [
        {"latency_seconds": 0},
        {"latency_seconds": 1, "statistic": "max"},
        {"latency_seconds": 1, "throughput_tolerance": 2},
    ],
)
def test_invalid_targets_are_refused(given_: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        Target(**given_)


def test_a_decision_has_changed_when_the_parallelism_differs() -> None:
    reason = Reason("demand", "map needs 2", {"operator": "map", "wanted": 2})
    same, other = {"map": 1}, {"map": 2}
    assert not Decision.between("p", same, same).changed
    decision = Decision.between("p", same, other, reason)
    assert decision.changed
    assert json.loads(json.dumps(decision.as_dict())) == {
        "policy": "p",
        "parallelism": {"map": 2},
        "changed": True,
        "reasons": [{"code": "demand", "text": "map needs 2", "operator": "map", "wanted": 2}],
    }


def test_an_input_error_is_one_line_with_place_problem_value_and_remedy() -> None:
    error = InputError("p_max", "must be at least 1", seen=0, remedy="give 1 or more")
    assert str(error) == "p_max: must be at least 1 (seen: 0); give 1 or more"
    assert str(error.with_prefix("snapshot.")) == "snapshot.p_max: must be at least 1 (seen: 0); give 1 or more"
    assert str(InputError("job", "is empty")) == "job: is empty"
    assert str(InputError("job", "is", seen=None).with_prefix("x.")) == "x.job: is (seen: None)"
    assert len(str(InputError("job", "is long", seen="x" * 500))) < 110


def test_all_errors_have_one_base() -> None:
    assert all(issubclass(kind, AuTraScaleError) for kind in (InputError, StudyError, EngineError))
    assert issubclass(InputError, ValueError)


def test_checks_accept_numpy_numbers_and_refuse_other_types() -> None:
    checks.count("n", np.int64(3))
    checks.positive("x", np.float64(0.5))
    checks.optional(checks.share, "x", None)
    for value in (True, 2.0, "2", None, 0):
        with pytest.raises(InputError, match=r"^n: "):
            checks.count("n", value)  # type: ignore[arg-type]
    for value in (True, "0.5", None, float("inf"), float("nan"), -0.1):
        with pytest.raises(InputError, match=r"^x: "):
            checks.non_negative("x", value)  # type: ignore[arg-type]
    for value in (1.1, -0.1):
        with pytest.raises(InputError, match="between 0 and 1"):
            checks.share("x", value)
