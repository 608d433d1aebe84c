"""A full disk, a locked store and a read-only store: one clear message, and the run continues when the store accepts
writes.
"""

from __future__ import annotations

import errno
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from autotrascale.cli import main
from autotrascale.domain.errors import DecisionJournalError, RunStoreError
from autotrascale.knowledge import mlflow_store as stores
from autotrascale.knowledge import run_history, store_retry
from autotrascale.knowledge.decision_journal import commands
from autotrascale.knowledge.decision_journal.journal import DecisionJournal
from autotrascale.knowledge.mlflow_store import MlflowStore
from autotrascale.knowledge.store_retry import StoreRetry, find_remedy
from tests.knowledge import mlflow_stores

MAIN = "from autotrascale.cli.main import main; main()"
SECONDS = 120.0
MOST_BYTES = 200_000  # of a file of the process; less than a run writes


class Run:
    """`autotrascale tune` in its own process."""

    def __init__(self, folder: Path, store: MlflowStore, job: Path, most_bytes: int = resource.RLIM_INFINITY) -> None:
        self.log = folder / "stderr"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", MAIN, "tune", str(job), "--store", store.uri, "--warm-start", "none"],
                stdout=subprocess.DEVNULL,
                stderr=log,
                cwd=folder,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, resource.RLIM_INFINITY)),
            )

    def said(self, words: str) -> int:
        return self.log.read_text().count(words)

    def until(self, there: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SECONDS
        while not there():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.05)


@contextmanager
def full(store: MlflowStore, folder: Path, job: Path) -> Iterator[Run]:
    """Run `tune` with a limit on the size of files, like a full disk, and remove the limit at the end."""
    run = Run(folder, store, job, MOST_BYTES)
    run.until(lambda: run.said("retrying for at most") > 0)
    yield run
    resource.prlimit(run.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def test_a_run_waits_for_a_full_disk_says_so_once_and_goes_on(empty_database: Path, tmp_path: Path) -> None:
    store = mlflow_stores.embedded(empty_database, tmp_path / "own")
    with full(store, tmp_path, mlflow_stores.job_file(tmp_path)) as run:
        assert run.process.poll() is None
    try:
        assert run.process.wait(SECONDS) == 0, run.log.read_text()
    finally:
        run.process.send_signal(signal.SIGKILL)
    lines = run.log.read_text().splitlines()
    waits = [line for line in lines if "retrying for at most 30 minutes" in line]
    assert len(waits) == sum("accepts writes again" in line for line in lines) >= 1
    assert not [line for line in lines if "Traceback" in line or line.startswith(("autotrascale: ", "  File"))]
    found = run_history.find_run(store, "last")
    recorded = [dict(each.evaluation.parallelism) for each in run_history.read_trials(store, found)]
    assert found.info.status == "FINISHED"
    assert recorded == [dict(each.parallelism) for each in mlflow_stores.tuned(mlflow_stores.job()).evaluations]


def test_a_store_that_is_locked_is_waited_for(
    empty_database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "_BUSY_PAUSES", ())
    monkeypatch.setattr(store_retry, "_PAUSES", (0.1,))
    store = mlflow_stores.embedded(empty_database, tmp_path)
    experiment = store.experiment("small")
    holder = sqlite3.connect(
        store.uri.removeprefix("sqlite:///"), timeout=60.0, isolation_level=None, check_same_thread=False
    )
    holder.execute("BEGIN IMMEDIATE")
    said: list[str] = []

    def heard(line: str) -> None:
        said.append(line)
        if "retrying" in line:
            holder.execute("ROLLBACK")

    with stores.STORE_RETRY.waiting(heard):
        store.call(store.client.create_run, experiment)
    holder.close()
    assert "database is locked; end the process that locks it, or wait: retrying for at most 30 minutes" in said[0]
    assert "accepts writes again" in said[1]
    assert len(said) == 2


def test_whoever_only_looks_is_told_at_once(
    empty_database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "_BUSY_PAUSES", (0.0,))
    store = mlflow_stores.embedded(empty_database, tmp_path)
    tried = []

    def fails() -> None:
        tried.append(1)
        raise OSError(errno.ENOSPC, "No space left on device", "/somewhere/artifacts/run.json")

    with pytest.raises(
        RunStoreError, match=r"No space left on device: '/somewhere/artifacts/run\.json'; free some room"
    ):
        store.call(fails)
    assert len(tried) == 1


def test_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    now = [0.0]
    monkeypatch.setattr(store_retry.time, "monotonic", lambda: now[0])
    retry = StoreRetry()
    error = sqlite3.OperationalError("database or disk is full")
    assert list(retry.pauses("x", error)) == []
    with retry.waiting(said.append, max_wait_seconds=60.0):
        for pause in retry.pauses("x: full", error):
            now[0] += pause
        assert 60.0 <= now[0] <= 66.0
        assert said == ["x: full: retrying for at most 1 minutes"]
        retry.report_success()
        assert said[1:] == [f"the store accepts writes again after {now[0]:.0f} s"]
        assert list(retry.pauses("x: broken", sqlite3.OperationalError("no such table: runs"))) == []
    assert len(said) == 2


@pytest.mark.parametrize(
    ("error", "what"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "free some room"),
        (OSError(errno.EROFS, os.strerror(errno.EROFS)), "make it writable"),
        (sqlite3.OperationalError("attempt to write a readonly database"), "make it writable"),
        (sqlite3.OperationalError("unable to open database file"), "make its folder writable"),
        (sqlite3.OperationalError("no such column: x"), ""),
        (OSError(errno.ECONNREFUSED, "Connection refused"), ""),
    ],
)
def test_what_to_do_is_said_where_something_can_be_done(error: Exception, what: str) -> None:
    assert find_remedy(error) == what


