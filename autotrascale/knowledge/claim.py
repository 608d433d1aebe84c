"""One tuning run at a time for a job: the claim that a run makes, and what becomes of those whose process is gone.

A run first says that it runs, and then looks whether another one does; if so it withdraws. Whichever of two looks
last sees the other, so both may withdraw, but never do both go on.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from autotrascale.domain.errors import InputError, JobBusyError
from autotrascale.knowledge import tags
from autotrascale.knowledge.owner import Owner
from autotrascale.knowledge.store import PAGE, Store

if TYPE_CHECKING:
    from mlflow.entities import Run

GONE = "its process is gone"
CANCELLED = "cancelled"


def owner_of(run: Run) -> Owner | None:
    try:
        return Owner.read(json.loads(run.data.tags.get(tags.OWNER, "")))
    except ValueError:
        return None


def is_alive(run: Run) -> bool:
    """Whether a process carries this run on now."""
    owner = owner_of(run)
    if run.info.status != "RUNNING" or owner is None:
        return False
    try:
        silent = time.time() - float(run.data.tags.get(tags.HEARTBEAT, 0))
    except ValueError:
        silent = float("inf")
    return owner.lives(silent)


def owner_tags(owner: Owner) -> dict[str, str]:
    return {tags.OWNER: json.dumps(owner.as_dict()), tags.HEARTBEAT: f"{time.time():.0f}"}


def running(store: Store, experiment: str) -> Iterator[Run]:
    """The tuning runs that say they run."""
    wanted = f"attributes.status = 'RUNNING' AND tags.`{tags.KIND}` = '{tags.TUNING}'"
    return store.pages(store.client.search_runs, [experiment], wanted, max_results=PAGE)


def refuse_beside_another(store: Store, experiment: str, run_id: str | None = None) -> None:
    for run in running(store, experiment):
        if run.info.run_id != run_id and is_alive(run):
            job = run.data.tags.get(tags.JOB, "this job")
            raise JobBusyError(f"job {job}", f"is being tuned already, as run {run.info.run_id} by {owner_of(run)}",
                               remedy=f"wait, or: autotrascale runs cancel {run.info.run_id}")  # fmt: skip


def bury_the_dead(store: Store, experiment: str, spare: str | None = None) -> list[str]:
    """Runs whose process is gone stop saying that they run; each can still be resumed. Says which."""
    dead = [run for run in running(store, experiment) if run.info.run_id != spare and not is_alive(run)]
    for run in dead:
        end(store, run.info.run_id, "KILLED", GONE)
    return [run.info.run_id for run in dead]


def cancel(store: Store, run: Run) -> bool:
    """Whether the run is over now; else its process has been asked to end it, and will before its next trial."""
    run_id = run.info.run_id
    if run.info.status == "SCHEDULED":
        end(store, run_id, "KILLED", CANCELLED)
        return True
    if run.info.status != "RUNNING":
        raise InputError(f"run {run_id}", f"does not run any more, it is {run.info.status.lower()}",
                         remedy=f"see: autotrascale runs show {run_id}")  # fmt: skip
    if is_alive(run):
        store.call(store.client.set_tag, run_id, tags.CANCEL, "asked")
        return False
    end(store, run_id, "KILLED", GONE)
    return True


def end(store: Store, run_id: str, status: str, why: str) -> None:
    """The run and whatever it had under way."""
    end_children(store, run_id, status)
    store.call(store.client.set_tag, run_id, tags.ENDED, why[:1000])
    store.call(store.client.set_terminated, run_id, status)


def end_children(store: Store, run_id: str, status: str) -> None:
    run = store.call(store.client.get_run, run_id)
    wanted = f"attributes.status = 'RUNNING' AND tags.`{tags.PARENT}` = '{run_id}'"
    for child in store.pages(store.client.search_runs, [run.info.experiment_id], wanted, max_results=PAGE):
        store.call(store.client.set_terminated, child.info.run_id, status)
