"""The load of other programs on the machine during a trial, as text."""

from __future__ import annotations

from collections.abc import Sequence

from autotrascale.domain.trial import MachinePressure
from autotrascale.plan.formatting import format_percent, join_names
from autotrascale.tuning import Evaluation
from autotrascale.views.executor_cost import format_count

# From here on a value is shown; `analyze/` decides from where on a machine counts as overloaded.
MIN_SHOWN_SHARE = 0.1
MIN_SHOWN_MB = 1.0


def describe_shortage(shortage: MachinePressure) -> str:
    """Return the lacks, such as `tasks waited for a core 62% of their time (2 cores)`."""
    lacks = []
    if shortage.waiting is not None and shortage.waiting >= MIN_SHOWN_SHARE:
        lacks.append(f"tasks waited for a core {format_percent(shortage.waiting)} of their time")
    elif shortage.waiting is None and shortage.crowded >= MIN_SHOWN_SHARE:
        lacks.append(f"processes waited for a core {format_percent(shortage.crowded)} of the time")
    if shortage.stolen >= MIN_SHOWN_SHARE:
        lacks.append(f"other machines on the same host took {format_percent(shortage.stolen)} of the cores' time")
    if shortage.swapped_mb >= MIN_SHOWN_MB:
        lacks.append(f"{shortage.swapped_mb:.0f} MB/s were swapped")
    return f"{join_names(lacks)} ({format_count(shortage.cores, 'core')})"


def shortage_note(evaluation: Evaluation) -> str:
    """Return a note behind the measurement of a trial; "" if the machine was not overloaded."""
    return "" if evaluation.shortage is None else f"  [overloaded machine: {describe_shortage(evaluation.shortage)}]"


def shortage_warning(evaluations: Sequence[Evaluation]) -> str | None:
    """Return a warning for a run with the worst of its trials, or None if no trial was affected."""
    short = [each.shortage for each in evaluations if each.shortage is not None]
    if not short:
        return None
    worst = max(short, key=lambda each: (each.waiting or each.crowded, each.stolen, each.swapped_mb))
    at_worst = "at worst " if len(short) > 1 else ""
    which = "the only trial" if len(evaluations) == 1 else f"{len(short)} of {len(evaluations)} trials"
    return (
        f"{which} ran on an overloaded machine, where {at_worst}{describe_shortage(worst)}: the numbers describe the"
        " machine more than the job; use fewer slots or more cores, or tune again when the machine is quiet"
    )
