"""`autotrascale sizes`: judge the sizes of an application's executors from its event log, or show its action log."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotrascale.app.console import OutputFormat, print_answer, print_plot, print_table, say
from autotrascale.cli.options import FormatOption, GroupedCommand, MetricsOption, StoreOption, argument, option

if TYPE_CHECKING:
    from autotrascale.app.executor_sizing import SizingStatus
    from autotrascale.knowledge.decision_journal.journal import DecisionJournal

LIMITS = "Limits of the cluster"


def sizes(
    what: Annotated[list[str], argument("Event logs, or the name of an application with an action log.", "LOG…|NAME")],
    window: Annotated[float, option("Length of a window in seconds.", "SECONDS", min=1.0)] = 60.0,
    evidence: Annotated[float, option("Hours to observe before anything is given back.", "HOURS", min=0.001)] = 24.0,
    a_day: Annotated[int, option("Limit for changes in 24 hours.", "N", min=1)] = 6,
    job_file: Annotated[
        Path | None, option("Job file whose services are watched.", "JOB.yaml", "--job", default="no services")
    ] = None,
    host_memory: Annotated[
        str, option("Memory of the largest host, such as 64g.", "SIZE", default="no limit", panel=LIMITS)
    ] = "",
    host_cores: Annotated[
        int | None, option("Cores of the largest host.", "N", default="no limit", panel=LIMITS, min=1)
    ] = None,
    executors: Annotated[
        int | None, option("Limit for executors.", "N", default="no limit", panel=LIMITS, min=1)
    ] = None,
    job_memory: Annotated[
        str, option("Limit for the memory of all executors together.", "SIZE", default="no limit", panel=LIMITS)
    ] = "",
    memory_step: Annotated[str, option("Step in which the cluster allocates memory.", "SIZE", panel=LIMITS)] = "1m",
    store: StoreOption = None,
    metrics: MetricsOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Advise on heap, memory and cores of executors.

    The answer states which resource is short or too large, the reason, and the Spark settings to change. Requested
    changes are kept in an action log, and the next event log shows whether they helped.
    """
    from autotrascale.app import executor_sizing, stores
    from autotrascale.app.job_file import read_services
    from autotrascale.app.metric_recording import open_metric_recorder
    from autotrascale.app.sizes_section import SizesSection
    from autotrascale.domain.errors import InputError

    services = {} if job_file is None else read_services(job_file)
    try:
        section = SizesSection("", window, evidence, host_memory, host_cores, job_memory, memory_step, a_day)
    except InputError as error:  # name the option instead of the key of a job file
        option = "--" + error.place.removesuffix("_mb").replace("_", "-")
        raise InputError(option, error.problem, seen=error.seen, remedy=error.remedy) from None
    has_store = stores.choose_store_uri(store) is not None
    decisions = stores.require_decisions(store) if has_store else None
    try:
        if not any(os.path.exists(each) or "://" in each for each in what):
            if len(what) > 1 or decisions is None:
                raise InputError("LOG", "does not exist", seen=what[0], remedy="give an event log or a folder of them")
            _print_history(what[0], decisions, form)
            return
        metrics = stores.NO_STORE if metrics is None and not has_store else metrics
        with open_metric_recorder(metrics, journalled=has_store) as recorder:
            settings = section.to_settings(executors)
            for status in executor_sizing.size_event_logs(what, settings, services, decisions, recorder):
                print_answer(form, _as_dict(status), partial(_show, status))
    finally:
        if decisions is not None:
            decisions.close()


def register(app: typer.Typer) -> None:
    app.command("sizes", cls=GroupedCommand)(sizes)


def _print_history(name: str, decisions: DecisionJournal, form: OutputFormat) -> None:
    from autotrascale.app.executor_sizing import read_history
    from autotrascale.views.executor_size_text import (
        SIZE_ACTION_COLUMNS,
        action_as_data,
        describe_sizes,
        size_action_rows,
    )

    actions = read_history(decisions, name)

    def show() -> None:
        say(f"{name}: last request: {describe_sizes(actions[-1].after)}")
        print_table(SIZE_ACTION_COLUMNS, size_action_rows(actions))

    print_answer(form, {"application": name, "history": [action_as_data(action) for action in actions]}, show)


def _as_dict(status: SizingStatus) -> dict[str, object]:
    from autotrascale.views.executor_size_text import action_as_data, sizes_as_data

    verdict, in_flight = status.verdict, status.in_flight
    return {
        "application": status.application,
        "sizes": dict(sizes_as_data(status.sizes)),
        "windows": status.window_count,
        "fault": None if verdict is None else verdict.fault,
        "reason": None if verdict is None else verdict.reason.as_dict(),
        "in_flight": None if in_flight is None else dict(action_as_data(in_flight)),
        "settings": dict(status.changed_settings),
        "history": [dict(action_as_data(action)) for action in status.history],
    }


def _show(status: SizingStatus) -> None:
    from autotrascale.views.executor_size_text import (
        SIZE_ACTION_COLUMNS,
        describe_sizes,
        describe_use,
        size_action_rows,
    )

    in_flight, verdict = status.in_flight, status.verdict
    say(f"{status.application}: {describe_sizes(status.sizes)}")
    say(f"  used: {describe_use(status.last_window)}")
    if in_flight is not None:
        say(f"  {in_flight.policy}: {in_flight.reason.text}")
        if status.changed_settings:
            say("  set at its next start, from the same checkpoint; the event log of that start will judge it:")
            for name, value in status.changed_settings.items():
                say(f"    {name}={value}")
        else:
            say("  the new sizes are in force, and are being judged")
    elif verdict is not None:
        say(f"  {verdict.fault}: {verdict.reason.text}")
    if status.history:
        print_table(SIZE_ACTION_COLUMNS, size_action_rows(status.history))
    if status.services.latency:
        from autotrascale.views.plots import service_lag, terminal

        print_plot(terminal.draw_plot(service_lag.plot_service_lag(status.services)))
