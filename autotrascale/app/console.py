"""What the verbs print: one answer on stdout, as a table for people or as JSON for programs; the rest on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.text import Text


class OutputFormat(StrEnum):
    table = "table"
    json = "json"


FormatOption = Annotated[OutputFormat, typer.Option("--format", help="How to print the answer.")]

# Without a terminal nobody resizes a window: long names and reasons stay on one line, for grep.
_PIPE_WIDTH = 1000


def print_answer(form: OutputFormat, answer: Mapping[str, object], show: Callable[[], None]) -> None:
    """`answer` as one JSON object, or whatever `show` prints of it. NaN is refused: it is not JSON."""
    if form is OutputFormat.json:
        print(json.dumps(answer, ensure_ascii=False, allow_nan=False))
    else:
        show()


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Numbers to the right, names to the left."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    rows = list(rows)
    grid = Table(box=SIMPLE_HEAD, pad_edge=False)
    for i, column in enumerate(columns):
        numeric = bool(rows) and all(isinstance(row[i], int | float) for row in rows)
        grid.add_column(column, justify="right" if numeric else "left")
    for row in rows:
        grid.add_row(*(Text(str(cell)) for cell in row))
    Console(highlight=False, width=None if sys.stdout.isatty() else _PIPE_WIDTH).print(grid)


def print_plot(text: Text) -> None:
    """Coloured where somebody looks."""
    from rich.console import Console

    Console(highlight=False, width=None if sys.stdout.isatty() else _PIPE_WIDTH).print(text, soft_wrap=True)


def say(line: str = "") -> None:
    """A line of the answer itself."""
    print(line)


def note(line: str) -> None:
    """Progress and asides."""
    print(line, file=sys.stderr)


def complain(line: str) -> None:
    """One line: an error that was made of several is still one error."""
    print("autotrascale: " + " ".join(line.split()), file=sys.stderr)
