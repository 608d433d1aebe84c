"""Idempotency keys: which run a client's key stands for. They are in the runs' own tags, as hashes; here is a copy."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from autotrascale.domain.errors import IdempotencyKeyReusedError
from autotrascale.knowledge import tags

if TYPE_CHECKING:
    from mlflow.entities import Run


class IdempotencyKeys:
    def __init__(self) -> None:
        self._known: dict[str, tuple[str, str]] = {}  # key → what it came with, its run

    def remember(self, run: Run) -> None:
        key, _, body = run.data.tags.get(tags.KEY, "").partition(" ")
        if key:
            self._known[key] = body, run.info.run_id

    def run_of(self, key: str | None, body: str) -> str | None:
        """The id of the run that was asked for with this key; None for a new key, or none."""
        known = None if key is None else self._known.get(_hash(key))
        if known is None:
            return None
        if known[0] != _hash(body):
            raise IdempotencyKeyReusedError("Idempotency-Key: was used with another request; use a new one")
        return known[1]


def make_key_tag(key: str | None, body: str) -> str:
    return "" if key is None else f"{_hash(key)} {_hash(body)}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
