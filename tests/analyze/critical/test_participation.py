"""Laws of critical participation: equality with listed paths, and consequences of its definition."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import pytest
from enumeration import window
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from autotrascale.analyze.critical.activities import Activity, ActivityTrace, Kind, Message
from autotrascale.analyze.critical.edges import cut_into_windows, make_edges
from autotrascale.analyze.critical.gaps import fill_gaps
from autotrascale.analyze.critical.participation_table import measure_windows
from autotrascale.domain.critical_path_report import CriticalPathReport, average_reports
from autotrascale.domain.errors import InputError

WORK = [kind for kind in Kind if kind is not Kind.waiting]


@st.composite
def traces(draw: DrawFn, most: int = 24) -> ActivityTrace:
    """Up to four timelines of at most five activities each, and some messages, none in a circle within one instant."""
    names = [f"t{n}" for n in range(draw(st.integers(1, 4)))]
    times = st.integers(0, most)
    activities = []
    for name in names:
        cuts = sorted(draw(st.lists(times, unique=True, max_size=6)))
        for start, end in pairwise(cuts):
            kind = draw(st.sampled_from([Kind.processing, Kind.commit, Kind.waiting]))
            operator = draw(st.sampled_from([None, "count", "join"]))
            activities.append(Activity(name, start, end, kind, operator, draw(st.sampled_from([None, 0, 1]))))
    messages = []
    for _ in range(draw(st.integers(0, 5))):
        sent, received = sorted((draw(times), draw(times)))
        a, b = draw(st.integers(0, len(names) - 1)), draw(st.integers(0, len(names) - 1))
        if sent < received or a < b:
            messages.append(Message(names[a], sent, names[b], received, Kind.fetch, None))
    return ActivityTrace(tuple(activities), tuple(messages))


def analysed(trace: ActivityTrace, seconds: float) -> list[CriticalPathReport]:
    edges, names = make_edges(trace)
    return measure_windows(fill_gaps(edges), names, seconds, application="a", query="q")


def whole(trace: ActivityTrace) -> ActivityTrace:
    """Return the trace with unknown time as activities, like `fill_gaps`."""
    edges, names = make_edges(trace)
    kept = fill_gaps(edges)
    own = kept.taken(~kept.message)
    kinds = list(Kind)
    return ActivityTrace(
        tuple(
            Activity(
                names.timelines[own.source[n]],
                int(own.start[n]) // 1000,
                int(own.end[n]) // 1000,
                kinds[own.kind[n]],
                None if own.operator[n] < 0 else names.operators[own.operator[n]],
                None if own.instance[n] < 0 else int(own.instance[n]),
            )
            for n in range(len(own))
        ),
        trace.messages,
    )


@given(traces(), st.sampled_from([7, 10, 30]))
@settings(max_examples=150, deadline=None)
def test_participation_equals_the_count_over_all_listed_paths(trace: ActivityTrace, width: int) -> None:
    for found in analysed(trace, width / 1000):
        listed = window(whole(trace), found.started_ms, found.started_ms + width).participation()
        for part in found.kinds:
            expected = sum(value for name, value in listed.items() if name[0] == part.name)
            assert part.participation == pytest.approx(float(expected), abs=1e-12)
        for timeline in found.timelines:
            expected = sum(v for name, v in listed.items() if len(name) == 3 and name[1] == timeline.name)
            assert timeline.participation == pytest.approx(float(expected), abs=1e-12)
        for exchange in found.exchanges:
            ends = (exchange.name, exchange.other)
            expected = sum(v for name, v in listed.items() if len(name) == 4 and name[1:3] == ends)
            assert exchange.participation == pytest.approx(float(expected), abs=1e-12)
        for operator in found.operators:
            expected = sum(v for name, v in listed.items() if len(name) == 3 and name[2] == operator.name)
            assert operator.participation == pytest.approx(float(expected), abs=1e-12)


@given(traces(60), st.integers(1, 40))
@settings(max_examples=80, deadline=None)
def test_participation_of_a_window_sums_to_one(trace: ActivityTrace, width: int) -> None:
    for found in analysed(trace, width / 1000):
        assert sum(part.participation for part in found.kinds) == pytest.approx(1)
        own = sum(part.participation for part in (*found.timelines, *found.exchanges))
        assert own + found.waiting == pytest.approx(1)
        assert 0 <= found.uncovered <= 1
        assert 0 <= found.waiting <= 1
        assert all(0 <= case.at_best <= 1 + 1e-12 for case in found.what_ifs)


@given(traces(), st.sampled_from([10, 30]))
@settings(max_examples=80, deadline=None)
def test_the_rest_without_a_kind_is_the_longest_path_without_it(trace: ActivityTrace, width: int) -> None:
    for found in analysed(trace, width / 1000):
        listed = window(whole(trace), found.started_ms, found.started_ms + width)
        names = {link.of for link in listed.links}
        now = listed.longest({})
        for case in found.what_ifs:
            if case.change == "free":
                left = listed.longest({name: Fraction(0) for name in names if name[0] == case.of})
                assert case.at_best == pytest.approx(float(left / now))


def test_the_numbers_of_the_thesis() -> None:
    """Two workers, a window of 5 from 10 on, six paths; two of them pass (d', i'), all pass (g', h'): Fig. 3.2."""
    trace = ActivityTrace(
        (
            Activity("w1", 8, 12, Kind.processing, "b"),
            Activity("w1", 12, 13, Kind.commit, "g"),
            Activity("w1", 13, 17, Kind.processing, "h"),
            Activity("w2", 7, 11, Kind.processing, "d"),
            Activity("w2", 14, 18, Kind.processing, "e"),
        ),
        (
            Message("w2", 9, "w1", 11, Kind.fetch),
            Message("w2", 11, "w1", 12, Kind.offsets),
            Message("w1", 13, "w2", 14, Kind.log),
        ),
    )
    (found,) = [each for each in analysed(trace, 0.005) if each.started_ms == 10]
    of = {part.name: part.participation for part in found.kinds}
    assert of["shuffle-fetch"] == pytest.approx(2 * 1 / (6 * 5))  # 0.066
    assert of["commit"] == pytest.approx(6 * 1 / (6 * 5))  # 0.2
    assert "waiting" not in of  # w2 waits from 11 to 14, on no critical path


def test_an_activity_before_a_wait_is_on_no_path() -> None:
    """Fig. 3.3: the longest activities of all, and of no use to shorten."""
    trace = ActivityTrace(
        (
            Activity("w1", 0, 3, Kind.processing, "long"),
            Activity("w1", 5, 6, Kind.processing, "after"),
            Activity("w2", 0, 6, Kind.processing, "steady"),
        ),
        (Message("w2", 4, "w1", 5, Kind.fetch),),
    )
    (found,) = analysed(trace, 0.006)
    assert {part.name: part.participation for part in found.operators}["long"] == 0
    assert found.operators[0].name == "steady"


def test_counts_of_paths_beyond_every_float() -> None:
    """Two timelines that write to each other 4,000 times: 2^4000 paths, each half of the time on either."""
    activities = [Activity(name, 0, 8000, Kind.processing, name, 0) for name in ("a", "b")]
    messages = [Message("ab"[n % 2], 2 * n, "ba"[n % 2], 2 * n + 1, Kind.fetch) for n in range(4000)]
    (found,) = analysed(ActivityTrace(tuple(activities), tuple(messages)), 8.0)
    assert sum(part.participation for part in found.kinds) == pytest.approx(1, abs=1e-9)
    assert all(math.isfinite(part.participation) for part in found.operators)


def test_messages_that_take_no_time_and_lead_in_a_circle_do_no_harm() -> None:
    activities = [Activity(name, 0, 10, Kind.processing, name) for name in "abc"]
    circle = [Message(x, 5, y, 5, Kind.fetch) for x, y in ("ab", "bc", "ca", "ba", "aa")]
    (found,) = analysed(ActivityTrace(tuple(activities), tuple(circle)), 0.01)
    assert sum(part.participation for part in found.kinds) == pytest.approx(1)


def test_the_result_of_a_task_is_no_consequence_of_the_next_launch_on_its_slot() -> None:
    """The driver hears of one task and launches the next in the same millisecond."""
    trace = ActivityTrace(
        (
            Activity("driver", 0, 20, Kind.waiting),
            Activity("slot", 0, 10, Kind.processing, "first"),
            Activity("slot", 10, 20, Kind.processing, "second"),
        ),
        (Message("slot", 10, "driver", 10, Kind.scheduling), Message("driver", 10, "slot", 10, Kind.scheduling)),
    )
    (found,) = analysed(trace, 0.02)
    assert {part.name: part.participation for part in found.operators} == {"first": 0.5, "second": 0.5}
    assert found.waiting == 0


def test_a_message_sent_at_the_end_of_an_activity_does_not_depend_on_one_received_then() -> None:
    """Three paths: x to y, x to b, a to y; and none from a to b."""
    trace = ActivityTrace(
        (
            Activity("slot", 0, 10, Kind.processing, "x"),
            Activity("slot", 10, 20, Kind.processing, "y"),
            Activity("a", 0, 5, Kind.processing, "a"),
            Activity("b", 15, 20, Kind.processing, "b"),
        ),
        (Message("a", 5, "slot", 10, Kind.fetch), Message("slot", 10, "b", 15, Kind.fetch)),
    )
    (found,) = analysed(trace, 0.02)
    parts = {part.name: part.participation for part in found.operators}
    assert parts == pytest.approx({"x": 2 / 3 / 2, "y": 2 / 3 / 2, "a": 1 / 3 / 4, "b": 1 / 3 / 4})


def test_a_gap_that_a_message_ends_was_a_wait_and_another_is_unknown() -> None:
    trace = ActivityTrace(
        (
            Activity("slot", 0, 10, Kind.processing),
            Activity("slot", 20, 30, Kind.processing),
            Activity("driver", 0, 10, Kind.commit),
            Activity("driver", 20, 30, Kind.commit),
        ),
        (Message("driver", 20, "slot", 20, Kind.scheduling),),
    )
    edges, _ = make_edges(trace)
    unknown = fill_gaps(edges)
    unknown = unknown.taken(unknown.kind == list(Kind).index(Kind.unknown))
    assert [(int(a), int(b)) for a, b in zip(unknown.start, unknown.end, strict=True)] == [(10_000, 20_000)]
    assert {part.name for part in analysed(trace, 0.03)[0].kinds} >= {"unknown"}


@given(traces(60), st.integers(1, 20))
@settings(max_examples=60, deadline=None)
def test_cutting_keeps_every_tick_of_work(trace: ActivityTrace, width: int) -> None:
    edges, _ = make_edges(trace)
    kept = fill_gaps(edges)
    apart = cut_into_windows(kept, width * 1000)
    assert (apart.end - apart.start).sum() == (kept.end - kept.start).sum()
    assert (apart.start >= 0).all()
    assert (apart.end <= width * 1000).all()


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=12),
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 40), st.integers(0, 40)), max_size=4),
)
@settings(max_examples=60, deadline=None)
def test_overlapping_activities_of_a_timeline_are_cut(
    did: list[tuple[str, int, int]], sent: list[tuple[str, int, int]]
) -> None:
    activities = [Activity(name, min(a, b), max(a, b), Kind.processing, f"{n}") for n, (name, a, b) in enumerate(did)]
    messages = [Message(name, min(a, b), "b", max(a, b), Kind.fetch) for name, a, b in sent]
    edges, names = make_edges(ActivityTrace(tuple(activities), tuple(messages)))
    kept = fill_gaps(edges)
    for timeline in range(len(names.timelines)):
        own = kept.taken((kept.source == timeline) & ~kept.message)
        own = own.taken(own.start.argsort())
        assert (own.end[:-1] <= own.start[1:]).all()
    for some in (kept, edges):  # and where nobody saw to it, nothing is counted twice
        for found in measure_windows(some, names, 0.01, application="a", query="q"):
            assert sum(part.participation for part in found.kinds) == pytest.approx(1)


@given(traces(60))
@settings(max_examples=30, deadline=None)
def test_the_mean_of_windows_is_one_again(trace: ActivityTrace) -> None:
    found = analysed(trace, 0.01)
    if found:
        one = average_reports(found)
        assert sum(part.participation for part in one.kinds) == pytest.approx(1)
        assert one.seconds == pytest.approx(0.01 * len(found))


@pytest.mark.parametrize("span", [(5, 4), (-1, 4), (math.nan, 4), (0, math.inf), (0, 1e16)])
def test_impossible_times_are_refused_in_one_line(span: tuple[float, float]) -> None:
    for trace in (
        ActivityTrace((Activity("driver", *span, Kind.commit),), ()),
        ActivityTrace((), (Message("driver", span[0], "slot", span[1], Kind.fetch),)),
    ):
        with pytest.raises(
            InputError, match=r"timeline driver.*ends before it begins, or at no time.*give times"
        ) as told:
            make_edges(trace)
        assert "\n" not in str(told.value)
