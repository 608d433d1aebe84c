"""`autotrascale doctor`: is everything here that a tuning run needs? Each thing in one line, with what to do about it.

Nothing is changed by looking. Without `--deep` nothing is started either.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from autotrascale.app import optional_packages
from autotrascale.app.console import FormatOption, OutputFormat, note, print_answer, print_table, say
from autotrascale.app.stores import StoreOption
from autotrascale.cli.completion import complete_job_files

if TYPE_CHECKING:
    from autotrascale.app.doctor.checks import Check, Finding


def doctor(
    job: Annotated[
        Path | None,
        typer.Option(
            metavar="JOB.yaml",
            help="Look at what this job asks for. [default: what any would]",
            autocompletion=complete_job_files,
        ),
    ] = None,
    metrics: Annotated[
        Path | None,
        typer.Option(metavar="FILE.yaml", help="A file with a store: section, of the metric store to look at."),
    ] = None,
    deep: Annotated[
        bool, typer.Option("--deep", help="Start Spark and run a few batches, which takes a minute.")
    ] = False,
    store: StoreOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Check this machine, its packages and stores. Exit code 0 when nothing is a problem, else 1."""
    if lacking := optional_packages.list_missing_core_packages():
        _without_core(lacking, form)
    from autotrascale.app.doctor.checks import run_checks
    from autotrascale.app.doctor.input_files import read_check_context

    case, files = read_check_context(job, metrics, store)
    if deep:
        note("starting Spark, which takes up to a minute")
    findings = [*files, *run_checks(checks(deep=deep), case)]
    healthy = all(finding.state != "problem" for finding in findings)
    answer = {"healthy": healthy, "checks": [asdict(finding) for finding in findings]}
    print_answer(form, answer, lambda: _show(findings))
    if not healthy:
        raise typer.Exit(1)


def _without_core(lacking: list[str], form: OutputFormat) -> NoReturn:
    """Nothing else can be looked at before they are there; not even a table can be drawn."""
    seen, remedy = f"{', '.join(lacking)} cannot be imported", "pip install autotrascale"
    finding = {"state": "problem", "seen": seen, "remedy": remedy, "check": "packages: core"}
    print_answer(
        form, {"healthy": False, "checks": [finding]}, lambda: say(f"problem  packages: core  {seen}  {remedy}")
    )
    raise typer.Exit(1)


def register(app: typer.Typer) -> None:
    app.command("doctor")(doctor)


def checks(*, deep: bool) -> dict[str, Check]:
    """All there are, in the order in which they are told."""
    from autotrascale.app.doctor import machine, python_packages, redis, spark, stores

    return {
        **python_packages.checks(),
        **spark.checks(deep=deep),
        **machine.checks(),
        **stores.checks(),
        "redis": redis.reachable,
    }


def _show(findings: list[Finding]) -> None:
    print_table(
        ("state", "check", "seen", "what to do"),
        [(finding.state, finding.check, finding.seen, finding.remedy) for finding in findings],
    )
    count = {state: sum(finding.state == state for finding in findings) for state in ("problem", "warning")}
    say(f"checks: {len(findings)}, problems: {count['problem']}, warnings: {count['warning']}")
