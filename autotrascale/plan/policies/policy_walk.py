"""A policy asked after each run of a job: what to run next, and when it is done.

    walk = Walk(create("ds2"), start)
    while (k := walk.next) is not None:
        walk.tell(run(k))

It ends where the policy wants what runs (`settled`), where it wants what it wanted before, knowing what it knew then
(`repeats`: from here on it would go round for ever), or where it cannot decide (`held`). A policy that waits holds, and
has counted the look: its memory has moved on, and it is asked again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Literal

from autotrascale.domain.decision import Decision
from autotrascale.domain.snapshot import Snapshot
from autotrascale.plan.policies import Policy, memory_of

WalkEnd = Literal["settled", "repeats", "held"]


class PolicyWalk:
    """`next` is what to run, None at the end; `decisions` are the policy's answers, one for each snapshot."""

    def __init__(self, policy: Policy, start: Mapping[str, int]) -> None:
        self.policy = policy
        self.next: dict[str, int] | None = dict(start)
        self.ended: WalkEnd | None = None
        self.decisions: list[Decision] = []
        self._path: list[tuple[dict[str, int], str]] = [(dict(start), self._known())]

    def tell(self, snapshot: Snapshot) -> Decision:
        before = self._known()
        decision = self.policy.decide(snapshot)
        self.decisions.append(decision)
        here = (dict(decision.parallelism), self._known())
        if decision.hold:
            self.ended = "held" if here[1] == before else None
        elif not decision.changed:
            self.ended = "settled"
        elif here in self._path:
            self.ended = "repeats"
        self._path.append(here)
        self.next = None if self.ended else here[0]
        return decision

    @property
    def circle(self) -> list[dict[str, int]]:
        """What it goes round through, where it repeats; else where it stands."""
        *path, last = self._path
        first = path.index(last) if self.ended == "repeats" else len(path) - 1
        return [parallelism for parallelism, _ in path[first:]] if self.ended == "repeats" else [last[0]]

    def _known(self) -> str:
        return json.dumps(memory_of(self.policy), sort_keys=True)
