"""`autotrascale sizes LOG|NAME`: how large an application's executors are, what they should be, and what was ever done
about it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotrascale.app.console import FormatOption, OutputFormat, note, print_answer, print_plot, print_table, say
from autotrascale.app.stores import MetricsOption, StoreOption

if TYPE_CHECKING:
    from autotrascale.analyze.archive.use import ApplicationUse
    from autotrascale.app.executor_sizing import SizingStatus
    from autotrascale.app.sizes_section import SizingSettings
    from autotrascale.knowledge.decision_journal.journal import DecisionJournal
    from autotrascale.monitor.service_latency import Service, ServiceLatencies


def sizes(
    what: Annotated[
        list[str],
        typer.Argument(metavar="LOG…|NAME", help="Event logs of an application, or the name of one seen before."),
    ],
    window: Annotated[float, typer.Option(min=1.0, metavar="SECONDS", help="The length of a window.")] = 60.0,
    evidence: Annotated[
        float, typer.Option(min=0.001, metavar="HOURS", help="What must be seen before anything is given back.")
    ] = 24.0,
    host_memory: Annotated[str, typer.Option(metavar="SIZE", help="Memory of the largest host, such as 64g.")] = "",
    host_cores: Annotated[int | None, typer.Option(min=1, metavar="N", help="Cores of the largest host.")] = None,
    executors: Annotated[int | None, typer.Option(min=1, metavar="N", help="The most executors.")] = None,
    job_memory: Annotated[str, typer.Option(metavar="SIZE", help="The most memory of all executors together.")] = "",
    memory_step: Annotated[
        str, typer.Option(metavar="SIZE", help="The cluster gives memory in whole steps of this size.")
    ] = "1m",
    a_day: Annotated[int, typer.Option(min=1, metavar="N", help="The most changes of one application in a day.")] = 6,
    job_file: Annotated[
        Path | None, typer.Option("--job", metavar="JOB.yaml", help="Its job file, for the services that it names.")
    ] = None,
    store: StoreOption = None,
    metrics: MetricsOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Say what is short or too much of heap, memory, cores and executors, why, and what to set."""
    from autotrascale.app.metric_recording import open_metric_recorder
    from autotrascale.app.stores import NO_STORE, choose_store_uri, require_decisions
    from autotrascale.domain.errors import InputError
    from autotrascale.monitor.service_latency import ServiceLatencies

    services = {} if job_file is None else _services(job_file)
    how = _how(evidence, host_memory, host_cores, executors, job_memory, memory_step, a_day)
    none = choose_store_uri(store) is None
    decisions = None if none else require_decisions(store)
    try:
        if not any(os.path.exists(each) or "://" in each for each in what):
            if len(what) > 1 or decisions is None:
                raise InputError("LOG", "does not exist", seen=what[0], remedy="give an event log or a folder of them")
            _tell_history(what[0], decisions, form)
            return
        found = _read(what, window)
        with open_metric_recorder(NO_STORE if none and metrics is None else metrics, journalled=not none) as meter:
            for application in found:
                meter.keep_windows(application.windows)
            latencies = ServiceLatencies(services, meter.store, note)
            for name in dict.fromkeys(each.application for each in found):
                _tell(name, [each for each in found if each.application == name], how, decisions, form, latencies)
    finally:
        if decisions is not None:
            decisions.close()


def register(app: typer.Typer) -> None:
    app.command("sizes")(sizes)


def _how(
    evidence: float,
    host_memory: str,
    host_cores: int | None,
    executors: int | None,
    job_memory: str,
    step: str,
    a_day: int,
) -> SizingSettings:
    from autotrascale.app.sizes_section import HOUR, SizingSettings, parse_size_mb
    from autotrascale.plan.executor_size.clamp_to_cluster import ClusterLimits
    from autotrascale.plan.executor_size.size_evidence import ExecutorSizeRules
    from autotrascale.plan.executor_size.size_step import SizeChangeQuota

    limits = ClusterLimits(
        host_memory_mb=parse_size_mb("--host-memory", host_memory),
        host_cores=host_cores,
        most_executors=executors,
        most_memory_mb=parse_size_mb("--job-memory", job_memory),
        memory_step_mb=parse_size_mb("--memory-step", step) or 1,
    )
    return SizingSettings(ExecutorSizeRules(evidence_seconds=evidence * HOUR), limits, SizeChangeQuota(a_day=a_day))


