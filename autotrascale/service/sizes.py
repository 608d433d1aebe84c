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

from autotrascale.service.output import Format, FormatOption, draw, emit, note, say, table
from autotrascale.service.store import MetricsOption, StoreOption

if TYPE_CHECKING:
    from autotrascale.analyze.archive.use import ApplicationUse
    from autotrascale.knowledge.decisions.journal import Decisions
    from autotrascale.monitor.services import Latencies, Service
    from autotrascale.service.sizes_section import How
    from autotrascale.service.sizing import Standing


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
    form: FormatOption = Format.table,
) -> None:
    """Say what is short or too much of heap, memory, cores and executors, why, and what to set."""
    from autotrascale.domain.errors import InputError
    from autotrascale.monitor.services import Latencies
    from autotrascale.service.metering import metering
    from autotrascale.service.store import NO_STORE, need_decisions, store_uri

    services = {} if job_file is None else _services(job_file)
    how = _how(evidence, host_memory, host_cores, executors, job_memory, memory_step, a_day)
    none = store_uri(store) is None
    decisions = None if none else need_decisions(store)
    try:
        if not any(os.path.exists(each) or "://" in each for each in what):
            if len(what) > 1 or decisions is None:
                raise InputError("LOG", "does not exist", seen=what[0], remedy="give an event log or a folder of them")
            _tell_history(what[0], decisions, form)
            return
        found = _read(what, window)
        with metering(NO_STORE if none and metrics is None else metrics, journalled=not none) as meter:
            for application in found:
                meter.keep_windows(application.windows)
            latencies = Latencies(services, meter.store, note)
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
) -> How:
    from autotrascale.plan.executor_size.evidence import Rules
    from autotrascale.plan.executor_size.fitting import Limits
    from autotrascale.plan.executor_size.steps import Quota
    from autotrascale.service.sizes_section import HOUR, How, size_in_mb

    limits = Limits(
        host_memory_mb=size_in_mb("--host-memory", host_memory),
        host_cores=host_cores,
        most_executors=executors,
        most_memory_mb=size_in_mb("--job-memory", job_memory),
        memory_step_mb=size_in_mb("--memory-step", step) or 1,
    )
    return How(Rules(evidence_seconds=evidence * HOUR), limits, Quota(a_day=a_day))


def _services(path: Path) -> Mapping[str, Service]:
    """Of a job's file, or of a program's."""
    from autotrascale.service.jobfile import is_of_a_program, read_job_file
    from autotrascale.service.programfile import read_program_file

    return read_program_file(path).services if is_of_a_program(path) else read_job_file(path).services


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
    name: str, found: list[ApplicationUse], how: How, decisions: Decisions | None, form: Format, latencies: Latencies
) -> None:
    from autotrascale.service.sizing import followed, limits_of, to_paste
    from autotrascale.views.sizes import missing

    windows = [window for each in found for window in each.windows]
    services = latencies.during([(each.began, each.began + each.seconds) for each in windows])
    conf = found[-1].conf
    standing = followed(name, windows, replace(how, limits=limits_of(how.limits, conf)), decisions, services)
    if standing is None:
        return
    for needed in missing(standing.last, conf.local):
        note(f"{name}: {needed.name}={needed.value} is not set: {needed.why}")
    flying = standing.in_flight
    changed = {} if flying is None else to_paste(standing.sizes, flying.after, conf)
    emit(form, _as_data(standing, changed), partial(_show, standing, changed))


def _tell_history(name: str, decisions: Decisions, form: Format) -> None:
    from autotrascale.domain.errors import InputError
    from autotrascale.knowledge.decisions.sizes import actions, applications
    from autotrascale.plan.words import listing
    from autotrascale.views.sizes import HISTORY, action_as_data, history, in_words

    found = actions(decisions, name)
    if not found:
        known = applications(decisions)
        remedy = f"use one of {listing(known)}" if known else "give an event log first: autotrascale sizes LOG"
        raise InputError(
            "LOG", "is neither a file nor an application whose sizes were ever changed", seen=name, remedy=remedy
        )
    answer = {"application": name, "history": [action_as_data(action) for action in found]}

    def show() -> None:
        say(f"{name}: last asked for: {in_words(found[-1].after)}")
        table(HISTORY, history(found))

    emit(form, answer, show)


def _as_data(standing: Standing, changed: Mapping[str, str]) -> dict[str, object]:
    from autotrascale.views.sizes import action_as_data, sizes_as_data

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


def _show(standing: Standing, changed: Mapping[str, str]) -> None:
    from autotrascale.views.sizes import HISTORY, history, in_words, used

    flying, verdict = standing.in_flight, standing.verdict
    say(f"{standing.application}: {in_words(standing.sizes)}")
    say(f"  used: {used(standing.last)}")
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
        table(HISTORY, history(standing.history))
    if standing.services.latency:
        from autotrascale.views.plots import services, terminal

        draw(terminal.text(services.of(standing.services)))
