"""Lines of AuTraScale in the output of a user's program."""

from __future__ import annotations

import sys


def write_line(line: str) -> None:
    """Write one line to standard error, marked as AuTraScale's."""
    print(f"autotrascale: {line}", file=sys.stderr, flush=True)
