from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrascale.domain.snapshot import OperatorMetrics, Snapshot, Work
from autotrascale.plan.sizing.demand import Demand, measure_demand
from autotrascale.testing.chain_snapshots import chain_snapshot
from autotrascale.testing.strategies import snapshots


def with_rates_times(snapshot: Snapshot, factor: float) -> Snapshot:
    return replace(snapshot, source_rates={name: rate * factor for name, rate in snapshot.source_rates.items()})


def with_metrics(snapshot: Snapshot, name: str, **fields: object) -> Snapshot:
    metrics = replace(snapshot.operators[name], **fields)  # type: ignore[arg-type]
    return replace(snapshot, operators={**snapshot.operators, name: metrics})


def word_count(rate: float = 100.0) -> Snapshot:
    k, capacity = {"source": 1, "flatmap": 2, "count": 3}, {"source": 80.0, "flatmap": 10.0, "count": 50.0}
    return chain_snapshot(k, capacity, rate, selectivity={"flatmap": 20.0})


def missing(demand: Demand) -> dict[str, str]:
    return {gap.operator: gap.missing for gap in demand.gaps}


@given(snapshots(), st.sampled_from([0.125, 0.5, 2.0, 8.0]))
def test_demand_is_scale_free(snapshot: Snapshot, factor: float) -> None:
    once, scaled = measure_demand(snapshot), measure_demand(with_rates_times(snapshot, factor))
    assert {n: (r or 0) * factor for n, r in once.rate.items()} == pytest.approx(scaled.rate)
    assert once.capacity == scaled.capacity


@given(snapshots(), st.floats(1.0, 100.0))
def test_demand_and_load_never_fall_when_rates_rise(snapshot: Snapshot, factor: float) -> None:
    once, more = measure_demand(snapshot), measure_demand(with_rates_times(snapshot, factor))
    for name in snapshot.operators:
        assert (more.rate[name] or 0) >= (once.rate[name] or 0) * (1 - 1e-12)
        assert (more.load[name] or 0) >= (once.load[name] or 0) * (1 - 1e-12)


@given(snapshots())
def test_complete_metrics_leave_no_gap(snapshot: Snapshot) -> None:
    demand = measure_demand(snapshot)
    assert not demand.gaps
    assert not demand.kept_sources
    assert None not in demand.load.values()
    assert list(demand.load) == list(snapshot.operators)


@given(snapshots())
def test_demand_does_not_depend_on_the_window_length(snapshot: Snapshot) -> None:
    """Twice the records in twice the useful time give the same capacity."""
    doubled = {name: replace(m, **_doubled(m)) for name, m in snapshot.operators.items()}
    assert measure_demand(replace(snapshot, operators=doubled)).load == pytest.approx(measure_demand(snapshot).load)


def _doubled(metrics: OperatorMetrics) -> dict[str, object]:
    def twice(work: Work) -> dict[str, object]:
        names = ("records_in", "records_out", "useful_seconds")
        return {name: 2 * getattr(work, name) for name in names}

    if metrics.instances:
        return {"instances": tuple(replace(work, **twice(work)) for work in metrics.instances)}  # type: ignore[arg-type]
    return twice(metrics)


def test_demand_of_the_word_count() -> None:
    demand = measure_demand(word_count())
    assert demand.rate == {"source": 100.0, "flatmap": 100.0, "count": 2000.0}
    assert demand.capacity == pytest.approx({"source": 80.0, "flatmap": 10.0, "count": 50.0})
    assert demand.load == pytest.approx({"source": 1.25, "flatmap": 10.0, "count": 40.0})


def test_instances_are_averaged_by_their_rates() -> None:
    """DS2 Eq. 5 sums rates: instances of 10/s and 30/s have a mean of 20/s, at any busy times."""
    fast, slow = Work(300, 300, 10.0), Work(100, 100, 10.0)
    rarely = replace(slow, records_in=10, useful_seconds=1.0)
    for instances in ((fast, slow), (fast, rarely)):
        operators = {
            "source": OperatorMetrics(parallelism=1),
            "map": OperatorMetrics(parallelism=2, upstream=("source",), instances=instances),
        }
        snapshot = replace(word_count(), operators=operators)
        assert measure_demand(snapshot).capacity["map"] == pytest.approx(20.0)


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"useful_seconds": None}, "no useful time"),
        ({"useful_seconds": 0.0}, "useful time of zero"),
        ({"records_in": None}, "count of input records"),
        ({"records_in": 0.0}, "received no records"),
        ({"records_out": None}, "count of output records"),
    ],
)
def test_a_missing_measurement_is_named(fields: dict[str, object], what: str) -> None:
    demand = measure_demand(with_metrics(word_count(), "flatmap", **fields))
    assert list(missing(demand)) == ["flatmap"]
    assert what in missing(demand)["flatmap"]
    assert demand.load["count"] is None


