"""The figures of the search benchmark from its rows, by family and pooled.

Medians and 90 % tails. A search that does not stop counts as larger than any number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from benchmarks.workloads.transfer_measures import FACTORS, LIBRARY, METHODS, ORACLE, OURS, WRONG, Row

POOLED = "all"
TAIL = 0.9

Figures = dict[str, Any]


def compute_figures(rows: Sequence[Row]) -> Figures:
    """Return the figures of all parts that have rows."""
    cold, law, bounds = ([row for row in rows if row["part"] == part] for part in ("cold", "law", "bounds"))
    return {
        "cold": {
            method: _by_family([row for row in cold if row["method"] == method], _cold) for method in _methods(cold)
        },
        "warm": {
            method: _by_family(pairs, _paired) for method in METHODS if (pairs := _pairs(rows, method, ("warm",)))
        },
        "warm_by_rate": _by_rate(_pairs(rows, OURS, ("warm",))),
        "library": {start: _by_rate(pairs) for start in LIBRARY if (pairs := _pairs(rows, OURS, (start,)))},
        "wrong": {start: _by_family(pairs, _paired) for start in WRONG if (pairs := _pairs(rows, OURS, (start,)))},
        "informed": _by_family(_pairs(rows, OURS, (ORACLE,)), _paired),
        "law": _by_family(law, _law),
        "bounds": {
            method: _by_family([row for row in bounds if row["method"] == method], _bound)
            for method in _methods(bounds)
        },
    }


def _methods(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row["method"] for row in rows))


def _cold(rows: Sequence[Row]) -> Figures:
    accepted = [row for row in rows if math.isfinite(row["stop"])]
    return {
        "jobs": len(rows),
        "runs_to_stop_median": _quantile([row["stop"] for row in rows], 0.5),
        "runs_to_stop_90": _quantile([row["stop"] for row in rows], TAIL),
        "tried_median": _quantile([row["tried"] for row in rows], 0.5),
        "tried_90": _quantile([row["tried"] for row in rows], TAIL),
        "runs_in_all_median": _quantile([row["ended"] for row in rows], 0.5),
        "runs_in_all_90": _quantile([row["ended"] for row in rows], TAIL),
        "stopped_share": _share(math.isfinite(row["stop"]) for row in rows),
        # Every job has a point that the stop rule accepts, so giving up is always wrong.
        "gave_up_share": _share(row["reason"] == "rule-unsatisfiable" for row in rows),
        "first_run_accepted_share": _share(row["stop"] == 1 for row in rows),
        "first_tried_accepted_share": _share(row["tried"] == 1 for row in rows),
        "missed_share": _share(row["missed"] for row in accepted),
        "regret_at_stop_median": _quantile([row["regret_at_stop"] for row in rows], 0.5, 4),
        "regret_at_stop_90": _quantile([row["regret_at_stop"] for row in rows], TAIL, 4),
        "regret_after_10_median": _quantile([row["regret_later"] for row in rows], 0.5, 4),
        "regret_after_10_90": _quantile([row["regret_later"] for row in rows], TAIL, 4),
    }


def _bound(rows: Sequence[Row]) -> Figures:
    return {
        "searches": len(rows),
        "first_run_accepted_share": _share(row["stop"] == 1 for row in rows),
        "runs_to_stop_median": _quantile([row["stop"] for row in rows], 0.5),
        "runs_to_stop_90": _quantile([row["stop"] for row in rows], TAIL),
        "missed_share": _share(row["missed"] for row in rows if math.isfinite(row["stop"])),
        "regret_at_stop_median": _quantile([row["regret_at_stop"] for row in rows], 0.5, 4),
        "regret_at_stop_90": _quantile([row["regret_at_stop"] for row in rows], TAIL, 4),
    }


def _paired(pairs: Sequence[tuple[Row, Row]]) -> Figures:
    """Return the figures of starts from a model, each paired with a cold start at the same rate and noise."""
    if not pairs:
        return {"pairs": 0}
    warm, cold = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    return {
        "pairs": len(pairs),
        "first_run_accepted_share": _share(row["stop"] == 1 for row in warm),
        "cold_first_run_accepted_share": _share(row["stop"] == 1 for row in cold),
        "first_tried_accepted_share": _share(row["tried"] == 1 for row in warm),
        "cold_first_tried_accepted_share": _share(row["tried"] == 1 for row in cold),
        "runs_to_stop_median": _quantile([row["stop"] for row in warm], 0.5),
        "cold_runs_to_stop_median": _quantile([row["stop"] for row in cold], 0.5),
        "runs_to_stop_90": _quantile([row["stop"] for row in warm], TAIL),
        "cold_runs_to_stop_90": _quantile([row["stop"] for row in cold], TAIL),
        "within_cold_share": _share(w["stop"] <= c["stop"] for w, c in pairs),
        "within_cold_and_one_share": _share(w["stop"] <= c["stop"] + 1 for w, c in pairs),
        "regret_at_stop_median": _quantile([row["regret_at_stop"] for row in warm], 0.5, 4),
        "cold_regret_at_stop_median": _quantile([row["regret_at_stop"] for row in cold], 0.5, 4),
        "missed_share": _share(row["missed"] for row in warm if math.isfinite(row["stop"])),
        "cold_missed_share": _share(row["missed"] for row in cold if math.isfinite(row["stop"])),
    }


def _law(rows: Sequence[Row]) -> Figures:
    return {
        "studies": len(rows),
        "first_asks_for_what_was_accepted_share": _share(row["same"] for row in rows),
        "accepts_at_first_run_share": _share(row["accepts"] for row in rows),
        "first_study_going_on_accepts_share": _share(row["goes_on"] for row in rows),
        "agree_share": _share(row["accepts"] == row["goes_on"] for row in rows),
    }


def _pairs(rows: Sequence[Row], method: str, starts: Sequence[str]) -> list[tuple[Row, Row]]:
    changed = [row for row in rows if row["part"] == "changed" and row["method"] == method]
    cold = {_pair_of(row): row for row in changed if row["start"] == "cold"}
    return [(row, cold[_pair_of(row)]) for row in changed if row["start"] in starts]


def _pair_of(row: Row) -> tuple[Any, ...]:
    return row["family"], row["number"], row["seed"], row["factor"]


def _by_rate(pairs: Sequence[tuple[Row, Row]]) -> dict[str, Figures]:
    found = {factor: [pair for pair in pairs if pair[0]["factor"] == factor] for factor in FACTORS}
    each = {f"{factor:g}": _paired(these) for factor, these in found.items() if these}
    return each | ({POOLED: _paired(pairs)} if pairs else {})


def _by_family(rows: Sequence[Any], figure: Callable[[Sequence[Any]], Figures]) -> Figures:
    """Return `figure` of the rows, or pairs of rows, of each family and of all."""
    families: dict[str, list[Any]] = {}
    for row in rows:
        families.setdefault((row[0] if isinstance(row, tuple) else row)["family"], []).append(row)
    return {family: figure(these) for family, these in families.items()} | ({POOLED: figure(rows)} if rows else {})


def _quantile(values: Sequence[float | None], q: float, digits: int = 1) -> float | str | None:
    """Return the least value that a share `q` does not exceed; at the median, the mean of the two middle values."""
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
