"""Requests are stored with their authors, models can be removed over HTTP, and secrets stay hidden."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from autotrascale.app.run_queue.worker_processes import WorkerProcess
from autotrascale.knowledge import requested_by, run_history, tags
from autotrascale.knowledge.mlflow_store import MlflowStore
from autotrascale.knowledge.model_library import ModelLibrary
from autotrascale.web.api.job_catalog import JobCatalog
from autotrascale.web.api.server_state import ServerState
from autotrascale.web.api.tokens import read_tokens
from autotrascale.web.app import create_app
from tests.knowledge.mlflow_stores import job, learned
from tests.web.api.clients import TestClient
from tests.web.api.servers import wait_for

ALICE, BOB = "alice-" * 6, "bob-" * 8


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_the_run_stores_who_requested_what(store: MlflowStore, configs: Path, tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text(f"alice {ALICE}\nbob {BOB}\n")
    app = create_app(ServerState.of(store, JobCatalog(configs), "asking", parallel_runs=0), read_tokens(path))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        run = client.post("/v1/runs", json={"job": "small"}, headers=bearer(ALICE)).json()
        assert run["asked_by"] == "alice at testclient"
        client.post(f"/v1/runs/{run['run_id']}/cancel", headers=bearer(BOB))
        client.post(f"/v1/runs/{run['run_id']}/resume", headers=bearer(BOB))
        assert client.get(f"/v1/runs/{run['run_id']}", headers=bearer(BOB)).json()["asked_by"] == "alice at testclient"
        assert client.post("/v1/runs", json={"job": "small", "asked_by": "x"}, headers=bearer(BOB)).status_code == 422
        client.post(f"/v1/runs/{run['run_id']}/cancel", headers=bearer(BOB))
    kept = run_history.find_run(store, run["run_id"]).data.tags
    assert [(who, what) for _, who, what in requested_by.read_requests(kept)] == [
        ("alice at testclient", "start"),
        ("bob at testclient", "cancel"),
        ("bob at testclient", "resume"),
        ("bob at testclient", "cancel"),
    ]
    assert not [name for name, value in kept.items() if ALICE in value or BOB in value]


def test_the_list_of_requests_is_bounded_and_ignores_damage() -> None:
    text = ""
    for i in range(100):
        text = requested_by.append_request(f"nr {i} " + "x" * 500, "cancel" * 100, text)
    found = requested_by.read_requests({tags.ASKED: text})
    assert len(found) == requested_by.MAX_REQUESTS
    assert [who.split()[1] for _, who, _ in (found[0], found[-1])] == ["0", "99"]
    assert len(text) < 8000  # what a tag of MLflow's holds
    for damaged in ("", "{", "[1]", '[["a"]]', "null", "3"):
        assert requested_by.read_requests({tags.ASKED: damaged}) == []
        assert len(requested_by.read_requests({tags.ASKED: requested_by.append_request("who", "what", damaged)})) == 1


def test_models_are_deprecated_and_removed_over_http(client: TestClient, store: MlflowStore) -> None:
    uri = ModelLibrary(store).import_model(*learned(job("small"))).uri
    assert client.post("/v1/models/small/1/deprecate", json={"why": "a bad one"}).json()["deprecated"] == "a bad one"
    (listed,) = client.get("/v1/models", params={"job": "small"}).json()["models"]
    assert (listed["uri"], listed["deprecated"], listed["aliases"]) == (uri, "a bad one", [])
    assert client.post("/v1/models/small/1/deprecate", json={"undo": True}).json()["deprecated"] is None
    assert client.delete("/v1/models/small/1").status_code == 204
    assert client.delete("/v1/models/small/1").status_code == 404
    assert client.get("/v1/models", params={"job": "small"}).json()["models"] == []


def test_a_process_of_a_run_shows_no_password(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The worker gets the whole address, but not in its command line or the environment of its children."""
    heard = tmp_path / "heard"
    started = subprocess.Popen

    def popen(command: list[str], **given: object) -> subprocess.Popen[bytes]:
        assert command[2:3] == ["autotrascale.app.run_queue.worker"]
        listening = (
            "import sys, time; from autotrascale.app.run_queue.worker import _read_first_line;"
            f"open({str(heard)!r}, 'w').write(_read_first_line()); time.sleep(60)"
        )
        return started([command[0], "-c", listening, *command[3:]], **given)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(subprocess, "Popen", popen)
    child = WorkerProcess.start(MlflowStore("postgresql://alice:open-sesame@db.example/runs"), "0" * 32, "small")
    try:
        process = psutil.Process(child.pid)
        wait_for(lambda: heard.exists() and heard.read_text())
        assert heard.read_text() == "postgresql://alice:open-sesame@db.example/runs"
        assert "postgresql://db.example/runs" in process.cmdline()
        assert not [word for word in process.cmdline() if "open-sesame" in word]
        assert not [value for value in process.environ().values() if "open-sesame" in value]
    finally:
        child.kill()


def test_a_token_is_in_no_environment_of_a_run() -> None:
    """The server's own environment variables are not passed to runs."""
    code = (
        "import os, json; from autotrascale.web.api.tokens import read_tokens; read_tokens(None);"
        "import subprocess, sys;"
        "print(subprocess.run([sys.executable, '-c', 'import os, json; print(json.dumps(dict(os.environ)))'],"
        " capture_output=True, text=True).stdout)"
    )
    environment = {**os.environ, "AUTOTRASCALE_TOKEN": ALICE}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert ALICE not in json.loads(done.stdout).values()