def _services(path: Path) -> Mapping[str, Service]:
    """Of a job's file, or of a program's."""
    from autotrascale.app.job_file import is_program_file, read_job_file
    from autotrascale.app.program_file import read_program_file

    return read_program_file(path).services if is_program_file(path) else read_job_file(path).services


def _read(paths: list[str], window: float) -> list[ApplicationUse]:
    from autotrascale.analyze.archive.use import applications as read_applications
    from autotrascale.domain.errors import InputError

    found, damages = read_applications(paths, window)
    for damage in damages:
        note(str(damage))
    if not found:
        raise InputError(
            ", ".join(paths),
            f"holds no {window:g} s of an application's work with its executors",
            remedy="give the whole log of an application that ran, or a shorter --window",
        )
    return found


def _tell(
    name: str,
    found: list[ApplicationUse],
    how: SizingSettings,
    decisions: DecisionJournal | None,
    form: OutputFormat,
    latencies: ServiceLatencies,
) -> None:
    from autotrascale.app.executor_sizing import judge_windows, limit_executors, list_changed_settings
    from autotrascale.views.executor_size_text import find_missing_settings

    windows = [window for each in found for window in each.windows]
    services = latencies.during([(each.began, each.began + each.seconds) for each in windows])
    conf = found[-1].conf
    standing = judge_windows(name, windows, replace(how, limits=limit_executors(how.limits, conf)), decisions, services)
    if standing is None:
        return
    for needed in find_missing_settings(standing.last, conf.local):
        note(f"{name}: {needed.name}={needed.value} is not set: {needed.why}")
    flying = standing.in_flight
    changed = {} if flying is None else list_changed_settings(standing.sizes, flying.after, conf)
    print_answer(form, _as_data(standing, changed), partial(_show, standing, changed))


def _tell_history(name: str, decisions: DecisionJournal, form: OutputFormat) -> None:
    from autotrascale.domain.errors import InputError
    from autotrascale.knowledge.decision_journal.size_action_log import list_applications, read_actions
    from autotrascale.plan.formatting import join_names
    from autotrascale.views.executor_size_text import (
        SIZE_ACTION_COLUMNS,
        action_as_data,
        describe_sizes,
        size_action_rows,
    )

    found = read_actions(decisions, name)
    if not found:
        known = list_applications(decisions)
        remedy = f"use one of {join_names(known)}" if known else "give an event log first: autotrascale sizes LOG"
        raise InputError(
            "LOG", "is neither a file nor an application whose sizes were ever changed", seen=name, remedy=remedy
        )
    answer = {"application": name, "history": [action_as_data(action) for action in found]}

    def show() -> None:
        say(f"{name}: last asked for: {describe_sizes(found[-1].after)}")
        print_table(SIZE_ACTION_COLUMNS, size_action_rows(found))

    print_answer(form, answer, show)


def _as_data(standing: SizingStatus, changed: Mapping[str, str]) -> dict[str, object]:
    from autotrascale.views.executor_size_text import action_as_data, sizes_as_data

    verdict, flying = standing.verdict, standing.in_flight
    return {
        "application": standing.application,
        "sizes": dict(sizes_as_data(standing.sizes)),
        "windows": standing.windows,
        "fault": None if verdict is None else verdict.fault,
        "reason": None if verdict is None else verdict.reason.as_dict(),
        "in_flight": None if flying is None else dict(action_as_data(flying)),
        "settings": dict(changed),
        "history": [dict(action_as_data(action)) for action in standing.history],
    }


def _show(standing: SizingStatus, changed: Mapping[str, str]) -> None:
    from autotrascale.views.executor_size_text import (
        SIZE_ACTION_COLUMNS,
        describe_sizes,
        describe_use,
        size_action_rows,
    )

    flying, verdict = standing.in_flight, standing.verdict
    say(f"{standing.application}: {describe_sizes(standing.sizes)}")
    say(f"  used: {describe_use(standing.last)}")
    if flying is not None:
        say(f"  {flying.policy}: {flying.reason.text}")
        if changed:
            say("  set at its next start, from the same checkpoint; it is judged by the log of that:")
            for setting, value in changed.items():
                say(f"    {setting}={value}")
        else:
            say("  the new sizes are there, and are being judged")
    elif verdict is not None:
        say(f"  {verdict.fault}: {verdict.reason.text}")
    if standing.history:
        print_table(SIZE_ACTION_COLUMNS, size_action_rows(standing.history))
    if standing.services.latency:
        from autotrascale.views.plots import service_lag, terminal

        print_plot(terminal.draw_plot(service_lag.plot_service_lag(standing.services)))
