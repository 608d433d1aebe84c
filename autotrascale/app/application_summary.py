"""Cost of a program with several queries, summed up while it is controlled and kept for `explain`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from autotrascale.atomic_files import write_atomically
from autotrascale.plan.sizing.executor_plan import ExecutorSize, sum_executor_seconds
from autotrascale.views.executor_cost import ProgramCost

SUMMARY_FILE = "bill.json"  # in the program's folder


class ApplicationSummary:
    """History of a program's executors, and the advice for each of its queries."""

    def __init__(self) -> None:
        self._executors: list[tuple[float, int]] = []  # time of each change, and the number from then on
        self._advised: dict[str, int | None] = {}
        self._missed: set[str] = set()
        self._cores = 1

    def add_executors(self, at: float, executors: int, cores: int) -> None:
        """Record that the program has `executors` of `cores` each at time `at` in seconds."""
        self._cores = cores
        if not self._executors or self._executors[-1][1] != executors:
            self._executors.append((at, executors))

    def add_query(self, query: str, advised: int | None, *, target_held: bool) -> None:
        """Record the number of executors advised for a query, and whether the present ones hold its target."""
        self._advised[query] = advised
        (self._missed.discard if target_held else self._missed.add)(query)

    def compute_cost(self, program: str, until: float, price: float | None, *, advise: bool) -> ProgramCost | None:
        """Return the cost until time `until`, or None for a program of one query, whose own advice says the same."""
        if len(self._advised) < 2 or not self._executors:
            return None
        return ProgramCost(
            program,
            ExecutorSize(self._cores, price=price),
            self._advised,
            self._executors[-1][1],
            sum_executor_seconds(self._executors, until),
            max(k for _, k in self._executors),
            until - self._executors[0][0],
            advise,
            not self._missed,
        )


def write_summary(cost: ProgramCost, home: Path) -> None:
    """Write the cost to the program's folder."""
    home.mkdir(parents=True, exist_ok=True)
    write_atomically(home / SUMMARY_FILE, json.dumps(cost.as_data()))


def read_summary(home: Path) -> dict[str, Any] | None:
    """Return the cost of the program's last run, or None if there is none."""
    try:
        summary = json.loads((home / SUMMARY_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return summary if isinstance(summary, dict) and "summary" in summary else None
