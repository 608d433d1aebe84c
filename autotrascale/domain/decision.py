"""What a policy answers: a parallelism for every operator, and why, with numbers. Holding still needs a reason too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


Number = float | int | str | bool


@dataclass(frozen=True)
class Reason:
    """`code` is stable and for programs, `text` is for people, `numbers` are what the text is made of."""

    code: str
    text: str
    numbers: Mapping[str, Number] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return {"code": self.code, "text": self.text, **self.numbers}


@dataclass(frozen=True)
class Decision:
    """The parallelism that a policy wants. `changed` compares it with what the snapshot says is running.

    `hold`: it could not decide, as opposed to: it decided that what runs is right.
    """

    policy: str
    parallelism: Mapping[str, int]
    changed: bool
    reasons: tuple[Reason, ...]
    hold: bool = False

    @classmethod
    def between(cls, policy: str, running: Mapping[str, int], wanted: Mapping[str, int], *reasons: Reason) -> Decision:
        return cls(policy, dict(wanted), dict(wanted) != dict(running), reasons)

    def as_dict(self) -> dict[str, Any]:
        return {
            "policy": self.policy,
            "parallelism": dict(self.parallelism),
            "changed": self.changed,
            "reasons": [reason.as_dict() for reason in self.reasons],
        }
