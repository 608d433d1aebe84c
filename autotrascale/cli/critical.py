"""`autotrascale critical LOG|JOB`: critical paths of streaming queries."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotrascale.app.console import OutputFormat, print_answer, print_plot, print_table, say
from autotrascale.cli.options import FormatOption, GroupedCommand, StoreOption, argument, flag, option

if TYPE_CHECKING:
    from autotrascale.domain.critical_path_report import CriticalPathReport

FOLLOWING = "Running application"
OUTPUT = "Further output"
MAX_PLOTTED = 200  # windows
MIN_WINDOW, MAX_WINDOW = 0.001, 1e7  # seconds; event logs have milliseconds


def critical(
    log: Annotated[list[str], argument("Event logs, folders of them, or a program of `autotrascale run`.", "LOG|JOB")],
    window: Annotated[float, option("Length of a window in seconds.", "SECONDS")] = 10.0,
    query: Annotated[str, option("Query to read.", "NAME", default="all queries")] = "",
    every: Annotated[bool, flag("--all", "Show each window, not only the mean of all windows.")] = False,
    driver_memory: Annotated[str, option("Memory of Spark's JVM, which several large logs need.", "SIZE")] = "1g",
    follow: Annotated[
        bool, flag("--follow", "Show each window of a running application when the window ends.", FOLLOWING)
    ] = False,
    seconds: Annotated[
        float | None,
        option(
            "With --follow: duration in seconds.",
            "SECONDS",
            "--for",
            default="until the application ends",
            panel=FOLLOWING,
            min=0.0,
        ),
    ] = None,
    plots: Annotated[bool, flag("--plots", "Also draw the newest 200 windows.", OUTPUT)] = False,
    output: Annotated[
        str,
        option(
            "Folder for all parts as Parquet, by application, query and day.", "FOLDER", default="none", panel=OUTPUT
        ),
    ] = "",
    metrics: Annotated[
        str, option("File that describes a metric store for all windows.", "FILE", default="none", panel=OUTPUT)
    ] = "",
    store: StoreOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Show where the latency of a query goes.

    The answer names the work on the critical path of the batches, the savings that are possible, and how much of the
    latency more instances can shorten. JSON output has one object for each query, or with --all for each window.
    """
    if not MIN_WINDOW <= window <= MAX_WINDOW:
        raise typer.BadParameter(f"{window:g} is outside 0.001 to 10,000,000 seconds", param_hint="--window")
    from autotrascale.app.event_logs import find_event_log

    paths = [find_event_log(name, store) for name in log]
    if follow:
        _follow(paths, window, query, metrics, seconds, form, excluded={"--output": bool(output), "--plots": plots})
        return
    from autotrascale.app.critical_paths import measure_critical_paths
    from autotrascale.views.plots.critical_paths import plot_windows

    with measure_critical_paths(paths, window, query, output, metrics, driver_memory) as measured:
        if every:
            for each in measured.windows(query):
                print_answer(form, _as_dict(each), partial(_print_window, each))
            return
        for report in measured.reports():
            if query and report.query != query:
                continue
            print_answer(form, _as_dict(report), partial(_print_report, report))
            if plots and form is OutputFormat.table:
                from autotrascale.views.plots.terminal import draw_plot

                for plot in plot_windows(measured.newest(report, MAX_PLOTTED)):
                    say()
                    print_plot(draw_plot(plot))


def register(app: typer.Typer) -> None:
    app.command("critical", cls=GroupedCommand)(critical)


def _follow(
    paths: list[str],
    window: float,
    query: str,
    metrics: str,
    seconds: float | None,
    form: OutputFormat,
    excluded: dict[str, bool],
) -> None:
    from autotrascale.app.critical_paths import follow_critical_paths
    from autotrascale.app.termination import exit_on_sigterm
    from autotrascale.domain.errors import InputError

    if len(paths) > 1:
        raise InputError("--follow", "takes one application", seen=len(paths), remedy="name one log")
    for name, is_given in excluded.items():
        if is_given:
            raise InputError(name, "contradicts --follow", remedy="give one of them")

    def tell(report: CriticalPathReport) -> None:
        print_answer(form, _as_dict(report), partial(_print_window, report))

    with exit_on_sigterm():
        follow_critical_paths(paths[0], window, query, metrics, tell, seconds)


def _as_dict(report: CriticalPathReport) -> dict[str, Any]:
    from autotrascale.domain.critical_path_report import report_to_dict
    from autotrascale.views.critical_path_text import explain_participation

    return {**report_to_dict(report), "explanation": explain_participation(report)}


def _print_report(report: CriticalPathReport) -> None:
    from autotrascale.views.critical_path_text import COLUMNS, explain_participation, participation_rows

    for line in explain_participation(report):
        say(line)
    say(f"(query {report.query} of {report.application}, windows of {report.seconds:,.0f} s in all)")
    print_table(COLUMNS, participation_rows(report))


def _print_window(report: CriticalPathReport) -> None:
    from datetime import UTC, datetime

    from autotrascale.views.critical_path_text import explain_participation

    at = datetime.fromtimestamp(report.started_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    say(f"{at} {report.query}: {explain_participation(report)[0]}")
