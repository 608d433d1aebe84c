"""What a machine was short of while a trial ran, in words."""

from __future__ import annotations

from collections.abc import Sequence

from autotrascale.domain.trial import MachinePressure
from autotrascale.plan.formatting import format_percent, join_names
from autotrascale.tuning import Evaluation

# From here on a lack is named; `analyze/starvation.py` says from where on it counts as one at all.
NAMED_SHARE = 0.1
NAMED_MB = 1.0


def describe_shortage(shortage: MachinePressure) -> str:
    """`tasks had no core for 62% of their time (2 cores)`."""
    lacks = []
    if shortage.waiting is not None and shortage.waiting >= NAMED_SHARE:
        lacks.append(f"tasks had no core for {format_percent(shortage.waiting)} of their time")
    elif shortage.waiting is None and shortage.crowded >= NAMED_SHARE:
        lacks.append(f"something had no core for {format_percent(shortage.crowded)} of the time")
    if shortage.stolen >= NAMED_SHARE:
        lacks.append(f"other machines on the same host took {format_percent(shortage.stolen)} of the cores' time")
    if shortage.swapped_mb >= NAMED_MB:
        lacks.append(f"{shortage.swapped_mb:.0f} MB a second were swapped")
    cores = f"{shortage.cores} core{'' if shortage.cores == 1 else 's'}"
    return f"{join_names(lacks)} ({cores})"


def shortage_note(evaluation: Evaluation) -> str:
    """Behind what a trial measured; empty where the machine had enough."""
    return "" if evaluation.shortage is None else f"  [starved machine: {describe_shortage(evaluation.shortage)}]"


def shortage_warning(evaluations: Sequence[Evaluation]) -> str | None:
    """Of a run: how many of its trials, the worst of them, and what follows."""
    short = [each.shortage for each in evaluations if each.shortage is not None]
    if not short:
        return None
    worst = max(short, key=lambda each: (each.waiting or each.crowded, each.stolen, each.swapped_mb))
    at_worst = "at worst " if len(short) > 1 else ""
    which = "the only trial" if len(evaluations) == 1 else f"{len(short)} of {len(evaluations)} trials"
    return (
        f"{which} ran on a starved machine, where {at_worst}{describe_shortage(worst)}: the numbers say more of the machine than"
        " of the job; use fewer slots or more cores, or tune again when it is quiet"
    )
