"""`autotrascale run`: control an existing PySpark streaming program, or advise on it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autotrascale.app.console import OutputFormat
from autotrascale.cli.options import TARGET_NOT_MET, FormatOption, GroupedCommand, MetricsOption, StoreOption

SCALING = "Scaling (with --apply)"
PROGRAM = "Program"


def run(
    context: typer.Context,
    advise: Annotated[
        bool, typer.Option("--advise", help="Print recommendations and change nothing. This is the default.")
    ] = False,
    apply: Annotated[
        bool, typer.Option("--apply", help="Hold the target: add and remove executors, and move state.")
    ] = False,
    target: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[QUERY=]SECONDS",
            help="Latency target in seconds, of all queries or of QUERY; repeatable."
            " [default: learned from the present latency]",
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            "--for", metavar="SECONDS", help="Duration in seconds. [default: until the program ends]", min=1.0
        ),
    ] = None,
    price: Annotated[
        float | None, typer.Option(metavar="AMOUNT", help="Price of one executor for one hour. [default: unknown]")
    ] = None,
    executors: Annotated[
        str | None,
        typer.Option(
            metavar="MIN:MAX", help="Number of executors of the whole program. [default: 1:8]", rich_help_panel=SCALING
        ),
    ] = None,
    rescale: Annotated[
        str | None,
        typer.Option(
            metavar="in-place|overlap|auto",
            help="How state moves: stop the query, run a second query that takes over, or the cheaper of both."
            " [default: in-place]",
            rich_help_panel=SCALING,
        ),
    ] = None,
    sizes: Annotated[
        bool,
        typer.Option(
            "--sizes", help="Relaunch the program with other executor sizes if that pays off.", rich_help_panel=SCALING
        ),
    ] = False,
    program: Annotated[
        Path | None,
        typer.Option(
            "--program",
            metavar="FOLDER",
            help="Folder of a program that runs already, instead of COMMAND.",
            rich_help_panel=PROGRAM,
        ),
    ] = None,
    write_job: Annotated[
        Path | None,
        typer.Option(
            "--write-job",
            metavar="FILE",
            help="Write a job file with the learned targets. [default: no file]",
            rich_help_panel=PROGRAM,
        ),
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
