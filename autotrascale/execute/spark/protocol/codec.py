"""Messages as lines: one JSON object each, with the name of its kind, and read with care."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, Generic, TypeVar

from autotrascale import validation
from autotrascale.domain.errors import InputError

M = TypeVar("M")


class Codec(Generic[M]):
    """Of the dataclasses that two sides may say to each other."""

    def __init__(self, kinds: Iterable[type[M]]) -> None:
        self._kinds = {kind.__name__: kind for kind in kinds}

    def encode(self, message: M) -> bytes:
        fields: dict[str, Any] = asdict(message)  # type: ignore[call-overload]
        return json.dumps({"kind": type(message).__name__, **fields}).encode() + b"\n"

    def decode(self, line: bytes) -> M:
        """A line as the message it is; anything else is refused."""
        try:
            data = json.loads(line)
        except ValueError:
            raise InputError("channel", "carries something that is not JSON", seen=line[:60]) from None
        kind = self._kinds.get(data.pop("kind", "")) if isinstance(data, dict) else None
        if kind is None:
            raise InputError("channel", "carries a message of no known kind", seen=line[:60])
        return validation.validate(data, kind, place=f"channel: {kind.__name__}")
