"""Who asked for what, kept with the run that it was about: one tag, the first that asked and then the latest.

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

RequestNote = tuple[str, str, str]  # when, who, what for

MAX_REQUESTS = 20
_LONGEST = 120  # characters of a name


def current_user() -> str:
    """Of this process: at a command line nobody shows a token."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):  # a number without an entry
        name = str(os.getuid())
    return f"{name}@{socket.gethostname()}"


def append_request(who: str, what: str, before: str = "") -> str:
    at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    first, *latest = [*read_requests({tags.ASKED: before}), (at, who[:_LONGEST], what[:_LONGEST])]
    return json.dumps([first, *latest[1 - MAX_REQUESTS :]], ensure_ascii=False)


def read_requests(run_tags: dict[str, str]) -> list[RequestNote]:
    """None of it where the tag is missing, or nothing that was written here."""
    try:
        return [(str(at), str(who), str(what)) for at, who, what in json.loads(run_tags.get(tags.ASKED) or "[]")]
    except (ValueError, TypeError):
        return []


def record_request(store: MlflowStore, run_id: str, who: str, what: str) -> None:
    """After what was asked for is done: a store that goes away in between has the deed without the name."""
    try:
        run: Run = store.call(store.client.get_run, run_id)
        store.call(
            store.client.set_tag, run_id, tags.ASKED, append_request(who, what, run.data.tags.get(tags.ASKED, ""))
        )
    except RunStoreError:
        pass
