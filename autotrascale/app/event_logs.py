"""Event logs as input of `snapshot` and `critical`: find them, read them in this process or on Spark, write results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from autotrascale.analyze.log_tasks import RunAll, needs_spark, run_here, run_on
from autotrascale.app.stores import choose_store_uri, live_job_folder, require_decisions
from autotrascale.domain.errors import InputError
from autotrascale.monitor.eventlog.log_files import is_address

if TYPE_CHECKING:
    from autotrascale.monitor.eventlog.log_files import LogFile


@contextmanager
def open_log_runner(
    logs: Sequence[Sequence[LogFile]], driver_memory: str, *, splits_logs: bool = False
) -> Iterator[RunAll]:
    """Yield a function that reads logs: on Spark for several large logs, else in this process.

    Args:
        logs: files of each log.
        driver_memory: memory of Spark's JVM, such as 1g.
        splits_logs: the work after reading is split, so one large log is worth starting Spark too.

    Raises:
        EngineError: Spark is needed, and Java is missing or too old.
    """
    if not needs_spark(logs, splits_logs=splits_logs):
        yield run_here
        return
    from autotrascale.execute.spark.controller.local_session import local_session

    with local_session(driver_memory) as spark:
        yield run_on(spark)


def find_event_log(name: str, store: str | None) -> str:
    """Return `name` if it is a path or address, else the newest event log of the program `name`.

    Args:
        name: path, address, or name of a program that `run` controls.
        store: the value of `--store`, beside which programs are kept.

    Raises:
        InputError: there is no such program, or it has no event log yet.
    """
    if is_address(name) or Path(name).exists() or "/" in name:
        return name
    decisions = None if choose_store_uri(store) is None else require_decisions(store)
    home = live_job_folder(decisions, name)
    if decisions is not None:
        decisions.close()
    logs = sorted(home.glob("program-*/events"), key=lambda path: path.stat().st_mtime)
    if not logs:
        remedy = "give the path of a Spark event log, or the name of a program of `autotrascale run`"
        raise InputError("LOG|JOB", "is neither a file nor a folder nor a program", seen=name, remedy=remedy)
    newest = logs[-1]
    if next(newest.iterdir(), None) is None:
        remedy = "wait until the program has opened Spark, or name the event log of an earlier start"
        raise InputError(name, "has no event log yet", seen=str(newest), remedy=remedy)
    return str(newest)


def check_output_folder(folder: str) -> None:
    """Raise InputError unless `folder` can be written. A folder on another file system is not checked."""
    if is_address(folder):
        return
    path = Path(folder).absolute()
    existing = next(each for each in (path, *path.parents) if each.exists())
    try:
        with TemporaryDirectory(prefix=".", dir=existing):
            pass
    except OSError as error:
        problem = "is not a folder" if isinstance(error, NotADirectoryError) else f"cannot be written: {error.strerror}"
        raise InputError("--output", problem, seen=folder, remedy="name another folder") from None
