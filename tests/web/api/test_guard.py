"""Tokens, the Host header, requests of other sites, and options that `serve` refuses."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from autotrascale.app import environment_variables
from autotrascale.cli import main
from autotrascale.domain.errors import InputError
from autotrascale.knowledge.mlflow_store import MlflowStore
from autotrascale.web import server
from autotrascale.web.api.job_catalog import JobCatalog
from autotrascale.web.api.server_state import ServerState
from autotrascale.web.api.tokens import MIN_TOKEN_LENGTH, UNNAMED, VARIABLE, Tokens, read_tokens
from autotrascale.web.app import create_app
from tests.web.api.clients import TestClient

TOKEN = "correct-horse-battery-staple"
EVERYWHERE = ["/v1/runs", "/v1/jobs", "/metrics", "/openapi.json", "/nowhere", "/v1/runs/" + "0" * 32 + "/events"]


@pytest.fixture(scope="module")
def secured(store: MlflowStore, configs: Path) -> Iterator[TestClient]:
    state = ServerState.of(store, JobCatalog(configs), "secured", parallel_runs=0)
    with TestClient(
        create_app(state, Tokens.of(TOKEN), loopback=False), base_url="http://tuner.example:8765"
    ) as client:
        yield client


@pytest.mark.parametrize("path", EVERYWHERE)
def test_every_route_needs_a_token(secured: TestClient, path: str) -> None:
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    assert secured.get(path, headers=bearer).status_code in (200, 404)
    for given in (
        {},
        {"Authorization": TOKEN},
        {"Authorization": "Bearer "},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": f"Bearer {TOKEN[:-1]}"},
    ):
        response = secured.get(path, headers=given)
        assert response.status_code == 401
        assert response.headers["www-authenticate"] == "Bearer"
        assert response.headers["content-type"] == "application/problem+json"
        assert TOKEN[:-1] not in response.text


def test_health_needs_no_token_and_openapi_says_so(secured: TestClient) -> None:
    assert secured.get("/healthz").status_code == 200
    assert secured.get("/healthz/").status_code == 401
    document = secured.get("/openapi.json", headers={"Authorization": f"bearer {TOKEN}"}).json()
    assert document["security"] == [{"token": []}]
    assert document["paths"]["/healthz"]["get"]["security"] == []


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8765", "localhost", "LOCALHOST:1", "[::1]:8765"])
def test_names_of_this_machine(client: TestClient, host: str) -> None:
    assert client.get("/v1/jobs", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost@evil.example", "evil:80:80", ""])
def test_other_names_are_refused_on_loopback(client: TestClient, host: str) -> None:
    response = client.get("/v1/jobs", headers={"Host": host})
    assert response.status_code == 421
    assert response.headers["content-type"] == "application/problem+json"


def test_pages_of_other_sites_are_refused(client: TestClient) -> None:
    run_id = client.post("/v1/runs", json={"job": "small"}).json()["run_id"]
    foreign = {"Origin": "http://evil.example"}
    assert client.post(f"/v1/runs/{run_id}/cancel", headers=foreign).status_code == 403
    assert client.post(f"/v1/runs/{run_id}/cancel", headers={"Origin": "null"}).status_code == 403
    own = client.post(f"/v1/runs/{run_id}/cancel", headers={"Origin": "http://127.0.0.1"})
    assert own.status_code == 202


# --- starting --------------------------------------------------------------------------------------------------------


def refused(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    with pytest.raises(SystemExit) as ended:
        main.main(["serve", *(str(each) for each in arguments)])
    assert ended.value.code == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err


def test_serve_refuses_bad_options(
    capsys: pytest.CaptureFixture[str],
    store: MlflowStore,
    configs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(environment_variables.TOKEN, raising=False)
    good = ("--configs", configs, "--store", store.uri)
    assert "without a token" in refused(capsys, *good, "--host", "0.0.0.0")
    assert "--host: " in refused(capsys, *good, "--host", "tuner.example")
    assert "--configs: " in refused(capsys, "--configs", tmp_path / "none", "--store", store.uri)
    assert "--store: " in refused(capsys, "--configs", configs, "--store", "none")
    assert "--name: " in refused(capsys, *good, "--name", "a'b")
    (tmp_path / "token").write_text("short\n")
    assert "at least 16" in refused(capsys, *good, "--token-file", tmp_path / "token")
    assert "cannot be read" in refused(capsys, *good, "--token-file", tmp_path / "missing")
    with server.bind_socket("127.0.0.1", 0) as taken:
        taken.listen()
        port = str(taken.getsockname()[1])
        assert f":{port}" in refused(capsys, *good, "--port", port)


def test_the_token_is_read_from_a_file_or_the_environment_and_not_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert environment_variables.TOKEN == VARIABLE
    monkeypatch.setenv(VARIABLE, TOKEN)
    assert owner(read_tokens(None), TOKEN) == UNNAMED
    assert VARIABLE not in os.environ
    assert read_tokens(None) is None
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    assert owner(read_tokens(tmp_path / "token"), TOKEN) == UNNAMED
    monkeypatch.setenv(VARIABLE, "secret")
    with pytest.raises(InputError) as error:
        read_tokens(None)
    assert "secret" not in str(error.value)


def owner(tokens: Tokens | None, given: str) -> str | None:
    assert tokens is not None
    return tokens.owner(given.encode())


def test_tokens_are_changed_while_the_server_runs(tmp_path: Path) -> None:
    path, old, new = tmp_path / "tokens", "old-" * 8, "new-" * 8
    path.write_text(f"# of the team\nalice {old}\nbob {TOKEN}\n\n")
    tokens = read_tokens(path)
    assert tokens is not None
    assert [owner(tokens, each) for each in (old, TOKEN, new)] == ["alice", "bob", None]
    path.write_text(f"alice {old}\nalice {new}\n")
    tokens.reread()
    assert [owner(tokens, each) for each in (old, TOKEN, new)] == ["alice", None, "alice"]
    path.write_text(f"alice {new}\n")
    tokens.reread()
    assert [owner(tokens, each) for each in (old, new)] == [None, "alice"]


@pytest.mark.parametrize("spoilt", ["", "short", f"a b {TOKEN}", f"al/ice {TOKEN}", "\0", f"{TOKEN}\nshort"])
def test_a_damaged_token_file_keeps_earlier_tokens_and_leaks_nothing(
    tmp_path: Path, spoilt: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "tokens"
    path.write_text(TOKEN)
    tokens = read_tokens(path)
    assert tokens is not None
    path.write_text(spoilt)
    for _ in range(2):
        tokens.reread()
    assert owner(tokens, TOKEN) == UNNAMED
    said = [record for record in caplog.records if "cannot be used" in record.getMessage()]
    assert len(said) == 1
    why = said[0].__dict__["fields"]["why"]
    assert f"holds no token of at least {MIN_TOKEN_LENGTH}" in why or "has a name" in why
    assert TOKEN not in why
    path.unlink()
    tokens.reread()
    assert owner(tokens, TOKEN) == UNNAMED


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "find_spec", lambda name: None if name == "uvicorn" else object())
    with pytest.raises(InputError, match=r"uvicorn; pip install 'autotrascale\[service\]'"):
        server.check_installed()


@pytest.mark.parametrize(
    ("host", "loopback"), [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True)]
)
def test_loopback(host: str, loopback: bool) -> None:
    assert server.check_address(host, has_token=False) is loopback
    assert not server.check_address("0.0.0.0", has_token=True)


def test_log_lines_are_json(capsys: pytest.CaptureFixture[str]) -> None:
    import json

    from autotrascale.app.run_queue import server_log

    logger = logging.getLogger(server_log.NAME)
    before = logger.handlers, logger.propagate, logger.level
    try:
        server_log.configure()
        server_log.info("run queued", run="x\ny", path=Path("/a"))
        try:
            raise ValueError("what nobody expected")
        except ValueError:
            server_log.exception("queue stumbled")
    finally:
        logger.handlers, logger.propagate, logger.level = before
        for name in ("uvicorn", "uvicorn.error"):
            logging.getLogger(name).handlers, logging.getLogger(name).propagate = [], True
    first, second = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert (first["event"], first["run"], first["path"], first["level"]) == ("run queued", "x\ny", "/a", "info")
    assert "what nobody expected" in second["trace"]
