"""Speed and weight of the pages with 1,000 runs, 10,000 evaluations and 100,000 decisions; CPU of 200 open pages.

The store is the one of `benchmarks/workloads/seeded_store.py` with many more rows: runs are added by MLflow's client,
evaluations and decisions are copied within the databases. A server runs on loopback; the browser is Debian's Chromium.

    usable    from the request until the page's script has run: links, buttons and dialogs answer
    drawn     from the request until every plot on the screen is drawn
    weight    bytes that a page loads, not compressed, without Plotly's script
    share     CPU of the server's process, of one core, while three loops observe their jobs every `--every` seconds:
              with 200 open pages, and with none

    python -m benchmarks.speed.pages_bench --seconds 60
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import statistics
import subprocess
import tempfile
import time
import uuid
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import Page, Response, sync_playwright

from autotrascale.knowledge import tags
from autotrascale.knowledge.decision_journal.journal import DecisionJournal
from autotrascale.knowledge.mlflow_store import MlflowStore
from benchmarks.speed.service_bench import fill
from benchmarks.workloads.seeded_store import ScaledJob, SeededStore, seed_store
from tests.knowledge import mlflow_stores
from tests.web.api.servers import Server, server

RUNS, EVALUATIONS, DECISIONS = 1000, 10_000, 100_000
OPEN = 200
SECONDS, EVERY = 60.0, 5.0
REPEATS = 5  # of opening a page; the median counts
LIMITS = {"usable_s": 1.0, "weight_bytes": 150_000, "share_of_a_core": 0.10}
_HOURS = 6.0


def figures(seconds: float = SECONDS, every: float = EVERY) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "configs").mkdir()
        mlflow_stores.job_file(folder / "configs", "small")
        decisions = DecisionJournal(folder / "decisions.db")
        store = MlflowStore(f"sqlite:///{folder / 'mlflow.db'}")
        seeded = seed_store(store, decisions, _HOURS)
        ids = fill(store, RUNS - len(seeded.runs))
        _evaluations(folder / "mlflow.db", [*ids, *seeded.runs.values()])
        job = "stalled-wordcount"
        _decisions(folder / "decisions.db", seeded.kept[job])
        stored = _count_rows(folder)
        with server(folder, folder / "configs") as running:
            base = str(running.start().base_url)
            opened = _open_pages(base, {"overview": "/", "run": f"/runs/{seeded.runs['met']}", "job": f"/jobs/{job}"})
            share = asyncio.run(_share(running, base, seeded, seconds, every))
        seeded.close()
        decisions.close()
        return {"stored": stored, "limits": LIMITS, "pages": opened, "live": share}


def _evaluations(path: Path, run_ids: list[str]) -> None:
    """Copy one evaluation's rows to every run."""
    with sqlite3.connect(path) as database:
        database.row_factory = sqlite3.Row
        (child,) = database.execute("SELECT run_uuid FROM tags WHERE key = ? LIMIT 1", (tags.PARENT_RUN,)).fetchone()
        row = dict(database.execute("SELECT * FROM runs WHERE run_uuid = ?", (child,)).fetchone())
        marks = [tuple(each) for each in database.execute("SELECT key, value FROM tags WHERE run_uuid = ?", (child,))]
        names, places = ", ".join(row), ", ".join("?" * len(row))
        each = EVALUATIONS // len(run_ids)
        for parent in run_ids:
            (experiment,) = database.execute("SELECT experiment_id FROM runs WHERE run_uuid = ?", (parent,)).fetchone()
            there = database.execute("SELECT count(*) FROM tags WHERE key = ? AND value = ?", (tags.PARENT_RUN, parent))
            for _ in range(0 if there.fetchone()[0] else each):
                own = {**row, "run_uuid": uuid.uuid4().hex, "experiment_id": experiment}
                database.execute(f"INSERT INTO runs ({names}) VALUES ({places})", tuple(own.values()))
                told = [(key, parent if key == tags.PARENT_RUN else value, own["run_uuid"]) for key, value in marks]
                database.executemany("INSERT INTO tags (key, value, run_uuid) VALUES (?, ?, ?)", told)


def _decisions(path: Path, kept: ScaledJob) -> None:
    """Repeat the entries of one session before themselves; its loop continues after them."""
    session = kept.session.id
    with sqlite3.connect(path, timeout=30) as database:
        rows = database.execute(
            "SELECT written, entry FROM decision WHERE session = ? ORDER BY number", (session,)
        ).fetchall()
        shift = DECISIONS - len(rows)
        for table in ("decision", "event", "checkpoint"):
            database.execute(f"UPDATE {table} SET number = number + ? WHERE session = ?", (10**7, session))
            database.execute(f"UPDATE {table} SET number = number - ? WHERE session = ?", (10**7 - shift, session))
        database.execute(
            "UPDATE event SET dictionary = dictionary + ? WHERE session = ? AND dictionary IS NOT NULL",
            (shift, session),
        )
        again = ((session, 1 + i, *rows[i % len(rows)]) for i in range(shift))
        database.executemany("INSERT INTO decision VALUES (?, ?, ?, ?)", again)
    kept.loop.state = kept.session.state = replace(kept.loop.state, number=kept.loop.state.number + shift)
    kept.session.begin(kept.loop.rules)


