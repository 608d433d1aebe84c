"""The process of one run: `python -m autotrascale.service.queue.worker STORE RUN`, its standard input held by a server,
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

from autotrascale.domain.errors import (
    AuTraScaleError,
    InputError,
    JobBusyError,
    RunCancelledError,
    RunLostError,
    RunStoreError,
)
from autotrascale.knowledge import claim, history, tags
from autotrascale.knowledge.json_forms import digest
from autotrascale.knowledge.store import Store
from autotrascale.service import questions, tuning_output, tuning_runs
from autotrascale.service.jobfile import read_job_file
from autotrascale.service.metering import metering
from autotrascale.service.queue import logs
from autotrascale.service.queue.entries import Request, look
from autotrascale.views.progress import after

BUSY = 75  # another run of the job is under way: this one waits for another turn
GRACE_SECONDS = 20.0
_TERMINATED = 143


def main() -> NoReturn:
    _, run_id = sys.argv[1:]
    uri = _first_line()
    logs.set_up()
    with tuning_output.ending_cleanly():
        threading.Thread(target=_hang_on, name="server", daemon=True).start()
        code = carry_on(Store(uri), run_id)
    sys.exit(code)


def carry_on(store: Store, run_id: str) -> int:
    try:
        _go(store, run_id)
    except JobBusyError:
        return BUSY
    except (RunCancelledError, RunLostError) as error:
        logs.say("run left", run=run_id, why=str(error))
        return 1
    except AuTraScaleError as error:
        logs.warn("run failed", run=run_id, why=str(error))
        _fail(store, run_id, str(error))
        return 1
    except Exception as error:
        logs.trace("run failed", run=run_id)
        _fail(store, run_id, f"{type(error).__name__}: {error}")
        return 1
    return 0


def _go(store: Store, run_id: str) -> None:
    run = look(store, run_id)
    request = Request.read(run)
    listener = tuning_runs.RunListener(
        lambda job, sink, _: logs.say(
            "run opened", run=run_id, job=job.name, rate=job.rate, simulated=sink is None, sink=sink
        ),
        lambda progress: logs.say("evaluation", run=run_id, line=after(progress)) if progress.done else None,
        lambda _: logs.say("run interrupted", run=run_id),
        trouble=lambda why: logs.warn("run in doubt", run=run_id, why=why),
        waiting=lambda line: logs.say("waiting", run=run_id, why=line),
    )
    with metering(None) as meter:
        if _begun(store, run_id):
            finished = tuning_runs.resume(store, run_id, listener, request.total_trials, request.max_seconds, meter)
        else:
            asked = _asked(request, run_id, run.data.tags.get(tags.JOB_FILE))
            finished = tuning_runs.start(asked, store, listener, meter)
    logs.say("run finished", run=run_id, stop_reason=finished.outcome.stop_reason)


def _begun(store: Store, run_id: str) -> bool:
    """Whether there is something to go on from. An opening half written, with no evaluation after it, is none."""
    try:
        history.read_opening(store, run_id)
    except InputError:
        if history.count_evaluations(store, look(store, run_id)):
            raise
        return False
    return True


def _asked(request: Request, run_id: str, before: str | None) -> tuning_runs.Asked:
    path = Path(request.path)
    file = read_job_file(path)
    questions.ask(file, lambda why: logs.warn("run in doubt", run=run_id, why=why))
    if digest(tuning_runs.read_content(path)) != before:
        raise InputError(str(path), "has changed since the run was asked for", remedy="ask for a new run")
    return tuning_runs.Asked(
        file,
        path,
        request.engine,
        request.settings(file),
        request.rate,
        request.warm_start,
        queued=run_id,
        policy=request.policy,
    )


def _fail(store: Store, run_id: str, why: str) -> None:
    """What the journal has said of the run's end stands."""
    try:
        if look(store, run_id).info.status in ("SCHEDULED", "RUNNING"):
            claim.end(store, run_id, "FAILED", why)
    except RunStoreError as error:
        logs.warn("run cannot be marked as failed", run=run_id, why=str(error))


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
