"""The action log of executor sizes over HTTP."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from autotrascale.app.stores import open_decisions
from autotrascale.knowledge.decision_journal.journal import DecisionJournal
from autotrascale.knowledge.mlflow_store import MlflowStore
from autotrascale.plan.executor_size.size_changes import SizeChange
from autotrascale.views.executor_size_text import action_as_data
from benchmarks.workloads import seeded_sizes
from tests.web.api.clients import TestClient

NAMES = ("orders", "shop/orders of today", "ünï & co?")


@pytest.fixture(scope="module")
def done(store: MlflowStore) -> tuple[SizeChange, ...]:
    decisions: DecisionJournal | None = open_decisions(store)
    assert decisions is not None
    for name in NAMES:
        seeded_sizes.write_size_actions(decisions, name)
    decisions.close()
    return seeded_sizes.list_size_actions("orders")


def test_applications_are_listed_with_their_last_action(client: TestClient, done: tuple[SizeChange, ...]) -> None:
    found = client.get("/v1/sizes").json()["applications"]
    assert [each["application"] for each in found] == sorted(NAMES)
    assert all(each["last"] == action_as_data(done[-1]) for each in found)
    first = client.get("/v1/sizes?limit=1").json()
    rest = client.get("/v1/sizes", params={"cursor": first["next_cursor"]}).json()
    assert [*first["applications"], *rest["applications"]] == found


@pytest.mark.parametrize("name", NAMES)
def test_actions_are_listed_page_by_page(client: TestClient, done: tuple[SizeChange, ...], name: str) -> None:
    address, told, cursor = f"/v1/sizes/{quote(name, safe='')}", [], None
    while True:
        answer = client.get(address, params={"limit": 4} | ({} if cursor is None else {"cursor": cursor})).json()
        told += answer["actions"]
        if (cursor := answer["next_cursor"]) is None:
            break
    assert told == [action_as_data(each) for each in done]


@pytest.mark.usefixtures("done")
def test_an_unknown_application_is_not_found(client: TestClient) -> None:
    answer = client.get("/v1/sizes/nobody")
    assert answer.status_code == 404
    assert "application nobody" in answer.json()["detail"]
