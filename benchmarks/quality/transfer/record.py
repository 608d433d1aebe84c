"""Rows on disk as they come, so that a run that is stopped has measured something: one JSON object a line, the first of
them about the run itself."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.workloads.transfer_measures import Row

_MAY_BE_NEVER = ("stop", "tried", "ended")  # JSON knows no infinity: null


def write_rows(path: Path, about: dict[str, Any], rows: Iterable[Row]) -> Iterator[Row]:
    """Hands the rows on once they are written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        file.write(json.dumps(about) + "\n")
        for row in rows:
            plain = {name: None if value == math.inf else value for name, value in row.items()}
            file.write(json.dumps(plain, allow_nan=False) + "\n")
            file.flush()
            yield row


def read_rows(path: Path) -> tuple[dict[str, Any], list[Row]]:
    """What `record` wrote: about the run, and its rows. A last line that was cut off is left out."""
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    about, *rows = [json.loads(line) for line in lines]
    return about, [_with_never(row) for row in rows]


def _with_never(row: Row) -> Row:
    return row | {name: math.inf for name in _MAY_BE_NEVER if name in row and row[name] is None}
