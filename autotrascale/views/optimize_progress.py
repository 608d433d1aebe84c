"""The progress of `study.optimize`: one line that is overwritten in a terminal or notebook, else a line per run."""

from __future__ import annotations

import sys
from typing import TextIO

from autotrascale.plan.formatting import format_seconds
from autotrascale.plan.search.ask_tell import AskTellStudy
from autotrascale.plan.search.lattice import Point

BAR_CELLS = 20


class ProgressLine:
    """The line of one call of `optimize`."""

    def __init__(self, to: TextIO) -> None:
        self._to, self._overwrites = to, to.isatty() or "ipykernel" in sys.modules
        self._width = 0
        self._open = False

    def show_running(self, study: AskTellStudy, k: Point) -> None:
        if self._overwrites:
            self._print(f"{_format_bar(study)} {_format_vector(k)}: running …{_format_best(study)}")

    def show_result(self, study: AskTellStudy, k: Point, latency: float | None) -> None:
        found = "failed or fell behind" if latency is None else format_seconds(latency)
        self._print(f"{_format_bar(study)} {_format_vector(k)}: {found}{_format_best(study)}")

    def show_interruption(self, study: AskTellStudy) -> None:
        text = "interrupted: results are kept, and optimize() continues from here"
        self._print(f"{_format_bar(study)} {text}{_format_best(study)}")

    def close(self) -> None:
        if self._open:
            print(file=self._to, flush=True)
            self._open = False

    def _print(self, text: str) -> None:
        if not self._overwrites:
            print(text, file=self._to, flush=True)
            return
        print("\r" + text.ljust(self._width), end="", file=self._to, flush=True)
        self._width, self._open = len(text), True


def _format_bar(study: AskTellStudy) -> str:
    done = len(study.runs)
    filled = BAR_CELLS if study.finished else min(BAR_CELLS - 1, BAR_CELLS * done // study.max_runs)
    return f"[{'#' * filled}{'.' * (BAR_CELLS - filled)}] {done}/{study.max_runs}"


def _format_best(study: AskTellStudy) -> str:
    if not study.runs:
        return ""
    best = study.answer
    if best.latency is None:
        return ""
    meets = "meets the target" if best.trusted else "not confirmed" if best.met_target else "misses the target"
    return f"  [best {_format_vector(best.parallelism)} {format_seconds(best.latency)}, {meets}]"


def _format_vector(k: Point) -> str:
    return f"({','.join(str(each) for each in k)})"
