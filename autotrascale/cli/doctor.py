"""`autotrascale doctor`: check everything that a tuning run needs, with a remedy for each problem.

The checks change nothing. Without `--deep` they start nothing either.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from autotrascale.app import optional_packages
from autotrascale.app.console import OutputFormat, note, print_answer, print_table, say
from autotrascale.cli.completion import complete_job_files
from autotrascale.cli.options import FAILED, FormatOption, MetricsOption, StoreOption, flag, option

if TYPE_CHECKING:
    from autotrascale.app.doctor.checks import Finding


def doctor(
    job: Annotated[
        Path | None,
        option(
            "Job file whose requirements are checked.",
            "JOB.yaml",
            default="those of any job",
            autocompletion=complete_job_files,
        ),
    ] = None,
    metrics: MetricsOption = None,
    deep: Annotated[bool, flag("--deep", "Also start Spark and run a few batches, for about one minute.")] = False,
    store: StoreOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Check this machine, its packages and stores.

    Exit codes: 0 no problem, 1 at least one problem, 2 bad usage.
    """
    if missing := optional_packages.list_missing_core_packages():
        _fail_without_core(missing, form)
    from autotrascale.app.doctor.all_checks import diagnose

    if deep:
        note("starting Spark, which takes up to a minute")
    findings = diagnose(job, metrics, store, deep=deep)
    is_healthy = all(finding.state != "problem" for finding in findings)
    answer = {"healthy": is_healthy, "checks": [asdict(finding) for finding in findings]}
    print_answer(form, answer, lambda: _print_findings(findings))
    if not is_healthy:
        raise typer.Exit(FAILED)


def register(app: typer.Typer) -> None:
    app.command("doctor")(doctor)


def _fail_without_core(missing: list[str], form: OutputFormat) -> NoReturn:
    """Report missing packages without importing any: not even a table can be printed."""
    seen, remedy = f"{', '.join(missing)} cannot be imported", "pip install autotrascale"
    finding = {"state": "problem", "seen": seen, "remedy": remedy, "check": "packages: core"}
    line = f"problem  packages: core  {seen}  {remedy}"
    print_answer(form, {"healthy": False, "checks": [finding]}, lambda: say(line))
    raise typer.Exit(FAILED)


def _print_findings(findings: list[Finding]) -> None:
    print_table(
        ("state", "check", "seen", "remedy"),
        [(finding.state, finding.check, finding.seen, finding.remedy) for finding in findings],
    )
    count = {state: sum(finding.state == state for finding in findings) for state in ("problem", "warning")}
    say(f"checks: {len(findings)}, problems: {count['problem']}, warnings: {count['warning']}")
