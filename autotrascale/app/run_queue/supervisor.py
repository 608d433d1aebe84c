"""The queue itself: bounded, read back from the store at the start, worked off by one thread.

What a client is told has happened is in the store before it is told so. In memory are only copies: who waits in which
order, which idempotency key stands for which run, which processes run.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from autotrascale.app.job_file import JobFile
from autotrascale.app.run_queue import idempotency_keys, run_requests, server_log, worker_processes
from autotrascale.app.run_queue.idempotency_keys import IdempotencyKeys
from autotrascale.app.run_queue.run_requests import QueuedRun, QueueRequest
from autotrascale.app.run_queue.turn_order import choose_next
from autotrascale.app.run_queue.worker import EXIT_BUSY
from autotrascale.app.run_queue.worker_processes import WorkerProcess
from autotrascale.domain.errors import InputError, QueueFullError, RunLostError, RunStoreError
from autotrascale.knowledge import job_lock, tags
from autotrascale.knowledge.mlflow_store import MlflowStore

if TYPE_CHECKING:
    from mlflow.entities import Run

TICK_SECONDS = 0.2
BUSY_JOB_PAUSE_SECONDS = 5.0  # how long a job is left alone that somebody else was found tuning
MAX_CRASHES = 3  # of a run's process, under one server


@dataclass
class RunQueue:
    store: MlflowStore
    server: str
    parallel_runs: int = 1
    limit: int = 100
    changed: Callable[[Run], object] = lambda _: None
    beat: float = 0.0  # when the thread last looked, monotonic
    _waiting: dict[str, QueuedRun] = field(default_factory=dict)
    _children: dict[str, WorkerProcess] = field(default_factory=dict)
    _keys: IdempotencyKeys = field(default_factory=IdempotencyKeys)
    _served: dict[str, int] = field(default_factory=dict)
    _turns: int = 0
    _deaths: dict[str, int] = field(default_factory=dict)
    _away: dict[str, float] = field(default_factory=dict)  # job → until when it is left alone
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _closing: threading.Event = field(default_factory=threading.Event)
    _woken: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    # -- the thread ---------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Everything that is still to be done waits again."""
        for run in run_requests.list_server_runs(self.store, self.server):
            self._keys.remember(run)
            if run.data.tags.get(tags.QUEUE) != run_requests.SETTLED:
                self._sort(run)
        server_log.info("queue read", server=self.server, waiting=len(self._waiting))
        self.beat = time.monotonic()
        self._thread = threading.Thread(target=self._work, name="queue", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Runs under way keep their last evaluation; they go on at the next start."""
        self._closing.set()
        self._woken.set()
        if self._thread is not None:
            self._thread.join()
        worker_processes.stop_workers(self._children.values())
        for child in self._children.values():
            with suppress(RunStoreError, RunLostError):  # it is found out at the next start
                self._leave(child)
        self._children.clear()

    def _leave(self, child: WorkerProcess) -> None:
        run = run_requests.fetch_run(self.store, child.run_id)
        if run_requests.decide_fate(run) == "wait":
            server_log.info("run left for the next start", run=child.run_id)
        else:
            self._settle(run)

    def _work(self) -> None:
        while not self._closing.is_set():
            self.beat = time.monotonic()
            try:
                self._reap()
                while not self._closing.is_set() and self._start_one():
                    pass
            except RunLostError as error:
                self._lose(error)
                return
            except RunStoreError as error:
                server_log.warning("store out of reach", why=str(error))
                self._closing.wait(1.0)
            except Exception:
                server_log.exception("queue stumbled")
                self._closing.wait(1.0)
            self._woken.wait(TICK_SECONDS)
            self._woken.clear()

    def _lose(self, error: RunLostError) -> None:
        """Another server works for this name: this one ends, and its runs with it."""
        server_log.warning("server replaced", why=str(error))
        worker_processes.stop_workers(self._children.values())
        os.kill(os.getpid(), signal.SIGTERM)

    def _start_one(self) -> bool:
        entry = self._next()
        if entry is None:
            return False
        run = run_requests.fetch_run(self.store, entry.run_id)
        if self._tuned_elsewhere(run):
            self._away[entry.job] = time.monotonic() + BUSY_JOB_PAUSE_SECONDS
            return True
        with self._lock:
            if self._waiting.get(entry.run_id) != entry:  # cancelled meanwhile
                return True
            del self._waiting[entry.run_id]
            if run_requests.decide_fate(run) != "wait":
                self._settle(run)
                return True
            self._turns += 1
            self._served[entry.job] = self._turns
            child = WorkerProcess.start(self.store, entry.run_id, entry.job)
            self._children[entry.run_id] = child
        server_log.info("run started", run=entry.run_id, job=entry.job, pid=child.pid)
        return True

    def _next(self) -> QueuedRun | None:
        with self._lock:
            if len(self._children) >= self.parallel_runs:
                return None
            now = time.monotonic()
            busy = {child.job for child in self._children.values()}
            busy |= {job for job, until in self._away.items() if until > now}
            return choose_next(self._waiting.values(), busy, self._served)

    def _tuned_elsewhere(self, run: Run) -> bool:
        """From a command line, or by what a server before this one left and what is about to end; or autoscaled."""
        return job_lock.is_job_locked(self.store, run.data.tags.get(tags.JOB, "?"))

    def _reap(self) -> None:
        for child in list(self._children.values()):
            code = child.exit_code()
            if code is None:
                continue
            child.kill()  # of its session nothing is left either
            run = run_requests.fetch_run(self.store, child.run_id)
            with self._lock:
                del self._children[child.run_id]
                if run_requests.decide_fate(run) == "wait" and code != EXIT_BUSY:
                    self._deaths[child.run_id] = self._deaths.get(child.run_id, 0) + 1
                server_log.info("run's process ended", run=child.run_id, exit_code=code, status=run.info.status)
                self._sort(run)

    def _sort(self, run: Run) -> None:
        """A run without a process: it waits, or is over."""
        run_id = run.info.run_id
        if run_requests.decide_fate(run) == "wait" and self._deaths.get(run_id, 0) < MAX_CRASHES:
            waiting = run_requests.queue_again(self.store, run)
            self._waiting[run_id] = QueuedRun.of(waiting)
            self.changed(waiting)
        else:
            self._settle(run)

    def _settle(self, run: Run) -> None:
        given_up = self._deaths.pop(run.info.run_id, 0) >= MAX_CRASHES
        why = f"its process died {MAX_CRASHES} times" if given_up else ""
        self.changed(
            run_requests.settle_run(self.store, run, cancelled=run_requests.decide_fate(run) == "cancelled", why=why)
        )

    # -- what clients ask for -----------------------------------------------------------------------------------------

    def submit(
        self, request: QueueRequest, file: JobFile, content: str, key: str | None = None, body: str = ""
    ) -> tuple[Run, bool]:
        """The run, and whether it is a new one. The same key and body name the same run for ever."""
        with self._lock:
            known = self._keys.run_of(key, body)
            if known is not None:
                return run_requests.fetch_run(self.store, known), False
            self._check_room()
            run = run_requests.create_run(
                self.store, self.server, request, file, content, idempotency_keys.make_key_tag(key, body)
            )
            self._keys.remember(run)
            self._waiting[run.info.run_id] = QueuedRun.of(run)
        self.changed(run)
        self._woken.set()
        server_log.info("run queued", run=run.info.run_id, job=file.job)
        return run, True

    def resume(self, run_id: str, request: QueueRequest) -> Run:
        with self._lock:
            run = run_requests.fetch_run(self.store, run_id)
            wider = request.total_trials is not None or request.max_seconds is not None
            run_requests.check_resumable(run, wider)
            if run_id in self._waiting or run_id in self._children:
                raise InputError(f"run {run_id}", "is in the queue already", remedy="wait, or cancel it")
            self._check_room()
            self._deaths.pop(run_id, None)
            run = run_requests.requeue_run(self.store, self.server, run, request.after(run))
            self._waiting[run_id] = QueuedRun.of(run)
        self.changed(run)
        self._woken.set()
        return run

    def cancel(self, run_id: str) -> Run:
        """Over at once when nothing carries it on, else before its next trial. Raises when it is over already."""
        with self._lock:
            run = run_requests.fetch_run(self.store, run_id)
            ours, child = run_id in self._waiting, self._children.get(run_id)
            if not ours and child is None and run.info.status != "RUNNING":
                job_lock.cancel_run(self.store, run)
            else:
                if ours or child is not None:
                    run_requests.mark_unwanted(self.store, run_id)
                self._waiting.pop(run_id, None)
                run = self._end(run, child)
        self.changed(run)
        server_log.info("run cancelled", run=run_id)
        return run

    def _end(self, run: Run, child: WorkerProcess | None) -> Run:
        if run.info.status == "RUNNING":
            job_lock.cancel_run(self.store, run)
        elif child is not None:
            child.hang_up()  # it has not begun yet
        else:
            return run_requests.settle_run(self.store, run, cancelled=True)
        return run_requests.fetch_run(self.store, run.info.run_id)

    # -- counts -------------------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def knows(self, run_id: str) -> bool:
        """Whether it is to go on here, or does."""
        return run_id in self._waiting or run_id in self._children

    @property
    def under_way(self) -> list[str]:
        return list(self._children)

    def _check_room(self) -> None:
        if len(self._waiting) >= self.limit:
            raise QueueFullError(f"the queue holds {self.limit} runs already; try again later")
