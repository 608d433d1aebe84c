"""Messages as lines of text: one JSON object each, with the name of its class, validated when it is read."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, Generic, TypeVar

from autotrascale import validation
from autotrascale.domain.errors import InputError

M = TypeVar("M")


class Codec(Generic[M]):
    """The encoder and decoder of a set of message classes (dataclasses)."""

    def __init__(self, kinds: Iterable[type[M]]) -> None:
        self._kinds = {kind.__name__: kind for kind in kinds}

    def encode(self, message: M) -> bytes:
        """Return the message as one line."""
        fields: dict[str, Any] = asdict(message)  # type: ignore[call-overload]
        return json.dumps({"kind": type(message).__name__, **fields}).encode() + b"\n"

    def decode(self, line: bytes) -> M:
        """Return the message in a line. Raise `InputError` for anything else."""
        try:
            data = json.loads(line)
        except ValueError:
            raise InputError("channel", "got a line that is not JSON", seen=line[:60]) from None
        kind = self._kinds.get(data.pop("kind", "")) if isinstance(data, dict) else None
        if kind is None:
            raise InputError("channel", "got a message of an unknown kind", seen=line[:60])
        return validation.validate(data, kind, place=f"channel: {kind.__name__}")
