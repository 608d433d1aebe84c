"""The manager's adjustments: what the policy is shown instead of what was measured, each with a reason that says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from autotrascale.domain.decision import Reason
from autotrascale.domain.snapshot import OperatorMetrics, Snapshot
from autotrascale.plan.control.manager.manager_state import ManagerContext
from autotrascale.plan.formatting import format_amount, format_percent

Adjustment = Callable[[ManagerContext, Snapshot], tuple[Snapshot, Reason | None]]


def correct_capacity(situation: ManagerContext, shown: Snapshot) -> tuple[Snapshot, Reason | None]:
    """Target rate ratio: capacity times what was learned, by way of useful time, of which it is the inverse."""
    factor = situation.state.correction.factor
    if situation.knobs.target_rate_ratio is None or factor == 1.0:
        return shown, None
    operators = {name: _slowed(metrics, 1 / factor) for name, metrics in shown.operators.items()}
    text = f"measured capacity was optimistic: taken times {factor:.2f}"
    return replace(shown, operators=operators), Reason("corrected", text, {"factor": factor})


def apply_utilisation(situation: ManagerContext, shown: Snapshot) -> tuple[Snapshot, Reason | None]:
    share = situation.knobs.utilisation
    if share == 1.0:
        return shown, None
    rates = {name: rate / share for name, rate in shown.source_rates.items()}
    text = f"sized to be busy {format_percent(share)} of the time"
    return replace(shown, source_rates=rates), Reason("utilisation", text, {"utilisation": share})


def add_backlog(situation: ManagerContext, shown: Snapshot) -> tuple[Snapshot, Reason | None]:
    """Catch-up time: the backlog is demand too, spread over the time in which it shall be worked off."""
    backlog, within = situation.snapshot.backlog_records, situation.knobs.catch_up_seconds
    if within is None or not backlog or not situation.catching_up:
        return shown, None
    extra = backlog / within
    text = f"backlog of {format_amount(backlog)}: {format_amount(extra)}/s more to work it off in {format_amount(within)} s"
    return add_rate(shown, extra), Reason("backlog", text, {"backlog": backlog, "extra_rate": extra})


def _slowed(metrics: OperatorMetrics, factor: float) -> OperatorMetrics:
    if metrics.instances:
        return replace(
            metrics,
            instances=tuple(replace(w, useful_seconds=_times(w.useful_seconds, factor)) for w in metrics.instances),
        )
    return replace(metrics, useful_seconds=_times(metrics.useful_seconds, factor))


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def add_rate(snapshot: Snapshot, extra: float) -> Snapshot:
    """`extra` records per second more, spread over the sources as their rates are."""
    whole, rates = snapshot.target_rate, snapshot.source_rates
    more = {name: extra * (rate / whole if whole else 1 / len(rates)) for name, rate in rates.items()}
    return replace(snapshot, source_rates={name: rate + more[name] for name, rate in rates.items()})
