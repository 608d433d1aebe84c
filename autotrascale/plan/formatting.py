"""Numbers as people read them, for the text of a reason. Programs read `Reason.numbers` instead."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping


def format_amount(value: float) -> str:
    """`16,667` from a hundred up, three significant digits below."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def format_seconds(value: float) -> str:
    """`0.33 ms`, `12 ms`, `1.20 s`, `300 s`."""
    if value >= 100:
        return f"{value:,.0f} s"
    if value >= 0.9995:  # what would round to 1000 ms
        return f"{value:.2f} s"
    return f"{value * 1000:.0f} ms" if value >= 0.01 else f"{value * 1000:.2g} ms"


def format_load(load: float) -> str:
    """`2.8`, `2.04`, `18.002`: a load that takes another instance does not read as if it took none."""
    shown = next((d for d in (1, 2) if math.ceil(round(load, d)) == math.ceil(load)), 3)
    return f"{load:,.{shown}f}"


def format_percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.1 or share == 0 else f"{share:.2%}"


def join_names(names: Iterable[str], most: int = 5) -> str:
    """`a, b and 3 more`: a job of a thousand operators must still fit its reason on one line."""
    names = list(names)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def format_changes(before: Mapping[str, int], after: Mapping[str, int]) -> str:
    """`flatmap 3 → 5, count 4 → 2`: the operators in which two parallelisms differ."""
    return join_names(f"{name} {before[name]} → {after[name]}" for name in after if after[name] != before[name])
