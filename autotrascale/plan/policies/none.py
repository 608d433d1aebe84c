"""The policy "none": the running parallelism stays. Other policies are compared with it."""

from __future__ import annotations

from dataclasses import dataclass

from autotrascale.domain.decision import Decision, Reason
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.target import Target
from autotrascale.plan.policies.base import Options, answer, read_options


@dataclass(frozen=True)
class Static:
    """A policy that keeps the running parallelism, within its bounds."""

    name: str = "none"

    def decide(self, snapshot: Snapshot) -> Decision:
        reason = Reason("static", "No change: this policy never rescales, except to keep bounds.")
        return answer(self.name, snapshot, snapshot.parallelism, [reason])


def create(target: Target | None, options: Options) -> Static:  # noqa: ARG001 - the signature of all factories
    return read_options(Static, "none", options, name="none")
