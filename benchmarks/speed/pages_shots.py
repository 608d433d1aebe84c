"""Screenshots of the pages for the README, with the simulated jobs of `benchmarks/workloads/seeded_store.py`.

python -m benchmarks.speed.pages_shots docs/images
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from autotrascale.knowledge.decision_journal.journal import DecisionJournal
from autotrascale.knowledge.mlflow_store import MlflowStore
from benchmarks.workloads.seeded_store import seed_store
from tests.knowledge import mlflow_stores
from tests.web.api.servers import server

# Address, heading to scroll to, width, height, theme.
SHOTS = {
    "overview": ("/", "", 1280, 620, "light"),
    "job": ("/jobs/clicks", "", 1280, 960, "light"),
    "run": ("/runs/{met}", "h2:has-text('Search')", 1280, 960, "dark"),
}


def take(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    found = subprocess.run(["scripts/chromium.sh", "find"], capture_output=True, text=True, check=True).stdout.strip()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / "configs").mkdir()
        mlflow_stores.job_file(place / "configs", "small")
        decisions = DecisionJournal(place / "decisions.db")
        seeded = seed_store(MlflowStore(f"sqlite:///{place / 'mlflow.db'}"), decisions)
        with server(place, place / "configs") as running, sync_playwright() as playwright:
            base = str(running.start().base_url)
            browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
            for shot, (address, at, width, height, theme) in SHOTS.items():
                page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=theme)  # type: ignore[arg-type]
                page.goto(base + address.format(**seeded.runs))
                _settle(page, at)
                page.screenshot(path=folder / f"{shot}.png")
                page.close()
            browser.close()
        seeded.close()
        decisions.close()


def _settle(page: Page, at: str) -> None:
    if at:
        page.locator(at).evaluate("each => each.scrollIntoView()")
    page.wait_for_timeout(1000)
    for figure in page.locator("figure").all()[:8]:
        box = figure.bounding_box()
        if box is not None and box["y"] < (page.viewport_size or {"height": 0})["height"]:
            figure.locator(".main-svg, p:not(:has-text('Loading'))").first.wait_for(state="attached")
    page.wait_for_timeout(1000)


if __name__ == "__main__":
    take(Path(sys.argv[1]))
