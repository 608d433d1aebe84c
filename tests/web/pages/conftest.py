"""A server with data and a headless browser for all tests of the pages."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

from autotrascale.app.stores import open_decisions
from autotrascale.web.api.job_catalog import JobCatalog
from autotrascale.web.api.server_state import ServerState
from autotrascale.web.app import create_app
from benchmarks.workloads.seeded_store import SeededStore, seed_store
from tests.knowledge import mlflow_stores
from tests.web.api.clients import serving

HOSTILE = "<img src=x onerror=alert(1)>'\"&{{7*7}}"
PATIENCE = 60_000.0  # milliseconds: on a busy machine a page may take any time
ROOT = Path(__file__).parents[3]
expect.set_options(timeout=PATIENCE)


@dataclass(frozen=True)
class Server:
    base: str
    state: ServerState
    app: FastAPI
    seeded: SeededStore

    @property
    def run(self) -> str:
        return self.seeded.runs["met"]


@pytest.fixture(scope="module")
def configs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("configs")
    mlflow_stores.job_file(folder, "small")
    (folder / "broken.yaml").write_text(f"version: 1\njob: '{HOSTILE.replace(chr(39), chr(39) * 2)}'\n")
    return folder


@pytest.fixture(scope="module")
def server(pytestconfig: pytest.Config, configs: Path) -> Iterator[Server]:
    """Yield a server whose queue starts no runs. Three loops run in this process, and tests advance them."""
    with mlflow_stores.quick_folder() as folder:
        store = mlflow_stores.embedded(mlflow_stores.template(pytestconfig), folder)
        decisions = open_decisions(store)
        assert decisions is not None
        seeded = seed_store(store, decisions, hours=1.5)
        state = ServerState.of(store, JobCatalog(configs), "pages", parallel_runs=0, limit=50)
        app = create_app(state)
        with serving(app) as base:
            yield Server(base, state, app, seeded)
        seeded.close()
        decisions.close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    found = subprocess.run([ROOT / "scripts" / "chromium.sh", "find"], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    as_root = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=found.stdout.strip(), args=[*as_root, "--disable-gpu", "--disable-dev-shm-usage"]
        )
        yield opened
        opened.close()


@dataclass
class Tab:
    """A page, with its console messages and its requests to other hosts."""

    page: Page
    base: str
    complaints: list[str] = field(default_factory=list)

    def open(self, address: str) -> Page:
        self.page.goto(self.base + address)
        return self.page

    def hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def check(self) -> None:
        assert self.complaints == []


Opener = Callable[..., Tab]


@pytest.fixture
def open_tab(browser: Browser, server: Server) -> Iterator[Opener]:
    """Return a function that opens tabs. At the end no tab may have errors or requests to other hosts."""
    contexts: list[BrowserContext] = []
    tabs: list[Tab] = []

    def opened(width: int = 1280, theme: str = "light", base: str = "", zone: str = "Europe/Berlin") -> Tab:
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=theme,
            timezone_id=zone,
            locale="en-GB",  # type: ignore[arg-type]
            reduced_motion="reduce",
        )
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        tab = Tab(context.new_page(), base or server.base)
        tab.page.on("console", tab.hear)
        tab.page.on("pageerror", lambda error: tab.complaints.append(str(error)))
        tab.page.on("dialog", lambda dialog: tab.complaints.append(f"dialog: {dialog.message}"))
        tab.page.on("request", lambda request: _own(tab, request.url))
        tabs.append(tab)
        return tab

    yield opened
    for context in contexts:
        context.close()
    for tab in tabs:
        tab.check()


def _own(tab: Tab, url: str) -> None:
    if urlsplit(url).scheme != "data" and urlsplit(url).netloc != urlsplit(tab.base).netloc:
        tab.complaints.append(f"asked elsewhere: {url}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mlflow_stores.forgive_mlflow(items, Path(__file__).parent)
