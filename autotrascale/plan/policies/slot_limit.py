"""Any policy within so many slots in all.

What it wants beyond them is cut as the manager's quota is: what each operator needs to keep up first, and a share of
the rest in proportion to what it asked for. Stages of a micro-batch, and operators of a worker, take turns on the same
slots: there no operator may have more instances than there are slots. DRS knows the limit itself (`drs`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from autotrascale.domain import checks
from autotrascale.domain.decision import Decision, Reason
from autotrascale.domain.snapshot import Snapshot
from autotrascale.plan.policies import Policy, memory_of, with_memory
from autotrascale.plan.sizing.quota import share_out
from autotrascale.plan.sizing.sizing import Sizing, count_slots, get_bounds, size


@dataclass(frozen=True)
class SlotLimited:
    """`policy`, its answers cut to `most` slots. Minima are kept whatever the limit is."""

    policy: Policy
    most: int

    def __post_init__(self) -> None:
        checks.count("slots", self.most)

    @property
    def name(self) -> str:
        return self.policy.name

    def remembered(self) -> Mapping[str, object]:
        return memory_of(self.policy)

    def remembering(self, memory: Mapping[str, object]) -> SlotLimited:
        return replace(self, policy=with_memory(self.policy, memory))

    def decide(self, snapshot: Snapshot) -> Decision:
        decision = self.policy.decide(snapshot)
        wanted = decision.parallelism
        if count_slots(snapshot.execution, wanted) <= self.most:
            return decision
        given = _cut(snapshot, wanted, self.most)
        asked = count_slots(snapshot.execution, wanted)
        reason = Reason(
            "slots",
            f"{asked} slots are wanted and there are {self.most}: cut to what there is",
            {"wanted": asked, "slots": self.most},
        )
        return replace(
            Decision.between(self.name, snapshot.parallelism, given, *decision.reasons, reason),
            hold=decision.hold and given == snapshot.parallelism,
        )


def _cut(snapshot: Snapshot, wanted: Mapping[str, int], most: int) -> dict[str, int]:
    """Within its bounds too: what a policy left alone may run beyond them."""
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
