"""One tuning run at one input rate, from nothing known to a configuration that can be trusted to hold the target.

`trials` has what a run is given and what it tells of; `floor` finds the least that holds the rate; `run` is the order.
"""

from autotrascale.tuning.floor import likely_floor, starting_point
from autotrascale.tuning.run import tune
from autotrascale.tuning.trials import (
    Evaluation,
    Journal,
    JournalledTrial,
    Outcome,
    Phase,
    Progress,
    Report,
    Seen,
    Tuning,
)

__all__ = [
    "Evaluation",
    "Journal",
    "JournalledTrial",
    "Outcome",
    "Phase",
    "Progress",
    "Report",
    "Seen",
    "Tuning",
    "likely_floor",
    "starting_point",
    "tune",
]
