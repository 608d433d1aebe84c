"""Policies: one protocol, one file each, found by name.

A policy looks at one snapshot and says what parallelism it wants and why. It holds (`base.hold`) when it lacks what it
needs. When to act on its answer is for `autotrascale.plan.control.manager.scaling_manager` to say.

    policy = create("dhalion")
    decision = policy.decide(snapshot)            # one object belongs to one job, and is asked once for each window
    kept = json.dumps(memory_of(policy))          # all that its next answer depends on, beside the next snapshot
    policy = with_memory(create("dhalion"), json.loads(kept))    # the same policy, in another process

To add one: write a class with `name` and `decide`, a `create(target, options)` beside it, and a line in `_BUILT_IN`;
or, from a package of your own, name `create` in the entry point group `autotrascale.policies`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Protocol, cast, runtime_checkable

from autotrascale.domain.decision import Decision
from autotrascale.domain.errors import InputError
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.target import Target

ENTRY_POINTS = "autotrascale.policies"
OURS = "autrascale"  # which tuning runs and the control loop know more of than one snapshot says


class Policy(Protocol):
    """One that remembers earlier snapshots (Dhalion does) belongs to one job and is asked once for each window."""

    @property
    def name(self) -> str: ...

    def decide(self, snapshot: Snapshot) -> Decision: ...


@runtime_checkable
class Remembering(Policy, Protocol):
    """A policy whose answers depend on earlier snapshots. What it remembers is plain data, as JSON has it."""

    def remembered(self) -> Mapping[str, object]: ...

    def remembering(self, memory: Mapping[str, object]) -> Policy:
        """The same policy after the snapshots that `memory` was made of; this one stays as it is."""
        ...


Options = Mapping[str, object]
Factory = Callable[[Target | None, Options], Policy]

# name → module and the options that the name stands for. Imported on demand: numpy is not needed for `--help`.
_BUILT_IN: dict[str, tuple[str, dict[str, object]]] = {
    OURS: ("autotrascale.plan.policies.autrascale", {}),
    "ds2": ("autotrascale.plan.policies.ds2", {}),
    "drs-true": ("autotrascale.plan.policies.drs", {"rates": "true"}),
    "drs-observed": ("autotrascale.plan.policies.drs", {"rates": "observed"}),
    "dhalion": ("autotrascale.plan.policies.dhalion", {}),
    "threshold": ("autotrascale.plan.policies.threshold", {}),
    "queueing": ("autotrascale.plan.policies.queueing", {"scope": "function"}),
    "queueing-path": ("autotrascale.plan.policies.queueing", {"scope": "path"}),
    "none": ("autotrascale.plan.policies.none", {}),
}

_KNOW_SLOTS = ("drs-true", "drs-observed")  # and spend them in their own way


def known() -> tuple[str, ...]:
    """The names that `create` takes: ours first, then those of installed packages."""
    return (*_BUILT_IN, *(point.name for point in _third_party() if point.name not in _BUILT_IN))


def is_built_in(name: str) -> bool:
    return name in _BUILT_IN


def create(name: str, target: Target | None = None, options: Options | None = None) -> Policy:
    """`create("ds2")`, `create("drs-true", Target(0.2))`, `create("threshold", options={"scale_out": 500})`. Every one
    of ours takes `slots`, the most that the job may take in all."""
    if name in _BUILT_IN:
        module, meant = _BUILT_IN[name]
        factory = cast(Factory, import_module(module).create)
        given = {**meant, **(options or {})}
        most = given.pop("slots", None)
        if most is None:
            return factory(target, given)
        return _within(factory(target, {**given, "slots": most} if name in _KNOW_SLOTS else given), most)
    for point in _third_party():
        if point.name == name:
            return cast(Factory, point.load())(target, options or {})
    raise InputError("policy", "is not known", seen=name, remedy=f"use one of {', '.join(known())}")


@dataclass(frozen=True)
class PolicyChoice:
    """Who is to decide, and with which options: as a job file and a journal have it."""

    name: str = OURS
    options: Mapping[str, bool | int | float | str] = field(default_factory=dict)

    def create(self, target: Target | None) -> Policy:
        return create(self.name, target, self.options)

    def check(self, target: Target | None) -> None:
        """Ours is told by its own settings, wherever it is more than one look at a snapshot."""
        if self.name == OURS and self.options:
            raise InputError(
                "policy_options",
                f"are for other policies than {OURS}",
                seen=", ".join(self.options),
                remedy="set alpha and over_allocation under tuning",
            )
        self.create(target)


def memory_of(policy: Policy) -> dict[str, Any]:
    """Nothing, of a policy that looks at one snapshot alone."""
    return dict(policy.remembered()) if isinstance(policy, Remembering) else {}


def with_memory(policy: Policy, memory: Mapping[str, Any]) -> Policy:
    """`policy` itself is not touched, where it is one that remembers. No memory: nothing was seen yet."""
    return policy.remembering(memory) if isinstance(policy, Remembering) else policy


def _within(policy: Policy, most: object) -> Policy:
    from autotrascale.plan.policies.slot_limit import SlotLimited  # which needs what is above

    try:
        return SlotLimited(policy, cast(int, most))
    except InputError as error:
        raise error.under(f"policy {policy.name}: ") from None


def _third_party() -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=ENTRY_POINTS))
