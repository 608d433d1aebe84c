"""Tuning runs: find the cheapest configuration that can be trusted to hold the target at one input rate.

`trial_records` has the input and output of a run, `tuning_run` the order of its steps.
"""

from autotrascale.tuning.floor_search import choose_starting_point, estimate_floor
from autotrascale.tuning.trial_records import (
    Evaluation,
    JournalledTrial,
    Outcome,
    ReportProgress,
    SnapshotListener,
    TrialJournal,
    TrialPhase,
    TuningProgress,
    TuningSettings,
)
from autotrascale.tuning.tuning_run import tune

__all__ = [
    "Evaluation",
    "JournalledTrial",
    "Outcome",
    "ReportProgress",
    "SnapshotListener",
    "TrialJournal",
    "TrialPhase",
    "TuningProgress",
    "TuningSettings",
    "choose_starting_point",
    "estimate_floor",
    "tune",
]
