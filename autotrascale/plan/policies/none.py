"""None: what runs stays. What others are compared with, and the answer to "what if nobody did anything"."""

from __future__ import annotations

from dataclasses import dataclass

from autotrascale.domain.decision import Decision, Reason
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.target import Target
from autotrascale.plan.policies import Options
from autotrascale.plan.policies.base import answer, read_options


@dataclass(frozen=True)
class Static:
    name: str = "none"

    def decide(self, snapshot: Snapshot) -> Decision:
        reason = Reason("static", "nothing is decided: what runs stays, within its bounds")
        return answer(self.name, snapshot, snapshot.parallelism, [reason])


def create(target: Target | None, options: Options) -> Static:  # noqa: ARG001 - every policy is created alike
    return read_options(Static, "none", options, name="none")
