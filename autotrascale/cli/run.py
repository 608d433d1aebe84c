"""`autotrascale run`: control an existing PySpark streaming program, or advise on it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autotrascale.app.console import OutputFormat
from autotrascale.cli.options import (
    TARGET_NOT_MET,
    FormatOption,
    GroupedCommand,
    MetricsOption,
    StoreOption,
    flag,
    option,
)

SCALING = "Scaling (with --apply)"
PROGRAM = "Program"


def run(
    context: typer.Context,
    advise: Annotated[bool, flag("--advise", "Print recommendations and change nothing. This is the default.")] = False,
    apply: Annotated[bool, flag("--apply", "Hold the target: add and remove executors, and move state.")] = False,
    target: Annotated[
        list[str] | None,
        option(
            "Latency target in seconds, of all queries or of QUERY; repeatable.",
            "[QUERY=]SECONDS",
            default="learned from the present latency",
        ),
    ] = None,
    seconds: Annotated[
        float | None, option("Duration in seconds.", "SECONDS", "--for", default="until the program ends", min=1.0)
    ] = None,
    price: Annotated[float | None, option("Price of one executor for one hour.", "AMOUNT", default="unknown")] = None,
    executors: Annotated[
        str | None, option("Number of executors of the whole program.", "MIN:MAX", default="1:8", panel=SCALING)
    ] = None,
    rescale: Annotated[
        str | None,
        option(
            "How state moves: stop the query, run a second query that takes over, or the cheaper of both.",
            "in-place|overlap|auto",
            default="in-place",
            panel=SCALING,
        ),
    ] = None,
    sizes: Annotated[
        bool, flag("--sizes", "Relaunch the program with other executor sizes if that pays off.", SCALING)
    ] = False,
    program: Annotated[
        Path | None,
        option("Folder of a program that runs already, instead of COMMAND.", "FOLDER", "--program", panel=PROGRAM),
    ] = None,
    write_job: Annotated[
        Path | None,
        option("Write a job file with the learned targets.", "FILE", "--write-job", default="no file", panel=PROGRAM),
    ] = None,
    store: StoreOption = None,
    metrics: MetricsOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Run a PySpark program and advise on it or scale it.

    COMMAND is `my_app.py arguments…` or `spark-submit … my_app.py arguments…`. The program itself stays unchanged.
    A JOB.yaml file before -- sets targets for each query and more.

    Exit codes: that of the program; 3 if the program runs on and a query missed its target at the end.
    """
    from autotrascale.app.program_run import ProgramRequest, run_program
    from autotrascale.domain.errors import InputError

    if advise and apply:
        raise InputError("--apply", "contradicts --advise", remedy="give one of them")
    request = ProgramRequest(
        context.args, program, apply, tuple(target or ()), executors, price, rescale, sizes, seconds, write_job
    )
    result = run_program(request, store, metrics, form)
    missed = result.missed and result.exit_code is None
    raise typer.Exit(result.exit_code or (TARGET_NOT_MET if missed else 0))


def register(app: typer.Typer) -> None:
    app.command(
        "run",
        cls=GroupedCommand,
        options_metavar="[OPTIONS] [JOB.yaml] -- COMMAND…",
        # Words behind the first word that is not an option belong to the program.
        context_settings={"allow_extra_args": True, "allow_interspersed_args": False},
    )(run)
