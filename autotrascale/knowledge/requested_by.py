"""The users who requested something of a run, in one tag of the run: the first request and the latest ones.

[["2026-11-19T03:10:05Z", "alice from 10.0.0.7", "start"], ["2026-11-19T03:12:44Z", "root@tuner", "cancel"]]
"""

from __future__ import annotations

import getpass
import json
import os
import socket
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from autotrascale.domain.errors import RunStoreError
from autotrascale.knowledge import tags
from autotrascale.knowledge.mlflow_store import MlflowStore

if TYPE_CHECKING:
    from mlflow.entities import Run

RequestNote = tuple[str, str, str]  # time, user, request

MAX_REQUESTS = 20
_MAX_NAME_LENGTH = 120  # characters


def current_user() -> str:
    """Return the user of this process and the machine, as a command line has no token to identify the user by."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):  # a user id without an entry in the user database
        name = str(os.getuid())
    return f"{name}@{socket.gethostname()}"


def append_request(who: str, what: str, before: str = "") -> str:
    """Return the value of the tag after one more request. `before` is its present value."""
    at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    request = (at, who[:_MAX_NAME_LENGTH], what[:_MAX_NAME_LENGTH])
    first, *latest = [*read_requests({tags.ASKED: before}), request]
    return json.dumps([first, *latest[1 - MAX_REQUESTS :]], ensure_ascii=False)


def read_requests(run_tags: dict[str, str]) -> list[RequestNote]:
    """Return the requests in a run's tags. A missing or damaged tag counts as none."""
    try:
        return [(str(at), str(who), str(what)) for at, who, what in json.loads(run_tags.get(tags.ASKED) or "[]")]
    except (ValueError, TypeError):
        return []


def record_request(store: MlflowStore, run_id: str, who: str, what: str) -> None:
    """Add a request to a run, after it was carried out. A store that fails here loses the note and nothing else."""
    try:
        run: Run = store.call(store.client.get_run, run_id)
        value = append_request(who, what, run.data.tags.get(tags.ASKED, ""))
        store.call(store.client.set_tag, run_id, tags.ASKED, value)
    except RunStoreError:
        pass
