"""Throughput and latency against p on real Spark, in real-time mode beside micro-batches: AuTraScale's Figs. 1 and 2.

    python -m experiments.real_time.run             # what is not measured yet; then tables and plot
    python -m experiments.real_time.run --anew      # all of it, ten minutes
    python -m experiments.real_time.run --tables    # tables and plot, from result.json

Needs Java and Kafka (`scripts/kafka.sh fetch`), and a quiet machine for latencies that mean anything. Each point is in
`result.json` as soon as it is measured, so that a run that is stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from autotrascale.files import write_whole
from benchmarks.kafka_broker import Broker
from benchmarks.run import machine
from experiments.real_time.measure import MODES, PARALLELISMS, SLOTS, Load, point, session
from experiments.real_time.tables import FIGURES, plots
from experiments.shared.documents import measured
from experiments.shared.drawing import draw

HERE = Path(__file__).parent
RESULT, README = HERE / "result.json", HERE / "README.md"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--anew", action="store_true")
    parser.add_argument("--tables", action="store_true")
    arguments = parser.parse_args()
    load = Load()
    result = nothing(load) if arguments.anew or not RESULT.exists() else json.loads(RESULT.read_text(encoding="utf-8"))
    if not arguments.tables:
        if result["load"] != asdict(load):
            sys.exit(f"{RESULT} was measured with another load: --anew")
        run(load, result)
    draw(plots(result), HERE / "real_time.svg")
    write_whole(README, measured(README.read_text(encoding="utf-8"), FIGURES, result))


def nothing(load: Load) -> dict[str, Any]:
    return {
        "simulated": False, "engine": "Spark, real-time mode and micro-batch", "machine": machine(), "slots": SLOTS,
        "load": asdict(load), "points": [],
    }  # fmt: skip


def run(load: Load, result: dict[str, Any]) -> None:
    known = {(each["mode"], each["p"]) for each in result["points"]}
    left = [(mode, p) for p in PARALLELISMS for mode in MODES if (mode, p) not in known]
    if not left:
        return
    with tempfile.TemporaryDirectory(prefix="real-time-") as folder:
        broker = Broker(Path(folder) / "kafka")
        broker.start()
        try:
            spark = session()
            for mode, p in left:
                before = round(os.getloadavg()[0], 1)
                found = {**point(spark, broker, Path(folder), mode, p, load), "load_before": before}
                result["points"].append(found)
                write_whole(RESULT, json.dumps(result, indent=1) + "\n")
                print(f"{mode}, p = {p}: {found['throughput']}/s, {found['latency']}", file=sys.stderr, flush=True)
            spark.stop()
        finally:
            broker.kill()


if __name__ == "__main__":
    main()
