"""How loops stand, in words."""

from __future__ import annotations

from autotrascale.views.loop_text import format_age, format_command, format_recommendation, format_running


def test_what_is_not_known_is_a_dash_and_what_never_was_is_said() -> None:
    assert (format_running(None), format_age(None), format_age(0.0), format_age(12.0)) == (
        "–",
        "never",
        "now",
        "12.00 s ago",
    )


def test_an_order_names_who_asked_and_when() -> None:
    assert format_command("pin", {"work": 8}, "alice", 12.0) == "pin work 8, by alice 12.00 s ago"
    assert format_command("pause", {}, "bob@here", 300.0) == "pause, by bob@here 300 s ago"


def test_a_recommendation_is_what_differs() -> None:
    assert format_recommendation({"a": 1, "work": 3}, {"a": 1, "work": 9}) == "work 3 → 9"
    for running, planned in ((None, {"a": 1}), ({"a": 1}, None), ({"a": 1}, {"a": 1}), ({"a": 1}, {"b": 2})):
        assert format_recommendation(running, planned) == "nothing else than what runs"
