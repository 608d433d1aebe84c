"""Cost of the journal per evaluation, and losses of tuning processes that are killed.

One process makes the same simulated run with and without a journal, in turns. The cost is the difference divided by the
number of evaluations. For comparison, the same store gets the least that MLflow can do per evaluation: a nested run,
one `log_batch`, and its end. CPU time is that of this process: all of an embedded store, the client's part of a served
store.

`--kills N` kills N tuning processes with signal 9: half of them before a random write to their store, half at a random
time. It resumes each run and counts losses. `--takers N` also lets two processes resume each run at once, kills one of
them in every other round, and counts evaluations that were made twice. Every fifth round has a served store.

    python -m benchmarks.speed.journal_bench
    python -m benchmarks.speed.journal_bench --kills 100
    python -m benchmarks.speed.journal_bench --takers 100
"""

from __future__ import annotations

import argparse
import json
import random
import sqlite3
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from mlflow.entities import Metric, Param

from autotrascale.knowledge import tags
from autotrascale.knowledge.mlflow_store import MlflowStore
from autotrascale.knowledge.run_journal import RunJournal
from tests.knowledge import kills, takers
from tests.knowledge.mlflow_stores import job, opening, served, tuned

ROUNDS = 9
LIMIT_MS = 150.0
SERVED_EVERY = 5


def figures() -> dict[str, object]:
    with _stores() as (embedded, server):
        return {
            "limit_ms_per_evaluation": LIMIT_MS,
            "embedded": _measure_cost(embedded),
            "served": _measure_cost(server),
        }


def kill_many(count: int) -> dict[str, object]:
    """Kill and resume `count` runs. Raises AssertionError if an evaluation is lost or a run cannot be resumed."""
    rng, again = random.Random(0), []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store = MlflowStore(f"sqlite:///{folder / 'mlflow.db'}")
        expected = kills.expected_run(store, folder)
        for number in range(count):
            call = rng.randrange(len(expected.writes)) if number % 2 else None
            moment = expected.moment(rng)
            again.append(kills.kill_and_resume(store, folder, expected, f"kill-{number}", call=call, moment=moment))
            (folder / "diary").unlink(missing_ok=True)
            print(f"\r{number + 1}/{count}", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
    return {"kills": count, "evaluations_lost": 0, "runs_stuck": 0, "evaluations_run_after_resuming": sum(again)}


def take_many(rounds: int) -> dict[str, object]:
    """Let two processes resume each run. Raises AssertionError if an evaluation is lost or a process hangs."""
    rng, found = random.Random(0), []
    with _stores() as stores, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        expected = kills.expected_run(stores[0], folder)
        for number in range(rounds):
            store = stores[number % SERVED_EVERY == SERVED_EVERY - 1]
            found.append(takers.resume_twice_at_once(store, folder, expected, f"taken-{number}", rng))
            print(f"\r{number + 1}/{rounds}", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
    return {
        "rounds": rounds,
        "kills": sum(each.killed for each in found),
        "takers": 2 * rounds,
        "takers_that_went_on": sum(each.went_on for each in found),
        "rounds_in_which_both_went_on": sum(each.went_on > 1 for each in found),
        "evaluations_doubled": sum(each.doubled for each in found),
        "evaluations_lost": 0,
        "runs_stuck": 0,
        "evaluations_run_by_a_third": sum(each.again for each in found),
    }


@contextmanager
def _stores() -> Iterator[tuple[MlflowStore, MlflowStore]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        embedded = MlflowStore(f"sqlite:///{folder / 'mlflow.db'}")
        embedded.client  # noqa: B018 - it makes the file
        empty = folder / "empty.db"
        # A plain copy would open and close the file, which drops SQLite's locks on it.
        with closing(sqlite3.connect(folder / "mlflow.db")) as made, closing(sqlite3.connect(empty)) as copy:
            made.backup(copy)
        (folder / "server").mkdir()
        with served(empty, folder / "server") as uri:
            yield embedded, MlflowStore(uri)


@dataclass(frozen=True)
class Cost:
    """Milliseconds for each evaluation."""

    wall: float
    cpu: float

    def __sub__(self, other: Cost) -> Cost:
        return Cost(self.wall - other.wall, self.cpu - other.cpu)


def _measure_cost(store: MlflowStore) -> dict[str, float]:
    job_name = "bench"
    count = len(tuned(job(job_name)).evaluations)
    _run(store, job_name, count)  # imports, caches and tables of the first run
    added, bare = [], []
    for _ in range(ROUNDS):
        added.append(_run(store, job_name, count) - _time(lambda: tuned(job(job_name)), count))
        bare.append(_time(lambda: _bare(store, job_name, count), count))
    wall, cpu = statistics.median(c.wall for c in added), statistics.median(c.cpu for c in added)
    least_wall, least_cpu = statistics.median(c.wall for c in bare), statistics.median(c.cpu for c in bare)
    return {
        "added_ms_per_evaluation": round(wall, 1),
        "worst_round_ms": round(max(c.wall for c in added), 1),
        "cpu_ms_per_evaluation": round(cpu, 1),
        "bare_mlflow_ms": round(least_wall, 1),
        "bare_mlflow_cpu_ms": round(least_cpu, 1),
        "ratio_to_bare_mlflow": round(wall / least_wall, 2),
        "cpu_ratio_to_bare_mlflow": round(cpu / least_cpu, 2),
    }


def _run(store: MlflowStore, name: str, count: int) -> Cost:
    with RunJournal.start(store, opening(job(name))) as journal:
        return _time(lambda: tuned(job(name), journal), count)


def _bare(store: MlflowStore, name: str, count: int) -> None:
    """Write `count` nested runs with MLflow alone: the numbers of an evaluation without its description."""
    client, experiment = store.client, store.experiment(name)
    parent = client.create_run(experiment).info.run_id
    for number in range(count):
        run_id = client.create_run(experiment, tags={tags.PARENT_RUN: parent}).info.run_id
        now = int(time.time() * 1000)
        metrics = [Metric(metric, 0.1, now, 0) for metric in ("latency_seconds", "throughput", "score")]
        client.log_batch(run_id, metrics, [Param("k.source", str(number)), Param("k.count", str(number))])
        client.set_terminated(run_id)
    client.set_terminated(parent)


def _time(action: Callable[[], object], count: int) -> Cost:
    wall, cpu = time.perf_counter(), time.process_time()
    action()
    return Cost((time.perf_counter() - wall) / count * 1000, (time.process_time() - cpu) / count * 1000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=0, metavar="N")
    parser.add_argument("--takers", type=int, default=0, metavar="N")
    asked = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = kill_many(asked.kills) if asked.kills else take_many(asked.takers) if asked.takers else figures()
        print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
