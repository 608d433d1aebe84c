"""Make a job file from a script, an event log, or answers. The reader of job files checks it before it is written."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from autotrascale.app.job_file import JobFile
from autotrascale.app.program_file import ExecutorBounds, ProgramFile, ProgramSettings
from autotrascale.app.scaffold import job_file_text
from autotrascale.app.scaffold.prompts import Prompts, count_parser, number_parser, parse_names
from autotrascale.app.scaffold.read_script import ScriptJob, read_script
from autotrascale.atomic_files import create_file
from autotrascale.domain import checks
from autotrascale.domain.errors import InputError
from autotrascale.domain.target import Target
from autotrascale.validation import read_yaml

DEFAULT_OPERATORS: tuple[str, ...] = ("source", "transform", "sink")
DEFAULT_MAX_EXECUTORS = 8
SCRIPT_QUESTION = "Python file of your streaming job or program (empty: a simulated job)"


@dataclass(frozen=True)
class _Defaults:
    """Answers if the user gives none: records/s of each source, latency in seconds, most instances."""

    rate: float
    target: float
    p_max: int


SIMULATED_DEFAULTS = _Defaults(10_000.0, 0.5, 20)
SPARK_DEFAULTS = _Defaults(100.0, 5.0, 4)


@dataclass(frozen=True)
class JobFileOptions:
    """Options of the command line; None: ask, or use the default.

    Args:
        name: name of the job.
        rate: records/s of each source.
        target: latency target in seconds.
        p_max: most instances of an operator, or executors of a program.
    """

    name: str | None = None
    rate: float | None = None
    target: float | None = None
    p_max: int | None = None


@dataclass(frozen=True)
class MadeJobFile:
    """The text of a job file, the command to run next, and the options that have default values."""

    text: str
    next_command: str
    assumed: tuple[str, ...] = ()


def init_job_file(
    path: Path, script: str | None, event_log: str | None, options: JobFileOptions, prompts: Prompts
) -> MadeJobFile:
    """Write a new job file and return it.

    Args:
        path: where to write; an existing file is never replaced.
        script: Python file of a job or program, `FILE.py` or `FILE.py:JOB`.
        event_log: event log of an application.
        options: options of the command line.
        prompts: asks for values that are not given.

    Raises:
        InputError: the file exists, or an input cannot be used.
    """
    if script is not None and event_log is not None:
        raise InputError("--event-log", "contradicts --script", remedy="give one of them")
    _check_free(path)
    if event_log is not None:
        made = make_from_log(path, event_log, options)
    elif chosen := script or prompts.ask("--script", SCRIPT_QUESTION, None, "", str):
        made = make_from_script(path, chosen, options, prompts)
    else:
        made = make_simulated(path, options, prompts)
    try:
        create_file(path, made.text)
    except FileExistsError:
        _check_free(path)
        raise
    except OSError as error:
        raise InputError(str(path), f"cannot be written: {error.strerror}", remedy="name another file") from None
    return made


def make_from_script(path: Path, script: str, options: JobFileOptions, prompts: Prompts) -> MadeJobFile:
    """Return a job file for the job or program in a Python file, which is read and not run."""
    found = read_script(script)
    if isinstance(found, ScriptJob):
        return _make_job(path, found, options, prompts)
    file = ProgramFile(options.name or found.path.stem, ProgramSettings(_bounds(options)), _target(options))
    text = job_file_text.render_program(file, str(path), str(found.path), found.queries, None)
    return _check_program(path, text, str(found.path))


def make_from_log(path: Path, log: str, options: JobFileOptions) -> MadeJobFile:
    """Return a job file for the program that wrote an event log."""
    from autotrascale.app.scaffold.event_log_facts import read_application_facts  # needs the extra [spark]

    facts = read_application_facts(log)
    bounds = _bounds(options) if options.p_max is not None else ExecutorBounds(max(1, facts.executors))
    file = ProgramFile(
        options.name or facts.name or Path(log).stem,
        ProgramSettings(bounds),
        _target(options) or job_file_text.estimate_target(facts),
    )
    queries = [query.name for query in facts.queries.values()]
    text = job_file_text.render_program(file, str(path), "my_app.py", queries, facts)
    return _check_program(path, text, "my_app.py")


def make_simulated(path: Path, options: JobFileOptions, prompts: Prompts) -> MadeJobFile:
    """Return a job file for a simulated chain of operators."""
    prompts.assumed.clear()  # --script is no value of the file
    name = prompts.ask("--name", "Name of the job", options.name, path.stem, str)
    operators: tuple[str, ...] = prompts.ask(
        "operators", "Operators, in the order of the data", None, DEFAULT_OPERATORS, parse_names
    )
    if len(set(operators)) < len(operators):
        raise InputError("operators", "have a name twice", seen=" ".join(operators), remedy="name each differently")
    goals = _ask_goals(name, [operators[0]], options, SIMULATED_DEFAULTS, prompts)
    text = job_file_text.render_simulated_job(operators, goals, str(path), prompts.assumed)
    return _check_job(path, text, f"autotrascale tune {path}", prompts)


def _make_job(path: Path, job: ScriptJob, options: JobFileOptions, prompts: Prompts) -> MadeJobFile:
    goals = _ask_goals(options.name or job.name, list(job.topology.sources), options, SPARK_DEFAULTS, prompts)
    text = job_file_text.render_job(job, goals, str(path), prompts.assumed)
    return _check_job(path, text, f"autotrascale doctor --job {path}", prompts)


def _ask_goals(
    name: str, sources: list[str], options: JobFileOptions, defaults: _Defaults, prompts: Prompts
) -> job_file_text.JobGoals:
    rate = prompts.ask(
        "--rate", "Records per second of each source", options.rate, defaults.rate, number_parser("--rate")
    )
    target = prompts.ask(
        "--target", "Latency target in seconds", options.target, defaults.target, number_parser("--target")
    )
    for option, value in (("--rate", rate), ("--target", target)):
        checks.positive_in_range(option, value)
    p_max = prompts.ask(
        "--p-max", "Most instances of an operator", options.p_max, defaults.p_max, count_parser("--p-max")
    )
    return job_file_text.JobGoals(name, dict.fromkeys(sources, rate), target, p_max)


def _check_job(path: Path, text: str, next_command: str, prompts: Prompts) -> MadeJobFile:
    _check_text(text, path)
    read_yaml(text, JobFile, place=str(path))
    return MadeJobFile(text, next_command, tuple(prompts.assumed))


def _check_program(path: Path, text: str, command: str) -> MadeJobFile:
    _check_text(text, path)
    read_yaml(text, ProgramFile, place=str(path))
    return MadeJobFile(text, f"autotrascale run {path} -- {command}")


def _check_text(text: str, path: Path) -> None:
    # A command line may hold bytes that are not characters.
    try:
        text.encode()
    except UnicodeEncodeError as error:
        seen = repr(error.object[error.start : error.end])
        raise InputError(
            str(path), "would hold bytes that are not text", seen=seen, remedy="use names in UTF-8"
        ) from None


def _check_free(path: Path) -> None:
    if path.suffix not in (".yaml", ".yml"):
        raise InputError("JOB.yaml", "does not end in .yaml", seen=str(path), remedy="add the ending")
    if os.path.lexists(path):
        remedy = "name another file: autotrascale init OTHER.yaml"
        raise InputError(str(path), "exists, and is not replaced", remedy=remedy)
    if not path.absolute().parent.is_dir():
        raise InputError(str(path), "is in a folder that does not exist", remedy="create the folder")


def _bounds(options: JobFileOptions) -> ExecutorBounds:
    try:
        return ExecutorBounds(DEFAULT_MAX_EXECUTORS if options.p_max is None else options.p_max)
    except InputError as error:
        raise error.with_prefix("--p-max: ") from None


def _target(options: JobFileOptions) -> Target | None:
    try:
        return None if options.target is None else Target(options.target)
    except InputError as error:
        raise error.with_prefix("--target: ") from None
