"""Run benchmarks one after the other and write their results to a JSON file.

    python -m benchmarks.run                 run all benchmarks (`make bench`)
    python -m benchmarks.run floor store     run two of them

A benchmark is a module `<name>_bench.py` in `speed/`, `faults/` or `quality/` with a function `figures()`. Absolute
times depend on the machine, so each benchmark also measures a baseline in the same run.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import benchmarks
from benchmarks.workloads.machine import describe_machine

SUFFIX = "_bench"


def find_benchmarks() -> dict[str, str]:
    """Return the name of each benchmark and the module that has it, sorted by name."""
    modules = [module.name for module in walk_packages(benchmarks.__path__, "benchmarks.")]
    found = {name.rpartition(".")[2].removesuffix(SUFFIX): name for name in modules if name.endswith(SUFFIX)}
    return dict(sorted(found.items()))


def main() -> None:
    known = find_benchmarks()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"benchmarks to run: {', '.join(known)}")
    parser.add_argument("--out", type=Path, default=Path("out/bench.json"), help="file for the results")
    arguments = parser.parse_args()
    if unknown := sorted(set(arguments.names) - set(known)):
        parser.error(f"unknown benchmark: {', '.join(unknown)}; choose from {', '.join(known)}")
    results: dict[str, Any] = {"machine": describe_machine()}
    for name in arguments.names or known:
        print(f"{name} …", file=sys.stderr, flush=True)
        began = time.perf_counter()
        results[name] = import_module(known[name]).figures()
        print(f"{name}: {time.perf_counter() - began:.0f} s", file=sys.stderr)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(results, indent=2)
    arguments.out.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
