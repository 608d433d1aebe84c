"""The pages in a real browser, with a seeded server: content, two widths and themes, accessibility, and commands."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from autotrascale.domain.snapshot import CriticalShares
from autotrascale.execute.simulator.rate_functions import ConstantRate
from autotrascale.knowledge.decision_journal.journal import FINISHED
from benchmarks.workloads import seeded_sizes
from benchmarks.workloads.seeded_store import CLICKS, CLICKS_JOB
from benchmarks.workloads.seeded_store import scale_job as keep
from tests.knowledge.told_critical import JOB, kept_critical
from tests.web.api.servers import wait_for
from tests.web.pages.conftest import HOSTILE, Opener, Server

PLOTS_OF_A_JOB = ("latency", "parallelism", "rate", "backlog", "predictions", "batch")
PLOTS_OF_A_RUN = ("history", "latencies", "instances", "choices", "predictions", "acquisition", "batch", "slice-0")


def addresses(server: Server) -> dict[str, str]:
    runs = list(server.seeded.runs.values())
    return {
        "overview": "/",
        "job": "/jobs/clicks",
        "runs": "/runs",
        "run": f"/runs/{server.run}",
        "models": "/models",
        "model": "/models/wordcount/1",
        "compare": f"/compare?run={runs[0]}&run={runs[1]}",
        "nowhere": "/jobs/nobody",
        "sizes": "/sizes",
        "application": "/sizes/clicks",
    }


def settle(page: Page) -> None:
    """Wait until every plot is drawn or shows why it is not."""
    expect(page.locator("#live")).not_to_have_text("offline, retrying")
    for figure in page.locator("figure").all():
        figure.scroll_into_view_if_needed()
        expect(figure).not_to_have_attribute("aria-busy", "true")
        expect(figure.locator(".main-svg, p").first).to_be_attached()
    page.evaluate("window.scrollTo(0, 0)")


def test_the_overview_shows_the_state_of_each_job(server: Server, open_tab: Opener) -> None:
    page = open_tab().open("/")
    for job in server.seeded.kept:
        row = page.locator(".loops tbody", has=page.get_by_role("link", name=job, exact=True))
        for said in ("records/s", "target", "saved", "Why", "Next", "ago", "simulated"):
            expect(row).to_contain_text(said)
    clicks = page.locator(".loops tbody", has=page.get_by_role("link", name="clicks", exact=True))
    expect(clicks).to_contain_text(re.compile(r"executors? of 2 cores and 4g, [\d.]+ \$/h"))
    expect(clicks).to_contain_text(re.compile(r"executor-hours instead of .* \$"))
    expect(page.locator("#runs tbody tr")).to_have_count(len(server.seeded.runs))
    expect(page.locator("#files")).to_contain_text("small")
    expect(page.locator("#health")).to_contain_text("The server is healthy")


def test_a_job_page_shows_history_and_reasons(open_tab: Opener) -> None:
    page = open_tab().open("/jobs/clicks")
    settle(page)
    for name in PLOTS_OF_A_JOB:
        figure = page.locator(f"#plot-{name}")
        expect(figure.locator("figcaption")).not_to_be_empty()
        expect(figure.locator(".main-svg").first).to_be_visible()
    expect(page.locator("#operators")).to_contain_text("clicks")
    expect(page.locator("#decisions tbody tr").nth(1)).to_contain_text("rescale")
    marked = page.evaluate("document.querySelector('#plot-parallelism .plot').data.at(-1).text")
    assert marked
    assert all(said.startswith("resc") and ": " in said for said in marked)
    assert "executor" in page.locator("#status").inner_text()


def test_a_job_page_shows_critical_path_shares(server: Server, open_tab: Opener) -> None:
    """A job with critical paths shows them; a simulated job says that it has none."""
    told = [CriticalShares(driver=0.2, commits=0.1), None, CriticalShares(driver=0.6, straggler=0.1, operator="count")]
    made = kept_critical(server.seeded.kept["clicks"].session.decisions, told)
    try:
        server.state.loops.refresh()
        page = open_tab().open(f"/jobs/{JOB.name}")
        settle(page)
        shown = page.locator("#plot-critical")
        expect(shown.locator(".main-svg").first).to_be_visible()
        expect(shown.locator("figcaption")).to_contain_text("70% of a batch's critical path")
        drawn = page.evaluate("document.querySelector('#plot-critical .plot').data.map((each) => each.y.length)")
        assert drawn == [2] * 5
    finally:
        made.end(FINISHED)
    page = open_tab().open("/jobs/clicks")
    settle(page)
    expect(page.locator("#plot-critical")).to_contain_text("no critical paths")


def test_a_run_page_shows_trials_and_reasons(server: Server, open_tab: Opener) -> None:
    page = open_tab().open(f"/runs/{server.run}")
    settle(page)
    for name in PLOTS_OF_A_RUN:
        figure = page.locator(f"#plot-{name}")
        drawn = figure.locator(".main-svg").count() > 0
        expect(figure.locator("figcaption" if drawn else ".plot p")).not_to_be_empty()
    expect(page.locator(".verdict")).to_contain_text("wordcount (simulated) holds")
    expect(page.locator("#run_why tbody tr")).to_have_count(4)
    count = server.state.index.get(server.run)
    assert count is not None
    expect(page.locator("#evaluations tbody tr")).to_have_count(count.evaluations)
    history = page.evaluate("document.querySelector('#plot-history .plot').data.at(-1).name")
    assert history.startswith("stop threshold")


def test_chosen_runs_are_compared(open_tab: Opener) -> None:
    page = open_tab().open("/runs")
    boxes = page.get_by_role("checkbox")
    for i in range(2):
        boxes.nth(i).check()
    page.get_by_role("button", name="Compare the chosen runs").click()
    expect(page.get_by_role("heading", name="Runs side by side")).to_be_visible()
    expect(page.locator("main tbody tr")).to_have_count(2)
    settle(page)
    expect(page.locator("#plot-tried .main-svg").first).to_be_visible()


def test_size_changes_are_shown_with_reasons(open_tab: Opener) -> None:
    page = open_tab().open("/sizes")
    expect(page.locator("tbody tr")).to_contain_text("executors of 2 cores")
    page.get_by_role("link", name="clicks").click()
    done = page.locator("tbody tr")
    expect(done).to_have_count(len(seeded_sizes.list_size_actions("clicks")))
    for said in ("heap 6,000 → 1,638", "25%"):
        expect(done.filter(has_text=said).first).to_be_visible()


def test_the_api_page_needs_no_other_host(open_tab: Opener) -> None:
    page = open_tab().open("/docs")
    expect(page.locator(".opblock-summary-path").first).to_be_visible()
    assert page.locator(".opblock").count() >= 17


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 390)])
def test_every_page_fits_the_screen_and_is_accessible(server: Server, open_tab: Opener, theme: str, width: int) -> None:
    """axe-core finds no violation, contrast included, and no page is wider than the screen."""
    tab = open_tab(width, theme)
    for name, address in addresses(server).items():
        page = tab.open(address)
        if name != "nowhere":
            settle(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        found = Axe().run(page).response["violations"]
        wrong = [(each["id"], node["html"][:200]) for each in found for node in each["nodes"]]
        assert not wrong, name
    tab.complaints[:] = [each for each in tab.complaints if "404" not in each]  # of the page that is not there


def test_a_theme_reaches_the_plots(open_tab: Opener) -> None:
    tab = open_tab()
    page = tab.open("/jobs/clicks")
    settle(page)
    line = "document.querySelector('#plot-latency .plot').data[0].line.color"
    light = page.evaluate(line)
    page.emulate_media(color_scheme="dark")
    wait_for(lambda: page.evaluate(line) != light)


def test_times_are_in_the_readers_time_zone(server: Server, open_tab: Opener) -> None:
    began = []
    for zone in ("Europe/Berlin", "Asia/Tokyo"):
        page = open_tab(zone=zone).open(f"/runs/{server.run}")
        said = page.locator("#run_status time").first
        expect(said).not_to_contain_text("UTC")
        began.append(said.inner_text())
    assert began[0] != began[1]


def test_pages_work_with_the_keyboard_alone(open_tab: Opener) -> None:
    page = open_tab().open("/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    button = page.get_by_role("button", name="Tune").first
    button.focus()
    page.keyboard.press("Enter")
    asks = page.locator("dialog[open]")
    expect(asks).to_contain_text("Tune small")
    page.keyboard.press("Escape")
    expect(asks).to_have_count(0)
    expect(button).to_be_focused()


def test_markup_from_the_store_is_shown_as_text(server: Server, open_tab: Opener, configs: Path) -> None:
    """Markup in names of jobs, in reasons and in errors of files is escaped."""
    assert (configs / "broken.yaml").exists()
    decisions = server.seeded.kept["clicks"].session.decisions
    hostile = replace(CLICKS, name=HOSTILE)
    made = keep(decisions, hostile, CLICKS_JOB, ConstantRate(5000.0), 0.2)
    try:
        server.state.loops.refresh()
        tab = open_tab()
        page = tab.open("/")
        link = page.get_by_role("link", name=HOSTILE, exact=True)
        expect(link).to_be_visible()
        link.click()
        expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE)
        settle(page)
        assert page.locator("img").count() == 0
        assert "49" not in page.locator("h1").inner_text()
    finally:
        made.end()


def test_a_page_weighs_little(server: Server) -> None:
    """The limit counts all loaded files, uncompressed, without Plotly's script."""
    for address in ("/", "/jobs/clicks", "/jobs/stalled-wordcount", f"/runs/{server.run}"):
        text = httpx.get(server.base + address).text
        loaded = re.findall(r'(?:src|href)="(/static/[^"]+)"', text) + re.findall(r'data-plots="([^"]+)"', text)[:1]
        assert len(loaded) >= 3
        weights = {each: len(httpx.get(server.base + each).content) for each in loaded if "plotly" not in each}
        assert len(text) + sum(weights.values()) <= 150_000, (address, weights)