def test_every_operator_with_a_gap_is_named() -> None:
    snapshot = with_metrics(with_metrics(word_count(), "flatmap", useful_seconds=None), "count", useful_seconds=0.0)
    assert list(missing(measure_demand(snapshot))) == ["flatmap", "count"]


def test_an_instance_without_records_counts_like_the_mean() -> None:
    instances = (Work(300, 300, 10.0), Work(0, 0, 0.004))
    shape = {"records_in": None, "records_out": None, "useful_seconds": None, "parallelism": 2}
    whole = with_metrics(word_count(), "flatmap", **shape, instances=instances)
    assert measure_demand(whole).capacity["flatmap"] == 30.0


def test_one_instance_without_useful_time_leaves_the_operator_unknown() -> None:
    instances = (Work(300, 300, 10.0), Work(0, 0, 0.0))
    whole = with_metrics(
        word_count(), "flatmap", records_in=None, records_out=None, useful_seconds=None, instances=instances
    )
    assert "zero" in missing(measure_demand(whole))["flatmap"]


def test_instances_that_do_not_report_are_a_gap() -> None:
    fields = {"records_in": None, "records_out": None, "useful_seconds": None, "instances": (Work(300, 300, 10.0),)}
    for rate in (100.0, 0.0):
        demand = measure_demand(with_metrics(word_count(rate), "flatmap", **fields))
        assert missing(demand) == {"flatmap": "has 1 of 2 instances that did not report"}
    source = with_metrics(word_count(), "source", parallelism=2, **fields)
    assert list(missing(measure_demand(source))) == ["source"]


def test_a_sink_needs_no_count_of_output_records() -> None:
    assert not measure_demand(with_metrics(word_count(), "count", records_out=None)).gaps


def test_a_source_without_a_true_rate_keeps_its_parallelism() -> None:
    for fields in ({"useful_seconds": 0.0}, {"useful_seconds": None}, {"records_in": None, "records_out": None}):
        demand = measure_demand(with_metrics(word_count(), "source", **fields))
        assert demand.kept_sources == {"source"}
        assert not demand.gaps
        assert demand.rate["count"] == 2000.0


def test_a_source_that_counts_only_its_output_is_sized_by_it() -> None:
    for unsaid in (None, 0.0):
        demand = measure_demand(with_metrics(word_count(), "source", records_in=unsaid))
        assert demand.load["source"] == pytest.approx(1.25)


def test_no_input_rate_means_no_demand_and_nothing_unknown() -> None:
    idle = with_metrics(word_count(rate=0.0), "flatmap", records_in=0.0, records_out=0.0, useful_seconds=0.0)
    demand = measure_demand(idle)
    assert demand.load == {"source": 0.0, "flatmap": 0.0, "count": 0.0}
    assert not demand.gaps


def test_a_filter_that_drops_all_records_leaves_no_demand_downstream() -> None:
    snapshot = with_metrics(word_count(), "flatmap", records_out=0.0)
    demand = measure_demand(with_metrics(snapshot, "count", records_in=0.0, useful_seconds=0.0))
    assert demand.rate["count"] == 0.0
    assert not demand.gaps


def test_unknown_capacity_is_a_gap_only_with_demand() -> None:
    assert list(missing(measure_demand(with_metrics(word_count(), "count", records_in=0.0)))) == ["count"]


@pytest.mark.parametrize(
    "fields",
    [
        {"records_in": 1e300, "useful_seconds": 1e-300},
        {"records_in": 1e-300, "useful_seconds": 1e300},
        {"records_out": 1e308, "records_in": 1e-5},
    ],
)
def test_an_overflow_is_unknown_and_never_infinite(fields: dict[str, object]) -> None:
    demand = measure_demand(with_metrics(word_count(), "flatmap", **fields))
    assert demand.gaps
    assert all(load is None or load < float("inf") for load in demand.load.values())
