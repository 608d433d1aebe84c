"""Decisions as lines, and sessions as summaries."""

from __future__ import annotations

from typing import Any

import pytest

from autotrascale.plan.control.loop_state import CheckedPrediction, State, Totals
from autotrascale.plan.sizing.executor_plan import ExecutorSize
from autotrascale.views.decision_text import (
    decision_kind,
    describe_accuracy,
    describe_holds,
    format_clock,
    format_cost_change,
    format_decision,
    parse_clock,
    select_decisions,
    summarize_session,
)

ENTRY: dict[str, Any] = {
    "number": 7,
    "at": 11_670.0,
    "action": "rescale",
    "rate": 4523.0,
    "latency_seconds": 0.775,
    "backlog_records": 0.0,
    "running": {"source": 1, "work": 7},
    "wanted": {"source": 1, "work": 11},
    "reasons": [
        {"code": "rate-up", "text": "needs 4,800/s"},
        {"code": "demand", "text": "work: …", "operator": "work"},
    ],
    "predicted": None,
    "judged": None,
}


def test_a_line_has_time_rate_latency_change_and_reasons() -> None:
    assert format_decision(ENTRY, 1.2) == "03:14:30     4,523/s   775 ms of 1.20 s  work 7 → 11  rate-up: needs 4,800/s"


def test_unknown_values_are_dashes_and_an_unchanged_parallelism_is_whole() -> None:
    blind = {**ENTRY, "action": "stay", "rate": None, "latency_seconds": None, "wanted": ENTRY["running"]}
    assert "–        – of 1.20 s  source 1, work 7  rate-up" in format_decision(blind, 1.2)
    assert "is down" in format_decision({**blind, "running": None}, 1.2)


def test_reasons_of_operators_are_shown_if_there_are_no_others() -> None:
    assert format_decision({**ENTRY, "reasons": ENTRY["reasons"][1:]}, 1.2).endswith("demand: work: …")


def test_the_kind_of_a_decision_is_action_and_codes() -> None:
    assert decision_kind(ENTRY) != decision_kind({**ENTRY, "action": "stay"})
    assert decision_kind(ENTRY) == decision_kind({**ENTRY, "at": 5.0, "rate": 1.0})


def test_repeated_advice_is_selected_once_and_commands_always() -> None:
    kinds: list[dict[str, Any]] = [
        {"action": "stay", "reasons": [{"code": "ordered", "text": "alice asked: pause"}]},
        {"action": "stay"},
        {"action": "would-rescale"},
        {"action": "stay"},
        {"action": "would-rescale"},
        {"action": "would-rescale", "wanted": {"source": 1, "work": 12}},
        {"action": "rescale"},
        {"action": "would-rescale", "wanted": {"source": 1, "work": 12}},
    ]
    entries = [{**ENTRY, **kind, "number": number} for number, kind in enumerate(kinds)]
    assert [each["number"] for each in select_decisions(entries, 20)] == [0, 2, 5, 6, 7]
    assert [each["number"] for each in select_decisions(entries, 2)] == [0, 6, 7]


def test_the_clock_counts_days() -> None:
    assert (format_clock(59.9), format_clock(86_400 + 3661)) == ("00:00:59", "1d 01:01:01")


def test_the_summary_has_time_in_target_rescales_and_instance_hours() -> None:
    totals = Totals(7200.0, 5400.0, 1200.0, 36_000.0, 10, rescales=1)
    said = summarize_session("words", 0.18, State(totals=totals), simulated=True, advise=False)
    assert said == (
        "words (simulated) met its target of 180 ms in 90% of the measured time (02:00:00), with 1 rescale. "
        "It used 10 instance-hours instead of 20 with 10 instances all the time: saved 50%."
    )
    assert "too short a time" in summarize_session("words", 0.18, State(), simulated=False, advise=False)


@pytest.mark.parametrize(
    ("price", "used"),
    [(None, "saved 50%."), (0.12, "saved 50%, 1.20 $ of 2.40 $."), (0.0, "saved 50%, 0.00 $ of 0.00 $.")],
)
def test_the_summary_of_a_program_has_executor_hours_and_cost(price: float | None, used: str) -> None:
    totals = Totals(7200.0, 5400.0, 1200.0, 36_000.0, 10, rescales=1)
    size = ExecutorSize(2, price=price)
    said = summarize_session("shops", 5.0, State(totals=totals), simulated=False, advise=False, size=size)
    assert said.endswith(f"10 executor-hours instead of 20 with 10 executors all the time: {used}")


def test_a_change_of_executors_has_an_hourly_cost() -> None:
    entry = {**ENTRY, "running": {"executors": 7}, "wanted": {"executors": 3}}
    assert (
        format_cost_change(entry, ExecutorSize(2, price=0.12)) == "3 executors of 2 cores, 0.36 $/h instead of 0.84 $/h"
    )
    assert format_cost_change(entry, ExecutorSize(2)) == "3 executors of 2 cores instead of 7"
    assert format_cost_change(entry, None) == ""
    assert format_cost_change({**entry, "wanted": {"executors": 7}}, ExecutorSize(2)) == ""
    assert format_cost_change({**entry, "running": None}, ExecutorSize(2)) == ""


def test_accurate_predictions_are_counted() -> None:
    said = describe_accuracy((CheckedPrediction(0.1, 0.01, 0.2), CheckedPrediction(0.142, 0.009, 0.15)))
    assert said == (
        "last prediction 142 ms ± 9 ms, measured 150 ms; 1 of 2 measurements within two standard deviations"
    )
    assert "no prediction" in describe_accuracy(())


@pytest.mark.parametrize(("text", "seconds"), [("03:14:30", 11670.0), ("2d 00:00:01", 172801.0), ("90", 90.0)])
def test_a_formatted_time_is_parsed(text: str, seconds: float) -> None:
    assert parse_clock(text) == seconds
    assert format_clock(seconds) == format_clock(parse_clock(format_clock(seconds)) or -1.0)


def test_other_texts_are_no_time() -> None:
    assert [parse_clock(text) for text in ("", "yesterday", "1:2", "03:14")] == [None] * 4


def test_holds_are_counted_by_reason() -> None:
    state = State(totals=Totals(observations=10, held={"hold-settling": 1, "hold-unbelievable: stale": 3}))
    assert (
        describe_holds(state) == "4 of 10 observations allowed no decision: hold-unbelievable: stale 3, hold-settling 1"
    )
    assert describe_holds(State(totals=Totals(observations=10))) == "all 10 observations allowed a decision"
