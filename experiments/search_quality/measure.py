"""Regret and number of trials of searches: the default, its peers and the paper's, cold and from models; and the
default with one choice undone at a time (`choices.py`).

Searches, jobs and measures come from `benchmarks/quality/transfer_bench.py`, with held-out jobs.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Any
from unittest import mock

from benchmarks.workloads import transfer_measures
from benchmarks.workloads.peers import installed_peers
from benchmarks.workloads.transfer_jobs import choose_jobs
from benchmarks.workloads.transfer_measures import OURS, PAPER
from experiments.search_quality.choices import CHOICES, search

APART = 20_261_123  # a seed that no choice was made on
FAMILIES = ("total", "machine", "stragglers", "tails", "waves", "overheads")
COLD, WARM = 5, 3  # jobs of each family, each with noise and searches of its own
FACTORS = (0.7, 1.4)  # of the rate that a model was made at
METHODS = (OURS, PAPER, "random", "skopt-gp-ei", "optuna-tpe", "optuna-gp")


def cases() -> Sequence[Mapping[str, Any]]:
    """Of peers, those that are installed."""
    there = (OURS, PAPER, *installed_peers())
    cold = [
        _case(family, number, method, "cold")
        for family in FAMILIES
        for number in _numbers(family, COLD)
        for method in METHODS
        if method in there
    ]
    warm = [
        _case(family, number, method, "warm")
        for family in FAMILIES
        for number in _numbers(family, WARM)
        for method in (OURS, PAPER)
    ]
    choices = [
        _case(family, number, name, "choice")
        for family in FAMILIES
        for number in _numbers(family, COLD)
        for name in CHOICES
    ]
    return [*choices, *cold, *warm]


def measure(case: Mapping[str, Any]) -> Mapping[str, Any]:
    if case["part"] == "choice":
        family, number = case["family"], case["number"]
        return {"rows": [_plain(search(case["method"], family, number, zlib.crc32(f"{family}/{number}".encode())))]}
    with mock.patch.object(transfer_measures, "FACTORS", FACTORS):
        rows = transfer_measures.measure_job((case["family"], case["number"]), 0, (case["method"],), (case["part"],))
    wanted = {"cold": "cold", "warm": "changed"}[case["part"]]
    return {"rows": [_plain(row) for row in rows if row["part"] == wanted]}


def _case(family: str, number: int, method: str, part: str) -> Mapping[str, Any]:
    return {"family": family, "number": number, "method": method, "part": part}


def _numbers(family: str, jobs: int) -> list[int]:
    return [number for _, number in choose_jobs((family,), jobs, APART)]


def _plain(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without what the case says. JSON knows no infinity: null."""
    kept = ("start", "factor", "stop", "ended", "reason", "missed", "regret_at_stop", "regret_later", "of_floor")
    return {name: _finite(row[name]) for name in kept if name in row}


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
