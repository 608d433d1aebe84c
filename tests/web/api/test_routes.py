"""Every route, called in process. The queue accepts runs and starts none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from httpx import Response

from autotrascale.app import tuning_run
from autotrascale.app.job_file import read_job_file
from autotrascale.domain.errors import RunStoreError, StudyError
from autotrascale.knowledge import run_history
from autotrascale.knowledge.mlflow_store import MlflowStore
from autotrascale.web.api.schemas import EXAMPLE_SNAPSHOT
from autotrascale.web.api.server_state import ServerState
from autotrascale.web.app import create_app
from tests.knowledge import mlflow_stores
from tests.web.api.clients import TestClient

SILENT = tuning_run.RunListener(lambda *_: None, lambda _: None, lambda _: None)
NOBODY = "0" * 32


@pytest.fixture(scope="module")
def finished(store: MlflowStore, configs: Path) -> str:
    """Make a finished run as the command line does."""
    path = configs / "other.yaml"
    file = read_job_file(path)
    asked = tuning_run.TuningRequest(file, path, "simulator", file.tuning)
    run_id = tuning_run.start(asked, store, SILENT).run_id
    assert run_id is not None
    return run_id


def problem(response: Response, status: int) -> str:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    told = response.json()
    assert told["status"] == status
    assert told["title"]
    return str(told["detail"])


def submit(client: TestClient, body: dict[str, Any] | None = None, **headers: str) -> Response:
    return client.post("/v1/runs", json=body or {"job": "small"}, headers=headers)


# --- runs ------------------------------------------------------------------------------------------------------------


def test_a_submission_is_in_the_store_before_it_is_answered(client: TestClient, store: MlflowStore) -> None:
    response = submit(client, {"job": "small", "rate": 1000.5, "total_trials": 3, "max_seconds": 60, "seed": 5})
    assert response.status_code == 202
    told = response.json()
    assert response.headers["location"] == f"/v1/runs/{told['run_id']}"
    assert (told["state"], told["job"], told["rate"], told["evaluations"]) == ("queued", "small", 1000.5, 0)
    kept = run_history.summarise_run(store, run_history.find_run(store, told["run_id"]))
    assert kept.state == "queued"
    assert client.get(f"/v1/runs/{told['run_id']}").json() == told
    assert client.get(f"/v1/runs/{told['run_id']}/evaluations").json() == {"evaluations": [], "next_after": None}
    assert "no finished evaluation" in problem(client.get(f"/v1/runs/{told['run_id']}/explanation"), 409)


def test_the_same_key_names_the_same_run(client: TestClient) -> None:
    first = submit(client, {"job": "small"}, **{"Idempotency-Key": "k-1"})
    again = submit(client, {"job": "small", "seed": None}, **{"Idempotency-Key": "k-1"})
    assert (first.status_code, again.status_code) == (202, 200)
    assert first.json()["run_id"] == again.json()["run_id"]
    assert "another request" in problem(submit(client, {"job": "other"}, **{"Idempotency-Key": "k-1"}), 422)
    assert submit(client, {"job": "small"}, **{"Idempotency-Key": "k-2"}).json()["run_id"] != first.json()["run_id"]


def test_a_key_is_remembered_by_the_next_server(client: TestClient, store: MlflowStore, state: ServerState) -> None:
    first = submit(client, {"job": "small"}, **{"Idempotency-Key": "lasting"}).json()["run_id"]
    later = ServerState.of(store, state.catalog, "test", parallel_runs=0)
    with TestClient(create_app(later), base_url="http://localhost") as other:
        assert submit(other, {"job": "small"}, **{"Idempotency-Key": "lasting"}).json()["run_id"] == first
        assert other.get(f"/v1/runs/{first}").json()["state"] == "queued"
        assert later.queue.knows(first)


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({"job": "nobody"}, 404, "is unknown"),
        ({"job": "outside"}, 404, "is unknown"),
        ({"job": "../outside"}, 422, "body.job"),
        ({"job": "/etc/passwd"}, 422, "body.job"),
        ({"job": "broken"}, 422, "broken.yaml"),
        ({"job": "small", "engine": "spark"}, 422, "spark"),
        ({"job": "small", "rate": 0}, 422, "body.rate"),
        ({"job": "small", "rate": -1}, 422, "body.rate"),
        ({"job": "small", "total_trials": 0}, 422, "body.total_trials"),
        ({"job": "small", "max_seconds": 0}, 422, "body.max_seconds"),
        ({"job": "small", "seed": -1}, 422, "body.seed"),
        ({"job": "small", "path": "/etc/passwd"}, 422, "body.path"),
        ({"job": "small", "policy": "magic"}, 422, "body.policy: is not known (seen: 'magic'); use one of autrascale"),
        ({"job": "small", "policy": "ds2", "warm_start": "rate-3"}, 422, "body.warm_start: "),
        ({"job": "small", "warm_start": "/etc/passwd"}, 422, "body.warm_start"),
        ({"job": "small", "warm_start": "models/m.json"}, 422, "body.warm_start"),
        ({"job": "small", "warm_start": "runs:/x/model"}, 422, "body.warm_start"),
        ({"job": "small", "warm_start": "models:/autotrascale.small/../1"}, 422, "body.warm_start"),
        ({"job": "small", "warm_start": "models:/autotrascale.other/1"}, 422, "another job"),
        ({}, 422, "body.job"),
    ],
)
def test_a_submission_that_cannot_be_run_is_refused(
    client: TestClient, body: dict[str, Any], status: int, says: str
) -> None:
    before = client.get("/healthz").json()["queued"]
    assert says in problem(client.post("/v1/runs", json=body), status)
    assert client.get("/healthz").json()["queued"] == before


@pytest.mark.parametrize("wish", ["auto", "none", "rate-300000", "models:/autotrascale.small/1"])
def test_accepted_names_of_models(client: TestClient, wish: str) -> None:
    assert submit(client, {"job": "small", "warm_start": wish}).status_code == 202


def test_a_waiting_run_can_be_cancelled_and_resumed(client: TestClient, state: ServerState) -> None:
    run_id = submit(client).json()["run_id"]
    assert "waits for its turn already" in problem(client.post(f"/v1/runs/{run_id}/resume"), 409)
    cancelled = client.post(f"/v1/runs/{run_id}/cancel")
    assert (cancelled.status_code, cancelled.json()["state"], cancelled.json()["why"]) == (
        202,
        "interrupted",
        "cancelled",
    )
    assert not state.queue.knows(run_id)
    assert "is not running" in problem(client.post(f"/v1/runs/{run_id}/cancel"), 409)
    resumed = client.post(f"/v1/runs/{run_id}/resume", json={"total_trials": 9})
    assert (resumed.status_code, resumed.json()["state"]) == (202, "queued")
    assert state.queue.knows(run_id)


def test_the_queue_is_bounded(client: TestClient, state: ServerState, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state.queue, "limit", state.queue.waiting)
    response = submit(client)
    assert "try again later" in problem(response, 503)
    assert response.headers["retry-after"]


def test_runs_of_the_command_line_are_listed_too(client: TestClient, state: ServerState, finished: str) -> None:
    state.index.refresh()  # as its thread does every second
    told = client.get(f"/v1/runs/{finished}").json()
    assert (told["job"], told["state"], told["why"]) == ("other", "finished", "target-met")
    assert finished in [run["run_id"] for run in client.get("/v1/runs", params={"job": "other"}).json()["runs"]]
    assert "is finished" in problem(client.post(f"/v1/runs/{finished}/resume"), 409)
    assert "is not running" in problem(client.post(f"/v1/runs/{finished}/cancel"), 409)

    measured = client.get(f"/v1/runs/{finished}/evaluations").json()
    assert [each["number"] for each in measured["evaluations"]] == list(range(1, told["evaluations"] + 1))
    page = client.get(f"/v1/runs/{finished}/evaluations", params={"limit": 2}).json()
    assert page["next_after"] == 2
    rest = client.get(f"/v1/runs/{finished}/evaluations", params={"after": 2}).json()
    assert page["evaluations"] + rest["evaluations"] == measured["evaluations"]

    explained = client.get(f"/v1/runs/{finished}/explanation").json()
    assert explained["met_target"]
    assert {each["operator"] for each in explained["operators"]} == {"source", "count"}
    assert "(simulated) holds 70 ms" in explained["summary"]


def test_the_list_is_paged_and_filtered(client: TestClient, finished: str) -> None:
    for seed in range(4):
        submit(client, {"job": "small", "seed": seed})
    everything = client.get("/v1/runs", params={"limit": 100}).json()
    assert everything["next_cursor"] is None
    ids, cursor = [], None
    while True:
        given = {"limit": 3} | ({"cursor": cursor} if cursor else {})
        page = client.get("/v1/runs", params=given).json()
        ids += [run["run_id"] for run in page["runs"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert ids == [run["run_id"] for run in everything["runs"]]
    assert len(set(ids)) == len(ids)
    done = client.get("/v1/runs", params={"status": "finished"}).json()["runs"]
    assert [run["run_id"] for run in done] == [finished]
    assert {run["job"] for run in client.get("/v1/runs", params={"job": "small"}).json()["runs"]} == {"small"}
    assert client.get("/v1/runs", params={"job": "no'body"}).json() == {"runs": [], "next_cursor": None}
    assert "cursor" in problem(client.get("/v1/runs", params={"cursor": "%%%"}), 422)
    assert "limit" in problem(client.get("/v1/runs", params={"limit": 101}), 422)


def test_events_of_an_ended_run(client: TestClient, finished: str) -> None:
    def told(**headers: str) -> list[tuple[str, str]]:
        text = client.get(f"/v1/runs/{finished}/events", headers=headers).text
        blocks = [dict(line.split(": ", 1) for line in block.splitlines()) for block in text.strip().split("\n\n")]
        return [(block["event"], block.get("id", "")) for block in blocks]

    everything = told()
    count = len(everything) - 2
    assert everything == [("state", ""), *(("evaluation", str(n + 1)) for n in range(count)), ("end", "")]
    assert told(**{"Last-Event-ID": "2"}) == [everything[0], *everything[3:]]
    assert told(**{"Last-Event-ID": "nonsense"}) == everything


# --- jobs, models, decisions ------------------------------------------------------------------------------------------


def test_jobs_and_their_problems(client: TestClient, configs: Path) -> None:
    listed = {job["name"]: job for job in client.get("/v1/jobs").json()["jobs"]}
    assert set(listed) == {"small", "other", "broken"}
    assert listed["small"]["engines"] == ["simulator"]
    assert "broken.yaml" in listed["broken"]["problem"]
    assert listed["broken"]["job"] is None
    page = client.get("/v1/jobs", params={"limit": 2}).json()
    last = client.get("/v1/jobs", params={"limit": 2, "cursor": page["next_cursor"]}).json()
    assert [job["name"] for job in page["jobs"] + last["jobs"]] == sorted(listed)
    assert last["next_cursor"] is None
    new = mlflow_stores.job_file(configs, "new")
    try:
        assert "new" in [job["name"] for job in client.get("/v1/jobs").json()["jobs"]]
    finally:
        new.unlink()
    assert "new" not in [job["name"] for job in client.get("/v1/jobs").json()["jobs"]]


def test_models(client: TestClient, finished: str) -> None:
    (model,) = client.get("/v1/models", params={"job": "other"}).json()["models"]
    assert (model["uri"], model["rate"], model["run_id"]) == ("models:/autotrascale.other/1", 300_000.0, finished)
    assert model in client.get("/v1/models").json()["models"]
    shown = client.get("/v1/models/other/1").json()
    assert shown["operators"] == ["source", "count"]
    assert shown["samples"]
    foreseen = client.post("/v1/models/other/1/predict", json={"parallelism": [shown["floor"], shown["p_max"]]}).json()
    assert len(foreseen["mean"]) == len(foreseen["std"]) == 2
    assert "operators" in problem(client.post("/v1/models/other/1/predict", json={"parallelism": [[1]]}), 422)
    assert "bounds" in problem(client.post("/v1/models/other/1/predict", json={"parallelism": [[1, 25]]}), 422)
    assert "no model 2" in problem(client.get("/v1/models/other/2"), 404)
    assert "no model 1" in problem(client.get("/v1/models/nobody/1"), 404)


def test_decide_gives_the_same_answer_as_the_command_line(client: TestClient, tmp_path: Path) -> None:
    from autotrascale.domain.snapshot import Snapshot
    from autotrascale.plan.policies.registry import create
    from autotrascale.validation import read_file

    (tmp_path / "snapshot.json").write_text(json.dumps(EXAMPLE_SNAPSHOT))
    decided = create("ds2").decide(read_file(tmp_path / "snapshot.json", Snapshot))
    answer = client.post("/v1/decide", json={"snapshot": EXAMPLE_SNAPSHOT, "policy": "ds2"})
    assert answer.json() == json.loads(json.dumps(decided.as_dict()))
    assert answer.json()["parallelism"] == {"source": 1, "flatmap": 2}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"policy": "nobody"}, "policy: is not known"),
        ({"snapshot": {}}, "body.snapshot"),
        ({"snapshot": {**EXAMPLE_SNAPSHOT, "p_max": 0}}, "body.snapshot"),
        ({"snapshot": {**EXAMPLE_SNAPSHOT, "surprise": 1}}, "is not a known key"),
        ({"snapshot": {**EXAMPLE_SNAPSHOT, "p_max": 10_001}}, "body.snapshot.p_max"),
        ({"latency_target": -1}, "body.latency_target"),
        ({"statistic": "p42"}, "body.statistic"),
        ({"model": "/etc/passwd"}, "body.model"),
    ],
)
def test_an_impossible_decision_is_refused(client: TestClient, change: dict[str, Any], says: str) -> None:
    assert says in problem(
        client.post("/v1/decide", json={"snapshot": EXAMPLE_SNAPSHOT, "policy": "ds2", **change}), 422
    )


# --- errors and limits ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["", "/evaluations", "/explanation", "/events"])
def test_an_unknown_run(client: TestClient, path: str) -> None:
    assert NOBODY in problem(client.get(f"/v1/runs/{NOBODY}{path}"), 404)


def test_unknown_routes_and_methods(client: TestClient) -> None:
    assert problem(client.get("/v1/nothing"), 404) == "Not Found"
    response = client.delete("/v1/runs")
    assert problem(response, 405) == "Method Not Allowed"
    assert "GET" in response.headers["allow"] or "POST" in response.headers["allow"]
    assert "run_id" in problem(client.get("/v1/runs/nonsense"), 422)
    problem(client.get("/redoc"), 404)  # FastAPI's own page would load its script from elsewhere


def test_invalid_bodies(client: TestClient) -> None:
    told = {"content-type": "application/json"}
    problem(client.post("/v1/runs", content=b"{", headers=told), 422)
    for deep in (b"[" * 200_000, b"[" * 900 + b"]" * 900, b'{"a":' * 101 + b"1" + b"}" * 101):
        assert "nested too deeply" in problem(client.post("/v1/runs", content=deep, headers=told), 422)
    problem(client.post("/v1/runs", content=b'{"job": "\\ud800"}', headers=told), 422)
    problem(client.post("/v1/decide", content=b'{"snapshot": {"p_max": NaN}}', headers=told), 422)


def test_bodies_are_limited_with_and_without_a_content_length(client: TestClient) -> None:
    big = b'{"snapshot": {"x": "' + b"x" * 1_000_001 + b'"}}'
    told = {"content-type": "application/json"}
    assert "1000000 bytes" in problem(client.post("/v1/decide", content=big, headers=told), 413)

    def pieces() -> Iterator[bytes]:
        for start in range(0, len(big), 50_000):
            yield big[start : start + 50_000]

    assert "1000000 bytes" in problem(client.post("/v1/decide", content=pieces(), headers=told), 413)


def test_a_store_failure_is_503_and_not_500(
    client: TestClient, state: ServerState, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise RunStoreError("sqlite:///x: database is locked")

    monkeypatch.setattr(state.index, "page", away)
    assert "locked" in problem(client.get("/v1/runs"), 503)
    monkeypatch.setattr(state.index, "page", lambda *_: 1 / 0)
    assert "internal error" in problem(client.get("/v1/runs"), 500)

    def stuck(*_: object) -> None:
        raise StudyError("nothing is left")

    monkeypatch.setattr(state.index, "page", stuck)
    assert "nothing is left" in problem(client.get("/v1/runs"), 409)


# --- health and metrics -----------------------------------------------------------------------------------------------


def test_health_reports_problems(client: TestClient, state: ServerState, monkeypatch: pytest.MonkeyPatch) -> None:
    told = client.get("/healthz")
    assert (told.status_code, told.json()["status"], told.json()["broken_jobs"]) == (200, "ok", 1)
    looked = state.index.answered_at
    assert looked is not None
    with monkeypatch.context() as patch:
        patch.setattr(state.index, "refresh", lambda: 1 / 0)
        patch.setattr(state.index, "answered_at", looked - 1000)
        patch.setattr(state.index, "error", "gone")
        told = client.get("/healthz")
        assert told.status_code == 503
        assert told.json()["problems"] == ["the store does not answer: gone"]
        assert not told.json()["store_reachable"]
        assert "autotrascale_up 0.0" in client.get("/metrics").text
    monkeypatch.setattr(type(state.queue), "beat", property(lambda _: -1000.0, lambda *_: None), raising=False)
    assert "queue" in client.get("/healthz").json()["problems"][0]


def test_metrics(client: TestClient) -> None:
    client.get("/v1/nothing")
    submit(client)
    response = client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = response.text.splitlines()
    assert 'autotrascale_http_requests_total{method="any",route="none",status="404"} ' in response.text
    assert any(line.startswith('autotrascale_runs{state="queued"} ') for line in lines)
    assert "autotrascale_queue_limit 50.0" in lines
    assert "evil" not in response.text
