"""Requests for runs, in the tags of their MLflow runs, and the fate of a run whose process has ended."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Literal

from autotrascale.app.job_file import EngineName, JobFile
from autotrascale.app.tuning_options import override_settings
from autotrascale.domain.errors import InputError, JobBusyError, RunStoreError
from autotrascale.knowledge import job_lock, requested_by, tags
from autotrascale.knowledge.mlflow_store import PAGE, MlflowStore
from autotrascale.tuning import TuningSettings
from autotrascale.validation import validate

if TYPE_CHECKING:
    from mlflow.entities import Run

# Values of the tag QUEUE. UNWANTED: cancelled, but not ended yet.
WANTED, UNWANTED, SETTLED = "wanted", "unwanted", "settled"

RunFate = Literal["settled", "cancelled", "wait"]


@dataclass(frozen=True)
class QueueRequest:
    """A request for a run. None stands for the job file's value. `path` is chosen by the server, never by a client."""

    path: str
    engine: EngineName
    rate: float | None = None
    total_trials: int | None = None
    max_seconds: float | None = None
    seed: int | None = None
    warm_start: str = "auto"
    asked_by: str = ""
    policy: str | None = None

    @classmethod
    def read(cls, run: Run) -> QueueRequest:
        """Return the request in the tags of a run.

        Raises:
            RunStoreError: the tags are damaged.
        """
        place = f"run {run.info.run_id}: request"
        try:
            return validate(json.loads(run.data.tags.get(tags.REQUEST, "")), cls, place=place)
        except ValueError as error:
            raise RunStoreError(f"{place} is damaged: {error}") from None

    def merge_into(self, run: Run) -> QueueRequest:
        """Return the run's own request with the limits of this one."""
        if tags.REQUEST not in run.data.tags:
            return self
        first = QueueRequest.read(run)
        trials, seconds = self.total_trials or first.total_trials, self.max_seconds or first.max_seconds
        return replace(first, total_trials=trials, max_seconds=seconds)

    def settings(self, file: JobFile) -> TuningSettings:
        return override_settings(file.tuning, self.total_trials, self.max_seconds, self.seed)


@dataclass(frozen=True)
class QueuedRun:
    """A run in the queue. `since` is the time of the request in milliseconds since 1970."""

    run_id: str
    job: str
    since: int

    @classmethod
    def of(cls, run: Run) -> QueuedRun:
        return cls(run.info.run_id, _job_of(run), int(run.info.start_time or 0))


def create_run(
    store: MlflowStore, server: str, request: QueueRequest, file: JobFile, content: str, key: str = ""
) -> Run:
    """Create a waiting run. If the server dies before the status is set, the run has no owner and waits again.

    Args:
        store: the store of runs.
        server: name of the server.
        request: the request.
        file: the job file.
        content: digest of the job file; the worker refuses a file that has changed since.
        key: tag of the idempotency key.
    """
    rate = sum(file.source_rates.values()) if request.rate is None else request.rate
    run_tags = {
        tags.KIND: tags.TUNING,
        tags.JOB: file.job,
        tags.JOB_FILE: content,
        tags.ENGINE: request.engine,
        tags.SIMULATED: str(request.engine == "simulator").lower(),
        tags.RATE: repr(float(rate)),
        tags.LATENCY_TARGET: repr(file.target.latency_seconds),
        tags.REQUEST: json.dumps(asdict(request)),
        tags.ASKED: requested_by.append_request(request.asked_by, "start"),
        tags.SERVER: server,
        tags.QUEUE: WANTED,
        **({tags.KEY: key} if key else {}),
    }
    name = f"{file.job[:150]} at {rate:g}/s"
    created = store.call(store.client.create_run, store.experiment(file.job), tags=run_tags, run_name=name)
    store.call(store.client.update_run, created.info.run_id, status="SCHEDULED")
    return fetch_run(store, created.info.run_id)


def fetch_run(store: MlflowStore, run_id: str) -> Run:
    return store.call(store.client.get_run, run_id)


def list_server_runs(store: MlflowStore, server: str) -> list[Run]:
    """Return all runs that were ever requested from this server, the oldest first."""
    experiments = store.experiments()
    if not experiments:
        return []
    wanted = f"tags.`{tags.SERVER}` = '{server}' AND tags.`{tags.KIND}` = '{tags.TUNING}'"
    oldest_first = ["attributes.start_time ASC"]
    return list(store.pages(store.client.search_runs, experiments, wanted, max_results=PAGE, order_by=oldest_first))


