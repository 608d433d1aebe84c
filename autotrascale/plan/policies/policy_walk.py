"""A walk of a policy: it is asked after each run of a job for the next run, until it ends.

    walk = PolicyWalk(create("ds2"), start)
    while (k := walk.next) is not None:
        walk.tell(run(k))

    settled    the policy wants the parallelism that runs
    repeats    it wants an earlier parallelism with the same memory as then, so it would go round for ever
    held       it holds, and its memory did not change

A policy that holds and counts the window has changed its memory. It is waiting, and is asked again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Literal

from autotrascale.domain.decision import Decision
from autotrascale.domain.snapshot import Snapshot
from autotrascale.plan.policies.base import Policy, memory_of

WalkEnd = Literal["settled", "repeats", "held"]


class PolicyWalk:
    """A walk of `policy` from `start`. `next` is the parallelism to run, None at the end."""

    def __init__(self, policy: Policy, start: Mapping[str, int]) -> None:
        self.policy = policy
        self.next: dict[str, int] | None = dict(start)
        self.ended: WalkEnd | None = None
        self.decisions: list[Decision] = []  # one for each snapshot
        self._path: list[tuple[dict[str, int], str]] = [(dict(start), self._dump_memory())]

    def tell(self, snapshot: Snapshot) -> Decision:
        """Ask the policy about the snapshot of the last run, and take its decision as the next step."""
        memory_before = self._dump_memory()
        decision = self.policy.decide(snapshot)
        self.decisions.append(decision)
        step = (dict(decision.parallelism), self._dump_memory())
        if decision.hold:
            self.ended = "held" if step[1] == memory_before else None
        elif not decision.changed:
            self.ended = "settled"
        elif step in self._path:
            self.ended = "repeats"
        self._path.append(step)
        self.next = None if self.ended else step[0]
        return decision

    @property
    def circle(self) -> list[dict[str, int]]:
        """The parallelisms of the circle in which the walk repeats; otherwise the last parallelism."""
        *path, last = self._path
        if self.ended != "repeats":
            return [last[0]]
        return [parallelism for parallelism, _ in path[path.index(last) :]]

    def _dump_memory(self) -> str:
        return json.dumps(memory_of(self.policy), sort_keys=True)
