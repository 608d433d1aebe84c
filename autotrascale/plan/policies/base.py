"""What the policies share: how they hold, how they answer within bounds, how their options are read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, TypeVar

from autotrascale.domain.decision import Decision, Reason
from autotrascale.domain.errors import InputError
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.target import Target
from autotrascale.plan.sizing.sizing import Sizing, Unsized, limits
from autotrascale.plan.words import amount

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    T = TypeVar("T", bound=DataclassInstance)


def hold(policy: str, snapshot: Snapshot, reasons: Iterable[Reason]) -> Decision:
    """Everything stays as it runs, since nothing could be decided. The one way to hold; people know it by the codes
    of the reasons, which start with `hold`, and programs by `Decision.hold`."""
    return Decision(policy, snapshot.parallelism, changed=False, reasons=tuple(reasons), hold=True)


def is_hold(decision: Decision) -> bool:
    return decision.hold


def hold_for_gaps(policy: str, snapshot: Snapshot, unsized: Unsized) -> Decision:
    return hold(
        policy,
        snapshot,
        [
            Reason("hold-unknown-rate", f"holding: {gap}", {"operator": gap.operator, "missing": gap.missing})
            for gap in unsized.gaps
        ],
    )


def answer(policy: str, snapshot: Snapshot, wanted: Mapping[str, int], reasons: Sequence[Reason]) -> Decision:
    """`wanted` within the bounds. With shared execution every worker runs all operators: the largest wish counts."""
    within = {name: clip(k, *limits(snapshot, name)) for name, k in wanted.items()}
    if snapshot.execution == "shared" and len(set(within.values())) > 1:
        workers = max(within.values())
        text = f"every worker runs every operator: the largest wish, {workers}, counts for all"
        within = dict.fromkeys(within, workers)
        reasons = [*reasons, Reason("shared-workers", text, {"workers": workers})]
    return Decision.between(policy, snapshot.parallelism, within, *reasons)


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


def speaks_of_the_mean(target: Target) -> list[Reason]:
    """Queueing models predict a mean. A target on a percentile is compared with it all the same, and that is said."""
    if target.statistic == "mean":
        return []
    text = f"the target is on {target.statistic}, the model predicts the mean: the percentile will be higher"
    return [Reason("mean-only", text, {"statistic": target.statistic})]


def kept_sources(snapshot: Snapshot, sized: Sizing) -> list[Reason]:
    """Sources that cannot be sized, because their own true rate is not known."""
    return [
        Reason(
            "source-kept",
            f"{name}: its own true rate is not known, kept at {metrics.parallelism}",
            {"operator": name, "running": metrics.parallelism, "wanted": metrics.parallelism},
        )
        for name, metrics in snapshot.operators.items()
        if sized.named_load[name] is None
    ]


def out_of_reach(text: str, **numbers: float) -> Reason:
    return Reason("out-of-reach", text, numbers)


def latency_reached(predicted: float, target: Target, stuck: str) -> Reason:
    """Predicted against wanted; `stuck` says why it ended above, if it did."""
    numbers = {"target_seconds": target.latency_seconds}
    if math.isinf(predicted):  # not a number that JSON can carry
        return Reason("out-of-reach", "predicts a queue without end: the bounds do not carry the offered rate", numbers)
    numbers["predicted_seconds"] = predicted
    wanted = f"{amount(target.latency_seconds)} s"
    if predicted > target.latency_seconds:
        return Reason("out-of-reach", f"predicts {amount(predicted)} s for a target of {wanted}: {stuck}", numbers)
    return Reason("latency", f"predicts {amount(predicted)} s, within the target of {wanted}", numbers)


def read_options(kind: type[T], policy: str, options: Mapping[str, object], **given: object) -> T:
    """`kind(**options)`, with unknown options and values of the wrong type refused by name."""
    names = [field.name for field in fields(kind) if field.init and field.name not in given]
    for name in options:
        if name not in names:
            allowed = f"use {', '.join(names)}" if names else "it takes none"
            raise InputError(f"policy {policy}: {name}", "is not an option of this policy", remedy=allowed)
    try:
        return kind(**given, **options)
    except InputError as error:
        raise error.under(f"policy {policy}: ") from None
