"""The cure of wrong executor sizes on a real cluster: the number of actions, and the distance to the best fixed sizes.

Each planted fault (`planted/sized.py`) is a program under `autotrascale run --apply --sizes`, with short windows and
short evidence. Then the same program runs with fixed sizes and less and less memory: heap, overhead, and both. The
least memory without a fault and without a killed executor is the optimum.

    python -m benchmarks.quality.cured_sizes --kept kept.json                    the faults, under AuTraScale
    python -m benchmarks.quality.cured_sizes --hand kept.json --only heap        the optimum, from its final sizes

Jobs that need few cores run side by side.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from autotrascale.domain.executor_window import ExecutorSizes, ExecutorWindow, Resource
from autotrascale.plan.executor_size.clamp_to_cluster import MIN_HEAP_MB, MIN_OVERHEAD_MB
from autotrascale.plan.executor_size.judge_sizes import judge_sizes
from autotrascale.plan.executor_size.size_changes import SizeChange
from autotrascale.plan.executor_size.size_evidence import ExecutorSizeRules, SizeEvidence, WindowPeaks, has_memory_death
from autotrascale.validation import validate
from autotrascale.views.executor_size_text import format_size_change
from benchmarks.quality.planted.keeping import ProgramRun, ShortSettings, run_with_fixed_sizes, run_with_sizing
from benchmarks.quality.planted.sized import FAST, PLANTED, find_planted, service_latency

BEGUN: Mapping[str, ExecutorSizes] = {
    "heap": ExecutorSizes(512, 384, 1, 1),
    "memory": ExecutorSizes(512, 384, 1, 1),
    "cpu": ExecutorSizes(1024, 384, 1, 1),
    "leak": ExecutorSizes(512, 800, 1, 1),
    "too-much": ExecutorSizes(1400, 1000, 2, 1),
    "service": ExecutorSizes(512, 384, 1, 1),
}
GROUPS = (("heap", "memory", "leak", "too-much", "service"), ("cpu",))
SHORT = ShortSettings()
MOST_SECONDS = 450.0
NO_ACTION: Mapping[str, float] = {"service": 210.0, "leak": 400.0}  # seconds of jobs that must not be resized
TOTALS = (1.05, 1.10)  # final memory over the memory of a fixed size
HAND_SECONDS = 60.0
_LONG = ("log", "windows")


@dataclass(frozen=True)
class CuredFault:
    """The result of one fault under AuTraScale."""

    fault: str
    begun: ExecutorSizes
    ended: ExecutorSizes
    actions: list[str]  # requested
    to_cure: int  # actions until the last rise
    kept: int
    taken_back: int
    said_at_last: str
    killed_at_last: int  # executors that were killed at the final size
    ended_by_itself: int | None
    log: list[SizeChange]
    windows: list[ExecutorWindow]


def cure_fault(fault: str) -> CuredFault:
    with tempfile.TemporaryDirectory(prefix=f"cured-{fault}-") as work:
        folder = Path(work) / "job"
        lived = run_with_sizing(
            find_planted(fault),
            BEGUN[fault],
            folder,
            NO_ACTION.get(fault, MOST_SECONDS),
            SHORT,
            lambda actions, now: fault not in NO_ACTION and _is_settled(actions, now),
        )
        asked = [action for action in lived.actions if action.what == "asked"]
        last = lived.windows[-1].sizes
        ups = [number for number, action in enumerate(asked, 1) if action.up]
        whats = [action.what for action in lived.actions]
        return CuredFault(
            fault,
            BEGUN[fault],
            last,
            [f"{action.policy} {format_size_change(action)}" for action in asked],
            ups[-1] if ups else 0,
            whats.count("kept"),
            whats.count("taken-back"),
            _said(fault, lived, folder),
            _killed_with(lived, last),
            lived.ended,
            lived.actions,
            lived.windows,
        )


def _is_settled(actions: Sequence[SizeChange], now: float) -> bool:
    """Return whether an action was done, and no further action for as long as a new request takes."""
    quiet = SHORT.evidence + 8 * SHORT.window
    return bool(actions) and actions[-1].what in ("kept", "given-up") and now - actions[-1].at > quiet


def _said(fault: str, lived: ProgramRun, folder: Path) -> str:
    """Return the policies' statements about the last launch, and the share of its windows that name a fault without a
    cure.
    """
    windows = _last_life(lived.windows)
    said = [verdict(windows[: number + 1]) for number in range(len(windows))]
    if fault == "service":
        slow = [service_latency(folder, window.began) > FAST for window in windows]
        return f"slow in {sum(slow)} of {len(slow)} windows"
    if fault == "leak":
        return f"{said[-1]}; leak in {said.count('leak')} of {len(said)} windows of the last life"
    return said[-1]


def verdict(windows: Sequence[ExecutorWindow]) -> str:
    rules = ExecutorSizeRules(evidence_seconds=1e9)  # judge only shortages
    return judge_sizes(rules, SizeEvidence(tuple(windows), WindowPeaks.of(windows))).fault


def _last_life(windows: Sequence[ExecutorWindow]) -> list[ExecutorWindow]:
    last = windows[-1].sizes
    begin = next((number for number in range(len(windows), 0, -1) if windows[number - 1].sizes != last), 0)
    return list(windows[begin:])


def _killed_with(lived: ProgramRun, sizes: ExecutorSizes) -> int:
    return sum((each.heap_mb, each.overhead_mb) == (sizes.heap_mb, sizes.overhead_mb) for each in lived.killed)


@dataclass(frozen=True)
class ByHand:
    """The least memory of a program with fixed sizes.

    Args:
        found: statements about the final size of AuTraScale and about each smaller size.
        least: the smallest size without a fault.
        above: memory of an executor at the final size over that at the least size.
    """

    fault: str
    ended: ExecutorSizes
    found: list[tuple[ExecutorSizes, str]]
    least: ExecutorSizes
    above: float


def try_size(fault: str, sizes: ExecutorSizes, seconds: float) -> str:
    """Run a program with fixed sizes and return its faults, or an empty result."""
    with tempfile.TemporaryDirectory(prefix=f"hand-{fault}-") as work:
        try:
            lived = run_with_fixed_sizes(find_planted(fault), sizes, Path(work) / "job", seconds, SHORT.window)
        except RuntimeError:
            return "did not come up"
        if lived.ended is not None:
            return f"ended with {lived.ended}"
        if lived.killed or any(map(has_memory_death, lived.windows)):
            return "killed"
        said = [verdict(lived.windows[: number + 1]) for number in range(len(lived.windows))]
        shares = [window.gc_share or 0.0 for window in lived.windows[-6:]]
        wrong = next((each for each in said if each in ("heap", "memory", "cpu", "parallelism")), "none")
        return f"{wrong}, collections {sum(shares) / len(shares):.0%}" if shares else "did not get to a window"


def smaller_sizes(ended: ExecutorSizes, resources: Sequence[Resource]) -> list[ExecutorSizes]:
    """Yield sizes with less memory: of one part alone and of all parts in proportion, down to the least allowed."""
    found: list[ExecutorSizes] = []
    for part in TOTALS:
        less = ended.memory_mb * (1 - 1 / part)
        for some in [(each,) for each in resources] + ([tuple(resources)] if len(resources) > 1 else []):
            sizes, all_of_them = ended, sum(ended.of(each) for each in some)
            for each in some:
                wanted = round(ended.of(each) * (1 - less / all_of_them))
                sizes = sizes.with_(each, min(ended.of(each), max(_LEAST[each], wanted)))
            if sizes != ended and sizes not in found:
                found.append(sizes)
    return found


def _swept(fault: str, ended: ExecutorSizes, at_once: int, seconds: float) -> ByHand:
    sizes = [ended, *smaller_sizes(ended, SWEPT[fault])]
    found: list[tuple[ExecutorSizes, str]] = []
    for begin in range(0, len(sizes), at_once):
        some = sizes[begin : begin + at_once]
        told = [json.dumps(asdict(each)) for each in some]
        wanted = [["--try", fault, "--sizes", each, "--seconds", str(seconds)] for each in told]
        found += [(each, said or "failed") for each, said in zip(some, _at_once(wanted), strict=True)]
    good = [each for each, said in found if said.startswith("none")]
    least = min(good, key=lambda each: each.memory_mb, default=ended)
    return ByHand(fault, ended, found, least, round(ended.memory_mb / least.memory_mb - 1, 3))


_LEAST: Mapping[Resource, int] = {"heap": MIN_HEAP_MB, "overhead": MIN_OVERHEAD_MB}
SWEPT: Mapping[str, tuple[Resource, ...]] = {
    "heap": ("heap", "overhead"),
    "memory": ("heap", "overhead"),
    "too-much": ("heap", "overhead"),
}


def _at_once(commands: Sequence[Sequence[str]]) -> list[Any]:
    """Run this module once for each fault, all at the same time, and return the last line of each as JSON."""
    words = [sys.executable, "-m", "benchmarks.quality.cured_sizes"]
    started = [subprocess.Popen([*words, *each], stdout=subprocess.PIPE, text=True) for each in commands]
    said = [process.communicate()[0].splitlines() for process in started]
    return [json.loads(lines[-1]) if lines else None for lines in said]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kept", type=Path, metavar="FILE", help="all faults, kept; what came of them goes there")
    parser.add_argument("--hand", type=Path, metavar="FILE", help="by hand, beside what stands there")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--at-once", type=int, default=4, help="sizes that are tried side by side")
    parser.add_argument("--seconds", type=float, default=HAND_SECONDS, help="of each size by hand")
    parser.add_argument("--one", choices=[job.fault for job in PLANTED])
    parser.add_argument("--try", dest="tried")
    parser.add_argument("--sizes")
    given = parser.parse_args()
    if given.one is not None:
        print(json.dumps(asdict(cure_fault(given.one))))
    elif given.tried is not None:
        print(
            json.dumps(
                try_size(given.tried, validate(json.loads(given.sizes), ExecutorSizes, place="sizes"), given.seconds)
            )
        )
    elif given.kept is not None:
        found: list[Any] = []
        for group in GROUPS:
            faults = [fault for fault in group if not given.only or fault in given.only]
            found += [each for each in _at_once([["--one", fault] for fault in faults]) if each is not None]
            given.kept.write_text(json.dumps(found, indent=1), encoding="utf-8")
        print(json.dumps([{name: it for name, it in each.items() if name not in _LONG} for each in found], indent=1))
    elif given.hand is not None:
        for each in json.loads(given.hand.read_text(encoding="utf-8")):
            if each["fault"] not in SWEPT or (given.only and each["fault"] not in given.only):
                continue
            ended = validate(each["ended"], ExecutorSizes, place="ended")
            print(json.dumps(asdict(_swept(each["fault"], ended, given.at_once, given.seconds))), flush=True)


if __name__ == "__main__":
    main()
