"""The control loop on real Spark for ten minutes, its input changing three times; then every word is counted again.

    python -m experiments.live_scaling.run

The job file is `configs/wordcount-live.yaml` with a folder for the counts; the run is the command line's own, and ends
in good order after the last batch. What came of it goes to `result.json` in this folder: the machine, every decision
that changed something, the time within the target, and whether the counts are those of a plain program.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from autotrascale.execute.spark.jobs import load_file
from autotrascale.execute.spark.jobs.wordcount import WordCount, read_results
from benchmarks.workloads.machine import describe_machine
from experiments.shared.live import autoscaled

HERE = Path(__file__).parent
JOB_FILE = HERE.parent.parent / "configs" / "wordcount-live.yaml"
_AT_ONCE = 50_000  # sentences


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--out", type=Path, default=HERE / "result.json")
    arguments = parser.parse_args()
    before = describe_machine()
    with tempfile.TemporaryDirectory(prefix="live-scaling-") as folder:
        entries, sentence = run(Path(folder), arguments.seconds)
        counted = compare(Path(folder))
    told = {"machine": before, **counted, **judged(entries), "summary": sentence, "decisions": changes(entries)}
    text = json.dumps(told, indent=1, ensure_ascii=False)
    arguments.out.write_text(text + "\n", encoding="utf-8")
    print(text)
    sys.exit(0 if counted["exact"] else 1)


def run(folder: Path, seconds: float) -> tuple[list[dict[str, Any]], str]:
    (folder / "counts").mkdir()
    content = yaml.safe_load(JOB_FILE.read_text(encoding="utf-8"))
    content["spark"]["options"]["results"] = str(folder / "counts")
    entries, sentence = autoscaled(content, seconds, folder)
    print(sentence, file=sys.stderr)
    return entries, sentence


def compare(folder: Path) -> dict[str, Any]:
    """What the job counted, against a plain count of the records that it was given."""
    (query_file,) = folder.glob("live/*/query-*/load.json")
    content = yaml.safe_load((folder / "job.yaml").read_text(encoding="utf-8"))
    job = WordCount(**content["spark"]["options"])
    records = load_file.read_load(query_file).sources["source"].limit_count
    oracle: Counter[str] = Counter()
    for first in range(0, records, _AT_ONCE):
        sentences = job.sentences(np.arange(first, min(records, first + _AT_ONCE)))[0]
        oracle.update(word for sentence in sentences for word in sentence.split())
    counts = read_results(folder / "counts")
    return {
        "records": records,
        "words": sum(oracle.values()),
        "keys": len(oracle),
        "exact": counts == dict(oracle),
        "keys_that_differ": sum(counts.get(word) != count for word, count in oracle.items()),
    }


def judged(entries: list[dict[str, Any]]) -> dict[str, Any]:
    target = yaml.safe_load(JOB_FILE.read_text(encoding="utf-8"))["target"]["latency_seconds"]
    looks = [entry for entry in entries if entry["latency_seconds"] is not None]
    moves = [entry for entry in entries if entry["action"] == "rescaled"]
    standstills = [
        reason["standstill_seconds"] for e in moves for reason in e["reasons"] if reason["code"] == "rescaled"
    ]
    return {
        "looks": len(looks),
        "looks_within_target": sum(entry["latency_seconds"] <= target for entry in looks),
        "rescales": len(moves),
        "standstill_seconds": [round(seconds, 2) for seconds in standstills],
        "predictions": [entry["judged"] for entry in entries if entry["judged"]],
    }


def changes(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    kept = ("at", "action", "rate", "latency_seconds", "running", "wanted")
    return [
        {**{name: entry[name] for name in kept}, "reasons": [f"{r['code']}: {r['text']}" for r in entry["reasons"]]}
        for entry in entries
    ]


if __name__ == "__main__":
    main()
