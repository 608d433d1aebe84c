"""A real server with real worker processes, followed, killed with signal 9, and stopped."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from autotrascale.knowledge import run_history
from autotrascale.knowledge.mlflow_store import MlflowStore
from tests.knowledge import mlflow_stores
from tests.web.api.servers import Server, server, wait_for


@pytest.fixture
def own(empty_database: Path, tmp_path: Path) -> Iterator[Server]:
    """Return a folder with a quick job and a job with long trials."""
    shutil.copy(empty_database, tmp_path / "mlflow.db")
    (tmp_path / "configs").mkdir()
    mlflow_stores.job_file(tmp_path / "configs", "small")
    with server(tmp_path, tmp_path / "configs") as made:
        yield made


def events(client: httpx.Client, run_id: str, last: str | None = None) -> list[tuple[str, dict[str, Any]]]:
    """Return all pages of a list."""
    given = {} if last is None else {"Last-Event-ID": last}
    found, event = [], ""
    with client.stream("GET", f"/v1/runs/{run_id}/events", headers=given, timeout=90.0) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        for line in response.iter_lines():
            name, _, value = line.partition(": ")
            if name == "event":
                event = value
            elif name == "data":
                found.append((event, json.loads(value)))
    return found


def test_a_run_from_submission_to_model(own: Server) -> None:
    client = own.start()
    run_id = client.post("/v1/runs", json={"job": "small"}).json()["run_id"]
    seen = events(client, run_id)
    kinds = [kind for kind, _ in seen]
    assert kinds[0] == "state"
    assert kinds[-1] == "end"
    numbers = [data["number"] for kind, data in seen if kind == "evaluation"]
    assert numbers == list(range(1, len(numbers) + 1))
    assert seen[-1][1]["state"] == "finished"
    assert seen[-1][1]["met_target"]
    assert seen[-1][1]["evaluations"] == len(numbers)
    again = [data["number"] for kind, data in events(client, run_id, "2") if kind == "evaluation"]
    assert again == numbers[2:]
    (model,) = client.get("/v1/models", params={"job": "small"}).json()["models"]
    assert model["run_id"] == run_id
    assert own.end() in (0, -signal.SIGTERM)
    assert own.workers() == []
    for line in own.log.read_text().splitlines():
        assert line.startswith(("{", "listening on")), line


@pytest.mark.parametrize(("how", "runs"), [(signal.SIGKILL, 2), (signal.SIGTERM, 1)], ids=["killed", "asked"])
def test_a_server_that_ends_in_mid_run_loses_nothing(own: Server, how: signal.Signals, runs: int) -> None:
    client = own.start()
    asked = [client.post("/v1/runs", json={"job": "small", "warm_start": "none"}).json()["run_id"] for _ in range(runs)]
    wait_for(lambda: '"run opened"' in own.log.read_text(), own.alive)
    own.end(how)
    wait_for(lambda: not own.workers())
    store = MlflowStore(own.store)
    kept = {run_id: run_history.read_trials(store, run_history.find_run(store, run_id)) for run_id in asked}
    client = own.start()
    for run_id in asked:
        assert events(client, run_id)[-1][1]["state"] == "finished"
    undisturbed = [dict(each.parallelism) for each in mlflow_stores.tuned(mlflow_stores.job()).evaluations]
    for run_id in asked:
        recorded = run_history.read_trials(store, run_history.find_run(store, run_id))
        assert recorded[: len(kept[run_id])] == kept[run_id]
        assert [dict(each.evaluation.parallelism) for each in recorded] == undisturbed
    assert client.get("/v1/runs").json()["next_cursor"] is None
    assert {run["state"] for run in client.get("/v1/runs").json()["runs"]} == {"finished"}
    own.end()
    assert own.workers() == []


def test_a_process_that_is_killed_is_started_again(own: Server) -> None:
    client = own.start()
    run_id = client.post("/v1/runs", json={"job": "small"}).json()["run_id"]
    (worker,) = wait_for(own.workers, own.alive)
    worker.kill()
    assert events(client, run_id)[-1][1]["state"] == "finished"
    assert own.log.read_text().count('"run started"') == 2
