"""`autotrascale init`: make a job file with comments, from a script, from an event log, or from answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autotrascale.app.console import OutputFormat, print_answer, say
from autotrascale.cli.options import FormatOption, argument, flag, option


def init(
    job_file: Annotated[Path, argument("Job file to make.", "JOB.yaml")] = Path("job.yaml"),
    script: Annotated[
        str | None, option("Python file of the job or program; it is read and not run.", "FILE.py[:JOB]")
    ] = None,
    event_log: Annotated[
        str | None, option("Event log of the program, ended or running.", "PATH", "--event-log")
    ] = None,
    name: Annotated[str | None, option("Name of the job.", "NAME", default="that of file, log or script")] = None,
    rate: Annotated[float | None, option("Records per second of each source.", "R", default="asked")] = None,
    target: Annotated[float | None, option("Latency target in seconds.", "SECONDS", default="asked")] = None,
    p_max: Annotated[
        int | None, option("Most instances of an operator, or executors of a program.", "N", default="asked")
    ] = None,
    yes: Annotated[bool, flag("--yes", "Ask nothing, and use default values.")] = False,
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
