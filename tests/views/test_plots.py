"""Plots as data: laws over generated observations, evaluations and models, and a Plotly figure of each plot."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotrascale import Study
from autotrascale.domain.job import Job
from autotrascale.domain.snapshot import CRITICAL_FIELDS, CriticalShares, OperatorMetrics, Snapshot
from autotrascale.domain.target import Target
from autotrascale.domain.topology import Topology
from autotrascale.domain.trial import Verdict
from autotrascale.plan.control.loop_state import CheckedPrediction
from autotrascale.plan.control.observations.not_scalable import describe_critical_path
from autotrascale.plan.control.observations.slow_services import MIN_CORRELATION, ServiceLatencyHistory
from autotrascale.plan.search.score import Benefit
from autotrascale.tuning import Evaluation
from autotrascale.views.plots import batch_time, benefit_model, critical_paths, run_comparison, service_lag
from autotrascale.views.plots import tuning_trials as run_plots
from autotrascale.views.plots.loop_history import (
    PlottedLoop,
    PlottedObservation,
    follow_requests,
    plot_loop,
    plot_predictions,
)
from autotrascale.views.plots.plot import Axis, Plot, Series
from autotrascale.views.plots.plotly import build_extension, build_figure
from autotrascale.views.plots.tuning_trials import SearchedRun

NAMES = ("source", "count")
JOB = Job("words", Topology.chain(*NAMES), 24, {"source": 1000.0}, Target(0.2))

counts = st.integers(1, 24)
vectors = st.fixed_dictionaries(dict.fromkeys(NAMES, counts))
amounts = st.floats(0.0, 1e9)


@st.composite
def entries(draw: st.DrawFn, number: int) -> dict[str, Any]:
    running = draw(st.none() | vectors)
    actions = ("stay", "rescale", "rescaled", "failed", "start", "would-rescale")
    return {
        "number": number,
        "at": 60.0 * number,
        "action": draw(st.sampled_from(actions)),
        "hold": False,
        "rate": draw(st.none() | amounts),
        "latency_seconds": draw(st.none() | st.floats(0.001, 100.0)),
        "backlog_records": draw(st.none() | amounts),
        "running": running,
        "wanted": None if running is None else draw(vectors),
        "reasons": [{"code": "so", "text": "because"}],
    }


@st.composite
def histories(draw: st.DrawFn) -> list[PlottedObservation]:
    numbers = range(1, draw(st.integers(0, 12)) + 1)
    looks = (PlottedObservation(n, 1.7e9 + 60.0 * n, draw(entries(n)), draw(st.none() | amounts)) for n in numbers)
    return list(follow_requests(looks))


@given(histories(), st.integers(0, 12), st.booleans())
def test_appended_observations_give_the_same_plot_as_all_at_once(
    looks: list[PlottedObservation], cut: int, simulated: bool
) -> None:
    kept = PlottedLoop(Target(0.2), simulated)
    for before, after, whole in zip(
        plot_loop(kept, looks[:cut]), plot_loop(kept, looks[cut:]), plot_loop(kept, looks), strict=True
    ):
        assert before.followed_by(after).series == whole.series
        if after.series[0].x:
            added = [trace["x"] for trace in build_extension(after)]
            assert [b["x"] + a for b, a in zip(build_extension(before), added, strict=True)] == [
                w["x"] for w in build_extension(whole)
            ]


@given(histories())
def test_a_request_stands_until_it_runs_or_fails(looks: list[PlottedObservation]) -> None:
    for before, now in zip([None, *looks], looks, strict=False):
        action = now.entry["action"]
        if action == "rescale":
            assert now.requested == now.entry["wanted"]
        elif action in ("rescaled", "failed", "start"):
            assert now.requested is None
        else:
            assert now.requested == (None if before is None else before.requested)


@given(histories(), st.booleans())
def test_each_decision_is_marked_once_with_its_reason(looks: list[PlottedObservation], simulated: bool) -> None:
    parallelism = plot_loop(PlottedLoop(Target(0.2), simulated), looks)[1]
    (marked,) = [series for series in parallelism.series if series.name == "decisions"]
    deeds = [(look.entry["action"], look.entry["wanted"]) for look in looks]
    acted = [now for before, now in zip([None, *deeds], deeds, strict=False) if now[0] != "stay" and now != before]
    assert len(marked.x) == len(acted)
    assert all("because" in said for said in marked.labels)


shares = st.floats(0.0, 1.0)
criticals = st.none() | st.builds(CriticalShares, shares, shares, shares, shares, st.sampled_from(["", "count"]))


@given(st.lists(criticals, max_size=8))
def test_each_observation_with_a_critical_path_is_a_stack(told: list[CriticalShares | None]) -> None:
    looks = [PlottedObservation(n, 1.7e9 + 60.0 * n, {}, critical=each) for n, each in enumerate(told, start=1)]
    plot, known = (
        critical_paths.plot_critical_shares(looks, simulated=False),
        [each for each in told if each is not None],
    )
    assert critical_paths.plot_critical_shares(looks, simulated=True).missing
    assert bool(plot.missing) is not bool(known)
    if not known:
        return
    assert describe_critical_path(known[-1]) in plot.caption
    assert len(json.loads(json.dumps(build_figure(plot), allow_nan=False))["data"]) == len(plot.series)
    for series in plot.series:
        assert series.x == tuple(look.at for look in looks if look.critical is not None)
    for each, *column in zip(known, *(series.y for series in plot.series), strict=True):
        parts = [100 * getattr(each, name) for name in CRITICAL_FIELDS]
        assert column[:-1] == pytest.approx(parts)
        assert sum(y or 0.0 for y in column) == pytest.approx(max(100.0, sum(parts)))


@st.composite
def evaluations(draw: st.DrawFn) -> tuple[Evaluation, ...]:
    found = []
    for number in range(1, draw(st.integers(0, 8)) + 1):
        latency = draw(st.none() | st.floats(0.001, 10.0))
        verdict = Verdict.STABLE if latency else draw(st.sampled_from([Verdict.CANNOT_KEEP_UP, Verdict.FAILED]))
        score = None if number < 3 else draw(st.floats(0.01, 1.0))
        found.append(Evaluation(number, "search", draw(vectors), verdict, latency, 1000.0, 60.0, score))
    return tuple(found)


@given(evaluations(), st.none() | vectors)
def test_every_trial_is_drawn_or_the_plot_says_why_not(ran: tuple[Evaluation, ...], floor: Any) -> None:
    benefit = None if floor is None else Benefit(JOB.topology.vector(floor), 0.2)
    run = SearchedRun(JOB, ran, benefit)
    history, latencies, instances, choices = run_plots.plot_run(run)
    scored = [score for each in ran if (score := run.score(each)) is not None]
    assert len(scored) >= sum(each.score is not None for each in ran)
    held = [each for each in ran if each.latency_seconds is not None]
    assert bool(history.missing) is not bool(scored)
    assert bool(latencies.missing) is not bool(held)
    assert bool(instances.missing) is bool(choices.missing) is not bool(ran)
    assert sum(len(series.x) for series in latencies.series) == len(held)
    assert sum(len(series.x) for series in choices.series) == len(ran) * (len(NAMES) + 1)
    if scored:
        best = history.series[0].y
        assert list(best) == sorted(best, key=lambda score: score or 0.0)
        assert best[-1] == max(scored)


@settings(max_examples=20)  # each is a model of its own for each run
@given(
    st.lists(
        st.tuples(st.tuples(st.integers(2, 24), st.integers(4, 24)), st.none() | st.floats(0.01, 5.0)),
        min_size=1,
        max_size=6,
        unique_by=lambda each: each[0],
    )
)
def test_slices_show_the_models_predictions(runs: list[tuple[tuple[int, int], float | None]]) -> None:
    study = Study((2, 4), 24, 0.2)
    for k, latency in runs:
        study.tell(k, latency=latency, failed=latency is None)
    model, centre = study.model(1000.0), dict(zip(NAMES, runs[0][0], strict=True))
    for i, plot in enumerate(benefit_model.plot_slices(model, NAMES, centre)):
        expected = plot.series[0]
        assert list(expected.x) == list(range(model.floor[i], model.p_max[i] + 1))
        ks = [[x if j == i else centre[name] for j, name in enumerate(NAMES)] for x in expected.x]
        mean, std = model.log_ratio(ks)
        for y, sd, m, s in zip(expected.y, expected.sd, mean, std, strict=True):
            latency = 0.2 * 2.718281828459045**m
            assert y == pytest.approx(1000 * latency)
            assert sd == pytest.approx(1000 * latency * s)
        on_it = [k for k, latency in runs if latency and all(k[j] == centre[n] for j, n in enumerate(NAMES) if j != i)]
        assert sum(len(series.x) for series in plot.series[1:]) == len(on_it)
    worth = benefit_model.plot_acquisition(model, NAMES, centre)
    assert all(value is not None and value >= 0 for series in worth.series for value in series.y)
    compared = benefit_model.plot_predictions(model, NAMES)
    later = [latency for _, latency in runs[1:] if latency is not None]
    assert bool(compared.missing) is not bool(later)
    if later:
        assert compared.series[1].y == pytest.approx([1000 * latency for latency in later])


@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), evaluations(), min_size=1))
def test_a_comparison_shows_every_run(runs: dict[str, tuple[Evaluation, ...]]) -> None:
    plot = run_comparison.plot_trials_of_runs(runs, [0.2] * len(runs))
    for name, ran in runs.items():
        held = [each for each in ran if each.latency_seconds is not None]
        drawn = [series for series in plot.series if series.name == name]
        assert sum(len(series.x) for series in drawn) == len(held)
        assert held or plot.missing or name in plot.caption


def snapshot(**changed: Any) -> Snapshot:
    operators = {
        "source": OperatorMetrics(6000.0, 6000.0, 12.0, parallelism=2),
        "count": OperatorMetrics(6000.0, 10.0, 24.0, parallelism=4, upstream=("source",)),
    }
    return Snapshot("words", 60.0, 8, {"source": 100.0}, operators, **changed)


@pytest.mark.parametrize("simulated", [False, True])
def test_the_parts_of_a_batch_add_up_to_it(simulated: bool) -> None:
    """For a job without pauses between batches, both calculations give the same."""
    plot = batch_time.plot_batch_time(
        snapshot(execution="micro-batch", batch_seconds=4.0, overhead_share=0.8), simulated=simulated
    )
    (series,) = plot.series
    assert dict(zip(series.x, series.y, strict=True)) == pytest.approx(
        {"source": 400, "count": 400, batch_time.NO_OPERATOR: 3200}
    )
    assert "planning, scheduling" in plot.caption


@given(st.floats(0.1, 10.0), st.floats(0.01, 0.7))
def test_a_batch_that_waits_for_its_trigger_has_its_measured_length(length: float, overhead: float) -> None:
    """A measured batch has its own length. The overhead of a simulated job is that of its longest batch."""
    seen = snapshot(execution="micro-batch", batch_seconds=length, overhead_share=overhead)
    (measured,), (simulated,) = (batch_time.plot_batch_time(seen, simulated=each).series for each in (False, True))
    assert sum(y or 0.0 for y in measured.y) == pytest.approx(1000 * length)
    assert sum(y or 0.0 for y in simulated.y) == pytest.approx(1000 * length * overhead / (1 - 0.2))


def test_a_simulated_job_that_fell_behind_has_no_batch_to_show() -> None:
    seen = replace(snapshot(execution="micro-batch", batch_seconds=4.0, overhead_share=0.2), window_seconds=9.0)
    assert "fell behind" in batch_time.plot_batch_time(seen, simulated=True).missing


def test_instances_that_own_their_slots_are_busy_for_a_share() -> None:
    (series,) = batch_time.plot_batch_time(snapshot(), simulated=False).series
    assert dict(zip(series.x, series.y, strict=True)) == pytest.approx({"source": 10.0, "count": 10.0})


def test_an_unknown_time_is_named() -> None:
    seen = snapshot()
    blind = {name: replace(each, useful_seconds=None) for name, each in seen.operators.items()}
    assert "is unknown" in batch_time.plot_batch_time(replace(seen, operators=blind), simulated=False).missing
    batches = replace(seen, execution="micro-batch", batch_seconds=4.0)
    assert "outside its operators" in batch_time.plot_batch_time(batches, simulated=False).missing
    assert "of source, count" in batch_time.plot_batch_time(replace(batches, operators=blind), simulated=False).missing
    assert batch_time.plot_batch_time(None, simulated=False).missing


def test_a_series_with_missing_values_is_refused() -> None:
    with pytest.raises(ValueError, match="1 values for 2 places"):
        Series("a", (1, 2), (1,))
    with pytest.raises(ValueError, match="no values"):
        Series("a", (1, 2), ())


@given(histories(), evaluations(), st.booleans())
def test_a_figure_is_plain_data_with_as_many_values_as_places(
    looks: list[PlottedObservation], ran: tuple[Evaluation, ...], simulated: bool
) -> None:
    drawn = [
        *plot_loop(PlottedLoop(Target(0.2), simulated), looks),
        *run_plots.plot_run(SearchedRun(JOB, ran)),
        plot_predictions([CheckedPrediction(0.1, 0.01, 0.12)]),
        plot_predictions([]),
        batch_time.plot_batch_time(snapshot(), simulated=False),
    ]
    for plot in drawn:
        made = json.loads(json.dumps(build_figure(plot), allow_nan=False))
        for trace in made["data"]:
            assert len(trace["x"]) == len(trace["y"])
            assert len(trace.get("text", trace["x"])) == len(trace["x"])
            assert trace["meta"]["role"]
        assert plot.caption or plot.missing
        assert made["layout"]["showlegend"] or not plot.levels
        assert [trace["name"] for trace in made["data"]][len(made["data"]) - len(plot.levels) :] == [
            level.name for level in plot.levels
        ]


def test_a_band_is_one_deviation_wide_and_times_are_milliseconds() -> None:
    series = Series("expected", (10.0, 20.0), (5.0, 6.0), sd=(1.0, 2.0))
    band, line = build_figure(Plot("a", "A", "says", Axis("", "time"), Axis("ms"), (series,)))["data"]
    assert band["x"] == [10_000, 20_000, 20_000, 10_000]
    assert band["y"] == [6.0, 8.0, 4.0, 4.0]
    assert line["x"] == [10_000, 20_000]


@settings(max_examples=30)
@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 100), st.floats(0, 100)), max_size=20))
def test_the_correlation_with_each_service_is_shown_at_each_lag(seen: list[tuple[float, float, float]]) -> None:
    known = ServiceLatencyHistory()
    for backlog, prices, stock in seen:
        known = known.add(backlog, {"prices": prices, "stock": stock})
    plot = service_lag.plot_service_lag(known)
    if plot.missing:
        assert not plot.series
        return
    assert build_figure(plot)["data"]
    correlations = [y for series in plot.series for y in series.y if y is not None]
    assert all(-1 - 1e-9 <= each <= 1 + 1e-9 for each in correlations)
    assert known.find_slow_service() is None or max(correlations) >= MIN_CORRELATION
    assert ("follows no service" in plot.caption) == (known.find_slow_service() is None)
