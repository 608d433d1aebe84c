"""Queue of runs: bounded, read back from the store at the start, and worked off by one thread.

Everything that a client is told is in the store before. Memory holds copies only: the order of waiting runs, the runs
of idempotency keys, and the worker processes.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import suppress
from typing import TYPE_CHECKING

from autotrascale.app.job_file import JobFile
from autotrascale.app.run_queue import idempotency_keys, run_requests, server_log, worker_processes
from autotrascale.app.run_queue.idempotency_keys import IdempotencyKeys
from autotrascale.app.run_queue.run_requests import QueuedRun, QueueRequest
from autotrascale.app.run_queue.worker import EXIT_BUSY
from autotrascale.app.run_queue.worker_processes import WorkerProcess
from autotrascale.domain.errors import InputError, QueueFullError, RunLostError, RunStoreError
from autotrascale.knowledge import job_lock, tags
from autotrascale.knowledge.mlflow_store import MlflowStore

if TYPE_CHECKING:
    from mlflow.entities import Run

TICK_SECONDS = 0.2
BUSY_JOB_PAUSE_SECONDS = 5.0  # after which a job that another process tunes is tried again
MAX_CRASHES = 3  # of a run's process while one server runs


class RunQueue:
    """The queue of one server."""

    def __init__(
        self,
        store: MlflowStore,
        server: str,
        parallel_runs: int = 1,
        limit: int = 100,
        changed: Callable[[Run], object] = lambda _: None,
    ) -> None:
        """Create the queue; `open` starts it.

        Args:
            store: the store of runs.
            server: name of the server.
            parallel_runs: most runs under way at a time.
            limit: most runs that may wait.
            changed: called with each run that changes.
        """
        self.store, self.server, self.parallel_runs, self.limit, self.changed = (
            store,
            server,
            parallel_runs,
            limit,
            changed,
        )
        self.beat = 0.0  # monotonic time of the thread's last step
        self._waiting: dict[str, QueuedRun] = {}
        self._workers: dict[str, WorkerProcess] = {}
        self._keys = IdempotencyKeys()
        self._last_turns: dict[str, int] = {}  # by job
        self._turns = 0
        self._crashes: dict[str, int] = {}  # by run
        self._paused_until: dict[str, float] = {}  # by job, monotonic time
        self._lock = threading.RLock()
        self._closing, self._woken = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    # -- the thread ----------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Read back all unfinished runs of this server, and start the thread."""
        for run in run_requests.list_server_runs(self.store, self.server):
            self._keys.remember(run)
            if run.data.tags.get(tags.QUEUE) != run_requests.SETTLED:
                self._queue_or_settle(run)
        server_log.info("queue read", server=self.server, waiting=len(self._waiting))
        self.beat = time.monotonic()
        self._thread = threading.Thread(target=self._work, name="queue", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the thread and all workers. Their runs keep the last trial and continue at the next start."""
        self._closing.set()
        self._woken.set()
        if self._thread is not None:
            self._thread.join()
        worker_processes.stop_workers(self._workers.values())
        for worker in self._workers.values():
            with suppress(RunStoreError, RunLostError):  # the next start finds the run again
                run = run_requests.fetch_run(self.store, worker.run_id)
                if run_requests.decide_fate(run) == "wait":
                    server_log.info("run left for the next start", run=worker.run_id)
                else:
                    self._settle(run)
        self._workers.clear()

    def _work(self) -> None:
        while not self._closing.is_set():
            self.beat = time.monotonic()
            try:
                self._reap_workers()
                while not self._closing.is_set() and self._start_next():
                    pass
            except RunLostError as error:
                self._give_way(error)
                return
            except RunStoreError as error:
                server_log.warning("store does not answer", why=str(error))
                self._closing.wait(1.0)
            except Exception:
                server_log.exception("queue step failed")
                self._closing.wait(1.0)
            self._woken.wait(TICK_SECONDS)
            self._woken.clear()

    def _give_way(self, error: RunLostError) -> None:
        """End this server and its runs, as another server has taken over its name."""
        server_log.warning("server replaced", why=str(error))
        worker_processes.stop_workers(self._workers.values())
        os.kill(os.getpid(), signal.SIGTERM)

    def _start_next(self) -> bool:
        """Start the next run. Return whether there was a run to look at."""
        entry = self._choose_next()
        if entry is None:
            return False
        run = run_requests.fetch_run(self.store, entry.run_id)
        if job_lock.is_job_locked(self.store, entry.job):
            self._paused_until[entry.job] = time.monotonic() + BUSY_JOB_PAUSE_SECONDS
            return True
        with self._lock:
            if self._waiting.get(entry.run_id) != entry:  # cancelled meanwhile
                return True
            del self._waiting[entry.run_id]
            if run_requests.decide_fate(run) != "wait":
                self._settle(run)
                return True
            self._turns += 1
            self._last_turns[entry.job] = self._turns
            worker = WorkerProcess.start(self.store, entry.run_id, entry.job)
            self._workers[entry.run_id] = worker
        server_log.info("run started", run=entry.run_id, job=entry.job, pid=worker.pid)
        return True

    def _choose_next(self) -> QueuedRun | None:
        with self._lock:
            if len(self._workers) >= self.parallel_runs:
                return None
            now = time.monotonic()
            busy = {worker.job for worker in self._workers.values()}
            busy |= {job for job, until in self._paused_until.items() if until > now}
            return choose_next(self._waiting.values(), busy, self._last_turns)

    def _reap_workers(self) -> None:
        for worker in list(self._workers.values()):
            code = worker.exit_code()
            if code is None:
                continue
            worker.kill()  # ends all that is left of its session
            run = run_requests.fetch_run(self.store, worker.run_id)
            with self._lock:
                del self._workers[worker.run_id]
                if run_requests.decide_fate(run) == "wait" and code != EXIT_BUSY:
                    self._crashes[worker.run_id] = self._crashes.get(worker.run_id, 0) + 1
                server_log.info("run's process ended", run=worker.run_id, exit_code=code, status=run.info.status)
                self._queue_or_settle(run)

    def _queue_or_settle(self, run: Run) -> None:
        run_id = run.info.run_id
        if run_requests.decide_fate(run) == "wait" and self._crashes.get(run_id, 0) < MAX_CRASHES:
            waiting = run_requests.queue_again(self.store, run)
            self._waiting[run_id] = QueuedRun.of(waiting)
            self.changed(waiting)
        else:
            self._settle(run)

    def _settle(self, run: Run) -> None:
        has_crashed = self._crashes.pop(run.info.run_id, 0) >= MAX_CRASHES
        why = f"its process died {MAX_CRASHES} times" if has_crashed else ""
        is_cancelled = run_requests.decide_fate(run) == "cancelled"
        self.changed(run_requests.settle_run(self.store, run, cancelled=is_cancelled, why=why))

    # -- requests of clients -------------------------------------------------------------------------------------------

    def submit(
        self, request: QueueRequest, file: JobFile, content: str, key: str | None = None, body: str = ""
    ) -> tuple[Run, bool]:
        """Add a run, and return it with True; or return the run of an earlier request with the same key, and False.

        Args:
            request: the request.
            file: the job file.
            content: digest of the job file.
            key: idempotency key of the client.
            body: body of the client's request, which must be the same for the same key.

        Raises:
            IdempotencyKeyReusedError: the key came with another body.
            QueueFullError: too many runs wait.
        """
        with self._lock:
            known = self._keys.find_run(key, body)
            if known is not None:
                return run_requests.fetch_run(self.store, known), False
            self._check_limit()
            tag = idempotency_keys.make_key_tag(key, body)
            run = run_requests.create_run(self.store, self.server, request, file, content, tag)
            self._keys.remember(run)
            self._waiting[run.info.run_id] = QueuedRun.of(run)
        self.changed(run)
        self._woken.set()
        server_log.info("run queued", run=run.info.run_id, job=file.job)
        return run, True

    def resume(self, run_id: str, request: QueueRequest) -> Run:
        """Queue a run again, with the limits of the request.

        Raises:
            InputError: the run cannot be resumed.
            QueueFullError: too many runs wait.
        """
        with self._lock:
            run = run_requests.fetch_run(self.store, run_id)
            has_new_limits = request.total_trials is not None or request.max_seconds is not None
            run_requests.check_resumable(run, has_new_limits=has_new_limits)
            if self.knows(run_id):
                raise InputError(f"run {run_id}", "is in the queue already", remedy="wait, or cancel it")
            self._check_limit()
            self._crashes.pop(run_id, None)
            run = run_requests.requeue_run(self.store, self.server, run, request.merge_into(run))
            self._waiting[run_id] = QueuedRun.of(run)
        self.changed(run)
        self._woken.set()
        return run

    def cancel(self, run_id: str) -> Run:
        """End a run: at once if it has no process, else before its next trial.

        Raises:
            InputError: the run has ended already.
        """
        with self._lock:
            run = run_requests.fetch_run(self.store, run_id)
            is_waiting, worker = run_id in self._waiting, self._workers.get(run_id)
            if not is_waiting and worker is None and run.info.status != "RUNNING":
                job_lock.cancel_run(self.store, run)
            else:
                if is_waiting or worker is not None:
                    run_requests.mark_unwanted(self.store, run_id)
                self._waiting.pop(run_id, None)
                run = self._end(run, worker)
        self.changed(run)
        server_log.info("run cancelled", run=run_id)
        return run

    def _end(self, run: Run, worker: WorkerProcess | None) -> Run:
        if run.info.status == "RUNNING":
            job_lock.cancel_run(self.store, run)
        elif worker is not None:
            worker.hang_up()  # its run has not begun yet
        else:
            return run_requests.settle_run(self.store, run, cancelled=True)
        return run_requests.fetch_run(self.store, run.info.run_id)

    def _check_limit(self) -> None:
        if len(self._waiting) >= self.limit:
            raise QueueFullError(f"the queue holds {self.limit} runs, its limit; try again later")

    # -- state ---------------------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """Number of waiting runs."""
        return len(self._waiting)

    def knows(self, run_id: str) -> bool:
        """Return whether a run waits or is under way here."""
        return run_id in self._waiting or run_id in self._workers

    @property
    def under_way(self) -> list[str]:
        """Ids of the runs under way."""
        return list(self._workers)


def choose_next(waiting: Iterable[QueuedRun], busy: Set[str], last_turns: Mapping[str, int]) -> QueuedRun | None:
    """Return the run whose turn is next: round-robin over jobs, and the oldest request of each job.

    Args:
        waiting: the waiting runs.
        busy: jobs that cannot run now.
        last_turns: number of each job's last turn; a job without a turn goes first.
    """
    oldest: dict[str, QueuedRun] = {}
    for run in waiting:
        if run.job not in busy and (run.job not in oldest or _age(run) < _age(oldest[run.job])):
            oldest[run.job] = run
    return min(oldest.values(), key=lambda run: (last_turns.get(run.job, -1), _age(run)), default=None)


def _age(run: QueuedRun) -> tuple[int, str]:
    return run.since, run.run_id
