"""How control loops stand, as people read it."""

from __future__ import annotations

from collections.abc import Mapping

from autotrascale.plan.formatting import format_changes, format_seconds, join_names


def format_running(running: Mapping[str, int] | None) -> str:
    return "–" if running is None else join_names(f"{name} {k}" for name, k in running.items())


def format_age(passed: float | None) -> str:
    if passed is None:
        return "never"
    return f"{format_seconds(passed)} ago" if passed >= 0.001 else "now"


def format_command(what: str, pins: Mapping[str, int], asked_by: str, asked_seconds_ago: float) -> str:
    """`pin flatmap 8, by alice 12 s ago`"""
    asked = f"{what} {format_running(pins)}" if pins else what
    return f"{asked}, by {asked_by} {format_age(asked_seconds_ago)}"


def format_recommendation(running: Mapping[str, int] | None, planned: Mapping[str, int] | None) -> str:
    """`flatmap 3 → 9`, as it stands now."""
    if not running or not planned or set(running) != set(planned) or dict(running) == dict(planned):
        return "nothing else than what runs"
    return format_changes(running, planned)
