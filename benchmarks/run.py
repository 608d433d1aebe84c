"""Every measurement, one after the other, into out/bench.json: `make bench`, or `python -m benchmarks.run floor`.

Absolute times say as much about the machine as about the program, so each part also measures something to compare
with, in the same run.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import benchmarks

SUFFIX = "_bench"


def parts() -> list[str]:
    return sorted(m.name.removesuffix(SUFFIX) for m in iter_modules(benchmarks.__path__) if m.name.endswith(SUFFIX))


def machine() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "load_before": os.getloadavg()[0],
        "python": platform.python_version(),
        "system": platform.platform(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of: {', '.join(parts())}")
    parser.add_argument("--out", type=Path, default=Path("out/bench.json"))
    arguments = parser.parse_args()
    chosen = arguments.parts or parts()
    if unknown := sorted(set(chosen) - set(parts())):
        parser.error(f"no such part: {', '.join(unknown)}; there are {', '.join(parts())}")
    results: dict[str, Any] = {"machine": machine()}
    for part in chosen:
        print(f"{part} …", file=sys.stderr, flush=True)
        began = time.perf_counter()
        results[part] = import_module(f"benchmarks.{part}{SUFFIX}").figures()
        print(f"{part}: {time.perf_counter() - began:.0f} s", file=sys.stderr)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(results, indent=2)
    arguments.out.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
