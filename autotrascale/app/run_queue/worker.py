"""The process of one run: `python -m autotrascale.app.run_queue.worker STORE RUN`, its standard input held by a server,
whose first words on it are the store's address.

It starts what waits, or carries on what was interrupted, after the last finished evaluation. When its standard input
closes the server is gone: the run then ends as with Ctrl-C, and the process with it, in any case.
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
from autotrascale.app.metric_recording import open_metric_recorder
from autotrascale.app.run_queue import server_log
from autotrascale.app.run_queue.run_requests import QueueRequest, fetch_run
from autotrascale.cli import tuning_output
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

EXIT_BUSY = 75  # another run of the job is under way: this one waits for another turn
GRACE_SECONDS = 20.0
_TERMINATED = 143


def main() -> NoReturn:
    _, run_id = sys.argv[1:]
    uri = _first_line()
    server_log.configure()
    with tuning_output.exit_on_sigterm():
        threading.Thread(target=_hang_on, name="server", daemon=True).start()
        code = execute_run(MlflowStore(uri), run_id)
    sys.exit(code)


def execute_run(store: MlflowStore, run_id: str) -> int:
    try:
        _go(store, run_id)
    except JobBusyError:
        return EXIT_BUSY
    except (RunCancelledError, RunLostError) as error:
        server_log.info("run left", run=run_id, why=str(error))
        return 1
    except AuTraScaleError as error:
        server_log.warning("run failed", run=run_id, why=str(error))
        _fail(store, run_id, str(error))
        return 1
    except Exception as error:
        server_log.exception("run failed", run=run_id)
        _fail(store, run_id, f"{type(error).__name__}: {error}")
        return 1
    return 0


def _go(store: MlflowStore, run_id: str) -> None:
    run = fetch_run(store, run_id)
    request = QueueRequest.read(run)
    listener = tuning_run.RunListener(
        lambda job, sink, _: server_log.info(
            "run opened", run=run_id, job=job.name, rate=job.rate, simulated=sink is None, sink=sink
        ),
        lambda progress: (
            server_log.info("evaluation", run=run_id, line=format_finished_trial(progress)) if progress.done else None
        ),
        lambda _: server_log.info("run interrupted", run=run_id),
        trouble=lambda why: server_log.warning("run in doubt", run=run_id, why=why),
        waiting=lambda line: server_log.info("waiting", run=run_id, why=line),
    )
    with open_metric_recorder(None) as meter:
        if _begun(store, run_id):
            finished = tuning_run.resume(store, run_id, listener, request.total_trials, request.max_seconds, meter)
        else:
            asked = _asked(request, run_id, run.data.tags.get(tags.JOB_FILE))
            finished = tuning_run.start(asked, store, listener, meter)
    server_log.info("run finished", run=run_id, stop_reason=finished.outcome.stop_reason)


def _begun(store: MlflowStore, run_id: str) -> bool:
    """Whether there is something to go on from. An opening half written, with no evaluation after it, is none."""
    try:
        run_history.read_opening(store, run_id)
    except InputError:
        if run_history.count_evaluations(store, fetch_run(store, run_id)):
            raise
        return False
    return True


def _asked(request: QueueRequest, run_id: str, before: str | None) -> tuning_run.TuningRequest:
    path = Path(request.path)
    file = read_job_file(path)
    unit_warnings.warn_about_units(file, lambda why: server_log.warning("run in doubt", run=run_id, why=why))
    if digest_json(tuning_run.read_job_content(path)) != before:
        raise InputError(str(path), "has changed since the run was asked for", remedy="ask for a new run")
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


def _fail(store: MlflowStore, run_id: str, why: str) -> None:
    """What the journal has said of the run's end stands."""
    try:
        if fetch_run(store, run_id).info.status in ("SCHEDULED", "RUNNING"):
            job_lock.end_run(store, run_id, "FAILED", why)
    except RunStoreError as error:
        server_log.warning("run cannot be marked as failed", run=run_id, why=str(error))


def _first_line() -> str:
    """Byte by byte: nothing of what comes after may be taken."""
    line = b""
    while (byte := os.read(0, 1)) not in (b"", b"\n"):
        line += byte
    return line.decode()


def _hang_on() -> None:
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    os._exit(_TERMINATED)


if __name__ == "__main__":
    main()
