"""Policies by name: built-in policies, and policies of installed packages.

policy = create("dhalion")
decision = policy.decide(snapshot)               # one object for each job, asked once for each window
stored = json.dumps(memory_of(policy))           # all that its next answer depends on beside the next snapshot
policy = with_memory(create("dhalion"), json.loads(stored))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from autotrascale.domain.errors import InputError
from autotrascale.domain.target import Target
from autotrascale.plan.policies.base import Options, Policy, PolicyFactory
from autotrascale.plan.policies.slot_limit import SlotLimited

ENTRY_POINTS = "autotrascale.policies"
OURS = "autrascale"  # tuning runs and the control loop know more about it than one snapshot says

# name → module, and the options that the name stands for. Imported on demand: `--help` does not need numpy.
BUILT_IN: dict[str, tuple[str, dict[str, object]]] = {
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

_TAKES_SLOTS = ("drs-true", "drs-observed")  # these policies distribute a limited number of slots themselves


def known() -> tuple[str, ...]:
    """Return the names that `create` takes: built-in names first, then names of installed packages."""
    return (*BUILT_IN, *(point.name for point in _find_entry_points() if point.name not in BUILT_IN))


def is_built_in(name: str) -> bool:
    return name in BUILT_IN


def create(name: str, target: Target | None = None, options: Options | None = None) -> Policy:
    """Return a policy: `create("drs-true", Target(0.2))`, `create("threshold", options={"scale_out": 500})`.

    Args:
        name: one of `known()`.
        target: the latency target; some policies need one.
        options: the policy's own options. Every built-in policy also takes `slots`, the maximum of slots of the job.

    Raises `InputError` for an unknown name or a wrong option.
    """
    if name in BUILT_IN:
        module, preset = BUILT_IN[name]
        factory = cast(PolicyFactory, import_module(module).create)
        given = {**preset, **(options or {})}
        slots = given.pop("slots", None)
        if slots is None:
            return factory(target, given)
        policy = factory(target, {**given, "slots": slots} if name in _TAKES_SLOTS else given)
        try:
            return SlotLimited(policy, cast(int, slots))
        except InputError as error:
            raise error.with_prefix(f"policy {policy.name}: ") from None
    for point in _find_entry_points():
        if point.name == name:
            return cast(PolicyFactory, point.load())(target, options or {})
    raise InputError("policy", "is not known", seen=name, remedy=f"use one of {', '.join(known())}")


@dataclass(frozen=True)
class PolicyChoice:
    """The name and options of a policy, as a job file and a journal hold them."""

    name: str = OURS
    options: Mapping[str, bool | int | float | str] = field(default_factory=dict)

    def create(self, target: Target | None) -> Policy:
        return create(self.name, target, self.options)

    def check(self, target: Target | None) -> None:
        """Raise `InputError` unless the policy can be created. AuTraScale's own has no options here."""
        if self.name == OURS and self.options:
            raise InputError(
                "policy_options",
                f"are for other policies than {OURS}",
                seen=", ".join(self.options),
                remedy="set alpha and over_allocation under tuning",
            )
        self.create(target)


def _find_entry_points() -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=ENTRY_POINTS))
