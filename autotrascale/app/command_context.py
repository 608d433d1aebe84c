"""Stores and output format of one command, which all its control loops share."""

from __future__ import annotations

from dataclasses import dataclass, field

from autotrascale.app.console import OutputFormat
from autotrascale.app.metric_recording import MetricRecorder
from autotrascale.knowledge.decision_journal.journal import DecisionJournal
from autotrascale.knowledge.mlflow_store import MlflowStore
from autotrascale.plan.policies.registry import PolicyChoice


@dataclass(frozen=True)
class CommandContext:
    """Stores and output format of one command.

    Args:
        store: the store of runs and models, if one is in use.
        decisions: the journal of control loops, if there is a store.
        recorder: where to record measurements.
        form: how decisions are printed.
        advise: print recommendations, and change nothing.
        policy: the scaling policy.
    """

    store: MlflowStore | None
    decisions: DecisionJournal | None
    recorder: MetricRecorder
    form: OutputFormat
    advise: bool
    policy: PolicyChoice = field(default_factory=PolicyChoice)
