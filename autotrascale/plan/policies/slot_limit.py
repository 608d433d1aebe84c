"""A limit on the slots that any policy may ask for.

The policy's answer is cut like a quota: first the need of each operator, then the rest in proportion to its wishes.
Stages of a micro-batch, and operators of a worker, take turns on the same slots. There the limit holds for each
operator by itself. DRS knows the limit itself (`drs`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from autotrascale.domain import checks
from autotrascale.domain.decision import Decision, Reason
from autotrascale.domain.snapshot import Snapshot
from autotrascale.plan.policies.base import Policy, memory_of, with_memory
from autotrascale.plan.sizing.quota import share_out
from autotrascale.plan.sizing.sizing import Sizing, count_slots, get_bounds, size


@dataclass(frozen=True)
class SlotLimited:
    """A policy whose answers are cut to `most` slots. The minimum of an operator is kept in any case."""

    policy: Policy
    most: int

    def __post_init__(self) -> None:
        checks.count("slots", self.most)

    @property
    def name(self) -> str:
        return self.policy.name

    def get_memory(self) -> Mapping[str, object]:
        return memory_of(self.policy)

    def with_memory(self, memory: Mapping[str, object]) -> SlotLimited:
        return replace(self, policy=with_memory(self.policy, memory))

    def decide(self, snapshot: Snapshot) -> Decision:
        decision = self.policy.decide(snapshot)
        slots = count_slots(snapshot.execution, decision.parallelism)
        if slots <= self.most:
            return decision
        given = _cut(snapshot, decision.parallelism, self.most)
        text = f"Cut to {self.most} slots: {slots} are wanted."
        reason = Reason("slots", text, {"wanted": slots, "slots": self.most})
        cut = Decision.between(self.name, snapshot.parallelism, given, *decision.reasons, reason)
        return replace(cut, hold=decision.hold and given == snapshot.parallelism)


def _cut(snapshot: Snapshot, wanted: Mapping[str, int], most: int) -> dict[str, int]:
    """Return `wanted` within `most` slots and within the job's bounds, which an unchanged operator may exceed."""
    least, upper = (dict(zip(snapshot.operators, each, strict=True)) for each in get_bounds(snapshot))
    wanted = {name: min(k, max(upper[name], least[name])) for name, k in wanted.items()}
    if snapshot.execution != "pipelined":
        return {name: max(min(k, most), least[name]) for name, k in wanted.items()}
    sized = size(snapshot)
    floor: Mapping[str, int] = sized.named_floor if isinstance(sized, Sizing) else wanted
    need = {name: max(least[name], min(k, floor[name])) for name, k in wanted.items()}
    if sum(need.values()) > most:
        return share_out(least, {name: k - least[name] for name, k in need.items()}, most)
    return share_out(need, {name: max(0, k - need[name]) for name, k in wanted.items()}, most)
