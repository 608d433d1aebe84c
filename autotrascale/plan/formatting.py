"""Numbers as text for the reasons of decisions. Programs read `Reason.numbers` instead."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping


def format_amount(value: float) -> str:
    """Return `16,667` for values from 100, else three significant digits."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def format_seconds(value: float) -> str:
    """Return `0.33 ms`, `12 ms`, `1.20 s` or `300 s`."""
    if value >= 100:
        return f"{value:,.0f} s"
    if value >= 0.9995:  # smaller values round to less than 1000 ms
        return f"{value:.2f} s"
    return f"{value * 1000:.0f} ms" if value >= 0.01 else f"{value * 1000:.2g} ms"


def format_load(load: float) -> str:
    """Return `2.8`, `2.04` or `18.002`, with enough digits that a load above a whole number does not look whole."""
    shown = next((d for d in (1, 2) if math.ceil(round(load, d)) == math.ceil(load)), 3)
    return f"{load:,.{shown}f}"


def format_percent(share: float) -> str:
    """Return `41%`, or `0.33%` for a share below 10 %."""
    return f"{share:.0%}" if share >= 0.1 or share == 0 else f"{share:.2%}"


def join_names(names: Iterable[str], most: int = 5) -> str:
    """Return `a, b and 3 more`, with at most `most` names, so that a reason of a large job fits on one line."""
    names = list(names)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def format_changes(before: Mapping[str, int], after: Mapping[str, int]) -> str:
    """Return `flatmap 3 → 5, count 4 → 2`: the operators whose parallelism differs."""
    return join_names(f"{name} {before[name]} → {after[name]}" for name in after if after[name] != before[name])