SECRET = "open-sesame"


@pytest.mark.parametrize(
    "uri",
    [
        f"http://alice:{SECRET}@127.0.0.1:1",
        f"http://alice:{SECRET}@127.0.0.1:1/mlflow",
        f"https://alice:{SECRET}@127.0.0.1:1?x=1",
        f"postgresql://alice:{SECRET}@127.0.0.1:1/runs",
        f"postgresql+psycopg2://alice:{SECRET}@127.0.0.1:1/runs",
        f"mysql+pymysql://alice:{SECRET}@127.0.0.1:1/runs",
        f"postgresql://127.0.0.1:1/runs?user=alice&password={SECRET}",
        f"postgresql://alice:{SECRET}/x@127.0.0.1:1/runs",
        f"postgresql://alice:{SECRET}@x@127.0.0.1:1/runs",
        f"mssql+pyodbc:///?odbc_connect=Server%3Dx%3BPWD%3D{SECRET}",
        f"nothing://alice:{SECRET}@host/x",
        f"http://alice:{SECRET}@[::1",
        f"http://alice:{SECRET}@host:port",
        f"http://alice:{SECRET}@127.0.0.1",
    ],
)
def test_no_message_holds_a_password(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the command line down to the messages of every library that connects."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AUTOTRASCALE_STORE", uri)
    with pytest.raises(SystemExit):
        main.main(["doctor"])
    assert SECRET not in "".join(capsys.readouterr())
    with pytest.raises(SystemExit) as ended:
        main.main(["runs", "ls"])
    out, err = capsys.readouterr()
    assert ended.value.code == 1
    assert SECRET not in out + err
    assert err.startswith("autotrascale: ")
    assert err.count("\n") == 1


def test_the_journal_of_decisions_says_what_to_do_too(tmp_path: Path) -> None:
    """The file of the journal cannot grow: a command fails in one line, and nothing is lost."""
    decisions = DecisionJournal(tmp_path / "decisions.db")
    asked = [commands.append_command(decisions, "job", advises=False, what="pause", asked_by="me", at=0.0)]

    def ask_on() -> None:
        for n in range(10_000):
            pin = {"o" * 500 + str(n): 1}
            asked.append(
                commands.append_command(
                    decisions,
                    "job",
                    advises=False,
                    what="pin",
                    asked_by="me",
                    at=0.0,
                    taken=asked[-1].number,
                    parallelism=pin,
                )
            )

    decisions.read("PRAGMA max_page_count = 1", ())  # the present number
    with pytest.raises(DecisionJournalError, match=r"decisions\.db: database or disk is full; free some room$"):
        ask_on()
    assert list(commands.read_commands(decisions, "job", 0, advises=False)) == asked
    decisions.close()
