"""What is said in somebody else's program: one line each, to standard error, and who says it."""

from __future__ import annotations

import sys


def write_line(line: str) -> None:
    print(f"autotrascale: {line}", file=sys.stderr, flush=True)
