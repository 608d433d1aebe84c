"""What the policies share: how they hold, how they answer within bounds, how their options are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, TypeVar

from autotrascale.domain.decision import Decision, Reason
from autotrascale.domain.errors import InputError
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.target import Target
from autotrascale.plan.policies.reasons import explain_no_scale_down
from autotrascale.plan.sizing.sizing import Sizing, Unsized, get_bounds

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    T = TypeVar("T", bound=DataclassInstance)


def hold(policy: str, snapshot: Snapshot, reasons: Iterable[Reason]) -> Decision:
    """Everything stays as it runs, since nothing could be decided. The one way to hold; people know it by the codes
    of the reasons, which start with `hold`, and programs by `Decision.hold`."""
    return Decision(policy, snapshot.parallelism, changed=False, reasons=tuple(reasons), hold=True)


def hold_for_gaps(policy: str, snapshot: Snapshot, unsized: Unsized) -> Decision:
    return hold(
        policy,
        snapshot,
        [
            Reason("hold-unknown-rate", f"holding: {gap}", {"operator": gap.operator, "missing": gap.missing})
            for gap in unsized.gaps
        ],
    )


def answer(
    policy: str,
    snapshot: Snapshot,
    wanted: Mapping[str, int],
    reasons: Sequence[Reason],
    sized: Sizing | None = None,
    unmeasured: Sequence[str] = (),
) -> Decision:
    """`wanted` within the bounds. With shared execution every worker runs all operators: the largest wish counts.

    Where `sized` lacks a part of the time that operators share, more may be asked for, but nothing is given back, and
    that what runs is enough is not decided. `unmeasured` are fields that the policy's own prediction lacks.
    """
    unmeasured = (*(sized.unmeasured if sized is not None else ()), *unmeasured)
    running, limits = snapshot.parallelism, zip(*get_bounds(snapshot), strict=True)
    bound = dict(zip(snapshot.operators, limits, strict=True))
    within = {name: clip(k, *bound[name]) for name, k in wanted.items()}
    if unmeasured:
        kept = {name: clip(max(k, running[name]), *bound[name]) for name, k in within.items()}
        if kept != within or kept == running:
            reasons = [*reasons, explain_no_scale_down(unmeasured)]
        if kept == running:
            return hold(policy, snapshot, reasons)
        within = kept
    if snapshot.execution == "shared" and len(set(within.values())) > 1:
        workers = max(within.values())
        text = f"every worker runs every operator: the largest wish, {workers}, counts for all"
        within = dict.fromkeys(within, workers)
        reasons = [*reasons, Reason("shared-workers", text, {"workers": workers})]
    return Decision.between(policy, running, within, *reasons)


def clip(value: int, least: int, most: int) -> int:
    return min(max(value, least), most)


def require_target(policy: str, target: Target | None) -> Target:
    if target is None:
        raise InputError(
            f"policy {policy}",
            "needs a latency target",
            remedy="give one (on the command line: --latency-target SECONDS)",
        )
    return target


def read_options(kind: type[T], policy: str, options: Mapping[str, object], **given: object) -> T:
    """`kind(**options)`, with unknown options and values of the wrong type refused by name."""
    names = [field.name for field in fields(kind) if field.init and field.name not in given]
    for name in options:
        if name not in names:
            allowed = ", ".join(dict.fromkeys([*names, "slots"]))
            raise InputError(f"policy {policy}: {name}", "is not an option of this policy", remedy=f"use {allowed}")
    try:
        return kind(**given, **options)
    except InputError as error:
        raise error.under(f"policy {policy}: ") from None