WATCH = """
window.stays = true;
window.moved = 0;
new PerformanceObserver((seen) => { for (const each of seen.getEntries()) window.moved += each.value; })
    .observe({ type: "layout-shift" });
"""

# --- live -------------------------------------------------------------------------------------------------------------


def test_decisions_appear_without_a_reload_and_without_layout_shifts(server: Server, open_tab: Opener) -> None:
    overview, job = open_tab().open("/"), open_tab().open("/jobs/wordcount")
    settle(job)
    for page in (overview, job):
        expect(page.locator("#live")).to_have_text("live")
        page.evaluate(WATCH)
    drawn = "document.querySelector('#plot-rate .plot').data[0].x.length"
    before, last = job.evaluate(drawn), job.locator("#decisions tbody time").first.inner_text()
    server.seeded.kept["wordcount"].turn(2)
    wait_for(lambda: job.evaluate(drawn) >= before + 2)
    expect(job.locator("#decisions tbody time").first).not_to_have_text(last)
    row = overview.locator(".loops tbody", has=overview.get_by_role("link", name="wordcount", exact=True))
    expect(row.locator("time").last).to_have_text(re.compile(r"^[0-9] s ago"))
    for page in (overview, job):
        assert page.evaluate("window.stays") is True
        assert page.evaluate("window.moved") < 0.05


