"""The scaling manager's adjustments: changes to the snapshot that the policy is shown, each with a reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from autotrascale.domain.decision import Reason
from autotrascale.domain.snapshot import OperatorMetrics, Snapshot
from autotrascale.plan.control.manager.manager_state import ManagerContext
from autotrascale.plan.formatting import format_amount, format_percent

Adjustment = Callable[[ManagerContext, Snapshot], tuple[Snapshot, Reason | None]]


def correct_capacity(context: ManagerContext, shown: Snapshot) -> tuple[Snapshot, Reason | None]:
    """Multiply capacities by the learned factor (DS2's target rate ratio). Useful time is divided by it."""
    factor = context.state.correction.factor
    if context.knobs.target_rate_ratio is None or factor == 1.0:
        return shown, None
    operators = {name: _scale_useful_time(metrics, 1 / factor) for name, metrics in shown.operators.items()}
    text = f"Measured capacity was too optimistic. It is multiplied by {factor:.2f}."
    return replace(shown, operators=operators), Reason("corrected", text, {"factor": factor})


def apply_utilisation(context: ManagerContext, shown: Snapshot) -> tuple[Snapshot, Reason | None]:
    """Divide source rates by the utilisation knob."""
    share = context.knobs.utilisation
    if share == 1.0:
        return shown, None
    rates = {name: rate / share for name, rate in shown.source_rates.items()}
    text = f"Sized for instances that are busy {format_percent(share)} of the time."
    return replace(shown, source_rates=rates), Reason("utilisation", text, {"utilisation": share})


def add_backlog(context: ManagerContext, shown: Snapshot) -> tuple[Snapshot, Reason | None]:
    """Add the backlog to the demand, spread over the catch-up time."""
    backlog, within = context.snapshot.backlog_records, context.knobs.catch_up_seconds
    if within is None or not backlog or not context.has_backlog:
        return shown, None
    extra = backlog / within
    text = (
        f"Sized for {format_amount(extra)}/s more: a backlog of {format_amount(backlog)} records is to be worked off "
        f"in {format_amount(within)} s."
    )
    return add_rate(shown, extra), Reason("backlog", text, {"backlog": backlog, "extra_rate": extra})


def add_rate(snapshot: Snapshot, extra: float) -> Snapshot:
    """Return `snapshot` with `extra` records/s more, spread over the sources in proportion to their rates."""
    whole, rates = snapshot.target_rate, snapshot.source_rates
    more = {name: extra * (rate / whole if whole else 1 / len(rates)) for name, rate in rates.items()}
    return replace(snapshot, source_rates={name: rate + more[name] for name, rate in rates.items()})


def _scale_useful_time(metrics: OperatorMetrics, factor: float) -> OperatorMetrics:
    def scale(seconds: float | None) -> float | None:
        return None if seconds is None else seconds * factor

    if metrics.instances:
        instances = tuple(replace(work, useful_seconds=scale(work.useful_seconds)) for work in metrics.instances)
        return replace(metrics, instances=instances)
    return replace(metrics, useful_seconds=scale(metrics.useful_seconds))
