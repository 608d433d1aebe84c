"""One process at a time works on a job: the lease of a job, and what becomes of runs whose process is gone.

A tuning run and a control loop alike hold the lease of their job. Whoever holds it may write to any run of the job, and
nobody else does: so a run that says it runs while somebody else holds the lease has lost its process.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from autotrascale.domain.errors import InputError, JobBusyError
from autotrascale.knowledge import lease, tags
from autotrascale.knowledge.lease import Lease, LeaseHolder, ShowMessage
from autotrascale.knowledge.mlflow_store import PAGE, MlflowStore
from autotrascale.knowledge.process_identity import ProcessIdentity

if TYPE_CHECKING:
    from mlflow.entities import Run

PROCESS_GONE = "its process is gone"
CANCELLED = "cancelled"
TUNED, AUTOSCALED, CLEARED = "tuned", "autoscaled", "cleared up"  # what the holder of a job's lease does with it


# -- the lease of a job ------------------------------------------------------------------------------------------------


def lease_name(job: str) -> str:
    return f"job {job}"


def lock_job(store: MlflowStore, job: str, doing: str, watch: ShowMessage | None = None) -> Lease:
    """Raises `JobBusyError` where somebody else has it. `watch`: see `lease.take`."""
    taken = lease.take_lease(store, lease_name(job), doing, watch=watch)
    if isinstance(taken, LeaseHolder):
        raise job_busy_error(job, taken)
    return taken


def job_busy_error(job: str, holder: LeaseHolder) -> JobBusyError:
    what = f", as {holder.what}" if holder.what else ""
    if holder.doing == TUNED:
        run = holder.what.removeprefix("run ")
        remedy = f"wait, or: autotrascale runs cancel {run}" if run else "wait until it has ended"
    else:
        remedy = "stop that one first" if holder.doing == AUTOSCALED else "try again in a moment"
    return JobBusyError(f"job {job}", f"is being {holder.doing} already{what} by {holder}", remedy=remedy)


def is_job_locked(store: MlflowStore, job: str) -> bool:
    """As far as one look can tell."""
    holder = lease.read_holder(store, lease_name(job))
    return holder is not None and holder.lives


# -- what runs say of themselves ---------------------------------------------------------------------------------------


def read_owner(run: Run) -> ProcessIdentity | None:
    try:
        return ProcessIdentity.read(json.loads(run.data.tags.get(tags.OWNER, "")))
    except ValueError:
        return None


def is_run_alive(run: Run) -> bool:
    """Whether a process seems to carry this run on now: for people to read. Only the lease says who may."""
    owner = read_owner(run)
    if run.info.status != "RUNNING" or owner is None:
        return False
    try:
        silent = time.time() - float(run.data.tags.get(tags.HEARTBEAT, 0))
    except ValueError:
        silent = float("inf")
    return owner.lives(silent)


def owner_tags(owner: ProcessIdentity) -> dict[str, str]:
    return {tags.OWNER: json.dumps(owner.as_dict()), tags.HEARTBEAT: f"{time.time():.0f}"}


def search_running(store: MlflowStore, experiment: str) -> Iterator[Run]:
    """The tuning runs that say they run."""
    wanted = f"attributes.status = 'RUNNING' AND tags.`{tags.KIND}` = '{tags.TUNING}'"
    return store.pages(store.client.search_runs, [experiment], wanted, max_results=PAGE)


# -- ending them -------------------------------------------------------------------------------------------------------


def end_orphaned_runs(store: MlflowStore, experiment: str, spare: str | None = None) -> list[str]:
    """Under the job's lease: what runs of it still say that they run have no process. They stop saying so, and each can
    still be resumed. Says which."""
    dead = [run.info.run_id for run in search_running(store, experiment) if run.info.run_id != spare]
    for run_id in dead:
        end_run(store, run_id, "KILLED", PROCESS_GONE, forsaken=True)
    return dead


def cancel_run(store: MlflowStore, run: Run, watch: ShowMessage | None = None) -> bool:
    """Whether the run is over now; else its process has been asked to end it, and will before its next trial.
    `watch`: see `lease.take`."""
    run_id = run.info.run_id
    if run.info.status == "SCHEDULED":
        end_run(store, run_id, "KILLED", CANCELLED)
        return True
    if run.info.status != "RUNNING":
        raise InputError(
            f"run {run_id}",
            f"does not run any more, it is {run.info.status.lower()}",
            remedy=f"see: autotrascale runs show {run_id}",
        )
    taken = None if is_run_alive(run) else _take_of(store, run, watch)
    if taken is None:
        store.call(store.client.set_tag, run_id, tags.CANCEL, "asked")
        return False
    with taken:
        end_run(taken.guarded(store), run_id, "KILLED", PROCESS_GONE, forsaken=True)
    return True


def _take_of(store: MlflowStore, run: Run, watch: ShowMessage | None) -> Lease | None:
    """None where the run's job is somebody's, who will see what it is asked, or bury the run."""
    taken = lease.take_lease(store, lease_name(run.data.tags.get(tags.JOB, "?")), CLEARED, watch=watch)
    return taken if isinstance(taken, Lease) else None


def end_run(store: MlflowStore, run_id: str, status: str, why: str, *, forsaken: bool = False) -> None:
    """The run and whatever it had under way. `forsaken`: by a process that may yet wake up."""
    end_evaluations(store, run_id, status, forsaken=forsaken)
    store.call(store.client.set_tag, run_id, tags.ENDED, why[:1000])
    store.call(store.client.set_terminated, run_id, status)


def end_evaluations(store: MlflowStore, run_id: str, status: str, *, forsaken: bool = False) -> None:
    """Evaluations under way. Forsaken ones are deleted besides: from then on MLflow itself refuses what a process that
    was taken for dead writes to them, also when it had asked for its lease a moment too early."""
    run = store.call(store.client.get_run, run_id)
    wanted = f"attributes.status = 'RUNNING' AND tags.`{tags.PARENT_RUN}` = '{run_id}'"
    for child in store.pages(store.client.search_runs, [run.info.experiment_id], wanted, max_results=PAGE):
        store.call(store.client.set_terminated, child.info.run_id, status)
        if forsaken:
            store.call(store.client.delete_run, child.info.run_id)
