"""`autotrascale init`: make a job file with comments, from a script, from an event log, or from answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autotrascale.app.console import OutputFormat, print_answer, say
from autotrascale.cli.options import FormatOption


def init(
    job_file: Annotated[Path, typer.Argument(metavar="[JOB.yaml]", help="Job file to make.")] = Path("job.yaml"),
    script: Annotated[
        str | None,
        typer.Option(metavar="FILE.py[:JOB]", help="Python file of the job or program; it is read and not run."),
    ] = None,
    event_log: Annotated[
        str | None, typer.Option("--event-log", metavar="PATH", help="Event log of the program, ended or running.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the job. [default: that of file, log or script]")
    ] = None,
    rate: Annotated[
        float | None, typer.Option(metavar="R", help="Records per second of each source. [default: asked]")
    ] = None,
    target: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Latency target in seconds. [default: asked]")
    ] = None,
    p_max: Annotated[
        int | None,
        typer.Option(metavar="N", help="Most instances of an operator, or executors of a program. [default: asked]"),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Ask nothing, and use default values.")] = False,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Make a job file with comments.

    The file can be used at once. It lists the options whose default was used. An existing file is never replaced.
    """
    from autotrascale.app.scaffold.make_job_file import JobFileOptions, init_job_file
    from autotrascale.app.scaffold.prompts import Prompts

    options = JobFileOptions(name, rate, target, p_max)
    made = init_job_file(job_file, script, event_log, options, Prompts(is_quiet=yes))
    answer = {"job_file": str(job_file), "next": made.next_command, "assumed": list(made.assumed)}
    print_answer(form, answer, lambda: say(f"made {job_file}; next:\n    {made.next_command}"))


def register(app: typer.Typer) -> None:
    app.command("init")(init)
