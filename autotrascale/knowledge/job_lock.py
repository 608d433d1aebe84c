"""The lock of a job: one process at a time works on it, and runs without a process are ended.

A tuning run and a control loop both hold the lease of their job. The holder may write to any run of the job, and no
other process may. So a run that is marked as running while another process holds the lease has lost its process.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from autotrascale.domain.errors import InputError, JobBusyError
from autotrascale.knowledge import lease, tags
from autotrascale.knowledge.lease import Lease, LeaseHolder
from autotrascale.knowledge.mlflow_store import PAGE, MlflowStore
from autotrascale.knowledge.process_identity import ProcessIdentity
from autotrascale.knowledge.store_retry import ShowMessage

if TYPE_CHECKING:
    from mlflow.entities import Run

PROCESS_GONE = "its process is gone"
CANCELLED = "cancelled"
TUNED, AUTOSCALED, CLEARED = "tuned", "autoscaled", "cleared up"  # activities of a holder

# -- the lease of a job ------------------------------------------------------------------------------------------------


def lease_name(job: str) -> str:
    return f"job {job}"


def lock_job(store: MlflowStore, job: str, doing: str, watch: ShowMessage | None = None) -> Lease:
    """Take the lease of a job, or raise `JobBusyError`. `watch`: see `take_lease`."""
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
        remedy = "stop that process first" if holder.doing == AUTOSCALED else "try again in a moment"
    return JobBusyError(f"job {job}", f"is being {holder.doing} already{what} by {holder}", remedy=remedy)


def is_job_locked(store: MlflowStore, job: str) -> bool:
    """Return whether a process seems to hold the job, without taking the lease."""
    holder = lease.read_holder(store, lease_name(job))
    return holder is not None and holder.seems_alive


# -- the process of a run ----------------------------------------------------------------------------------------------


def read_owner(run: Run) -> ProcessIdentity | None:
    try:
        return ProcessIdentity.parse(json.loads(run.data.tags.get(tags.OWNER, "")))
    except ValueError:
        return None


def is_run_alive(run: Run) -> bool:
    """Return whether a process seems to work on the run, for display. Which process may write, the lease decides."""
    owner = read_owner(run)
    if run.info.status != "RUNNING" or owner is None:
        return False
    try:
        silent_seconds = time.time() - float(run.data.tags.get(tags.HEARTBEAT, 0))
    except ValueError:
        silent_seconds = float("inf")
    return owner.seems_alive(silent_seconds)


def owner_tags(owner: ProcessIdentity) -> dict[str, str]:
    return {tags.OWNER: json.dumps(owner.as_dict()), tags.HEARTBEAT: f"{time.time():.0f}"}


def search_running(store: MlflowStore, experiment: str) -> Iterator[Run]:
    """Yield the tuning runs of an experiment that are marked as running."""
    wanted = f"attributes.status = 'RUNNING' AND tags.`{tags.KIND}` = '{tags.TUNING}'"
    return store.pages(store.client.search_runs, [experiment], wanted, max_results=PAGE)


# -- ending runs -------------------------------------------------------------------------------------------------------


def end_orphaned_runs(store: MlflowStore, experiment: str, spare: str | None = None) -> list[str]:
    """End the runs of a job that are marked as running, except `spare`, and return their ids.

    The caller holds the job's lease, so none of these runs has a process. Each can still be resumed.
    """
    orphans = [run.info.run_id for run in search_running(store, experiment) if run.info.run_id != spare]
    for run_id in orphans:
        end_run(store, run_id, "KILLED", PROCESS_GONE, orphaned=True)
    return orphans


def cancel_run(store: MlflowStore, run: Run, watch: ShowMessage | None = None) -> bool:
    """End a run and return True, or ask its process to end it before the next trial and return False.

    `watch`: see `take_lease`.
    """
    run_id = run.info.run_id
    if run.info.status == "SCHEDULED":
        end_run(store, run_id, "KILLED", CANCELLED)
        return True
    if run.info.status != "RUNNING":
        remedy = f"see: autotrascale runs show {run_id}"
        raise InputError(f"run {run_id}", f"is not running, it is {run.info.status.lower()}", remedy=remedy)
    if not is_run_alive(run):
        taken = lease.take_lease(store, lease_name(run.data.tags.get(tags.JOB, "?")), CLEARED, watch=watch)
        if isinstance(taken, Lease):
            with taken:
                end_run(taken.fence(store), run_id, "KILLED", PROCESS_GONE, orphaned=True)
            return True
    # The job has a holder. It sees the tag before its next trial, or has ended this run as an orphan.
    store.call(store.client.set_tag, run_id, tags.CANCEL, "asked")
    return False


def end_run(store: MlflowStore, run_id: str, status: str, why: str, *, orphaned: bool = False) -> None:
    """End a run and its evaluations under way. `orphaned`: their process may be asleep, and must not write later."""
    end_evaluations(store, run_id, status, orphaned=orphaned)
    store.call(store.client.set_tag, run_id, tags.ENDED, why[:1000])
    store.call(store.client.set_terminated, run_id, status)


def end_evaluations(store: MlflowStore, run_id: str, status: str, *, orphaned: bool = False) -> None:
    """End the evaluations of a run that are under way.

    Orphaned evaluations are deleted too, because MLflow refuses writes to a deleted run. So a process that checked its
    lease a moment before it lost the lease cannot write either.
    """
    run = store.call(store.client.get_run, run_id)
    wanted = f"attributes.status = 'RUNNING' AND tags.`{tags.PARENT_RUN}` = '{run_id}'"
    for child in store.pages(store.client.search_runs, [run.info.experiment_id], wanted, max_results=PAGE):
        store.call(store.client.set_terminated, child.info.run_id, status)
        if orphaned:
            store.call(store.client.delete_run, child.info.run_id)
