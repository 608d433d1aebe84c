"""Access to the pages, their headers, and their texts without data or after an error."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from autotrascale.domain.errors import RunStoreError
from autotrascale.knowledge.mlflow_store import MlflowStore
from autotrascale.web.api.guard import COOKIE
from autotrascale.web.api.job_catalog import JobCatalog
from autotrascale.web.api.server_state import ServerState
from autotrascale.web.api.tokens import Tokens
from autotrascale.web.app import create_app
from autotrascale.web.pages import assets
from tests.knowledge import mlflow_stores
from tests.web.api.clients import TestClient
from tests.web.api.servers import wait_for

TOKEN = 'correct;horse=battery,"staple"%41'  # what a cookie would not take as it stands
PAGES = ["/", "/runs", "/models", "/docs", "/jobs/nobody", "/runs/" + "0" * 32, "/compare"]
HTML = {"Accept": "text/html,application/xhtml+xml"}


@pytest.fixture(scope="module")
def store(pytestconfig: pytest.Config) -> Iterator[MlflowStore]:
    with mlflow_stores.quick_folder() as folder:
        yield mlflow_stores.embedded(mlflow_stores.template(pytestconfig), folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("configs")


@pytest.fixture(scope="module")
def client(store: MlflowStore, folder: Path) -> Iterator[TestClient]:
    state = ServerState.of(store, JobCatalog(folder), "empty", parallel_runs=0)
    with TestClient(create_app(state), base_url="http://127.0.0.1", raise_server_exceptions=False) as opened:
        yield opened


@pytest.fixture(scope="module")
def secured(store: MlflowStore, folder: Path) -> Iterator[TestClient]:
    state = ServerState.of(store, JobCatalog(folder), "secured", parallel_runs=0)
    app = create_app(state, Tokens.of(TOKEN), loopback=False)
    with TestClient(app, base_url="http://tuner.example:8765", follow_redirects=False) as opened:
        yield opened


@pytest.mark.parametrize("address", [*PAGES, "/static/pages.js", "/static/nothing", "/sign-in"])
def test_pages_load_files_of_this_server_only(client: TestClient, address: str) -> None:
    answer = client.get(address)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "*" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    if "html" in answer.headers["content-type"]:
        text = answer.text.lower()
        assert "http://" not in text.replace("http://www.w3.org", "")
        assert "https://" not in text
        assert "<style" not in text
        assert "style=" not in text
        assert "onclick" not in text


def test_empty_pages_say_how_to_begin(client: TestClient) -> None:
    text = client.get("/").text
    assert "No control loop yet" in text
    assert "No tuning run yet" in text
    assert "No job file in" in text
    assert "No tuning run yet" in client.get("/runs").text
    assert "No model yet" in client.get("/models").text


@pytest.mark.parametrize(
    ("address", "status", "said"),
    [
        ("/jobs/nobody", 404, "a job called nobody"),
        ("/runs/" + "0" * 32, 404, "is not in the store"),
        ("/runs/x", 422, "does not understand"),
        ("/models/nobody/1", 404, "has no model 1"),
        ("/compare", 422, "choose one to"),
        ("/runs?cursor=x", 422, "cursor: is unknown"),
        ("/static/../pages.py", 404, ""),
    ],
)
def test_errors_are_shown_as_pages(client: TestClient, address: str, status: int, said: str) -> None:
    answer = client.get(address)
    assert answer.status_code == status
    assert said in answer.text
    if said:
        assert answer.headers["content-type"].startswith("text/html")


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (RunStoreError("the store at nowhere does not answer"), 503, "does not answer"),
        (ZeroDivisionError("of ours"), 500, "The server&#39;s log has the details"),
    ],
)
def test_store_failures_and_internal_errors_are_shown_as_pages(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int, said: str
) -> None:
    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(client.app.state.service.index, "page", fails)  # type: ignore[attr-defined]
    answer = client.get("/runs")
    assert answer.status_code == status
    assert said in answer.text
    assert "of ours" not in answer.text
    assert answer.headers["content-security-policy"]


def test_an_unreadable_journal_is_reported(client: TestClient) -> None:
    board = client.app.state.service.loops  # type: ignore[attr-defined]
    path = board.journal.path
    path.write_bytes(b"this is no database " * 100)
    try:
        board.journal.close()
        board.refresh()
        assert board.problem
        said = "The decision journal cannot be read"
        text = wait_for(lambda: said in (found := client.get("/").text) and found)  # a page may be half a second old
        assert str(path) in text
    finally:
        board.journal.close()
        path.unlink()
        board.refresh()
    assert board.problem == ""


@pytest.mark.parametrize("address", PAGES)
def test_without_a_token_browsers_are_redirected_and_programs_refused(secured: TestClient, address: str) -> None:
    secured.cookies.clear()
    asked = secured.get(address, headers=HTML)
    assert (asked.status_code, asked.headers["location"].partition("?")[0]) == (303, "/sign-in")
    assert secured.get(address).status_code == 401
    assert secured.post("/sign-out", headers=HTML).status_code == 401
    assert secured.get("/live/overview").status_code == 401
    assert secured.get("/static/pages.js").status_code == 401


def test_signing_in_sets_a_protected_cookie(secured: TestClient) -> None:
    secured.cookies.clear()
    assert "Sign in" in secured.get("/sign-in", headers=HTML).text
    assert secured.get("/static/pages.css").status_code == 200
    refused = secured.post("/sign-in", data={"token": TOKEN + "x", "then": "/"})
    assert refused.status_code == 401
    assert "does not know this token" in refused.text
    assert "set-cookie" not in refused.headers
    taken = secured.post("/sign-in", data={"token": f" {TOKEN}\n", "then": "/runs?job=a"})
    assert (taken.status_code, taken.headers["location"]) == (303, "/runs?job=a")
    cookie = taken.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "secure" not in cookie
    for address in PAGES[:4]:
        assert secured.get(address, headers=HTML).status_code == 200
    assert secured.get("/v1/runs").status_code == 200
    assert "Sign out" in secured.get("/").text
    out = secured.post("/sign-out")
    assert out.status_code == 303
    assert secured.get("/", headers=HTML).status_code == 303
    behind = secured.post("/sign-in", data={"token": TOKEN}, headers={"X-Forwarded-Proto": "https"})
    assert "secure" in behind.headers["set-cookie"].lower()


@pytest.mark.parametrize("cookie", [f"{COOKIE}=", f"{COOKIE}=x", "other=1", f"{COOKIE}", ";;=;", f"{COOKIE}=%ff%fe"])
def test_other_cookies_give_no_access(secured: TestClient, cookie: str) -> None:
    secured.cookies.clear()
    assert secured.get("/v1/runs", headers={"Cookie": cookie}).status_code == 401


def test_other_sites_cannot_use_a_signed_in_browser(secured: TestClient) -> None:
    secured.cookies.clear()
    secured.post("/sign-in", data={"token": TOKEN})
    for address in ("/v1/runs", "/sign-in", "/sign-out"):
        assert secured.post(address, headers={"Origin": "http://evil.example"}).status_code == 403


@pytest.mark.parametrize(
    "then", ["//evil.example", "/\\evil.example", "https://evil.example", "javascript:alert(1)", "/\n/evil", ""]
)
def test_signing_in_redirects_to_this_server_only(secured: TestClient, then: str) -> None:
    secured.cookies.clear()
    answer = secured.post("/sign-in", data={"token": TOKEN, "then": then})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")


def test_a_server_without_tokens_needs_no_sign_in(client: TestClient) -> None:
    assert "needs no token" in client.get("/sign-in").text
    answer = client.post("/sign-in", data={"token": "x"}, follow_redirects=False)
    assert answer.status_code == 303
    assert "set-cookie" not in answer.headers


def test_browsers_cache_files_until_they_change(client: TestClient) -> None:
    for name in ("pages.css", "pages.js", "docs.js", "icon.svg", "plotly.js", "swagger-ui.js", "swagger-ui.css"):
        answer = client.get(assets.file_address(name))
        assert "immutable" in answer.headers["cache-control"]
        assert client.get(f"/static/{name}?other").headers["cache-control"] == "no-cache"
        again = client.get(f"/static/{name}", headers={"If-None-Match": answer.headers["etag"]})
        assert again.status_code == 304
        plain = client.get(f"/static/{name}", headers={"Accept-Encoding": "identity"})
        assert plain.content == answer.content
    with pytest.raises(LookupError):
        assets.file_address("nothing.js")
