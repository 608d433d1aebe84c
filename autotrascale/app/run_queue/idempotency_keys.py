"""Idempotency keys of clients and their runs. Tags of the runs hold them as hashes; memory holds a copy."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from autotrascale.domain.errors import IdempotencyKeyReusedError
from autotrascale.knowledge import tags

if TYPE_CHECKING:
    from mlflow.entities import Run


class IdempotencyKeys:
    """The known keys."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, str]] = {}  # hash of key → hash of body, id of run

    def remember(self, run: Run) -> None:
        """Add the key in the tags of a run, if it has one."""
        key, _, body = run.data.tags.get(tags.KEY, "").partition(" ")
        if key:
            self._known[key] = body, run.info.run_id

    def find_run(self, key: str | None, body: str) -> str | None:
        """Return the id of the run that was requested with this key, or None.

        Raises:
            IdempotencyKeyReusedError: the key came with another body.
        """
        known = None if key is None else self._known.get(_hash(key))
        if known is None:
            return None
        if known[0] != _hash(body):
            raise IdempotencyKeyReusedError("Idempotency-Key: was used for another request; use a new key")
        return known[1]


def make_key_tag(key: str | None, body: str) -> str:
    """Return the tag of a run for a key and the request's body, or ""."""
    return "" if key is None else f"{_hash(key)} {_hash(body)}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
