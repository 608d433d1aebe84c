"""The action log of executor sizes over HTTP."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from autotrascale.knowledge.decisions.journal import Decisions
from autotrascale.knowledge.store import Store
from autotrascale.plan.executor_size.actions import Action
from autotrascale.service.keeping import decisions_beside
from autotrascale.testing import seeded_sizes
from autotrascale.views.sizes import action_as_data
from tests.api.clients import TestClient

NAMES = ("orders", "shop/orders of today", "ünï & co?")


@pytest.fixture(scope="module")
def done(store: Store) -> tuple[Action, ...]:
    decisions: Decisions | None = decisions_beside(store)
    assert decisions is not None
    for name in NAMES:
        seeded_sizes.size(decisions, name)
    decisions.close()
    return seeded_sizes.done_to("orders")


def test_applications_are_listed_with_what_was_done_last(client: TestClient, done: tuple[Action, ...]) -> None:
    found = client.get("/v1/sizes").json()["applications"]
    assert [each["application"] for each in found] == sorted(NAMES)
    assert all(each["last"] == action_as_data(done[-1]) for each in found)
    first = client.get("/v1/sizes?limit=1").json()
    rest = client.get("/v1/sizes", params={"cursor": first["next_cursor"]}).json()
    assert [*first["applications"], *rest["applications"]] == found


@pytest.mark.parametrize("name", NAMES)
def test_every_action_is_told_page_after_page(client: TestClient, done: tuple[Action, ...], name: str) -> None:
    address, told, cursor = f"/v1/sizes/{quote(name, safe='')}", [], None
    while True:
        answer = client.get(address, params={"limit": 4} | ({} if cursor is None else {"cursor": cursor})).json()
        told += answer["actions"]
        if (cursor := answer["next_cursor"]) is None:
            break
    assert told == [action_as_data(each) for each in done]


@pytest.mark.usefixtures("done")
def test_one_that_nobody_knows_is_not_found(client: TestClient) -> None:
    answer = client.get("/v1/sizes/nobody")
    assert answer.status_code == 404
    assert "called nobody" in answer.json()["detail"]
