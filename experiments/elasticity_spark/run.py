"""The papers' elasticity comparison on real Spark, and one job at 1 to 6 instances each and at rising rates.

    python -m experiments.elasticity_spark.run                     # what is not measured yet; then the tables
    python -m experiments.elasticity_spark.run --anew              # all of it, or what --only names
    python -m experiments.elasticity_spark.run --only "yahoo up"   # cases whose name begins so
    python -m experiments.elasticity_spark.run --slow 4            # on a crowded machine: a quarter of the rates
    python -m experiments.elasticity_spark.run --tables            # the README's tables, from result.json

Each case is in `result.json` as soon as it is measured, so that a run that is stopped goes on where it was. One Spark
session for each job; trials one after the other.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autotrascale.domain.errors import EngineError
from autotrascale.files import write_whole
from autotrascale.reading import validate
from autotrascale.service.jobfile import JobFile
from benchmarks.run import machine
from experiments.elasticity_spark.cases import BENCHES, Bench, Case, all_cases
from experiments.elasticity_spark.measure import SameStart, measure
from experiments.elasticity_spark.tables import rewritten

HERE = Path(__file__).parent
RESULT, README = HERE / "result.json", HERE / "README.md"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--anew", action="store_true")
    parser.add_argument("--only", default="", metavar="CASES")
    parser.add_argument("--tables", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--result", type=Path, default=RESULT)
    parser.add_argument("--slow", type=float, default=1.0, metavar="TIMES", help="so much slower is this machine now")
    arguments = parser.parse_args()
    result = read(arguments.result, arguments.slow)
    if not arguments.tables:
        wanted = [case for case in all_cases() if case.name.startswith(arguments.only)]
        if arguments.anew:
            result = without(result, wanted, arguments.slow)
        if result["slow"] != arguments.slow:
            sys.exit(f"{arguments.result} was measured with --slow {result['slow']:g}: give that, or --anew")
        left = [case for case in wanted if case.name not in result["cases"]]
        for bench in BENCHES.values():
            cases = [case for case in left if case.bench == bench.name]
            if cases:
                run(bench, cases, result, arguments)
    if arguments.result == RESULT:
        write_whole(README, rewritten(README.read_text(encoding="utf-8"), result))


def read(path: Path, slow: float = 1.0) -> dict[str, Any]:
    if path.exists():
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found
    return nothing(slow)


def nothing(slow: float) -> dict[str, Any]:
    return {"simulated": False, "engine": "Spark, micro-batch", "machine": machine(), "slow": slow, "cases": {}}


def without(result: dict[str, Any], cases: Sequence[Case], slow: float) -> dict[str, Any]:
    """As if these had not been measured; and none, where the machine is taken for another one now."""
    if result["slow"] != slow:
        return nothing(slow)
    names = {case.name for case in cases}
    return {**result, "cases": {name: each for name, each in result["cases"].items() if name not in names}}


def run(bench: Bench, cases: Sequence[Case], result: dict[str, Any], arguments: argparse.Namespace) -> None:
    file = validate(bench.content(arguments.slow), JobFile, place=bench.name)
    job, engine = file.open("spark", arguments.seed)
    with engine:
        started = SameStart(engine)
        for case in cases:
            load = os.getloadavg()[0]
            try:
                found = measure(case, job, started, arguments.seed)
            except EngineError as error:  # not kept, so that it is measured again
                print(f"{case.name}: {error}", file=sys.stderr, flush=True)
                continue
            result["cases"][case.name] = {**found, "seed": arguments.seed, "load_before": round(load, 1)}
            write_whole(arguments.result, json.dumps(result, indent=1, ensure_ascii=False) + "\n")
            print(f"{case.name}: {_line(found)}", file=sys.stderr, flush=True)


def _line(found: dict[str, Any]) -> str:
    if "points" in found:
        return f"{len(found['points'])} points, {found['seconds']:.0f} s"
    latency = "–" if found["latency"] is None else f"{found['latency']:.2f} s"
    return f"{found['k']}, {latency}, {len(found['trials'])} trials, {found['stop_reason']}, {found['seconds']:.0f} s"


if __name__ == "__main__":
    main()