def _count_rows(folder: Path) -> dict[str, int]:
    with sqlite3.connect(folder / "mlflow.db") as database:
        kinds = dict(database.execute("SELECT value, count(*) FROM tags WHERE key = ? GROUP BY value", (tags.KIND,)))
    with sqlite3.connect(folder / "decisions.db") as database:
        (count,) = database.execute("SELECT count(*) FROM decision").fetchone()
    return {"runs": kinds[tags.TUNING], "evaluations": kinds[tags.EVALUATION], "decisions": count}


def _open_pages(base: str, addresses: dict[str, str]) -> dict[str, object]:
    """Open each page several times in one browser, which has the static files after the first time."""
    found = subprocess.run(["scripts/chromium.sh", "find"], capture_output=True, text=True, check=True).stdout.strip()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        results = {}
        for name, address in addresses.items():
            times = [_open_once(context.new_page(), base + address) for _ in range(REPEATS + 1)]
            results[name] = {
                "first_usable_s": times[0]["usable"],
                "first_drawn_s": times[0]["drawn"],
                "usable_s": statistics.median(each["usable"] for each in times[1:]),
                "drawn_s": statistics.median(each["drawn"] for each in times[1:]),
                "weight_bytes": times[0]["weight"],
            }
        browser.close()
    return results


def _open_once(page: Page, address: str) -> dict[str, Any]:
    weights: dict[str, int] = {}

    def weigh(got: Response) -> None:
        with suppress(PlaywrightError):  # a response after the page was closed
            if "/live/" not in got.url:
                weights[got.url] = len(got.body())

    page.on("response", weigh)
    page.goto(address, wait_until="domcontentloaded")  # the script, which is deferred, has run by then
    usable = page.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd") / 1000
    page.evaluate(_ON_SCREEN)
    drawn = page.evaluate("performance.now()") / 1000
    weight = sum(size for url, size in weights.items() if "plotly" not in url)
    page.close()
    return {"usable": round(usable, 3), "drawn": round(drawn, 3), "weight": weight}


_ON_SCREEN = """new Promise((done) => {
  const busy = () => Array.from(document.querySelectorAll("figure[aria-busy]"))
    .some((figure) => figure.getBoundingClientRect().top < innerHeight);
  const look = () => (busy() ? setTimeout(look, 20) : done(true));
  look();
})"""


async def _share(running: Server, base: str, seeded: SeededStore, seconds: float, every: float) -> dict[str, object]:
    process = psutil.Process(running.pid)
    loops = asyncio.create_task(_run_loops(seeded, every))
    try:
        without = await _cpu(process, seconds / 2)
        topics = ["overview", *(f"jobs/{job}" for job in seeded.kept)]
        heard = [0] * OPEN
        open_pages = [asyncio.create_task(_page(base, topics[i % len(topics)], heard, i)) for i in range(OPEN)]
        await asyncio.sleep(5.0)
        begun = sum(heard)
        with_pages = await _cpu(process, seconds)
        events = sum(heard) - begun
        for each in open_pages:
            each.cancel()
    finally:
        loops.cancel()
    return {
        "open_pages": OPEN,
        "events_a_second": round(events / seconds, 1),
        "silent_pages": heard.count(0),
        "share_of_a_core": round(with_pages, 4),
        "share_with_none_open": round(without, 4),
        "share_of_the_pages": round(with_pages - without, 4),
    }


async def _run_loops(seeded: SeededStore, every: float) -> None:
    while True:
        began = time.monotonic()
        for each in seeded.kept.values():
            await asyncio.to_thread(each.turn)
        await asyncio.sleep(max(0.0, every - (time.monotonic() - began)))


async def _cpu(process: psutil.Process, seconds: float) -> float:
    before, began = sum(process.cpu_times()[:2]), time.monotonic()
    await asyncio.sleep(seconds)
    return (sum(process.cpu_times()[:2]) - before) / (time.monotonic() - began)


async def _page(base: str, topic: str, heard: list[int], i: int) -> None:
    host, port = base.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=2**22)
    writer.write(f"GET /live/{topic} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
    try:
        while line := await reader.readline():
            heard[i] += line.startswith(b"event: update")
    finally:
        writer.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--every", type=float, default=EVERY, help="seconds between two observations of a job")
    given = parser.parse_args()
    print(json.dumps(figures(given.seconds, given.every), indent=2))
