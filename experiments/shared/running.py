"""Measures the cases of claims side by side, and writes all that follows: result.json, plots, figures in documents."""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from autotrascale.atomic_files import write_atomically
from experiments.shared import kept
from experiments.shared.claim import NAMES, Case, Claim, Measured, Pair, claim, existing
from experiments.shared.documents import rewrite
from experiments.shared.drawing import draw

PROCESSES = 2


def run(name: str, processes: int = PROCESSES, folder: Path = kept.KEPT) -> float:
    """Measures what is not kept yet, and writes everything that follows from it. Seconds of CPU that all cases took, of
    earlier runs too."""
    chosen, began = claim(name), time.perf_counter()
    pairs = measured(chosen, processes, folder)
    write(chosen, pairs)
    cpu = kept.took(chosen, [case for case, _ in pairs], folder)
    seconds = time.perf_counter() - began
    print(f"{name}: {len(pairs)} cases, {seconds:.0f} s; measuring all took {cpu:.0f} s of CPU", file=sys.stderr)
    return cpu


def measured(chosen: Claim, processes: int = PROCESSES, folder: Path = kept.KEPT) -> list[Pair]:
    """All cases of a claim, those of an earlier run from its folder."""
    cases = list(chosen.cases())
    known = {i: found for i, case in enumerate(cases) if (found := kept.recall(chosen, case, folder)) is not None}
    waiting = [i for i in range(len(cases)) if i not in known]
    _say(chosen.name, len(known), len(cases))
    found = Parallel(1 if chosen.alone else processes, return_as="generator_unordered")(
        delayed(_one)(chosen.name, i, cases[i], folder) for i in waiting
    )
    for done, (i, each) in enumerate(found, start=len(known) + 1):
        known[i] = each
        _say(chosen.name, done, len(cases))
    return [(case, known[i]) for i, case in enumerate(cases)]


def write(chosen: Claim, pairs: Sequence[Pair]) -> None:
    # As it will be read: numbers that JSON cannot hold, or holds otherwise, must not be in a document either.
    text = json.dumps(chosen.result(pairs), indent=1, allow_nan=False) + "\n"
    result = json.loads(text)
    write_atomically(chosen.result_file, text)
    for name, plots in chosen.plots.items():
        draw(plots(result), chosen.folder / name)
    rewrite()


def _one(name: str, i: int, case: Case, folder: Path) -> tuple[int, Measured]:
    chosen, began = claim(name), time.process_time()
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")  # of the libraries that are measured beside ours
        found = chosen.measure(case)
    kept.keep(chosen, case, found, folder, time.process_time() - began)
    return i, found


def _say(name: str, done: int, of: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{name}: {done} of {of}", end="\n" * (done == of), file=sys.stderr, flush=True)


def main(names: Sequence[str] | None = None) -> None:
    """`names`: of one claim's own command; else they are asked for, and all are run when none is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    if names is None:
        parser.add_argument("names", nargs="*", metavar="CLAIM", help=f"some of: {', '.join(NAMES)}; all of them")
    parser.add_argument("--processes", type=int, default=PROCESSES)
    parser.add_argument("--write-only", action="store_true", help="measure nothing: plots and figures of the results")
    arguments = parser.parse_args()
    chosen = list(names or arguments.names) or existing()
    if unknown := sorted(set(chosen) - set(NAMES)):
        parser.error(f"no such claim: {', '.join(unknown)}; there are {', '.join(NAMES)}")
    if arguments.write_only:
        for name in chosen:
            write_again(claim(name))
        return
    cpu = sum(run(name, arguments.processes) for name in chosen)
    if len(chosen) > 1:
        print(f"{len(chosen)} claims: measuring all took {cpu / 60:.0f} minutes of CPU", file=sys.stderr)


def write_again(chosen: Claim) -> None:
    """What follows from a result that is there."""
    for name, plots in chosen.plots.items():
        draw(plots(chosen.read_result()), chosen.folder / name)
    rewrite()