def requeue_run(store: MlflowStore, server: str, run: Run, request: QueueRequest) -> Run:
    """Queue a run on this server that has ended, or that was started elsewhere."""
    for name, value in {
        tags.REQUEST: json.dumps(asdict(request)),
        tags.SERVER: server,
        tags.CANCEL: "",
        tags.QUEUE: WANTED,
    }.items():
        store.call(store.client.set_tag, run.info.run_id, name, value)
    return queue_again(store, run)


def queue_again(store: MlflowStore, run: Run) -> Run:
    """Let a run wait for its turn again.

    A run that another process holds, such as a worker that is about to end, stays as it is. The next process that locks
    the job will mark it as ended.
    """
    run_id = run.info.run_id
    if run.info.status == "RUNNING":
        with suppress(JobBusyError), job_lock.lock_job(store, _job_of(run), job_lock.CLEARED) as lease:
            job_lock.end_evaluations(lease.fence(store), run_id, "KILLED", orphaned=True)
            _schedule(lease.fence(store), run_id)
    elif run.info.status != "SCHEDULED":
        _schedule(store, run_id)
    return fetch_run(store, run_id)


def mark_unwanted(store: MlflowStore, run_id: str) -> None:
    """Mark a run as cancelled before it is ended, so that the cancellation survives a crash."""
    store.call(store.client.set_tag, run_id, tags.QUEUE, UNWANTED)


def settle_run(store: MlflowStore, run: Run, *, cancelled: bool = False, why: str = "") -> Run:
    """End a run for this server. `why` is recorded as the cause of its end."""
    run_id, cause = run.info.run_id, job_lock.CANCELLED if cancelled else why or job_lock.PROCESS_GONE
    if run.info.status == "SCHEDULED":
        job_lock.end_run(store, run_id, "KILLED", cause)
    elif run.info.status == "RUNNING":
        _end_running(store, run, cause)
    elif cancelled and run.info.status == "KILLED":
        store.call(store.client.set_tag, run_id, tags.ENDED, job_lock.CANCELLED)
    store.call(store.client.set_tag, run_id, tags.QUEUE, SETTLED)
    return fetch_run(store, run_id)


def decide_fate(run: Run) -> RunFate:
    """Decide what becomes of a run without a process: it is over, cancelled, or waits for its next turn."""
    if run.info.lifecycle_stage != "active" or run.info.status in ("FINISHED", "FAILED"):
        return "settled"
    run_tags = run.data.tags
    was_cancelled = run.info.status == "KILLED" and run_tags.get(tags.ENDED) == job_lock.CANCELLED
    is_unwanted = run_tags.get(tags.CANCEL) or run_tags.get(tags.QUEUE) == UNWANTED
    return "cancelled" if was_cancelled or is_unwanted else "wait"


def check_resumable(run: Run, *, has_new_limits: bool) -> None:
    """Raise InputError if the run waits, is under way, or has nothing left to do."""
    place, stop = f"run {run.info.run_id}", run.data.tags.get(tags.STOP_REASON, "no reason")
    if run.info.status == "SCHEDULED":
        raise InputError(place, "waits for its turn already", remedy="wait, or cancel it")
    if job_lock.is_run_alive(run):
        raise InputError(place, "is under way", remedy="wait, or cancel it")
    if run.info.status == "FINISHED" and (stop == "target-met" or not has_new_limits):
        remedy = "start a new run" if stop == "target-met" else "give higher limits"
        raise InputError(place, f"is finished ({stop}), so there is nothing to resume", remedy=remedy)


def _schedule(store: MlflowStore, run_id: str) -> None:
    store.call(store.client.set_tag, run_id, tags.ENDED, "")
    store.call(store.client.update_run, run_id, status="SCHEDULED")


def _end_running(store: MlflowStore, run: Run, cause: str) -> None:
    try:
        with job_lock.lock_job(store, _job_of(run), job_lock.CLEARED) as lease:
            job_lock.end_run(lease.fence(store), run.info.run_id, "KILLED", cause, orphaned=True)
    except JobBusyError:  # the process that holds the job will end the run
        store.call(store.client.set_tag, run.info.run_id, tags.CANCEL, "asked")


def _job_of(run: Run) -> str:
    return run.data.tags.get(tags.JOB, "?")
