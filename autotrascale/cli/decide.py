"""`autotrascale decide`: the decision of a policy for one snapshot. It changes nothing."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotrascale.app.console import OutputFormat, print_answer, print_table, say
from autotrascale.cli.options import FormatOption, argument, option

if TYPE_CHECKING:
    from autotrascale.domain.decision import Decision
    from autotrascale.domain.snapshot import Snapshot
    from autotrascale.domain.target import Target


class StatisticName(StrEnum):
    mean = "mean"
    p50 = "p50"
    p95 = "p95"
    p99 = "p99"


def decide(
    snapshot: Annotated[Path, argument("Snapshot of a job.", "SNAPSHOT.json")],
    policy: Annotated[str, option("Scaling policy; an unknown name lists all.", "NAME")] = "autrascale",
    latency_target: Annotated[
        float | None, option("Latency target in seconds.", "SECONDS", default="no target")
    ] = None,
    statistic: Annotated[
        StatisticName, option("Statistic of the latency that the target limits.")
    ] = StatisticName.mean,
    model: Annotated[Path | None, option("Benefit model as JSON.", "FILE", default="no model")] = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Show a policy's decision for one snapshot.

    The answer states a reason for the decision. Nothing is changed.
    """
    from autotrascale.domain.snapshot import Snapshot
    from autotrascale.plan.policies.registry import create
    from autotrascale.validation import read_file

    inputs = {}
    if model is not None:  # importing the mathematics takes a second
        from autotrascale.app.model_files import read_model_file

        inputs["model"] = read_model_file(model)
    chosen = create(policy, _build_target(latency_target, statistic), inputs)
    measured = read_file(snapshot, Snapshot)
    decision = chosen.decide(measured)
    print_answer(form, decision.as_dict(), lambda: _print_decision(decision, measured))


def register(app: typer.Typer) -> None:
    app.command("decide")(decide)


def _build_target(seconds: float | None, statistic: StatisticName) -> Target | None:
    from autotrascale.domain.errors import InputError
    from autotrascale.domain.target import Target

    if seconds is None:
        if statistic is not StatisticName.mean:
            raise typer.BadParameter("needs --latency-target", param_hint="--statistic")
        return None
    try:
        return Target(seconds, statistic.value)
    except InputError as error:
        raise InputError("--latency-target", error.problem, seen=error.seen, remedy=error.remedy) from None


def _print_decision(decision: Decision, snapshot: Snapshot) -> None:
    result = "change" if decision.changed else "no change: not enough data" if decision.hold else "no change"
    say(f"{decision.policy}: {result} ({snapshot.job})")
    running = snapshot.parallelism
    print_table(
        ("operator", "running", "recommended", ""),
        [(name, running[name], k, _format_change(k - running[name])) for name, k in decision.parallelism.items()],
    )
    for reason in decision.reasons:
        say(f"  {reason.code}: {reason.text}")


def _format_change(difference: int) -> str:
    return "" if difference == 0 else f"{difference:+d}"
