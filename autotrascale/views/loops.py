"""How control loops stand, as people read it."""

from __future__ import annotations

from collections.abc import Mapping

from autotrascale.plan.words import listing, moves, seconds


def parallelism(running: Mapping[str, int] | None) -> str:
    return "–" if running is None else listing(f"{name} {k}" for name, k in running.items())


def ago(passed: float | None) -> str:
    if passed is None:
        return "never"
    return f"{seconds(passed)} ago" if passed >= 0.001 else "now"


def order(what: str, pins: Mapping[str, int], asked_by: str, asked_seconds_ago: float) -> str:
    """`pin flatmap 8, by alice 12 s ago`"""
    asked = f"{what} {parallelism(pins)}" if pins else what
    return f"{asked}, by {asked_by} {ago(asked_seconds_ago)}"


def recommendation(running: Mapping[str, int] | None, planned: Mapping[str, int] | None) -> str:
    """`flatmap 3 → 9`, as it stands now."""
    if not running or not planned or set(running) != set(planned) or dict(running) == dict(planned):
        return "nothing else than what runs"
    return moves(running, planned)
