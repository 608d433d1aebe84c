"""Figures in documents, between markers, so that whoever measures again need not type, and nobody can forget to.

<!-- figures: floors/steps -->
… written by `rewrite`, from experiments/floors/result.json …
<!-- end -->
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from autotrascale.atomic_files import write_atomically
from autotrascale.domain.errors import InputError
from experiments.shared.claim import EXPERIMENTS, NAMES, ROOT, claim

_BLOCK = re.compile(r"(<!-- figures: ([a-z0-9_]+)/([a-z0-9_]+) -->)(\n?)(.*?)(<!-- end -->)", re.DOTALL)


_MEASURED = re.compile(r"(<!-- measured: (\w+) -->)(\n?)(.*?)(<!-- end -->)", re.DOTALL)


def documents() -> Iterator[Path]:
    """All that may quote a figure and are there."""
    places = (
        ROOT / "README.md",
        ROOT / "ARCHITECTURE.md",
        EXPERIMENTS / "README.md",
        *sorted(ROOT.glob("docs/**/*.md")),
    )
    own = (EXPERIMENTS / name / "README.md" for name in NAMES)
    return (path for path in (*places, *own) if path.exists())


def rewrite() -> None:
    for path in documents():
        text = path.read_text(encoding="utf-8")
        new = rewritten(text)
        if new != text:
            write_atomically(path, new)


def rewritten(text: str) -> str:
    """The document with each block as the results say now."""
    return _BLOCK.sub(_block, text)


def _block(found: re.Match[str]) -> str:
    """On lines of its own, with an empty one on either side so that Markdown sees a table; or within a sentence."""
    if found[2] in NAMES and not claim(found[2]).result_file.exists():
        return found[0]  # never measured: nothing to quote yet
    told = figure(found[2], found[3])
    return f"{found[1]}\n\n{told}\n\n{found[6]}" if found[4] else f"{found[1]}{told}{found[6]}"


def measured(text: str, figures: Mapping[str, Callable[[Any], str]], result: Any) -> str:
    """The same for a record on real Spark, which tells of itself alone: `<!-- measured: NAME --> … <!-- end -->`."""

    def block(found: re.Match[str]) -> str:
        told = figures[found[2]](result)
        return f"{found[1]}\n\n{told}\n\n{found[5]}" if found[3] else f"{found[1]}{told}{found[5]}"

    return _MEASURED.sub(block, text)


def quoted(text: str) -> list[tuple[str, str]]:
    """Claim and figure of each block."""
    return [(block[2], block[3]) for block in _BLOCK.finditer(text)]


def figure(name: str, which: str) -> str:
    if name not in NAMES:
        raise InputError(f"figures: {name}/{which}", "is of no claim", remedy=f"use one of {', '.join(NAMES)}")
    chosen = claim(name)
    if which not in chosen.figures:
        known = ", ".join(chosen.figures)
        raise InputError(f"figures: {name}/{which}", "is no figure of this claim", remedy=f"use one of {known}")
    return chosen.figures[which](chosen.read_result()).strip()


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def vector(k: Sequence[int]) -> str:
    return f"({', '.join(str(each) for each in k)})"


def percent(share: float | None, digits: int = 1) -> str:
    return "–" if share is None else f"{round(100 * share, digits) + 0.0:.{digits}f} %"  # no -0.0


def milliseconds(seconds: float | None) -> str:
    """Three digits: nobody reads a simulated latency more exactly."""
    return "–" if seconds is None else f"{1000 * seconds:,.0f} ms"


def spread(values: Sequence[float], digits: int = 0) -> str:
    """The median, and the middle half in brackets."""
    low, middle, high = values
    return f"{middle:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
