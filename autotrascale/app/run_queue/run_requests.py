"""What a client asked for, in the tags of its MLflow run, and what is to become of a run that has stopped."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Literal

from autotrascale.app.job_file import EngineName, JobFile
from autotrascale.domain.errors import InputError, JobBusyError, RunStoreError
from autotrascale.knowledge import job_lock, requested_by, tags
from autotrascale.knowledge.mlflow_store import PAGE, MlflowStore
from autotrascale.tuning import TuningSettings
from autotrascale.validation import validate

if TYPE_CHECKING:
    from mlflow.entities import Run

WANTED, UNWANTED, SETTLED = "wanted", "unwanted", "settled"  # what the tag QUEUE says; the second: cancelled, not ended

RunFate = Literal["settled", "cancelled", "wait"]


@dataclass(frozen=True)
class QueueRequest:
    """None: as the job file has it. `path` is the server's own, never a client's."""

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
        place = f"run {run.info.run_id}: what was asked for"
        try:
            return validate(json.loads(run.data.tags.get(tags.REQUEST, "")), cls, place=place)
        except ValueError as error:
            raise RunStoreError(f"{place} is damaged: {error}") from None

    def after(self, run: Run) -> QueueRequest:
        """A wider budget for a run; what else was asked for at first stays."""
        if tags.REQUEST not in run.data.tags:
            return self
        first = QueueRequest.read(run)
        trials, seconds = self.total_trials or first.total_trials, self.max_seconds or first.max_seconds
        return replace(first, total_trials=trials, max_seconds=seconds)

    def settings(self, file: JobFile) -> TuningSettings:
        given = {"total_trials": self.total_trials, "max_seconds": self.max_seconds, "seed": self.seed}
        return replace(file.tuning, **{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]


@dataclass(frozen=True)
class QueuedRun:
    """A run in the queue. `since`: milliseconds since 1970."""

    run_id: str
    job: str
    since: int

    @classmethod
    def of(cls, run: Run) -> QueuedRun:
        return cls(run.info.run_id, run.data.tags.get(tags.JOB, "?"), int(run.info.start_time or 0))


def create_run(
    store: MlflowStore, server: str, request: QueueRequest, file: JobFile, content: str, key: str = ""
) -> Run:
    """The run, waiting. Killed before it says so, it is found without an owner and waits again.

    `content` is the job file's digest: the worker refuses another file than the one that was asked for.
    """
    rate = sum(file.source_rates.values()) if request.rate is None else request.rate
    tags_of_run = {
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
    created = store.call(store.client.create_run, store.experiment(file.job), tags=tags_of_run, run_name=name)
    store.call(store.client.update_run, created.info.run_id, status="SCHEDULED")
    return fetch_run(store, created.info.run_id)


def fetch_run(store: MlflowStore, run_id: str) -> Run:
    return store.call(store.client.get_run, run_id)


def list_server_runs(store: MlflowStore, server: str) -> list[Run]:
    """Every run that this server was ever asked for, the oldest first."""
    experiments = store.experiments()
    if not experiments:
        return []
    wanted = f"tags.`{tags.SERVER}` = '{server}' AND tags.`{tags.KIND}` = '{tags.TUNING}'"
    return list(
        store.pages(
            store.client.search_runs, experiments, wanted, max_results=PAGE, order_by=["attributes.start_time ASC"]
        )
    )


def requeue_run(store: MlflowStore, server: str, run: Run, request: QueueRequest) -> Run:
    """A run that has ended, or was started elsewhere, is to go on here."""
    for name, value in {
        tags.REQUEST: json.dumps(asdict(request)),
        tags.SERVER: server,
        tags.CANCEL: "",
        tags.QUEUE: WANTED,
    }.items():
        store.call(store.client.set_tag, run.info.run_id, name, value)
    return queue_again(store, run)


def queue_again(store: MlflowStore, run: Run) -> Run:
    """It waits for its turn (again). One that another process carries on, a worker in its last seconds perhaps, is left
    to it: whoever takes the job after it buries the run, which then waits as it is."""
    run_id = run.info.run_id
    if run.info.status == "RUNNING":
        with suppress(JobBusyError), job_lock.lock_job(store, _job(run), job_lock.CLEARED) as lease:
            job_lock.end_evaluations(lease.guarded(store), run_id, "KILLED", forsaken=True)
            _schedule(lease.guarded(store), run_id)
    elif run.info.status != "SCHEDULED":
        _schedule(store, run_id)
    return fetch_run(store, run_id)


def _schedule(store: MlflowStore, run_id: str) -> None:
    store.call(store.client.set_tag, run_id, tags.ENDED, "")
    store.call(store.client.update_run, run_id, status="SCHEDULED")


def _job(run: Run) -> str:
    return run.data.tags.get(tags.JOB, "?")


def mark_unwanted(store: MlflowStore, run_id: str) -> None:
    """Said first, so that a crash cannot forget it; ending the run comes after."""
    store.call(store.client.set_tag, run_id, tags.QUEUE, UNWANTED)


def settle_run(store: MlflowStore, run: Run, *, cancelled: bool = False, why: str = "") -> Run:
    """Nothing more is to be done for it here."""
    run_id, ended = run.info.run_id, job_lock.CANCELLED if cancelled else why or job_lock.PROCESS_GONE
    if run.info.status == "SCHEDULED":
        job_lock.end_run(store, run_id, "KILLED", ended)
    elif run.info.status == "RUNNING":
        _end_running(store, run, ended)
    elif cancelled and run.info.status == "KILLED":
        store.call(store.client.set_tag, run_id, tags.ENDED, job_lock.CANCELLED)
    store.call(store.client.set_tag, run_id, tags.QUEUE, SETTLED)
    return fetch_run(store, run_id)


def _end_running(store: MlflowStore, run: Run, why: str) -> None:
    try:
        with job_lock.lock_job(store, _job(run), job_lock.CLEARED) as lease:
            job_lock.end_run(lease.guarded(store), run.info.run_id, "KILLED", why, forsaken=True)
    except JobBusyError:  # whoever has the job ends it: its own process, or one that has taken the job since
        store.call(store.client.set_tag, run.info.run_id, tags.CANCEL, "asked")


def decide_fate(run: Run) -> RunFate:
    """Of a run whose process is gone, by what it left: over, cancelled, or to be carried on."""
    if run.info.lifecycle_stage != "active" or run.info.status in ("FINISHED", "FAILED"):
        return "settled"
    tags_of_run = run.data.tags
    ended = run.info.status == "KILLED" and tags_of_run.get(tags.ENDED) == job_lock.CANCELLED
    return "cancelled" if ended or tags_of_run.get(tags.CANCEL) or tags_of_run.get(tags.QUEUE) == UNWANTED else "wait"


def check_resumable(run: Run, wider: bool) -> None:
    run_id, stop = run.info.run_id, run.data.tags.get(tags.STOP_REASON, "no reason")
    if run.info.status == "SCHEDULED":
        raise InputError(f"run {run_id}", "waits for its turn already", remedy="wait, or cancel it")
    if job_lock.is_run_alive(run):
        raise InputError(f"run {run_id}", "is under way", remedy="wait, or cancel it")
    if run.info.status == "FINISHED" and (stop == "target-met" or not wider):
        raise InputError(
            f"run {run_id}",
            f"is finished ({stop}), so there is nothing to resume",
            remedy="start a new run" if stop == "target-met" else "give it a wider budget",
        )
