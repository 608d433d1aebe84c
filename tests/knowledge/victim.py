"""A tuning process that is killed, at a call of its store's or at any moment.

Victims are forked off a process that has imported everything already: a fresh one would spend its life importing.
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
PRELOAD = [
    "tests.knowledge.victim", "autotrascale.service.tuning_runs", "autotrascale.views.progress",
    "autotrascale.plan.search.study",
    "mlflow.pyfunc", "mlflow.store.tracking.sqlalchemy_store", "mlflow.store.model_registry.sqlalchemy_store",
]  # fmt: skip


def start_victim(uri: str, job_file: Path, diary: Path, call: int | None = None) -> ForkServerProcess:
    """`call`: it kills itself before its store's write of this number, counted from 0."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    process = context.Process(target=live, args=(uri, str(job_file), str(diary), call))
    process.start()
    return process


def live(uri: str, job_file: str, diary: str, call: int | None) -> None:
    """Tune as the command line does. The diary gets a line for each evaluation that the journal has accepted."""
    from autotrascale.knowledge.journal import RunJournal
    from autotrascale.knowledge.store import Store
    from autotrascale.service import tuning_runs
    from autotrascale.service.jobfile import read_job_file

    store = Store(uri)
    if call is not None:
        count_writes(store, lambda number, _: os.kill(os.getpid(), signal.SIGKILL) if number == call else None)
    done = RunJournal.done

    def noted(self: RunJournal, each: Any) -> None:
        done(self, each)
        with open(diary, "a", encoding="utf-8") as file:
            file.write(f"{each.evaluation.number}\n")

    RunJournal.done = noted  # type: ignore[method-assign]
    file = read_job_file(Path(job_file))
    listener = tuning_runs.RunListener(lambda *_: None, lambda _: time.sleep(0.01), lambda _: None)
    Path(diary).touch()
    tuning_runs.start(tuning_runs.Asked(file, Path(job_file), "simulator", file.tuning), store, listener)


def count_writes(store: Any, before: Callable[[int, str], None]) -> list[str]:
    """Calls `before` with the number and the name of each write to come; the names so far are in the list returned."""
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
    return [int(line) for line in diary.read_text().splitlines()] if diary.exists() else []
