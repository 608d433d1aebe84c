"""`autotrascale init`: a commented job file, from a script, from an event log, or from a few answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autotrascale.app.console import FormatOption, OutputFormat, print_answer, say
from autotrascale.atomic_files import create_file

_SCRIPT = "The Python file of your streaming job or program; none: a simulated job to try things on"


def init(
    job_file: Annotated[Path, typer.Argument(metavar="[JOB.yaml]", help="The file to make.")] = Path("job.yaml"),
    script: Annotated[
        str | None,
        typer.Option(metavar="FILE.py[:JOB]", help="Of the job or program in this file, which is read and not run."),
    ] = None,
    event_log: Annotated[
        str | None,
        typer.Option("--event-log", metavar="PATH", help="Of the application that writes, or wrote, this event log."),
    ] = None,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="What the job is called.")] = None,
    rate: Annotated[
        float | None, typer.Option(metavar="R", help="Records per second that each source shall hold.")
    ] = None,
    target: Annotated[float | None, typer.Option(metavar="SECONDS", help="The latency that it shall hold.")] = None,
    p_max: Annotated[
        int | None, typer.Option(metavar="N", help="The most instances of an operator, or executors of a program.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Ask nothing: what is not given is as usual.")] = False,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Make a job file with comments, which can be used as it stands. A file that is there is never replaced.

    With --script or --event-log it is made of what they say; else of a few answers. What nobody said is as usual, and
    the file says so.
    """
    from autotrascale.app.scaffold import make_job_file
    from autotrascale.app.scaffold.prompts import Prompts
    from autotrascale.domain.errors import InputError

    if script is not None and event_log is not None:
        raise InputError("--event-log", "is given beside --script", remedy="give one of them: each makes a file")
    _check_free(job_file)
    given, questions = make_job_file.JobFileOptions(name, rate, target, p_max), Prompts(quiet=yes)
    if event_log is not None:
        made = make_job_file.make_from_log(job_file, event_log, given)
    elif said := script or questions.ask("--script", _SCRIPT, None, "", str):
        made = make_job_file.make_from_script(job_file, said, given, questions)
    else:
        made = make_job_file.make_simulated(job_file, given, questions)
    try:
        create_file(job_file, made.text)
    except FileExistsError:
        _check_free(job_file)
        raise
    except OSError as error:
        raise InputError(str(job_file), f"cannot be written: {error.strerror}", remedy="name another file") from None
    answer = {"job_file": str(job_file), "next": made.then, "assumed": list(made.assumed)}
    print_answer(form, answer, lambda: say(f"{job_file} is made; next:\n    {made.then}"))


def register(app: typer.Typer) -> None:
    app.command("init")(init)


def _check_free(path: Path) -> None:
    import os

    from autotrascale.domain.errors import InputError

    if path.suffix not in (".yaml", ".yml"):
        raise InputError("JOB.yaml", "is no name of a job file", seen=str(path), remedy="let it end in .yaml")
    if os.path.lexists(path):
        raise InputError(
            str(path), "is there already, and is not replaced", remedy="name another file: autotrascale init OTHER.yaml"
        )
    if not path.absolute().parent.is_dir():
        raise InputError(str(path), "is in a folder that does not exist", remedy="make the folder")
