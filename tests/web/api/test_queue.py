"""The queue: turns of jobs, and runs when processes, servers and stores fail."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from autotrascale.app.job_file import read_job_file
from autotrascale.app.job_file_changes import read_job_content
from autotrascale.app.run_queue import run_requests, server_lock, supervisor, worker
from autotrascale.app.run_queue.run_requests import QueuedRun, QueueRequest
from autotrascale.app.run_queue.supervisor import RunQueue, choose_next
from autotrascale.domain.errors import IdempotencyKeyReusedError, InputError, QueueFullError, RunStoreError
from autotrascale.knowledge import job_lock, run_history, tags
from autotrascale.knowledge.mlflow_store import MlflowStore
from autotrascale.knowledge.process_identity import ProcessIdentity
from autotrascale.knowledge.run_journal import RunJournal
from autotrascale.knowledge.run_json import digest_json
from autotrascale.web.api.run_index import RunIndex
from tests.knowledge import mlflow_stores

PATIENCE = 20.0


# --- whose turn it is ----------------------------------------------------------------------------------------------


def served_in_order(waiting: list[QueuedRun]) -> list[str]:
    left, order, served = list(waiting), [], {}  # type: ignore[var-annotated]
    while (entry := choose_next(left, set(), served)) is not None:
        left.remove(entry)
        order.append(entry.run_id)
        served[entry.job] = len(order)
    return order


def test_jobs_take_turns_and_each_is_served_in_its_own_order() -> None:
    a = [QueuedRun(f"a{i}", "a", i) for i in range(4)]
    b = [QueuedRun("b0", "b", 100), QueuedRun("b1", "b", 101)]
    mixed = [*b, *a]
    random.Random(0).shuffle(mixed)
    assert served_in_order(mixed) == ["a0", "b0", "a1", "b1", "a2", "a3"]


def test_a_run_waits_for_at_most_one_turn_of_each_other_job() -> None:
    waiting = [QueuedRun(f"{job}{i}", job, i) for job in "abcde" for i in range(5)]
    order = served_in_order(waiting)
    assert [name[0] for name in order] == list("abcde") * 5


def test_a_job_that_is_busy_is_passed_over() -> None:
    waiting = [QueuedRun("a0", "a", 0), QueuedRun("b0", "b", 1)]
    found = choose_next(waiting, {"a"}, {})
    assert found is not None
    assert found.run_id == "b0"
    assert choose_next(waiting, {"a", "b"}, {}) is None
    assert choose_next([], set(), {}) is None


# --- with processes that only seem to be ------------------------------------------------------------------------------


@dataclass
class Seeming:
    """A worker process that ends when the test says so."""

    run_id: str
    job: str
    pid: int = 0
    code: int | None = None
    hung_up: bool = False
    process: Any = field(default_factory=lambda: Gone())

    def exit_code(self) -> int | None:
        return self.code

    def hang_up(self) -> None:
        self.hung_up = True
        self.code = 143 if self.code is None else self.code

    def kill(self) -> None:
        """Do nothing: the process has ended."""


class Gone:
    def wait(self, _: float) -> int:
        return 0


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Seeming]:
    children: list[Seeming] = []

    def start(_: str, run_id: str, job: str) -> Seeming:
        children.append(Seeming(run_id, job))
        return children[-1]

    monkeypatch.setattr(supervisor.WorkerProcess, "start", start)
    monkeypatch.setattr(supervisor, "BUSY_JOB_PAUSE_SECONDS", 0.1)
    return children


@pytest.fixture
def own(empty_database: Path) -> Iterator[MlflowStore]:
    with mlflow_stores.quick_folder() as folder:
        yield mlflow_stores.embedded(empty_database, folder)


class Served:
    """A queue on a store, with job files."""

    def __init__(self, store: MlflowStore, configs: Path, **given: Any) -> None:
        self.store, self.configs = store, configs
        self.queue = RunQueue(store, "test", **given)
        self.queue.open()

    def submit(self, job: str = "small", key: str | None = None, **asked: Any) -> str:
        path = self.configs / f"{job}.yaml"
        run, _ = self.queue.submit(
            QueueRequest(str(path), "simulator", **asked), read_job_file(path), content(path), key, repr(asked)
        )
        return str(run.info.run_id)

    def state(self, run_id: str) -> tuple[str, str | None]:
        summary = run_history.summarise_run(self.store, run_requests.fetch_run(self.store, run_id))
        return summary.state, summary.why

    def queue_tag(self, run_id: str) -> str:
        return str(run_requests.fetch_run(self.store, run_id).data.tags[tags.QUEUE])


def content(path: Path) -> str:
    return digest_json(read_job_content(path))


def until(true: Any) -> None:
    limit = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < limit, "it does not come about"
        time.sleep(0.01)


@pytest.fixture
def served(own: MlflowStore, configs: Path, started: list[Seeming]) -> Iterator[Served]:  # noqa: ARG001 - it has no others
    made = Served(own, configs)
    yield made
    made.queue.close()


def end(served: Served, child: Seeming, status: str, ended: str = "", code: int = 0) -> None:
    """Change a run as its worker would."""
    served.store.client.set_tag(child.run_id, tags.OWNER, "{}")
    served.store.client.set_tag(child.run_id, tags.ENDED, ended)
    served.store.client.set_terminated(child.run_id, status)
    child.code = code


def test_runs_start_one_at_a_time(served: Served, started: list[Seeming]) -> None:
    first, second = served.submit(), served.submit()
    until(lambda: len(started) == 1)
    assert (started[0].run_id, served.queue.waiting) == (first, 1)
    end(served, started[0], "FINISHED")
    until(lambda: len(started) == 2)
    assert started[1].run_id == second
    assert served.queue_tag(first) == run_requests.SETTLED
    assert served.queue_tag(second) == run_requests.WANTED
    end(served, started[1], "FAILED", "it broke")
    until(lambda: served.queue_tag(second) == run_requests.SETTLED)
    assert served.state(second) == ("failed", "it broke")


def test_several_runs_in_total_but_one_per_job(own: MlflowStore, configs: Path, started: list[Seeming]) -> None:
    served = Served(own, configs, parallel_runs=2)
    try:
        for job in ("small", "small", "other"):
            served.submit(job)
        until(lambda: len(started) == 2)
        assert {child.job for child in started} == {"small", "other"}
        assert served.queue.waiting == 1
    finally:
        served.queue.close()


def test_a_dead_process_is_restarted_a_limited_number_of_times(served: Served, started: list[Seeming]) -> None:
    run_id = served.submit()
    for death in range(supervisor.MAX_CRASHES):
        until(lambda n=death: len(started) == n + 1)  # type: ignore[misc]
        started[-1].code = -9
    until(lambda: not served.queue.knows(run_id))
    until(lambda: served.queue_tag(run_id) == run_requests.SETTLED)
    assert served.state(run_id) == ("interrupted", "its process died 3 times")
    assert len(started) == supervisor.MAX_CRASHES


def test_a_busy_job_waits_without_counting_as_a_failure(served: Served, started: list[Seeming]) -> None:
    served.submit()
    for turn in range(supervisor.MAX_CRASHES + 2):
        until(lambda n=turn: len(started) == n + 1)  # type: ignore[misc]
        started[-1].code = worker.EXIT_BUSY


def test_a_job_tuned_from_a_command_line_is_left_alone(own: MlflowStore, configs: Path, started: list[Seeming]) -> None:
    with RunJournal.start(own, mlflow_stores.opening(mlflow_stores.job("small"))):
        served = Served(own, configs)
        waits, goes = served.submit("small"), served.submit("other")
        until(lambda: started)
        assert started[0].run_id == goes
        end(served, started[0], "FINISHED")
        until(lambda: not served.queue.knows(goes))
        assert served.queue.knows(waits)
        assert len(started) == 1
    until(lambda: len(started) == 2)
    assert started[1].run_id == waits
    served.queue.close()


def test_cancel_waiting_and_starting_runs(served: Served, started: list[Seeming]) -> None:
    first, second = served.submit(), served.submit()
    until(lambda: started)
    served.queue.cancel(second)
    assert served.state(second) == ("interrupted", "cancelled")
    served.queue.cancel(first)
    assert started[0].hung_up
    until(lambda: not served.queue.knows(first))
    until(lambda: served.state(first) == ("interrupted", "cancelled"))
    assert len(started) == 1
    with pytest.raises(InputError, match="is not running"):
        served.queue.cancel(first)


def test_cancelled_from_a_command_line_while_it_waits(served: Served, started: list[Seeming]) -> None:
    first, second = served.submit(), served.submit()
    until(lambda: started)
    assert job_lock.cancel_run(served.store, run_requests.fetch_run(served.store, second))
    end(served, started[0], "FINISHED")
    until(lambda: not served.queue.knows(second))
    assert served.state(second) == ("interrupted", "cancelled")
    assert [child.run_id for child in started] == [first]


def test_idempotency_keys_and_the_queue_limit(served: Served) -> None:
    first = served.submit(key="k")
    assert served.submit(key="k") == first
    with pytest.raises(IdempotencyKeyReusedError):
        served.submit(key="k", seed=3)
    until(lambda: served.queue.waiting == 0)
    served.queue.limit = 1
    served.submit()
    with pytest.raises(QueueFullError):
        served.submit()
    assert served.submit(key="k") == first


def test_resume_only_resumable_runs(served: Served, started: list[Seeming]) -> None:
    run_id = served.submit(total_trials=3, seed=7)
    with pytest.raises(InputError, match=r"waits for its turn already|in the queue already"):
        served.queue.resume(run_id, QueueRequest("x", "simulator"))
    until(lambda: started)
    served.store.client.set_tag(run_id, tags.STOP_REASON, "budget")
    end(served, started[0], "FINISHED")
    until(lambda: not served.queue.knows(run_id))
    with pytest.raises(InputError, match="is finished"):
        served.queue.resume(run_id, QueueRequest("x", "simulator"))
    run = served.queue.resume(run_id, QueueRequest("x", "simulator", total_trials=9))
    assert QueueRequest.read(run) == QueueRequest(
        str(served.configs / "small.yaml"), "simulator", total_trials=9, seed=7
    )
    until(lambda: len(started) == 2)
    served.store.client.set_tag(run_id, tags.STOP_REASON, "target-met")
    end(served, started[1], "FINISHED")
    until(lambda: not served.queue.knows(run_id))
    with pytest.raises(InputError, match="target-met"):
        served.queue.resume(run_id, QueueRequest("x", "simulator", total_trials=10))


# --- over the deaths of servers --------------------------------------------------------------------------------------


def killed_while(store: MlflowStore, configs: Path, what: str) -> str:
    """Leave the store as a server does that was killed at this moment."""
    path = configs / "small.yaml"
    run = run_requests.create_run(
        store, "test", QueueRequest(str(path), "simulator"), read_job_file(path), content(path)
    )
    run_id = str(run.info.run_id)
    client = store.client
    if what == "submitting":
        client.update_run(run_id, status="RUNNING")
    elif what != "waiting":
        dead = ProcessIdentity.current()
        for name, value in job_lock.owner_tags(
            ProcessIdentity(dead.host, dead.machine, 2**22 + 1, "0", dead.token)
        ).items():
            client.set_tag(run_id, name, value)
        client.update_run(run_id, status="RUNNING")
    if what == "interrupted":
        job_lock.end_run(store, run_id, "KILLED", "interrupted")
    elif what == "buried":
        job_lock.end_run(store, run_id, "KILLED", job_lock.PROCESS_GONE)
    elif what == "cancelling":
        run_requests.mark_unwanted(store, run_id)
    elif what in ("finished", "failed"):
        client.set_terminated(run_id, what.upper())
    elif what == "cancelled":
        job_lock.end_run(store, run_id, "KILLED", job_lock.CANCELLED)
    return run_id


@pytest.mark.parametrize("moment", ["submitting", "waiting", "running", "interrupted", "buried"])
def test_queued_runs_start_with_the_next_server(
    own: MlflowStore, configs: Path, started: list[Seeming], moment: str
) -> None:
    run_id = killed_while(own, configs, moment)
    served = Served(own, configs)
    until(lambda: started)
    assert started[0].run_id == run_id
    assert served.state(run_id)[0] == "queued"
    served.queue.close()


@pytest.mark.parametrize(
    ("moment", "state"),
    [("cancelling", "interrupted"), ("cancelled", "interrupted"), ("finished", "finished"), ("failed", "failed")],
)
def test_ended_runs_stay_ended(
    own: MlflowStore, configs: Path, started: list[Seeming], moment: str, state: str
) -> None:
    run_id = killed_while(own, configs, moment)
    served = Served(own, configs)
    assert served.state(run_id)[0] == state
    assert served.queue_tag(run_id) == run_requests.SETTLED
    assert not served.queue.knows(run_id)
    served.queue.close()
    assert not started


def test_runs_of_another_server_are_left_alone(own: MlflowStore, configs: Path, started: list[Seeming]) -> None:
    run_id = killed_while(own, configs, "running")
    queue = RunQueue(own, "another")
    queue.open()
    assert not queue.knows(run_id)
    queue.close()
    assert not started


def test_a_server_that_ends_leaves_its_runs_to_the_next(
    own: MlflowStore, configs: Path, started: list[Seeming]
) -> None:
    served = Served(own, configs)
    first, second = served.submit(), served.submit()
    until(lambda: started)
    served.queue.close()
    assert started[0].hung_up
    served = Served(own, configs)
    until(lambda: len(started) == 2)
    assert started[1].run_id == first
    assert served.queue.knows(second)
    served.queue.close()


def test_the_queue_survives_a_store_failure(
    served: Served, started: list[Seeming], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        asked: list[str] = []

        def away(_: MlflowStore, run_id: str) -> None:
            asked.append(run_id)
            raise RunStoreError("the store is away")

        run_id = served.submit()
        patch.setattr(run_requests, "fetch_run", away)
        until(lambda: asked or started)
    until(lambda: started)
    assert started[0].run_id == run_id


def test_a_second_server_with_the_same_name_is_refused(own: MlflowStore) -> None:
    with server_lock.hold_server_name(own, "test"):
        with pytest.raises(InputError, match="under the name test"), server_lock.hold_server_name(own, "test"):
            pass
        with server_lock.hold_server_name(own, "another"):
            pass
    with server_lock.hold_server_name(own, "test"):
        pass


# --- the worker, in this process --------------------------------------------------------------------------------------


def asked(store: MlflowStore, configs: Path, **given: Any) -> str:
    path = configs / "small.yaml"
    request = QueueRequest(str(path), "simulator", **given)
    return str(run_requests.create_run(store, "test", request, read_job_file(path), content(path)).info.run_id)


def test_a_worker_starts_waiting_runs_and_continues_interrupted_runs(own: MlflowStore, configs: Path) -> None:
    run_id = asked(own, configs, total_trials=2, warm_start="none")
    assert worker.execute_run(own, run_id) == 0
    record = run_history.read_run(own, run_history.find_run(own, run_id))
    assert (record.summary.state, record.summary.why, len(record.trials)) == ("finished", "budget", 2)
    assert record.opening.settings.total_trials == 2
    run_requests.requeue_run(
        own, "test", run_requests.fetch_run(own, run_id), QueueRequest(str(configs / "small.yaml"), "simulator")
    )
    run_requests.fetch_run(own, run_id)
    wider = QueueRequest(str(configs / "small.yaml"), "simulator", total_trials=20)
    run_requests.requeue_run(own, "test", run_requests.fetch_run(own, run_id), wider)
    assert worker.execute_run(own, run_id) == 0
    again = run_history.read_run(own, run_history.find_run(own, run_id))
    assert again.summary.why == "target-met"
    assert again.trials[:2] == record.trials


def test_a_worker_with_a_served_store(empty_database: Path, configs: Path, started: list[Seeming]) -> None:
    """A waiting run is stored like any other run."""
    with mlflow_stores.quick_folder() as folder, mlflow_stores.served(empty_database, folder) as uri:
        first = Served(MlflowStore(uri), configs)
        run_id = first.submit(key="k", total_trials=2)
        until(lambda: started)
        first.queue.close()
        assert worker.execute_run(MlflowStore(uri), run_id) == 0
        second = Served(MlflowStore(uri), configs)
        assert second.submit(key="k", total_trials=2) == run_id
        assert second.state(run_id) == ("finished", "budget")
        assert second.queue_tag(run_id) == run_requests.SETTLED
        index = RunIndex(second.store)
        index.refresh_all()
        index.refresh()
        assert [index.get(each) for each in index.page("small", "finished", None, 5)[0]] == [
            run_history.summarise_run(second.store, run_requests.fetch_run(second.store, run_id))
        ]
        second.queue.close()


def test_a_worker_waits_for_a_job_that_is_busy(own: MlflowStore, configs: Path) -> None:
    run_id = asked(own, configs)
    with RunJournal.start(own, mlflow_stores.opening(mlflow_stores.job("small"))):
        assert worker.execute_run(own, run_id) == worker.EXIT_BUSY
    assert run_requests.fetch_run(own, run_id).info.status == "SCHEDULED"


def test_a_worker_skips_cancelled_runs(own: MlflowStore, configs: Path) -> None:
    run_id = asked(own, configs)
    job_lock.cancel_run(own, run_requests.fetch_run(own, run_id))
    assert worker.execute_run(own, run_id) == 1
    assert run_history.summarise_run(own, run_requests.fetch_run(own, run_id)).why == "cancelled"


def test_a_job_file_that_changed_after_the_request_is_refused(own: MlflowStore, tmp_path: Path) -> None:
    mlflow_stores.job_file(tmp_path, "small")
    run_id = asked(own, tmp_path)
    mlflow_stores.job_file(tmp_path, "small", p_max=30)
    assert worker.execute_run(own, run_id) == 1
    summary = run_history.summarise_run(own, run_requests.fetch_run(own, run_id))
    assert summary.state == "failed"
    assert "has changed since" in str(summary.why)


def test_a_half_written_opening_is_written_again(own: MlflowStore, configs: Path) -> None:
    run_id = asked(own, configs, total_trials=1)
    own.client.log_text(run_id, '{"version": 1, "jo', tags.OPENING_FILE)
    assert worker.execute_run(own, run_id) == 0
    assert run_history.summarise_run(own, run_requests.fetch_run(own, run_id)).evaluations == 1
