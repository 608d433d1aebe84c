"""`autotrascale decide`: what a policy would do with one snapshot. Advisory, touches nothing."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotrascale.app.console import FormatOption, OutputFormat, print_answer, print_table, say

if TYPE_CHECKING:
    from autotrascale.domain.decision import Decision
    from autotrascale.domain.snapshot import Snapshot
    from autotrascale.domain.target import Target
    from autotrascale.plan.search.benefit_model import BenefitModel


class StatisticName(StrEnum):
    mean = "mean"
    p50 = "p50"
    p95 = "p95"
    p99 = "p99"


def decide(
    snapshot: Annotated[Path, typer.Argument(metavar="SNAPSHOT.json", help="What was measured of the job.")],
    policy: Annotated[
        str, typer.Option(help="Which policy to ask; a name that is not known lists them.")
    ] = "autrascale",
    latency_target: Annotated[float | None, typer.Option(metavar="SECONDS", help="The latency to hold.")] = None,
    statistic: Annotated[
        StatisticName, typer.Option(help="The latency statistic the target is on.")
    ] = StatisticName.mean,
    model: Annotated[Path | None, typer.Option(metavar="FILE", help="A benefit model, as JSON.")] = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Say what a policy would do with one snapshot, and why. Changes nothing."""
    from autotrascale.domain.snapshot import Snapshot
    from autotrascale.plan.policies import create
    from autotrascale.validation import read_file

    chosen = create(policy, _target(latency_target, statistic), {"model": read_model_file(model)} if model else {})
    measured = read_file(snapshot, Snapshot)
    decision = chosen.decide(measured)
    print_answer(form, decision.as_dict(), lambda: _show(decision, measured))


def register(app: typer.Typer) -> None:
    app.command("decide")(decide)


def _target(seconds: float | None, statistic: StatisticName) -> Target | None:
    from autotrascale.domain.errors import InputError
    from autotrascale.domain.target import Target

    if seconds is None:
        if statistic is not StatisticName.mean:
            raise typer.BadParameter("says nothing without --latency-target", param_hint="--statistic")
        return None
    try:
        return Target(seconds, statistic.value)
    except InputError as error:
        raise InputError("--latency-target", error.problem, seen=error.seen, remedy=error.remedy) from None


def read_model_file(path: Path) -> BenefitModel:
    from autotrascale.domain.errors import InputError
    from autotrascale.validation import read_text

    text = read_text(path)
    # A second of mathematics, for those who have a model.
    from autotrascale.knowledge import model_files
    from autotrascale.plan.search.benefit_model import BenefitModel

    if model_files.is_model_export(path):
        return model_files.read_model(path)[0]
    try:
        return BenefitModel.from_json(text)
    except InputError as error:
        raise error.under(f"{path}: ") from None


def _show(decision: Decision, snapshot: Snapshot) -> None:
    found = "change" if decision.changed else "no change, it could not decide" if decision.hold else "no change"
    say(f"{decision.policy}: {found} ({snapshot.job})")
    running = snapshot.parallelism
    print_table(
        ("operator", "running", "recommended", ""),
        [(name, running[name], k, _arrow(k - running[name])) for name, k in decision.parallelism.items()],
    )
    for reason in decision.reasons:
        say(f"  {reason.code}: {reason.text}")


def _arrow(difference: int) -> str:
    return "" if difference == 0 else f"{difference:+d}"
