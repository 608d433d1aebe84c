"""`autotrascale metrics [JOB]`: recorded metrics of jobs on Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from autotrascale.app.console import OutputFormat, print_answer, print_table, say
from autotrascale.cli.options import FormatOption, MetricsOption, argument, option


def metrics(
    job: Annotated[str, argument("Job to show.", "JOB", "list all jobs")] = "",
    hours: Annotated[float, option("Hours to look back.", "H", min=0.01)] = 24.0,
    points: Annotated[int, option("Limit for rows.", "N", min=2)] = 24,
    store: MetricsOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Show recorded metrics of jobs on Spark.

    Tuning runs and control loops record them. The list of jobs shows how fresh they are.
    """
    from autotrascale.app.metric_report import report_metrics

    report = report_metrics(store, job, hours, points)
    print_answer(form, report, lambda: _print_job(report) if job else _print_jobs(report["jobs"], hours))


def register(app: typer.Typer) -> None:
    app.command("metrics")(metrics)


def _print_jobs(jobs: list[dict[str, Any]], hours: float) -> None:
    if not jobs:
        say(f"no job on Spark was measured in the last {hours:g} hours")
        return
    print_table(("job", "last measured (UTC)", "age in seconds"), [tuple(each.values()) for each in jobs])


def _print_job(report: Mapping[str, Any]) -> None:
    say(f"{report['job']}: each row is a step, and its time the beginning of the step in UTC")
    columns = ("throughput", "latency_p95_seconds", "backlog_records")
    operators: dict[str, dict[str, float]] = report["parallelism"]
    series = [*(report[name] for name in columns), *operators.values()]
    print_table(
        ("time", "throughput/s", "p95 s", "backlog", *operators),
        [
            (at.replace("T", " ").rstrip("Z"), *(_format_number(each.get(at)) for each in series))
            for at in sorted({at for each in series for at in each})
        ],
    )


def _format_number(value: float | None) -> str:
    if value is None:
        return "?"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
