"""Terminal output: the answer on stdout, as a table or as JSON; progress and errors on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

# Columns of a table in a pipe: wide enough that a row stays on one line for grep.
PIPE_WIDTH = 1000


class OutputFormat(StrEnum):
    table = "table"
    json = "json"


def print_answer(form: OutputFormat, answer: Mapping[str, object], show: Callable[[], None]) -> None:
    """Print `answer` as one line of JSON, or call `show` to print it for people.

    Raises:
        ValueError: `answer` holds NaN or infinity, which JSON does not have.
    """
    if form is OutputFormat.json:
        print(json.dumps(answer, ensure_ascii=False, allow_nan=False))
    else:
        show()


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows under their column names. Columns of numbers are aligned to the right."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    rows = list(rows)
    grid = Table(box=SIMPLE_HEAD, pad_edge=False)
    for i, column in enumerate(columns):
        is_numeric = bool(rows) and all(isinstance(row[i], int | float) for row in rows)
        grid.add_column(column, justify="right" if is_numeric else "left")
    for row in rows:
        grid.add_row(*(Text(str(cell)) for cell in row))
    _console().print(grid)


def print_plot(text: Text) -> None:
    """Print a plot drawn with characters, with colours if stdout is a terminal."""
    _console().print(text, soft_wrap=True)


def say(line: str = "") -> None:
    """Print one line of the answer on stdout."""
    print(line)


def note(line: str) -> None:
    """Print one line of progress on stderr."""
    print(line, file=sys.stderr)


def complain(message: str) -> None:
    """Print an error on stderr, in one line."""
    print("autotrascale: " + " ".join(message.split()), file=sys.stderr)


def _console() -> Console:
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)
