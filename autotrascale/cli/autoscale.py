"""`autotrascale autoscale`: the control loop of a running job, on Spark or on the simulator."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autotrascale.app.console import OutputFormat, note
from autotrascale.cli.options import (
    TARGET_NOT_MET,
    EngineOption,
    FormatOption,
    GroupedCommand,
    JobFileArgument,
    MetricsOption,
    PolicyOption,
    StoreOption,
    flag,
    option,
)


def autoscale(
    job_file: JobFileArgument,
    advise: Annotated[bool, flag("--advise", "Print recommendations and change nothing.")] = False,
    engine: EngineOption = None,
    seconds: Annotated[
        float | None,
        option("Duration in seconds.", "SECONDS", "--for", default="no end on Spark, 86400 on the simulator", min=1.0),
    ] = None,
    policy: PolicyOption = None,
    event_log: Annotated[
        Path | None, option("Event log of the Spark application to watch with --advise.", "FOLDER", "--event-log")
    ] = None,
    sizes: Annotated[
        bool, flag("--sizes", "Also judge executor memory on Spark, and relaunch the job if that pays off.")
    ] = False,
    store: StoreOption = None,
    metrics: MetricsOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Hold a job's latency target while its rate changes.

    The loop observes the job, decides, and rescales the job to the least parallelism that holds the target.

    Exit codes: 0 the target was met at the end, 1 an error, 2 bad usage, 3 the target was missed at the end.
    """
    from autotrascale.app import notifications, unit_warnings
    from autotrascale.app.autoscale_job import AutoscaleRequest, autoscale_job
    from autotrascale.app.job_file import read_job_file
    from autotrascale.app.stores import open_store
    from autotrascale.app.termination import exit_on_sigterm

    file = read_job_file(job_file)
    unit_warnings.warn_about_units(file, note)
    notifications.check_targets(file.notify or notifications.read_targets_from_environment())
    engine_name = file.choose_engine(None if engine is None else engine.value)
    request = AutoscaleRequest(file, job_file, engine_name, advise, event_log, sizes, policy, seconds)
    file.choose_policy(policy)
    with exit_on_sigterm():
        state = autoscale_job(request, open_store(store), metrics, form)
    if state.memory.missed:
        raise typer.Exit(TARGET_NOT_MET)


def register(app: typer.Typer) -> None:
    app.command("autoscale", cls=GroupedCommand)(autoscale)
