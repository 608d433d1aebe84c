"""Rows of the search benchmark on disk, one JSON object a line, written as they are measured.

The first line describes the run. A run that is stopped keeps its rows.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.workloads.transfer_measures import Row

_MAY_BE_INFINITE = ("stop", "tried", "ended")  # infinite, which is null in JSON


def write_rows(path: Path, about: dict[str, Any], rows: Iterable[Row]) -> Iterator[Row]:
    """Write each row and yield it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        file.write(json.dumps(about) + "\n")
        for row in rows:
            plain = {name: None if value == math.inf else value for name, value in row.items()}
            file.write(json.dumps(plain, allow_nan=False) + "\n")
            file.flush()
            yield row


def read_rows(path: Path) -> tuple[dict[str, Any], list[Row]]:
    """Return the description of a run and its rows. An incomplete last line is left out."""
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    about, *rows = [json.loads(line) for line in lines]
    return about, [_restore_infinity(row) for row in rows]


def _restore_infinity(row: Row) -> Row:
    return row | {name: math.inf for name in _MAY_BE_INFINITE if name in row and row[name] is None}
