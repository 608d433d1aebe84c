"""What the journal adds to an evaluation, beside the same run without one; and what killed processes lose.

The same simulated run is made with and without a journal, in turns, in one process. What it adds per evaluation is the
difference, divided by the evaluations: the nested run, its artefact, its numbers, its end. `--kills N` kills N tuning
processes with signal 9, half of them before a write of their store's drawn at random, half at a random moment, resumes
each, and counts what was lost.

    python -m benchmarks.journal_bench
    python -m benchmarks.journal_bench --kills 100
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from autotrascale.knowledge.journal import RunJournal
from autotrascale.knowledge.store import Store
from autotrascale.tuning import Journal
from tests.knowledge import kills
from tests.knowledge.mlflow_stores import job, opening, served, tuned

ROUNDS = 9
LIMIT_MS = 150.0


def figures() -> dict[str, object]:
    """On a disk, not in memory: a database asks its disk to be sure."""
    with _stores() as (embedded, server):
        return {
            "limit_ms_per_evaluation": LIMIT_MS,
            "embedded": _added(embedded),
            "served": _added(server),
        }


def kill_many(count: int) -> dict[str, object]:
    """Raises AssertionError at the first evaluation that is lost and the first run that is stuck."""
    rng, again = random.Random(0), []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store = Store(f"sqlite:///{folder / 'mlflow.db'}")
        expected = kills.expected_run(store, folder)
        for number in range(count):
            call = rng.randrange(len(expected.writes)) if number % 2 else None
            delay = rng.uniform(0.0, expected.seconds)
            again.append(kills.kill_and_resume(store, folder, expected, f"kill-{number}", call=call, delay=delay))
            (folder / "diary").unlink(missing_ok=True)
            print(f"\r{number + 1}/{count}", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
    return {"kills": count, "evaluations_lost": 0, "runs_stuck": 0, "evaluations_run_after_resuming": sum(again)}


@contextmanager
def _stores() -> Iterator[tuple[Store, Store]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        embedded = Store(f"sqlite:///{folder / 'mlflow.db'}")
        embedded.client  # noqa: B018 - it makes the file
        empty = folder / "empty.db"
        empty.write_bytes((folder / "mlflow.db").read_bytes())
        (folder / "server").mkdir()
        with served(empty, folder / "server") as uri:
            yield embedded, Store(uri)


def _added(store: Store) -> dict[str, float]:
    job_name = "bench"
    _run(store, job_name)  # whatever is made, loaded or cached once
    added = []
    for _ in range(ROUNDS):
        without, count = _timed(None, job_name)
        added.append((_run(store, job_name) - without) / count * 1000)
    return {"added_ms_per_evaluation": round(statistics.median(added), 1), "worst_round_ms": round(max(added), 1)}


def _run(store: Store, name: str) -> float:
    with RunJournal.start(store, opening(job(name))) as journal:
        seconds, _ = _timed(journal, name)
    return seconds


def _timed(journal: Journal | None, name: str) -> tuple[float, int]:
    began = time.perf_counter()
    outcome = tuned(job(name), journal)
    return time.perf_counter() - began, len(outcome.evaluations)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=0, metavar="N")
    count = parser.parse_args().kills
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        print(json.dumps(kill_many(count) if count else figures(), indent=2))


if __name__ == "__main__":
    main()
