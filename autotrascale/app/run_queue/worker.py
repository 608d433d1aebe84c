"""Process of one run: `python -m autotrascale.app.run_queue.worker STORE RUN`.

A server holds its standard input and writes the store's address as the first line. The process starts a waiting run, or
resumes an interrupted run after its last trial. When its standard input closes, the server is gone: the run ends as
with Ctrl-C, and the process ends in any case.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import NoReturn

from autotrascale.app import tuning_run, unit_warnings
from autotrascale.app.job_file import read_job_file
from autotrascale.app.job_file_changes import read_job_content
from autotrascale.app.metric_recording import open_metric_recorder
from autotrascale.app.run_queue import server_log
from autotrascale.app.run_queue.run_requests import QueueRequest, fetch_run
from autotrascale.app.termination import TERMINATED, exit_on_sigterm
from autotrascale.domain.errors import (
    AuTraScaleError,
    InputError,
    JobBusyError,
    RunCancelledError,
    RunLostError,
    RunStoreError,
)
from autotrascale.knowledge import job_lock, run_history, tags
from autotrascale.knowledge.mlflow_store import MlflowStore
from autotrascale.knowledge.run_json import digest_json
from autotrascale.views.tuning_progress import format_finished_trial

EXIT_BUSY = 75  # another run of the job is under way, and this run waits for another turn
GRACE_SECONDS = 20.0  # to end the run after standard input has closed


def main() -> NoReturn:
    _, run_id = sys.argv[1:]
    uri = _read_first_line()
    server_log.configure()
    with exit_on_sigterm():
        threading.Thread(target=_wait_for_hang_up, name="server", daemon=True).start()
        code = execute_run(MlflowStore(uri), run_id)
    sys.exit(code)


def execute_run(store: MlflowStore, run_id: str) -> int:
    """Start or resume a run, and return the exit code of the process."""
    try:
        _execute(store, run_id)
    except JobBusyError:
        return EXIT_BUSY
    except (RunCancelledError, RunLostError) as error:
        server_log.info("run left", run=run_id, why=str(error))
        return 1
    except AuTraScaleError as error:
        server_log.warning("run failed", run=run_id, why=str(error))
        _mark_failed(store, run_id, str(error))
        return 1
    except Exception as error:
        server_log.exception("run failed", run=run_id)
        _mark_failed(store, run_id, f"{type(error).__name__}: {error}")
        return 1
    return 0


def _execute(store: MlflowStore, run_id: str) -> None:
    run = fetch_run(store, run_id)
    request = QueueRequest.read(run)
    listener = tuning_run.RunListener(
        on_start=lambda job, sink, _: server_log.info(
            "run opened", run=run_id, job=job.name, rate=job.rate, simulated=sink is None, sink=sink
        ),
        on_progress=lambda progress: (
            server_log.info("evaluation", run=run_id, line=format_finished_trial(progress)) if progress.done else None
        ),
        on_unfinished=lambda _: server_log.info("run interrupted", run=run_id),
        warn=lambda why: server_log.warning("run in doubt", run=run_id, why=why),
        on_wait=lambda why: server_log.info("waiting", run=run_id, why=why),
    )
    with open_metric_recorder(None) as recorder:
        if _has_begun(store, run_id):
            result = tuning_run.resume(store, run_id, listener, request.total_trials, request.max_seconds, recorder)
        else:
            tuning_request = _build_request(request, run_id, run.data.tags.get(tags.JOB_FILE))
            result = tuning_run.start(tuning_request, store, listener, recorder)
    server_log.info("run finished", run=run_id, stop_reason=result.outcome.stop_reason)


def _has_begun(store: MlflowStore, run_id: str) -> bool:
    # An opening that was written in part, without a trial after it, counts as none.
    try:
        run_history.read_opening(store, run_id)
    except InputError:
        if run_history.count_evaluations(store, fetch_run(store, run_id)):
            raise
        return False
    return True


def _build_request(request: QueueRequest, run_id: str, digest: str | None) -> tuning_run.TuningRequest:
    """Return the request for a new run, if the job file still has the digest of the time of the request."""
    path = Path(request.path)
    file = read_job_file(path)
    unit_warnings.warn_about_units(file, lambda why: server_log.warning("run in doubt", run=run_id, why=why))
    if digest_json(read_job_content(path)) != digest:
        raise InputError(str(path), "has changed since the run was requested", remedy="request a new run")
    return tuning_run.TuningRequest(
        file,
        path,
        request.engine,
        request.settings(file),
        request.rate,
        request.warm_start,
        queued=run_id,
        policy=request.policy,
    )


def _mark_failed(store: MlflowStore, run_id: str, why: str) -> None:
    # An end that the journal has recorded already stands.
    try:
        if fetch_run(store, run_id).info.status in ("SCHEDULED", "RUNNING"):
            job_lock.end_run(store, run_id, "FAILED", why)
    except RunStoreError as error:
        server_log.warning("run cannot be marked as failed", run=run_id, why=str(error))


def _read_first_line() -> str:
    # Byte by byte, as a buffered read would take what follows the line.
    line = b""
    while (byte := os.read(0, 1)) not in (b"", b"\n"):
        line += byte
    return line.decode()


def _wait_for_hang_up() -> None:
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    os._exit(TERMINATED)


if __name__ == "__main__":
    main()
