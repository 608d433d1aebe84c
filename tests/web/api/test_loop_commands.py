"""Control loops over HTTP: their state, commands to running loops, and their gauges."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from httpx import Response

from autotrascale.app.notifications import Notifier
from autotrascale.app.stores import open_decisions
from autotrascale.knowledge.decision_journal.journal import FINISHED, DecisionJournal
from autotrascale.knowledge.decision_journal.session_writer import JournalSession
from autotrascale.knowledge.decision_journal.sessions import SessionHeader
from autotrascale.knowledge.mlflow_store import MlflowStore
from autotrascale.loop import Loop, LoopCollaborators
from autotrascale.views.loop_events import LoopCondition
from autotrascale.web.api import loop_board
from autotrascale.web.api.loop_board import LoopBoard
from autotrascale.web.api.loop_metrics import collect_loop_gauges, list_loop_health
from autotrascale.web.api.server_state import ServerState
from tests.loop.scripts import RULES, START, TOPOLOGY, live
from tests.web.api.clients import TestClient

ROOT = Path(__file__).parents[3]


def opening(job: str, *, advise: bool = False) -> SessionHeader:
    bounds = dict.fromkeys(TOPOLOGY, (1, 16))
    return SessionHeader(job, "simulator", True, TOPOLOGY.fingerprint, 0.5, "mean", advise, None, bounds)


@pytest.fixture(scope="module")
def decisions(store: MlflowStore) -> Iterator[DecisionJournal]:
    opened = open_decisions(store)
    assert opened is not None
    yield opened
    opened.close()


@pytest.fixture
def kept(decisions: DecisionJournal, request: pytest.FixtureRequest) -> Iterator[tuple[str, JournalSession, Loop]]:
    """Return job, session and loop of a job that only this test uses."""
    job = request.node.name.replace("[", "-").replace("]", "")
    session = decisions.open_session(opening(job))
    loop = Loop(live(), RULES, initial=START, state=session.state, around=LoopCollaborators(journal=session))
    loop.run(300)
    yield job, session, loop
    session.end(FINISHED)


def problem(response: Response, status: int) -> str:
    assert response.status_code == status, response.text
    return str(response.json()["detail"])


def test_a_loop_is_paused_pinned_and_resumed_and_the_later_command_wins(
    client: TestClient, kept: tuple[str, JournalSession, Loop]
) -> None:
    job, _, loop = kept
    told = client.post(f"/v1/loops/{job}/pause")
    assert told.status_code == 202
    assert (told.json()["what"], told.json()["asked_by"]) == ("pause", "anonymous at testclient")
    assert client.get(f"/v1/loops/{job}").json()["waiting"][0]["number"] == told.json()["number"]
    pinned = client.post(f"/v1/loops/{job}/pin", json={"parallelism": {"work": 9}})
    assert pinned.json()["parallelism"] == {"work": 9}
    loop.run_once()
    now = client.get(f"/v1/loops/{job}").json()
    assert (now["state"], now["running"]) == ("pinned", {"source": 1, "work": 9})
    assert now["order"]["asked_by"] == "anonymous at testclient"
    assert now["waiting"] == []
    assert client.post(f"/v1/loops/{job}/resume").status_code == 202
    loop.run_once()
    assert client.get(f"/v1/loops/{job}").json()["state"] == "acting"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"parallelism": {"wrok": 3}}, "did you mean work"),
        ({"parallelism": {"work": 17}}, "parallelism.work: is outside"),
        ({"parallelism": {}}, "body.parallelism"),
        ({"parallelism": {"work": "3"}}, "body.parallelism.work"),
        ({"parallelism": {"work": 0}}, "body.parallelism.work"),
        ({"work": 3}, "body.work"),
    ],
)
def test_an_impossible_pin_is_refused(
    client: TestClient, kept: tuple[str, JournalSession, Loop], body: dict[str, Any], says: str
) -> None:
    assert says in problem(client.post(f"/v1/loops/{kept[0]}/pin", json=body), 422)
    assert client.get(f"/v1/loops/{kept[0]}").json()["waiting"] == []


def test_commands_to_unknown_and_ended_loops_are_refused(
    client: TestClient, kept: tuple[str, JournalSession, Loop]
) -> None:
    job, session, _ = kept
    assert f"did you mean {job}" in problem(client.post(f"/v1/loops/{job}x/pause"), 404)
    assert "has no control loop" in problem(client.get("/v1/loops/nobody-at-all"), 404)
    assert "by itself" in problem(client.post(f"/v1/loops/{job}/apply"), 409)
    session.end(FINISHED)
    assert "running" in problem(client.post(f"/v1/loops/{job}/pause"), 409)


def test_a_loop_that_only_advises_accepts_only_apply(client: TestClient, decisions: DecisionJournal) -> None:
    session = decisions.open_session(opening("advised", advise=True))
    assert "only advises" in problem(client.post("/v1/loops/advised/pause"), 409)
    assert client.post("/v1/loops/advised/apply").json()["what"] == "apply"
    session.end(FINISHED)


def test_ended_loops_are_listed_on_request(client: TestClient, kept: tuple[str, JournalSession, Loop]) -> None:
    job, session, _ = kept
    listed = [each["job"] for each in client.get("/v1/loops").json()["loops"]]
    assert job in listed
    assert listed == sorted(listed)
    first = client.get("/v1/loops?limit=1").json()
    if first["next_cursor"]:
        assert client.get(f"/v1/loops?limit=1&cursor={first['next_cursor']}").json()["loops"] != first["loops"]
    session.end(FINISHED)
    assert job not in [each["job"] for each in client.get("/v1/loops").json()["loops"]]
    assert job in [each["job"] for each in client.get("/v1/loops?ended=true").json()["loops"]]


# --- what Prometheus is told ------------------------------------------------------------------------------------------


@pytest.fixture
def told(client: TestClient, state: ServerState, kept: tuple[str, JournalSession, Loop]) -> str:
    assert kept
    assert client.post("/v1/runs", json={"job": "small"}).status_code == 202  # runs have figures too
    state.loops.refresh()
    return client.get("/metrics").text


def test_a_loop_has_gauges(told: str, kept: tuple[str, JournalSession, Loop], client: TestClient) -> None:
    job = kept[0]
    for line in (
        f'autotrascale_loop_up{{job="{job}"}} 1.0',
        f'autotrascale_loop_target_met{{job="{job}"}} 1.0',
        f'autotrascale_loop_parallelism{{job="{job}",operator="work"}} 3.0',
        f'autotrascale_loop_metrics_seconds_ago{{job="{job}"}} 0.0',
    ):
        assert line in told.splitlines()
    (health,) = [each for each in client.get("/healthz").json()["loops"] if each["job"] == job]
    assert (health["state"], health["target_met"], health["decided_seconds_ago"]) == ("acting", True, 0.0)


METRIC = re.compile(r"\bautotrascale_[a-z0-9_]+")


@pytest.mark.parametrize("name", ["dashboard.json", "alerts.yaml"])
def test_metrics_and_labels_in_dashboard_and_alerts_exist(told: str, name: str) -> None:
    """Check each metric and each label that the files query or show."""
    text = (ROOT / "docs" / "grafana" / name).read_text(encoding="utf-8")
    there = {line.split()[2] for line in told.splitlines() if line.startswith("# TYPE")}
    asked = {found for expr in expressions(name, text) for found in METRIC.findall(expr)}
    assert len(asked) > 5
    assert asked <= there
    labels = set(re.findall(r"[{,](\w+)=\"", told)) | {"instance"}
    assert set(re.findall(r"{{ ?(?:\$labels\.)?(\w+) ?}}", text)) <= labels
    assert set(re.findall(r"{(\w+)=~?\"", text)) | set(re.findall(r"by \((\w+)\)", text)) <= labels


def expressions(name: str, text: str) -> list[str]:
    if name.endswith(".yaml"):
        rules = [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]
        assert len({rule["alert"] for rule in rules}) == len(rules)
        assert all(rule["annotations"]["summary"] and rule["annotations"]["description"] for rule in rules)
        return [rule["expr"] for rule in rules]
    dashboard = json.loads(text)
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    variables = [each["definition"] for each in dashboard["templating"]["list"] if each["type"] == "query"]
    return variables + [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


def test_every_gauge_of_a_loop_is_documented(told: str) -> None:
    text = (ROOT / "docs" / "how-to" / "monitor.md").read_text(encoding="utf-8")
    names = {line.split()[2] for line in told.splitlines() if line.startswith("# TYPE autotrascale_loop")}
    assert names
    assert names == set(re.findall(r"`(autotrascale_loop\w+)`", text))


# --- a loop whose process died ----------------------------------------------------------------------------------------


def test_a_dead_loop_is_reported_and_notified_once(tmp_path: Path) -> None:
    journal = DecisionJournal(tmp_path / "decisions.db")
    session = journal.open_session(opening("dying"))
    Loop(live(), RULES, initial=START, around=LoopCollaborators(journal=session)).run(60)
    seen: list[LoopCondition] = []

    class Listening(Notifier):
        def observe(self, condition: LoopCondition, *, is_quiet: bool = False) -> None:
            seen.append(condition)
            super().observe(condition, is_quiet=is_quiet)

    board = LoopBoard(DecisionJournal(journal.path))
    board.notifier = Listening([])
    board.refresh()
    assert [(each.job, each.lost) for each in seen] == [("dying", False)]
    session.owner.mark_inactive()  # the process was killed
    board._notified_at = -loop_board.NOTIFY_SECONDS
    board.refresh()
    assert seen[-1].lost
    assert list_loop_health(board.list_reported()) == []
    values = {name: values for name, _, _, values in collect_loop_gauges(board.list_reported())}
    assert values["loop_up"] == {("dying",): 0.0}
    assert values["loop_rate"] == {}
    journal.close()
