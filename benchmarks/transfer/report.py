"""Rows → figures by family and pooled, and the tables that documents quote."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from benchmarks.transfer.measures import FACTORS, OURS, PAPER, Row

POOLED = "all"
TAIL = 0.9

Figures = dict[str, Any]


def figures_of(rows: Sequence[Row]) -> Figures:
    return {
        "cold": {
            method: _by_family([row for row in rows if row["part"] == "cold" and row["method"] == method], _cold)
            for method in dict.fromkeys(row["method"] for row in rows if row["part"] == "cold")
        },
        "warm": {
            method: _by_family(_pairs(rows, method, "warm"), _paired)
            for method in (OURS, PAPER)
            if any(row.get("start") == "warm" and row["method"] == method for row in rows)
        },
        "warm_by_rate": {
            f"{factor:g}": _paired([pair for pair in _pairs(rows, OURS, "warm") if pair[0]["factor"] == factor])
            for factor in FACTORS
        },
        "wrong": {start: _by_family(_pairs(rows, OURS, start), _paired) for start in ("other", "shuffled")},
        "law": _by_family([row for row in rows if row["part"] == "law"], _law),
    }


# --- figures ----------------------------------------------------------------------------------------------------------


def _cold(rows: Sequence[Row]) -> Figures:
    accepted = [row for row in rows if math.isfinite(row["stop"])]
    return {
        "jobs": len(rows),
        "runs_to_stop_median": _quantile([row["stop"] for row in rows], 0.5),
        "runs_to_stop_90": _quantile([row["stop"] for row in rows], TAIL),
        "runs_in_all_median": _quantile([row["ended"] for row in rows], 0.5),
        "runs_in_all_90": _quantile([row["ended"] for row in rows], TAIL),
        "stopped_share": _share(math.isfinite(row["stop"]) for row in rows),
        "first_run_accepted_share": _share(row["stop"] == 1 for row in rows),
        "missed_share": _share(row["missed"] for row in accepted),
        "regret_at_stop_median": _quantile([row["regret_at_stop"] for row in rows], 0.5, 4),
        "regret_at_stop_90": _quantile([row["regret_at_stop"] for row in rows], TAIL, 4),
        "regret_after_10_median": _quantile([row["regret_later"] for row in rows], 0.5, 4),
        "regret_after_10_90": _quantile([row["regret_later"] for row in rows], TAIL, 4),
    }


def _paired(pairs: Sequence[tuple[Row, Row]]) -> Figures:
    """Of a start from a model, and of a cold one at the same rate and with the same noise."""
    if not pairs:
        return {"pairs": 0}
    warm, cold = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    return {
        "pairs": len(pairs),
        "first_run_accepted_share": _share(row["stop"] == 1 for row in warm),
        "first_run_accepted_share_cold": _share(row["stop"] == 1 for row in cold),
        "runs_to_stop_median": _quantile([row["stop"] for row in warm], 0.5),
        "runs_to_stop_median_cold": _quantile([row["stop"] for row in cold], 0.5),
        "runs_to_stop_90": _quantile([row["stop"] for row in warm], TAIL),
        "runs_to_stop_90_cold": _quantile([row["stop"] for row in cold], TAIL),
        "within_cold_share": _share(w["stop"] <= c["stop"] for w, c in pairs),
        "within_cold_and_one_share": _share(w["stop"] <= c["stop"] + 1 for w, c in pairs),
        "regret_at_stop_median": _quantile([row["regret_at_stop"] for row in warm], 0.5, 4),
        "regret_at_stop_median_cold": _quantile([row["regret_at_stop"] for row in cold], 0.5, 4),
        "missed_share": _share(row["missed"] for row in warm if math.isfinite(row["stop"])),
        "missed_share_cold": _share(row["missed"] for row in cold if math.isfinite(row["stop"])),
    }


def _law(rows: Sequence[Row]) -> Figures:
    return {
        "studies": len(rows),
        "first_asks_for_what_was_accepted_share": _share(row["same"] for row in rows),
        "accepts_at_first_run_share": _share(row["accepts"] for row in rows),
        "first_study_going_on_accepts_share": _share(row["goes_on"] for row in rows),
        "agree_share": _share(row["accepts"] == row["goes_on"] for row in rows),
    }


def _pairs(rows: Sequence[Row], method: str, start: str) -> list[tuple[Row, Row]]:
    changed = [row for row in rows if row["part"] == "changed" and row["method"] == method]
    cold = {_pair_of(row): row for row in changed if row["start"] == "cold"}
    return [(row, cold[_pair_of(row)]) for row in changed if row["start"] == start]


def _pair_of(row: Row) -> tuple[Any, ...]:
    return row["family"], row["number"], row["seed"], row["factor"]


def _by_family(rows: Sequence[Any], figure: Callable[[Sequence[Any]], Figures]) -> Figures:
    """Rows, or pairs of rows."""
    families: dict[str, list[Any]] = {}
    for row in rows:
        families.setdefault((row[0] if isinstance(row, tuple) else row)["family"], []).append(row)
    return {family: figure(these) for family, these in families.items()} | ({POOLED: figure(rows)} if rows else {})


def _quantile(values: Sequence[float | None], q: float, digits: int = 1) -> float | str | None:
    """The least value that a share q of them does not exceed; the middle of two at the median."""
    known = [value for value in values if value is not None and not math.isnan(value)]
    if not known:
        return None
    method = "averaged_inverted_cdf" if q == 0.5 else "inverted_cdf"
    with np.errstate(invalid="ignore"):
        value = float(np.quantile(known, q, method=method))
    return round(value, digits) if math.isfinite(value) else "never"


def _share(flags: Iterable[bool]) -> float | None:
    counted = list(flags)
    return round(sum(counted) / len(counted), 4) if counted else None


# --- tables -----------------------------------------------------------------------------------------------------------


def markdown(figures: Figures) -> str:
    """What was measured, as tables: by family, and pooled in the last row."""
    parts = []
    if figures["cold"]:
        parts.append(_cold_by_method(figures["cold"]))
        if OURS in figures["cold"]:
            parts.append(_table(f"Cold, `{OURS}`, by family", "family", figures["cold"][OURS], _COLD))
    for method, by_family in figures["warm"].items():
        name = "Algorithm 2" if method == PAPER else f"`{method}`"
        parts.append(_table(f"From a model of the same job, {name}, by family", "family", by_family, _PAIRED))
    if figures["warm"].get(OURS):
        parts.append(
            _table("From a model of the same job, by rate", "times the rate", figures["warm_by_rate"], _PAIRED)
        )
    for start, by_family in figures["wrong"].items():
        if by_family:
            title = {"other": "another job", "shuffled": "this job with its operators mistaken"}[start]
            parts.append(_table(f"From a model of {title}", "family", by_family, _PAIRED))
    if figures["law"]:
        parts.append(_table("From a model of the same job, rate and target", "family", figures["law"], _LAW))
    return "\n\n".join(parts) + "\n"


_COLD = {
    "jobs": ("jobs",),
    "runs to stop, median (90 %)": ("runs_to_stop_median", "runs_to_stop_90"),
    "with second looks": ("runs_in_all_median", "runs_in_all_90"),
    "stopped": ("stopped_share",),
    "at first run": ("first_run_accepted_share",),
    "accepted that miss": ("missed_share",),
    "regret at stop": ("regret_at_stop_median", "regret_at_stop_90"),
    "after 10 runs": ("regret_after_10_median", "regret_after_10_90"),
}
_PAIRED = {
    "pairs": ("pairs",),
    "first run accepted": ("first_run_accepted_share",),
    "… cold": ("first_run_accepted_share_cold",),
    "runs to stop, median (90 %)": ("runs_to_stop_median", "runs_to_stop_90"),
    "… cold ": ("runs_to_stop_median_cold", "runs_to_stop_90_cold"),
    "no more than cold": ("within_cold_share",),
    "at most one more": ("within_cold_and_one_share",),
    "regret at stop": ("regret_at_stop_median",),
    "… cold  ": ("regret_at_stop_median_cold",),
    "accepted that miss": ("missed_share",),
}
_LAW = {
    "models": ("studies",),
    "asks first for what was accepted": ("first_asks_for_what_was_accepted_share",),
    "accepts at its first run": ("accepts_at_first_run_share",),
    "the first study, going on, accepts": ("first_study_going_on_accepts_share",),
    "the two agree": ("agree_share",),
}


def _cold_by_method(cold: Figures) -> str:
    pooled = {method: by_family[POOLED] for method, by_family in cold.items()}
    return _table("Cold, all families", "search", pooled, _COLD)


def _table(title: str, first: str, rows: Figures, columns: dict[str, tuple[str, ...]]) -> str:
    lines = [f"**{title}**", "", f"| {first} | {' | '.join(name.strip() for name in columns)} |"]
    lines.append("|---" * (len(columns) + 1) + "|")
    for name, figures in rows.items():
        cells = [_cell([figures.get(key) for key in keys], keys[0]) for keys in columns.values()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(values: Sequence[Any], name: str) -> str:
    texts = [f"{100 * value:.0f} %" if name.endswith("share") and isinstance(value, float) else _text(value)
             for value in values]  # fmt: skip
    return texts[0] if len(texts) == 1 else f"{texts[0]} ({texts[1]})"


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:g}" if isinstance(value, float) else str(value)
