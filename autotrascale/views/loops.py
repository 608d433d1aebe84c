"""How control loops stand, as people read it."""

from __future__ import annotations

from collections.abc import Mapping

from autotrascale.plan.words import listing, seconds


def parallelism(running: Mapping[str, int] | None) -> str:
    return "–" if running is None else listing(f"{name} {k}" for name, k in running.items())


def ago(passed: float | None) -> str:
    return "never" if passed is None else f"{seconds(max(passed, 0.001))} ago"


def order(what: str, pins: Mapping[str, int], asked_by: str, asked_seconds_ago: float) -> str:
    """`pin flatmap 8, by alice 12 s ago`"""
    asked = f"{what} {parallelism(pins)}" if pins else what
    return f"{asked}, by {asked_by} {ago(asked_seconds_ago)}"
