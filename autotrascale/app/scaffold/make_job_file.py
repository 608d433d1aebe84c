"""A job file of what a script or an event log says, and of what the user adds; checked by the reader of job files
before it is written anywhere."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from autotrascale.app.job_file import JobFile
from autotrascale.app.program_file import ExecutorBounds, ProgramFile, ProgramSettings
from autotrascale.app.scaffold import job_file_text
from autotrascale.app.scaffold.prompts import Prompts, count_parser, number_parser, parse_names
from autotrascale.app.scaffold.read_script import ScriptJob, read_script
from autotrascale.domain import checks
from autotrascale.domain.errors import InputError
from autotrascale.domain.target import Target
from autotrascale.validation import read_yaml

_OPERATORS: tuple[str, ...] = ("source", "transform", "sink")
_SIMULATED = (10_000.0, 0.5, 20)  # records per second, seconds, the most instances
_SPARK = (100.0, 5.0, 4)
_EXECUTORS = 8


@dataclass(frozen=True)
class JobFileOptions:
    """What the command line says of a job."""

    name: str | None = None
    rate: float | None = None
    target: float | None = None
    p_max: int | None = None


@dataclass(frozen=True)
class MadeJobFile:
    """The text of a job file, what to do with it next, and what nobody said."""

    text: str
    then: str
    assumed: tuple[str, ...] = ()


def make_from_script(path: Path, said: str, given: JobFileOptions, questions: Prompts) -> MadeJobFile:
    found = read_script(said)
    if isinstance(found, ScriptJob):
        return _of_job(path, found, given, questions)
    file = ProgramFile(given.name or found.path.stem, ProgramSettings(_bounds(given)), _target(given))
    return _of_program(
        path, job_file_text.render_program(file, str(path), str(found.path), found.queries, None), str(found.path)
    )


def make_from_log(path: Path, log: str, given: JobFileOptions) -> MadeJobFile:
    from autotrascale.app.scaffold.event_log_facts import read_application_facts  # of the extra [spark]

    seen = read_application_facts(log)
    bounds = _bounds(given) if given.p_max is not None else ExecutorBounds(max(1, seen.executors))
    file = ProgramFile(
        given.name or seen.name or Path(log).stem,
        ProgramSettings(bounds),
        _target(given) or job_file_text.estimate_target(seen),
    )
    queries = [query.name for query in seen.queries.values()]
    return _of_program(path, job_file_text.render_program(file, str(path), "my_app.py", queries, seen), "my_app.py")


def make_simulated(path: Path, given: JobFileOptions, questions: Prompts) -> MadeJobFile:
    """A chain of operators."""
    questions.assumed.clear()  # that nobody named a script is what it is made of
    name = questions.ask("--name", "Its name", given.name, path.stem, str)
    operators: tuple[str, ...] = questions.ask(
        "operators", "Its operators, one behind the other", None, _OPERATORS, parse_names
    )
    if len(set(operators)) < len(operators):
        raise InputError("operators", "name one twice", seen=" ".join(operators), remedy="give each its own name")
    rate, target, p_max = _asked(questions, given, _SIMULATED)
    wishes = job_file_text.JobGoals(name, {operators[0]: rate}, target, p_max)
    made = job_file_text.render_simulated_job(operators, wishes, str(path), questions.assumed)
    return _checked_job(path, made, f"autotrascale tune {path}", questions)


def _of_job(path: Path, job: ScriptJob, given: JobFileOptions, questions: Prompts) -> MadeJobFile:
    sources = job.topology.sources
    rate, target, p_max = _asked(questions, given, _SPARK)
    wishes = job_file_text.JobGoals(given.name or job.name, dict.fromkeys(sources, rate), target, p_max)
    made = job_file_text.render_job(job, wishes, str(path), questions.assumed)
    return _checked_job(path, made, f"autotrascale doctor --job {path}", questions)


def _asked(questions: Prompts, given: JobFileOptions, usual: tuple[float, float, int]) -> tuple[float, float, int]:
    """Rate of each source, latency target and p_max."""
    rate = questions.ask("--rate", "Records per second, of each source", given.rate, usual[0], number_parser("--rate"))
    target = questions.ask(
        "--target", "Each record through in so many seconds", given.target, usual[1], number_parser("--target")
    )
    for option, value in (("--rate", rate), ("--target", target)):
        checks.positive_in_range(option, value)
    p_max = questions.ask(
        "--p-max", "The most instances of an operator", given.p_max, usual[2], count_parser("--p-max")
    )
    return rate, target, p_max


def _checked_job(path: Path, made: str, then: str, questions: Prompts) -> MadeJobFile:
    _check_text(made, path)
    read_yaml(made, JobFile, place=str(path))
    return MadeJobFile(made, then, tuple(questions.assumed))


def _of_program(path: Path, made: str, command: str) -> MadeJobFile:
    _check_text(made, path)
    read_yaml(made, ProgramFile, place=str(path))
    return MadeJobFile(made, f"autotrascale run {path} -- {command}")


def _check_text(made: str, path: Path) -> None:
    """A command line may hold bytes that are no characters."""
    try:
        made.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            str(path),
            "would hold what is no text",
            seen=repr(error.object[error.start : error.end]),
            remedy="name things in UTF-8",
        ) from None


def _bounds(given: JobFileOptions) -> ExecutorBounds:
    try:
        return ExecutorBounds(_EXECUTORS if given.p_max is None else given.p_max)
    except InputError as error:
        raise error.under("--p-max: ") from None


def _target(given: JobFileOptions) -> Target | None:
    try:
        return None if given.target is None else Target(given.target)
    except InputError as error:
        raise error.under("--target: ") from None
