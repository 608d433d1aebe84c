"""What the queries of one program take together: summed up while it is looked after, and kept for `explain`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from autotrascale.atomic_files import write_atomically
from autotrascale.plan.sizing.executor_plan import ExecutorSize, sum_executor_seconds
from autotrascale.views.executor_cost import ProgramCost

_FILE = "bill.json"  # in the program's folder of the journal


class ApplicationSummary:
    """How many executors the program had, and since when, and what its queries were advised."""

    def __init__(self) -> None:
        self._executors: list[tuple[float, int]] = []
        self._needed: dict[str, int | None] = {}
        self._missed: set[str] = set()
        self._cores = 1

    def saw(self, at: float, executors: int, cores: int) -> None:
        self._cores = cores
        if not self._executors or self._executors[-1][1] != executors:
            self._executors.append((at, executors))

    def ended(self, query: str, needed: int | None, *, held: bool) -> None:
        """With the executors that it is advised, and whether those that there are hold its target. One that comes back
        is the same query."""
        self._needed[query] = needed
        (self._missed.discard if held else self._missed.add)(query)

    def bill(self, program: str, until: float, price: float | None, *, advise: bool) -> ProgramCost | None:
        """None of a program of one query: its own says all."""
        if len(self._needed) < 2 or not self._executors:
            return None
        return ProgramCost(
            program,
            ExecutorSize(self._cores, price=price),
            self._needed,
            self._executors[-1][1],
            sum_executor_seconds(self._executors, until),
            max(k for _, k in self._executors),
            until - self._executors[0][0],
            advise,
            not self._missed,
        )


def write_summary(bill: ProgramCost, home: Path) -> None:
    home.mkdir(parents=True, exist_ok=True)
    write_atomically(home / _FILE, json.dumps(bill.as_data()))


def read_summary(home: Path) -> dict[str, Any] | None:
    """Of the last time that the program was looked after; None where it was not, or has one query."""
    try:
        found = json.loads((home / _FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and "summary" in found else None
