"""Decisions of policies: a parallelism for every operator, with reasons and their numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Number = float | int | str | bool


@dataclass(frozen=True)
class Reason:
    """One reason of a decision. Programs read the stable `code`, people read `text`, which is made of `numbers`."""

    code: str
    text: str
    numbers: Mapping[str, Number] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return code, text and numbers in one flat dictionary, for JSON."""
        return {"code": self.code, "text": self.text, **self.numbers}


@dataclass(frozen=True)
class Decision:
    """The parallelism that a policy wants, and its reasons; a decision to hold has reasons too.

    Args:
        policy: name of the policy.
        parallelism: wanted instances by operator.
        changed: True when `parallelism` differs from the parallelism of the snapshot.
        reasons: the reasons, most important first.
        hold: True when the policy could not decide, as opposed to deciding that nothing needs to change.
    """

    policy: str
    parallelism: Mapping[str, int]
    changed: bool
    reasons: tuple[Reason, ...]
    hold: bool = False

    @classmethod
    def between(cls, policy: str, running: Mapping[str, int], wanted: Mapping[str, int], *reasons: Reason) -> Decision:
        """Return the decision to go from `running` to `wanted`."""
        return cls(policy, dict(wanted), dict(wanted) != dict(running), reasons)

    def as_dict(self) -> dict[str, Any]:
        """Return the decision for JSON, as `autotrascale decide` prints it."""
        return {
            "policy": self.policy,
            "parallelism": dict(self.parallelism),
            "changed": self.changed,
            "reasons": [reason.as_dict() for reason in self.reasons],
        }
