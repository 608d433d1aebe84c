"""Texts and plots of critical paths, for generated reports and for reports with a known answer."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from html import escape

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotrascale.analyze.critical.activities import Kind
from autotrascale.domain.critical_path_report import (
    ALL,
    UNKNOWN,
    WAITING,
    CriticalPathReport,
    PathShare,
    WhatIf,
    average_reports,
    order_shares,
    report_to_dict,
)
from autotrascale.monitor.stores.participation_points import participation_to_points
from autotrascale.views.critical_path_text import describe_kind, explain_participation, participation_rows
from autotrascale.views.notebook import as_html
from autotrascale.views.plots import critical_paths as plots
from autotrascale.views.plots.plotly import build_figure
from autotrascale.views.plots.terminal import draw_plot

OPERATORS = ("count", "join")


@st.composite
def participations(draw: st.DrawFn, at: int = 0) -> CriticalPathReport:
    kinds = draw(st.lists(st.sampled_from(list(Kind)), min_size=1, max_size=6, unique=True))
    weights = draw(st.lists(st.integers(1, 50), min_size=len(kinds), max_size=len(kinds)))
    share = {kind.value: weight / sum(weights) for kind, weight in zip(kinds, weights, strict=True)}
    waiting = share.get(WAITING, 0.0)
    instances = [
        PathShare(name, draw(st.floats(0, (1 - waiting) / 8)), 1.0, instance=n) for name in OPERATORS for n in range(3)
    ]
    operators = [
        PathShare(name, sum(part.participation for part in instances if part.name == name), 3.0, instances=3)
        for name in OPERATORS
    ]
    timelines = [PathShare("driver", (1 - waiting) / 4, 2.0)]
    timelines += [PathShare(f"executor {n} slot 0", part.participation, 1.0) for n, part in enumerate(instances[:3])]
    cases = [WhatIf("free", kind, draw(st.floats(0, 1))) for kind in share if kind != WAITING]
    cases += [WhatIf(change, "count", draw(st.floats(0, 1))) for change in ("one-more", "even")]  # type: ignore[arg-type]
    cases.append(WhatIf("unlimited", ALL, draw(st.floats(0, 1))))
    return CriticalPathReport(
        "app",
        "words",
        1_795_000_000_000 + 10_000 * at,
        10.0,
        waiting,
        draw(st.floats(0, 1)),
        kinds=order_shares(PathShare(name, value, 10 * value) for name, value in share.items()),
        timelines=order_shares(timelines),
        operators=order_shares(operators),
        instances=order_shares(instances),
        exchanges=(PathShare("driver", draw(st.floats(0, 0.2)), 0.1, "executor 0 slot 0"),),
        what_ifs=tuple(sorted(cases, key=lambda case: case.at_best)),
    )


@given(participations())
def test_every_sentence_is_complete_and_the_first_names_the_parts_of_latency(one: CriticalPathReport) -> None:
    lines = explain_participation(one)
    assert all(line.endswith(".") and "\n" not in line and "nan" not in line for line in lines)
    if one.path_seconds > 0:
        assert lines[0].startswith("Latency is ")
        biggest = next(part.name for part in one.kinds if part.name != WAITING)
        if one.kinds[0].participation >= 0.02 * (1 - one.waiting):
            assert describe_kind(biggest) in lines[0]
        assert len([line for line in lines if line.startswith("More parallelism ")]) == 1


@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=4, unique=True).flatmap(
        lambda times: st.tuples(*(participations(at) for at in sorted(times)))
    )
)
@settings(max_examples=20, deadline=None)
def test_plots_and_points_and_json_of_any_windows(windows: tuple[CriticalPathReport, ...]) -> None:
    for plot in plots.plot_windows(windows):
        made = json.loads(json.dumps(build_figure(plot), allow_nan=False))
        assert made["data"]
        assert plot.caption
        rows = draw_plot(plot).plain.split("\n")
        assert rows[0] == plot.title
    kinds = plots.plot_kinds(windows)
    for n, one in enumerate(windows):
        assert sum(series.y[n] or 0.0 for series in kinds.series) == pytest.approx(100 * (1 - one.waiting), abs=1e-6)
    points = [point for one in windows for point in participation_to_points(one)]
    assert len({(point.measurement, *point.tags.items(), point.time) for point in points}) == len(points)
    whole = report_to_dict(average_reports(windows))
    assert json.loads(json.dumps(whole, allow_nan=False))["seconds"] == 10 * len(windows)


def test_every_kind_has_a_name() -> None:
    assert {WAITING, UNKNOWN} <= {kind.value for kind in Kind}
    assert all(describe_kind(kind.value) != kind.value for kind in Kind if "-" in kind.value)


def known() -> CriticalPathReport:
    return CriticalPathReport(
        "app",
        "words",
        0,
        10.0,
        waiting=0.5,
        uncovered=0.0,
        kinds=(PathShare(WAITING, 0.5, 0.0), PathShare("commit", 0.3, 3.0), PathShare("processing", 0.2, 8.0)),
        timelines=(
            PathShare("driver", 0.3, 3.0),
            PathShare("executor 1 slot 0", 0.2, 4.0),
            PathShare("executor 2 slot 0", 0.0, 4.0),
        ),
        operators=(PathShare("count", 0.2, 8.0, instances=2),),
        instances=(PathShare("count", 0.2, 4.0, instance=0), PathShare("count", 0.0, 4.0, instance=1)),
        exchanges=(),
        what_ifs=(WhatIf("free", "commit", 0.4), WhatIf("unlimited", ALL, 0.6), WhatIf("one-more", "count", 0.87)),
    )


def test_a_query_bound_by_its_commits() -> None:
    assert explain_participation(known()) == [
        "Latency is 60% the commit log, 40% processing.",
        "By operator: 40% count.",
        "Executor 1 has 100% of the critical path of all 2 executors.",
        "Largest possible savings: 60% if the commit log took no time, 13% if count had one more instance.",
        "More parallelism saves at most 40%, with any number of instances; one more instance of count saves at most"
        " 13%. The other 60% do not depend on parallelism.",
        "It waited for input or its trigger 50% of the time, which is not part of these shares.",
    ]


def test_a_notebook_shows_the_same_sentences() -> None:
    one = replace(known(), query="<script>words")
    html = as_html(one)
    assert "&lt;script&gt;words" in html
    assert "<script" not in html
    assert all(escape(line) in html for line in explain_participation(one))
    assert [row[:3] for row in participation_rows(one)][:3] == [
        ("kind", "the commit log", "60.0%"),
        ("kind", "processing", "40.0%"),
        ("operator", "count", "40.0%"),
    ]


def test_a_query_that_only_waited_and_one_without_work_for_operators() -> None:
    idle = replace(known(), waiting=1.0, kinds=(PathShare(WAITING, 1.0, 0.0),), what_ifs=())
    assert explain_participation(idle) == ["Nothing ran in this time: the query waited for input or for its trigger."]
    driver = replace(known(), operators=(), instances=(), what_ifs=(WhatIf("free", "commit", 0.4),))
    assert "More parallelism saves nothing: no operator is on the critical paths." in explain_participation(driver)
    assert plots.plot_instances([driver]).missing
    assert plots.plot_kinds([]).missing


def test_areas_are_stacked_and_the_largest_value_is_the_darkest() -> None:
    one = known()
    windows = [replace(one, started_ms=n * 10_000) for n in range(3)]
    kinds = draw_plot(plots.plot_kinds(windows)).plain
    rows = [line.partition("│")[2] for line in kinds.split("\n") if "│" in line]
    assert [row.count("▓") for row in rows][:4] == [64] * 4  # processing, 20 % on top of 30 %
    assert rows[-1] == "█" * 64
    heat = [
        line.partition("│")[2] for line in draw_plot(plots.plot_instances(windows)).plain.split("\n") if "│" in line
    ]
    assert heat == ["███", "   "]
    trace = build_figure(plots.plot_instances(windows))["data"][0]
    assert (trace["type"], trace["y"], trace["z"][1]) == ("heatmap", ["count 1", "count 0"], [20.0, 20.0, 20.0])
    assert not any(math.isnan(z) for row in trace["z"] for z in row)
