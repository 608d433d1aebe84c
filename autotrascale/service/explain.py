"""`autotrascale explain RUN`: why this parallelism, from the journal alone: nothing is run, and no job file read."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from autotrascale.service.output import Format, FormatOption, emit, say
from autotrascale.service.runs import RunName
from autotrascale.service.store import StoreOption

if TYPE_CHECKING:
    from autotrascale.knowledge.history import Record
    from autotrascale.tuning import Outcome


def explain(run: RunName, store: StoreOption = None, form: FormatOption = Format.table) -> None:
    """Say why a run ended at the parallelism that it did, operator by operator."""
    from autotrascale.knowledge.history import find_run, outcome_so_far, read_run
    from autotrascale.service.store import need_store

    opened = need_store(store)
    record = read_run(opened, find_run(opened, run))
    outcome = outcome_so_far(record)
    emit(form, _as_dict(record, outcome), lambda: _show(record, outcome))


def register(app: typer.Typer) -> None:
    app.command("explain")(explain)


def _as_dict(record: Record, outcome: Outcome) -> dict[str, Any]:
    from autotrascale.views.explanation import summary, why

    return {
        "run_id": record.summary.run_id,
        "job": outcome.job.name,
        "state": record.summary.state,
        "rate": outcome.job.rate,
        "simulated": outcome.simulated,
        "met_target": outcome.met_target,
        "stop_reason": outcome.stop_reason,
        "operators": [asdict(each) for each in why(outcome)],
        "remarks": list(outcome.remarks),
        "warm_start": list(record.opening.warm_start),
        "summary": summary(outcome),
    }


def _show(record: Record, outcome: Outcome) -> None:
    from autotrascale.service.telling import show_outcome

    if record.outcome is None:
        say(f"run {record.summary.run_id} is {record.summary.state}: this is how things stand after"
            f" {len(record.recorded)} evaluations, and may change")  # fmt: skip
    show_outcome(outcome)
    for each in record.opening.warm_start:
        say(f"  {each}")
