"""The protocol of a policy, and the functions that policies share: hold, answer within bounds, read options.

To add a policy, write a class with `name` and `decide`, a function `create(target, options)` beside it, and a line in
`registry.BUILT_IN`. A package of its own names its `create` in the entry point group `autotrascale.policies` instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from autotrascale.domain.decision import Decision, Reason
from autotrascale.domain.errors import InputError
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.target import Target
from autotrascale.plan.policies.reasons import explain_no_scale_down
from autotrascale.plan.sizing.sizing import Sizing, Unsized, get_bounds

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    T = TypeVar("T", bound=DataclassInstance)


class Policy(Protocol):
    """A rule that answers one snapshot with a parallelism and reasons. It holds if it lacks a measurement.

    `manager.scaling_manager` decides when to act on the answer. A policy that remembers earlier snapshots belongs to
    one job and is asked once for each window.
    """

    @property
    def name(self) -> str: ...

    def decide(self, snapshot: Snapshot) -> Decision: ...


@runtime_checkable
class RememberingPolicy(Policy, Protocol):
    """A policy whose answers depend on earlier snapshots. Its memory is plain data that JSON can hold."""

    def get_memory(self) -> Mapping[str, object]: ...

    def with_memory(self, memory: Mapping[str, object]) -> Policy:
        """Return the same policy with `memory`. This object does not change."""
        ...


Options = Mapping[str, object]
PolicyFactory = Callable[[Target | None, Options], Policy]


def memory_of(policy: Policy) -> dict[str, Any]:
    """Return the policy's memory; empty if it decides by one snapshot alone."""
    return dict(policy.get_memory()) if isinstance(policy, RememberingPolicy) else {}


def with_memory(policy: Policy, memory: Mapping[str, Any]) -> Policy:
    """Return the policy with `memory`, without changing `policy`. An empty memory: nothing was seen yet."""
    return policy.with_memory(memory) if isinstance(policy, RememberingPolicy) else policy


def hold(policy: str, snapshot: Snapshot, reasons: Iterable[Reason]) -> Decision:
    """Return a decision that changes nothing because none was possible. Its reason codes start with `hold`."""
    return Decision(policy, snapshot.parallelism, changed=False, reasons=tuple(reasons), hold=True)


def hold_for_gaps(policy: str, snapshot: Snapshot, unsized: Unsized) -> Decision:
    """Return a hold with a reason for each missing measurement."""
    reasons = [
        Reason("hold-unknown-rate", f"On hold: {gap}.", {"operator": gap.operator, "missing": gap.missing})
        for gap in unsized.gaps
    ]
    return hold(policy, snapshot, reasons)


def answer(
    policy: str,
    snapshot: Snapshot,
    wanted: Mapping[str, int],
    reasons: Sequence[Reason],
    sized: Sizing | None = None,
    unmeasured: Sequence[str] = (),
) -> Decision:
    """Return a decision for `wanted` within the job's bounds.

    With shared execution every worker runs all operators, so the largest number counts for all. If a measurement is
    missing, the decision may only scale up; if it would not change anything, it holds.

    Args:
        policy: the policy's name.
        snapshot: the measurements.
        wanted: the instances that the policy wants for each operator.
        reasons: its reasons.
        sized: the sizing behind the answer, which knows missing parts of the time that operators share.
        unmeasured: further fields that the policy's prediction lacks.
    """
    unmeasured = (*(sized.unmeasured if sized is not None else ()), *unmeasured)
    running, limits = snapshot.parallelism, zip(*get_bounds(snapshot), strict=True)
    bounds = dict(zip(snapshot.operators, limits, strict=True))
    bounded = {name: clip(k, *bounds[name]) for name, k in wanted.items()}
    if unmeasured:
        grown = {name: clip(max(k, running[name]), *bounds[name]) for name, k in bounded.items()}
        if grown != bounded or grown == running:
            reasons = [*reasons, explain_no_scale_down(unmeasured)]
        if grown == running:
            return hold(policy, snapshot, reasons)
        bounded = grown
    if snapshot.execution == "shared" and len(set(bounded.values())) > 1:
        workers = max(bounded.values())
        text = f"{workers} workers, the largest number for any operator: every worker runs every operator."
        bounded = dict.fromkeys(bounded, workers)
        reasons = [*reasons, Reason("shared-workers", text, {"workers": workers})]
    return Decision.between(policy, running, bounded, *reasons)


def clip(value: int, least: int, most: int) -> int:
    return min(max(value, least), most)


def require_target(policy: str, target: Target | None) -> Target:
    """Return `target`. Raise `InputError` if there is none."""
    if target is None:
        raise InputError(
            f"policy {policy}",
            "needs a latency target",
            remedy="give one (on the command line: --latency-target SECONDS)",
        )
    return target


def read_options(kind: type[T], policy: str, options: Mapping[str, object], **given: object) -> T:
    """Return `kind(**given, **options)`. Raise `InputError` for an unknown option or a value of the wrong type."""
    names = [field.name for field in fields(kind) if field.init and field.name not in given]
    for name in options:
        if name not in names:
            allowed = ", ".join(dict.fromkeys([*names, "slots"]))
            raise InputError(f"policy {policy}: {name}", "is not an option of this policy", remedy=f"use {allowed}")
    try:
        return kind(**given, **options)
    except InputError as error:
        raise error.with_prefix(f"policy {policy}: ") from None
