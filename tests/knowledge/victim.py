"""A tuning process that is killed at a call of its store or at any moment.

Victims are forked from a process that has imported everything, because imports would take most of their time.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from autotrascale.app import tuning_run

WRITES = (
    "create_run",
    "log_text",
    "log_batch",
    "set_terminated",
    "log_artifacts",
    "create_registered_model",
    "create_model_version",
    "set_registered_model_alias",
)
READY_SECONDS = 60.0
SLEEPERS_LEASE = 1.5
PRELOAD = [
    "tests.knowledge.victim",
    "autotrascale.app.tuning_run",
    "autotrascale.views.tuning_progress",
    "autotrascale.plan.search.ask_tell",
    "mlflow.pyfunc",
    "mlflow.store.tracking.sqlalchemy_store",
    "mlflow.store.model_registry.sqlalchemy_store",
]


LISTENER = tuning_run.RunListener(lambda *_: None, lambda _: time.sleep(0.01), lambda _: None)


def start_victim(uri: str, job_file: Path, diary: Path, call: int | None = None) -> ForkServerProcess:
    """Start a process that tunes. It kills itself before the write of number `call`, counted from 0."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    process = context.Process(target=live, args=(uri, str(job_file), str(diary), call))
    process.start()
    return process


def start_takers(uri: str, job_file: Path, diaries: Sequence[Path], go: Path) -> list[ForkServerProcess]:
    """Start processes that resume the job's last run, or start one if there is none, all at once."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    processes = [context.Process(target=take, args=(uri, str(job_file), str(diary), str(go))) for diary in diaries]
    for process in processes:
        process.start()
    until = time.monotonic() + READY_SECONDS
    while not all(diary.exists() for diary in diaries) and time.monotonic() < until:
        time.sleep(0.005)
    go.touch()
    return processes


def live(uri: str, job_file: str, diary: str, call: int | None) -> None:
    """Tune like the command line. The diary gets a line for each evaluation that the journal has accepted."""
    from autotrascale.knowledge.mlflow_store import MlflowStore

    store = MlflowStore(uri)
    if call is not None:
        count_writes(store, lambda number, _: os.kill(os.getpid(), signal.SIGKILL) if number == call else None)
    keep_diary(diary)
    tune(store, Path(job_file))


def take(uri: str, job_file: str, diary: str, go: str) -> None:
    """Resume or start a run. The last line of the diary is the answer."""
    from autotrascale.domain.errors import InputError
    from autotrascale.knowledge import run_history
    from autotrascale.knowledge.mlflow_store import MlflowStore

    store, path = MlflowStore(uri), Path(job_file)
    store.client  # noqa: B018 - it connects
    runs = run_history.list_runs(store, path.stem)
    keep_diary(diary)
    while not Path(go).exists():
        time.sleep(0.001)
    try:
        if runs and has_opening(store, runs[0].run_id):
            tuning_run.resume(store, runs[0].run_id, LISTENER)
        else:
            tune(store, path)
        said = "went on"
    except InputError as error:
        said = str(error)
    with open(diary, "a", encoding="utf-8") as file:
        file.write(f"{said}\n")


def start_sleeper(uri: str, job_file: Path, diary: Path, call: int) -> ForkServerProcess:
    """Start a process that seems to run on another machine. It stops before the write of number `call`."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    process = context.Process(target=sleep, args=(uri, str(job_file), str(diary), call))
    process.start()
    return process


def sleep(uri: str, job_file: str, diary: str, call: int) -> None:
    """Tune, and write the last error to the diary."""
    from autotrascale.domain.errors import AuTraScaleError
    from autotrascale.knowledge import lease, process_identity
    from autotrascale.knowledge.mlflow_store import MlflowStore

    process_identity._machine = lambda: "elsewhere"
    lease.HEARTBEAT_SECONDS = SLEEPERS_LEASE / 5  # type: ignore[attr-defined]
    store = MlflowStore(uri)
    count_writes(store, lambda number, _: os.kill(os.getpid(), signal.SIGSTOP) if number == call else None)
    keep_diary(diary)
    said = "nothing"
    try:
        tune(store, Path(job_file))
    except AuTraScaleError as error:
        said = str(error)
    with open(diary, "a", encoding="utf-8") as file:
        file.write(f"{said}\n")


def tune(store: Any, path: Path) -> None:
    from autotrascale.app.job_file import read_job_file

    file = read_job_file(path)
    tuning_run.start(tuning_run.TuningRequest(file, path, "simulator", file.tuning), store, LISTENER)


def has_opening(store: Any, run_id: str) -> bool:
    from autotrascale.domain.errors import InputError
    from autotrascale.knowledge import run_history

    try:
        run_history.read_opening(store, run_id)
    except InputError as error:
        if "has no opening" not in str(error):
            raise
        return False
    return True


def keep_diary(diary: str) -> None:
    from autotrascale.knowledge.run_journal import RunJournal

    done = RunJournal.done

    def noted(self: RunJournal, each: Any) -> None:
        done(self, each)
        with open(diary, "a", encoding="utf-8") as file:
            file.write(f"{each.evaluation.number}\n")

    RunJournal.done = noted  # type: ignore[method-assign]
    Path(diary).touch()


def count_writes(store: Any, before: Callable[[int, str], None]) -> list[str]:
    """Call `before` with number and name of each write to come. Return the list of names, which grows."""
    seen: list[str] = []
    for name in WRITES:
        setattr(store.client, name, _counted(getattr(store.client, name), name, seen, before))
    return seen


def _counted(
    action: Callable[..., Any], name: str, seen: list[str], before: Callable[[int, str], None]
) -> Callable[..., Any]:
    def counted(*given: Any, **named: Any) -> Any:
        before(len(seen), name)
        seen.append(name)
        return action(*given, **named)

    return counted


def written(diary: Path) -> Sequence[int]:
    """Return the numbers of the accepted evaluations."""
    return [int(line) for line in _lines(diary) if line.isdecimal()]


def answer(diary: Path) -> str:
    """Return the answer of a taker, or "" when it was killed before."""
    return next((line for line in reversed(_lines(diary)) if not line.isdecimal()), "")


def _lines(diary: Path) -> list[str]:
    return diary.read_text().splitlines() if diary.exists() else []
