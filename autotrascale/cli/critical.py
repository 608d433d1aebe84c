"""`autotrascale critical LOG | JOB`: what latency is made of, what would shorten it, and what parallelism can give."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotrascale.app.console import OutputFormat, note, print_answer, print_plot, print_table, say
from autotrascale.cli.options import FormatOption, StoreOption

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from autotrascale.analyze.critical.measured_paths import MeasuredPaths
    from autotrascale.analyze.log_tasks import RunAll
    from autotrascale.domain.critical_path_report import CriticalPathReport
    from autotrascale.monitor.eventlog.damage import Damage
    from autotrascale.monitor.eventlog.log_files import LogFile
    from autotrascale.monitor.stores.metric_store import MetricStore

_DRAWN = 200  # windows of a plot, the newest


def critical(
    log: Annotated[
        list[str], typer.Argument(metavar="LOG|JOB", help="Event logs, folders of them, or a program that `run` keeps.")
    ],
    window: Annotated[float, typer.Option(metavar="SECONDS", help="The length of a window.")] = 10.0,
    query: Annotated[str, typer.Option(metavar="NAME", help="Only this query.")] = "",
    every: Annotated[bool, typer.Option("--all", help="Every window by itself, and not only all of them.")] = False,
    plots: Annotated[bool, typer.Option("--plots", help="Draw the newest windows, one after another.")] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Of an application that runs: every window as it ends, until it does.")
    ] = False,
    seconds: Annotated[
        float | None, typer.Option("--for", metavar="SECONDS", min=0.0, help="With --follow: no longer than this.")
    ] = None,
    output: Annotated[
        str, typer.Option(metavar="FOLDER", help="Also write all parts as Parquet, by application, query and day.")
    ] = "",
    metrics: Annotated[
        str, typer.Option(metavar="FILE", help="Also keep all windows in the metric store that this file names.")
    ] = "",
    store: StoreOption = None,
    driver_memory: Annotated[str, typer.Option(metavar="SIZE", help="Memory of Spark's JVM.")] = "1g",
    form: FormatOption = OutputFormat.table,
) -> None:
    """Say what the latency of a Spark streaming query is made of and what would shorten it, from its event log.

    JSON: one object for each query, or with --all for each window, on a line of its own.
    """
    _check_window(window)
    from autotrascale.analyze.log_tasks import workspace
    from autotrascale.app.log_runner import open_log_runner
    from autotrascale.cli.snapshot import check_output
    from autotrascale.execute.spark.common.spark_settings import parse_megabytes
    from autotrascale.monitor.eventlog.log_files import check_paths, find_logs

    paths = [where for name in log for where in _logs(name, store)]
    check_paths(paths)
    if follow:
        _follow(paths, window, query, seconds, metrics, form, others={"--output": output, "--plots": plots})
        return
    parse_megabytes("--driver-memory", driver_memory)
    if output:
        check_output(output)
    with ExitStack() as stack:
        keep = _keeper(stack, metrics)
        logs, unread = find_logs(paths)
        folder, run_all = stack.enter_context(workspace()), stack.enter_context(open_log_runner(logs, driver_memory))
        measured = _measure(logs, unread, folder, window, run_all)
        found = _reports(measured, query, paths)
        _hand_on(measured, query, output, keep)
        if every:
            for one in measured.windows(query):
                print_answer(form, _as_dict(one), partial(_show_window, one))
            return
        for one in found:
            print_answer(form, _as_dict(one), partial(_show, one))
            if plots and form is OutputFormat.table:
                _draw(measured, one)


def _follow(
    paths: Sequence[str],
    window: float,
    query: str,
    seconds: float | None,
    metrics: str,
    form: OutputFormat,
    others: Mapping[str, object],
) -> None:
    from autotrascale.app.follow_critical_path import follow_critical_path
    from autotrascale.app.termination import exit_on_sigterm
    from autotrascale.domain.errors import InputError
    from autotrascale.monitor.stores.participation_points import participation_to_points

    if len(paths) > 1:
        raise InputError("--follow", "is of one application", seen=len(paths), remedy="name one log")
    if odd := [name for name, given in others.items() if given]:
        raise InputError(odd[0], "is for logs that are read as a whole", remedy="leave it or --follow out")
    with ExitStack() as stack:
        keep = _keeper(stack, metrics)
        stack.enter_context(exit_on_sigterm())

        def tell(one: CriticalPathReport) -> None:
            print_answer(form, _as_dict(one), partial(_show_window, one))
            if keep is not None:
                keep.write(participation_to_points(one))

        if not follow_critical_path(Path(paths[0]), window, query, tell, seconds):
            note("no window has ended: a window is told when a batch behind it is committed")


def register(app: typer.Typer) -> None:
    app.command("critical")(critical)


def _check_window(seconds: float) -> None:
    if not 0.001 <= seconds <= 1e7:  # a thousandth is what logs tell; of a third of a year and more nobody asks
        raise typer.BadParameter(f"{seconds:g} is no number of seconds from 0.001 to 10,000,000", param_hint="--window")


def _logs(name: str, store: str | None) -> list[str]:
    """The log itself, or those of a program that is kept: the newest that was started under this name."""
    from autotrascale.domain.errors import InputError
    from autotrascale.monitor.eventlog.log_files import is_address

    if is_address(name) or Path(name).exists() or "/" in name:
        return [name]
    from autotrascale.app.stores import choose_store_uri, live_job_folder, require_decisions

    decisions = None if choose_store_uri(store) is None else require_decisions(store)
    home = live_job_folder(decisions, name)
    if decisions is not None:
        decisions.close()
    starts = sorted(home.glob("program-*/events"), key=lambda path: path.stat().st_mtime)
    if not starts:
        remedy = "give the path of a Spark event log, or the name of a program that `autotrascale run` keeps"
        raise InputError("LOG|JOB", "is no file, no folder and no program that is kept", seen=name, remedy=remedy)
    if next(starts[-1].iterdir(), None) is None:
        remedy = "wait until it has opened Spark, or name the events of an earlier start"
        raise InputError(name, "has no event log yet", seen=str(starts[-1]), remedy=remedy)
    return [str(starts[-1])]


def _measure(
    logs: Sequence[Sequence[LogFile]], unread: Sequence[Damage], folder: str, seconds: float, run_all: RunAll
) -> MeasuredPaths:
    from autotrascale.analyze.critical.edge_files import write_edges
    from autotrascale.analyze.critical.measured_paths import measure_paths

    damages = run_all(partial(write_edges, f"{folder}/edges"), logs)
    for damage in (*unread, *(each for own in damages for each in own)):
        note(str(damage))
    return measure_paths(f"{folder}/edges", f"{folder}/parts", seconds, run_all)


def _reports(measured: MeasuredPaths, query: str, paths: Iterable[str]) -> list[CriticalPathReport]:
    from autotrascale.domain.errors import InputError

    found = measured.reports()
    if not found:
        remedy = "give the log of a streaming query that committed a batch"
        raise InputError(", ".join(paths), "holds no micro-batch that was committed", remedy=remedy)
    names = sorted({one.query for one in found})
    if query and query not in names:
        raise InputError("--query", "is in none of the logs", seen=query, remedy=f"use one of {', '.join(names)}")
    return [one for one in found if not query or one.query == query]


def _keeper(stack: ExitStack, metrics: str) -> MetricStore | None:
    """Opened before anything is read, so that a store that cannot be used is told at once."""
    from autotrascale.app.metric_recording import read_metrics_file
    from autotrascale.monitor.stores.store_settings import open_store

    return stack.enter_context(open_store(read_metrics_file(Path(metrics)))) if metrics else None


def _hand_on(measured: MeasuredPaths, query: str, output: str, store: MetricStore | None) -> None:
    from autotrascale.monitor.stores.participation_points import participation_to_points

    if output:
        measured.write(output, query)
    if store is not None:
        for one in measured.windows(query):
            store.write(participation_to_points(one))
        store.flush()


def _as_dict(one: CriticalPathReport) -> dict[str, Any]:
    from autotrascale.domain.critical_path_report import report_to_dict
    from autotrascale.views.critical_path_text import explain_participation

    return {**report_to_dict(one), "explanation": explain_participation(one)}


def _show(one: CriticalPathReport) -> None:
    from autotrascale.views.critical_path_text import COLUMNS, explain_participation, participation_rows

    for line in explain_participation(one):
        say(line)
    say(f"({one.query} of {one.application}, {one.seconds:,.0f} s in windows)")
    print_table(COLUMNS, participation_rows(one))


def _show_window(one: CriticalPathReport) -> None:
    from datetime import UTC, datetime

    from autotrascale.views.critical_path_text import explain_participation

    at = datetime.fromtimestamp(one.started_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    say(f"{at} {one.query}: {explain_participation(one)[0]}")


def _draw(measured: MeasuredPaths, one: CriticalPathReport) -> None:
    from autotrascale.views.plots import critical_paths as plots
    from autotrascale.views.plots import terminal

    for plot in plots.plot_windows(measured.newest(one, _DRAWN)):
        say()
        print_plot(terminal.draw_plot(plot))
