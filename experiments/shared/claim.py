"""What an experiment is made of: cases that are plain data, a pure function that measures one, and what follows.

    cases → measure, one by one, in any order and in any process → result (result.json) → figures (Markdown), plots

The first two stand in a claim's `measure.py`, the rest in its `run.py`.

A case names its seed, so the same case gives the same measurement. Whatever a document quotes is a figure: a function
of the result alone, written between markers by `documents.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from autotrascale.views.plots.plot import Plot

ROOT = Path(__file__).parent.parent.parent
EXPERIMENTS = ROOT / "experiments"

Case = Mapping[str, Any]
Measured = Mapping[str, Any]
Pair = tuple[Case, Measured]
Result = Mapping[str, Any]

# In the order in which the report tells them.
NAMES = (
    "throughput_and_latency",
    "floors",
    "elasticity",
    "rate_changes",
    "algorithm_time",
    "ds2_convergence",
    "ds2_accuracy",
    "ds2_two_phases",
    "elastic_pulsar",
    "days",
    "search_quality",
    "state_migration",
)


@dataclass(frozen=True)
class Claim:
    """`measure` must be a function of a module, for other processes to find. `code`: what it is measured by, beside the
    package and its own folder; a change there measures anew."""

    name: str
    cases: Callable[[], Sequence[Case]]
    measure: Callable[[Case], Measured]
    result: Callable[[Sequence[Pair]], Result]
    figures: Mapping[str, Callable[[Result], str]]
    plots: Mapping[str, Callable[[Result], Sequence[Plot]]] = field(default_factory=dict)
    code: tuple[str, ...] = ()
    alone: bool = False  # it measures time: nothing runs beside it

    @property
    def folder(self) -> Path:
        return EXPERIMENTS / self.name

    @property
    def result_file(self) -> Path:
        return self.folder / "result.json"

    @property
    def readme(self) -> Path:
        return self.folder / "README.md"

    def read_result(self) -> Result:
        found: Result = json.loads(self.result_file.read_text(encoding="utf-8"))
        return found


def claim(name: str) -> Claim:
    """Of the folder of this name."""
    found: Claim = import_module(f"experiments.{name}.run").CLAIM
    return found


def existing() -> list[str]:
    """Those of `NAMES` that can be run."""
    return [name for name in NAMES if (EXPERIMENTS / name / "run.py").exists()]