def test_a_requested_run_appears_at_once(server: Server, open_tab: Opener) -> None:
    page = open_tab().open("/")
    expect(page.locator("#live")).to_have_text("live")
    asked = httpx.post(f"{server.base}/v1/runs", json={"job": "small", "seed": 3}).json()["run_id"]
    expect(page.locator("#runs")).to_contain_text(asked[:6])
    assert httpx.post(f"{server.base}/v1/runs/{asked}/cancel").status_code == 202
    expect(page.locator("#runs tr", has_text=asked[:6])).to_contain_text("interrupted")


# --- every action -----------------------------------------------------------------------------------------------------


def press(page: Page, name: str, sure: bool = True) -> None:
    page.get_by_role("button", name=name, exact=True).first.click()
    asks = page.locator("dialog[open]")
    expect(asks).to_be_visible()
    asks.get_by_role("button", name=name if sure else "Cancel", exact=True).click()


def test_buttons_tune_end_and_resume_a_run_after_one_question(server: Server, open_tab: Opener) -> None:
    page = open_tab().open("/")
    count = len(server.state.index)
    press(page, "Tune", sure=False)
    expect(page.locator("dialog[open]")).to_have_count(0)
    assert len(server.state.index) == count
    press(page, "Tune")
    page.wait_for_url("**/runs/*")
    run_id = page.url.rpartition("/")[2]
    expect(page.locator("#run_status")).to_contain_text("queued")
    expect(page.locator("#plot-history")).to_contain_text("No trial is finished yet")
    press(page, "End the run")
    expect(page.locator("#run_status")).to_contain_text("interrupted")
    press(page, "Resume")
    expect(page.locator("#run_status")).to_contain_text("queued")
    found = server.state.index.get(run_id)
    assert found is not None
    assert found.state == "queued"
    server.state.queue.cancel(run_id)


def test_a_refusal_is_shown_in_its_dialog(server: Server, open_tab: Opener) -> None:
    asked = httpx.post(f"{server.base}/v1/runs", json={"job": "small", "seed": 4}).json()["run_id"]
    tab = open_tab()
    page = tab.open(f"/runs/{asked}")
    page.get_by_role("button", name="End the run").click()
    httpx.post(f"{server.base}/v1/runs/{asked}/cancel")
    page.locator("dialog[open]").get_by_role("button", name="End the run").click()
    expect(page.get_by_role("alert")).not_to_be_empty()
    expect(page.get_by_role("alert")).to_contain_text(asked)
    tab.complaints[:] = [each for each in tab.complaints if "409" not in each]


def test_a_model_is_deprecated_and_restored(open_tab: Opener) -> None:
    page = open_tab().open("/models/wordcount/1")
    page.get_by_role("button", name="Deprecate …").click()
    page.get_by_label("Why").fill("of an older cluster")
    page.locator("dialog[open]").get_by_role("button", name="Deprecate …").click()
    expect(page.locator(".notice")).to_contain_text("of an older cluster")
    press(page, "Use it again")
    expect(page.locator(".notice")).to_have_count(0)


def test_a_running_loop_takes_commands_from_its_page(open_tab: Opener) -> None:
    page = open_tab().open("/jobs/wordcount")
    for name in ("Pause", "Apply the recommendation", "Pin …", "Resume"):
        with page.expect_response("**/v1/loops/wordcount/*") as answered:
            press(page, name)
        assert answered.value.status == 202
        expect(page.locator("#asked")).to_contain_text(f"Sent: {name}")
    advised = open_tab().open("/jobs/stalled-wordcount")
    expect(advised.get_by_role("button", name="Apply the recommendation")).to_have_count(1)
    expect(advised.get_by_role("button", name="Pause")).to_have_count(0)
