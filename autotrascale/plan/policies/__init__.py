"""Policies: one protocol, one file each, found by name.

A policy looks at one snapshot and says what parallelism it wants and why. It holds (`base.hold`) when it lacks what it
needs. When to act on its answer is for `autotrascale.plan.control.manager.manager` to say.

To add one: write a class with `name` and `decide`, a `create(target, options)` beside it, and a line in `_BUILT_IN`;
or, from a package of your own, name `create` in the entry point group `autotrascale.policies`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol, cast

from autotrascale.domain.decision import Decision
from autotrascale.domain.errors import InputError
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.target import Target

ENTRY_POINTS = "autotrascale.policies"


class Policy(Protocol):
    """One that remembers earlier snapshots (Dhalion does) belongs to one job and is asked once for each window."""

    @property
    def name(self) -> str: ...

    def decide(self, snapshot: Snapshot) -> Decision: ...


Options = Mapping[str, object]
Factory = Callable[[Target | None, Options], Policy]

# name → module and the options that the name stands for. Imported on demand: numpy is not needed for `--help`.
_BUILT_IN: dict[str, tuple[str, dict[str, object]]] = {
    "autrascale": ("autotrascale.plan.policies.autrascale", {}),
    "ds2": ("autotrascale.plan.policies.ds2", {}),
    "drs-true": ("autotrascale.plan.policies.drs", {"rates": "true"}),
    "drs-observed": ("autotrascale.plan.policies.drs", {"rates": "observed"}),
    "dhalion": ("autotrascale.plan.policies.dhalion", {}),
    "threshold": ("autotrascale.plan.policies.threshold", {}),
    "queueing": ("autotrascale.plan.policies.queueing", {"scope": "function"}),
    "queueing-path": ("autotrascale.plan.policies.queueing", {"scope": "path"}),
}


def known() -> tuple[str, ...]:
    """The names that `create` takes: ours first, then those of installed packages."""
    return (*_BUILT_IN, *(point.name for point in _third_party() if point.name not in _BUILT_IN))


def create(name: str, target: Target | None = None, options: Options | None = None) -> Policy:
    """`create("ds2")`, `create("drs-true", Target(0.2))`, `create("threshold", options={"high": 500})`."""
    if name in _BUILT_IN:
        module, meant = _BUILT_IN[name]
        factory = cast(Factory, import_module(module).create)
        return factory(target, {**meant, **(options or {})})
    for point in _third_party():
        if point.name == name:
            return cast(Factory, point.load())(target, options or {})
    raise InputError("policy", "is not known", seen=name, remedy=f"use one of {', '.join(known())}")


def _third_party() -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=ENTRY_POINTS))
