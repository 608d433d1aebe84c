"""Processes that take the same lease at once, or the same run after its process died."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from collections import Counter
from dataclasses import dataclass, replace
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import pytest

from autotrascale.app import tuning_run
from autotrascale.knowledge import lease, run_history, tags
from autotrascale.knowledge.mlflow_store import MlflowStore
from tests.knowledge import kills, mlflow_stores, victim
from tests.knowledge.kills import PATIENCE, Expected, Moment


def take_at_once(uri: str, thing: str, count: int) -> list[str]:
    """Return the answer of each of `count` processes."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(victim.PRELOAD)
    answers, start = context.Queue(), context.Barrier(count, timeout=PATIENCE)
    processes = [context.Process(target=_take, args=(uri, thing, start, answers)) for _ in range(count)]
    for process in processes:
        process.start()
    found = [answers.get(timeout=PATIENCE) for _ in processes]
    for process in processes:
        process.join(PATIENCE)
    return found


def _take(uri: str, thing: str, start: Any, answers: Any) -> None:
    store = MlflowStore(uri)
    store.client  # noqa: B018 - it connects
    start.wait()
    taken = lease.take_lease(store, thing, "held")
    answers.put("taken" if isinstance(taken, lease.Lease) else "held")
    start.wait()  # a holder may end only after all processes have tried
    if isinstance(taken, lease.Lease):
        taken.release()


@dataclass(frozen=True)
class Round:
    """One abandoned run and two processes that took it at once."""

    killed: int  # processes
    went_on: int  # takers that resumed the run
    doubled: int  # repeated evaluations of one number
    again: int  # evaluations that a third process ran, because the taker was killed


def resume_twice_at_once(store: MlflowStore, folder: Path, expected: Expected, name: str, rng: random.Random) -> Round:
    """Kill a process, let two processes resume its run at once, and kill one of these two in every other round.

    Raises AssertionError for a lost evaluation or a hanging process.
    """
    path = mlflow_stores.job_file(folder, name)
    first, diaries = folder / f"{name}-0", [folder / f"{name}-{i}" for i in (1, 2)]
    call = rng.randrange(len(expected.writes)) if rng.random() < 0.5 else None
    killed = _start_and_kill(store, path, first, call, expected.moment(rng))
    processes = victim.start_takers(store.uri, path, diaries, folder / f"{name}-go")
    if rng.random() < 0.5:
        time.sleep(rng.uniform(0.0, expected.seconds))
        one = rng.choice(processes)
        killed += one.exitcode is None
        one.kill()
    for process in processes:
        process.join(PATIENCE)
        assert process.exitcode is not None, "a taker hangs"
    accepted = [number for diary in (first, *diaries) for number in victim.written(diary)]
    again = kills.go_on(store, path, name)
    kills.check_end(store, name, expected)
    kept = _count_finished(store, name)
    assert set(accepted) <= kept.keys(), "an evaluation that was kept is lost"
    doubled = sum(count - 1 for count in (Counter(accepted) | kept).values())
    return Round(killed, sum(victim.answer(diary) == "went on" for diary in diaries), doubled, again)


def _start_and_kill(store: MlflowStore, path: Path, diary: Path, call: int | None, moment: Moment) -> int:
    process = victim.start_victim(store.uri, path, diary, call)
    if call is None:
        kills.kill_at(process, diary, moment)
    process.join(PATIENCE)
    assert process.exitcode is not None, "the victim hangs"
    return int(process.exitcode != 0)


def _count_finished(store: MlflowStore, name: str) -> Counter[int]:
    """Return how often the finished run holds an evaluation of each number."""
    run = run_history.find_run(store, name)
    wanted = f"attributes.status = 'FINISHED' AND tags.`{tags.PARENT_RUN}` = '{run.info.run_id}'"
    found = store.client.search_runs([run.info.experiment_id], wanted, max_results=1000)
    return Counter(int(child.data.tags[tags.NUMBER]) for child in found)


def wake_after_takeover(store: MlflowStore, folder: Path, name: str, call: int) -> tuple[list[Any], list[Any], str]:
    """Stop a process before a write, as on a sleeping machine, and continue it after its run was taken over and ended.

    Return the runs of the job before it continued, the runs after it ended, and its last words.
    """
    path, diary = mlflow_stores.job_file(folder, name), folder / f"{name}-sleeper"
    process = victim.start_sleeper(store.uri, path, diary, call)
    try:
        _await_stopped(process)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(lease, "LEASE_SECONDS", victim.SLEEPERS_LEASE)
            patch.setattr(lease, "POLL_SECONDS", 0.1)
            tuning_run.resume(store, name, replace(kills.SILENT, on_wait=lambda _: None))
        before = runs_of(store, name)
        os.kill(process.pid or 0, signal.SIGCONT)
        process.join(PATIENCE)
        assert process.exitcode is not None, "the sleeper hangs"
    finally:
        process.kill()
    return before, runs_of(store, name), victim.answer(diary)


def _await_stopped(process: ForkServerProcess) -> None:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        stat = Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii", errors="replace")
        if stat.rpartition(")")[2].split()[0] == "T":
            time.sleep(victim.SLEEPERS_LEASE)  # until its last heartbeat looks old
            return
        time.sleep(0.01)
    raise AssertionError("the sleeper does not sleep")


def runs_of(store: MlflowStore, name: str) -> list[Any]:
    """Return everything that the store has about the runs of a job, without heartbeats and without undone runs.

    A heartbeat of the sleeper's other thread may have been under way, and no process reads it any more.
    """
    found = store.client.search_runs([store.experiment(name)], max_results=1000)
    return sorted(
        (
            run.info.run_id,
            run.info.status,
            sorted({**run.data.tags, tags.HEARTBEAT: ""}.items()),
            sorted(run.data.metrics.items()),
            sorted(run.data.params.items()),
        )
        for run in found
    )
