"""One tuning run at one input rate, from nothing known to a configuration that can be trusted to hold the target.

`trials` has what a run is given and what it tells of; `floor` finds the least that holds the rate; `run` is the order.
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
