"""What an experiment on real Spark is made of, and how it is run. `Claim` is the same for what is simulated.

    cases → measured one after the other, those of one bench in one sitting → result.json → figures (Markdown), plots

Nothing runs side by side, as there is one machine, and the same case does not give the same figures twice. So each case
is in `result.json` as soon as it is measured, with the machine's load before it; a run that is stopped goes on where it
was. A figure stands in the folder's README between `<!-- measured: NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autotrascale.atomic_files import write_atomically
from autotrascale.domain.errors import EngineError
from autotrascale.views.plots.plot import Plot
from benchmarks.workloads.machine import describe_machine
from experiments.shared.claim import EXPERIMENTS, Result
from experiments.shared.documents import measured
from experiments.shared.drawing import draw

# In the order in which the report tells them.
NAMES = ("elasticity_spark", "floors_spark", "ds2_spark", "rate_changes_spark", "live_policies", "real_time")


@dataclass(frozen=True)
class Case:
    """`bench`: what it runs on. `policy` is empty where nobody decides."""

    bench: str
    kind: str
    policy: str = ""

    @property
    def name(self) -> str:
        return " ".join(each for each in (self.bench, self.kind, self.policy) if each)


@dataclass(frozen=True)
class Sitting:
    """`slow`: for a machine that is so many times slower than a quiet one, as a crowded one is."""

    bench: str
    slow: float = 1.0
    seed: int = 0


Measure = Callable[[Case], dict[str, Any]]


@dataclass(frozen=True)
class Record:
    """`open` gives what measures the cases of one bench, and closes what that needs when they are done."""

    name: str
    engine: str  # as captions say it
    cases: Callable[[], Sequence[Case]]
    open: Callable[[Sitting], AbstractContextManager[Measure]]
    figures: Mapping[str, Callable[[Result], str]]
    line: Callable[[Result], str]  # of one case, for the terminal
    plots: Mapping[str, Callable[[Result], Sequence[Plot]]] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return EXPERIMENTS / self.name

    @property
    def result_file(self) -> Path:
        return self.folder / "result.json"

    @property
    def readme(self) -> Path:
        return self.folder / "README.md"

    def rewritten(self, text: str, result: Result) -> str:
        return measured(text, self.figures, result)


def read(record: Record, path: Path, slow: float = 1.0) -> dict[str, Any]:
    if path.exists():
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found
    return nothing(record, slow)


def nothing(record: Record, slow: float) -> dict[str, Any]:
    return {"simulated": False, "engine": record.engine, "machine": describe_machine(), "slow": slow, "cases": {}}


def without(record: Record, result: dict[str, Any], cases: Sequence[Case], slow: float) -> dict[str, Any]:
    """As if these had not been measured; and none, where the machine is taken for another one now."""
    if result["slow"] != slow:
        return nothing(record, slow)
    names = {case.name for case in cases}
    return {**result, "cases": {name: each for name, each in result["cases"].items() if name not in names}}


def main(record: Record, description: str | None) -> None:
    arguments = _arguments(description, record)
    result = read(record, arguments.result, arguments.slow)
    if not arguments.tables:
        wanted = [case for case in record.cases() if case.name.startswith(arguments.only)]
        if arguments.anew:
            result = without(record, result, wanted, arguments.slow)
        if result["slow"] != arguments.slow:
            sys.exit(f"{arguments.result} was measured with --slow {result['slow']:g}: give that, or --anew")
        left = [case for case in wanted if case.name not in result["cases"]]
        for bench in dict.fromkeys(case.bench for case in left):
            sit(record, Sitting(bench, arguments.slow, arguments.seed), left, result, arguments.result)
    if arguments.result == record.result_file:
        for name, plots in record.plots.items():
            draw(plots(result), record.folder / name)
        write_atomically(record.readme, record.rewritten(record.readme.read_text(encoding="utf-8"), result))


def _arguments(description: str | None, record: Record) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--anew", action="store_true", help="all cases, or those that --only names")
    parser.add_argument("--only", default="", metavar="CASES", help="cases whose name begins so")
    parser.add_argument("--tables", action="store_true", help="measure nothing: the README, from result.json")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--result", type=Path, default=record.result_file)
    parser.add_argument("--slow", type=float, default=1.0, metavar="TIMES", help="so much slower is this machine now")
    return parser.parse_args()


def sit(record: Record, sitting: Sitting, left: Sequence[Case], result: dict[str, Any], path: Path) -> None:
    """The cases of one bench, one after the other."""
    with record.open(sitting) as measure:
        for case in (case for case in left if case.bench == sitting.bench):
            load, began = os.getloadavg()[0], time.monotonic()
            try:
                found = measure(case)
            except EngineError as error:  # not kept, so that it is measured again
                print(f"{case.name}: {error}", file=sys.stderr, flush=True)
                continue
            seconds = round(time.monotonic() - began, 1)
            result["cases"][case.name] = {
                **found,
                "seconds": seconds,
                "seed": sitting.seed,
                "load_before": round(load, 1),
            }
            write_atomically(path, json.dumps(result, indent=1, ensure_ascii=False) + "\n")
            print(f"{case.name}: {record.line(found)}, {seconds:.0f} s", file=sys.stderr, flush=True)
