"""A job file of what a script or an event log says, and of what the user adds; checked by the reader of job files
before it is written anywhere."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from autotrascale.domain import checks
from autotrascale.domain.errors import InputError
from autotrascale.domain.target import Target
from autotrascale.reading import read_yaml
from autotrascale.service.jobfile import JobFile
from autotrascale.service.programfile import ExecutorBounds, ProgramFile, ProgramSettings
from autotrascale.service.starting import text
from autotrascale.service.starting.questions import Questions, count, names, number
from autotrascale.service.starting.script import Job, read_script

_OPERATORS: tuple[str, ...] = ("source", "transform", "sink")
_SIMULATED = (10_000.0, 0.5, 20)  # records per second, seconds, the most instances
_SPARK = (100.0, 5.0, 4)
_EXECUTORS = 8


@dataclass(frozen=True)
class Given:
    """What the command line says of a job."""

    name: str | None = None
    rate: float | None = None
    target: float | None = None
    p_max: int | None = None


@dataclass(frozen=True)
class Made:
    """The text of a job file, what to do with it next, and what nobody said."""

    text: str
    then: str
    assumed: tuple[str, ...] = ()


def from_script(path: Path, said: str, given: Given, questions: Questions) -> Made:
    found = read_script(said)
    if isinstance(found, Job):
        return _of_job(path, found, given, questions)
    file = ProgramFile(given.name or found.path.stem, ProgramSettings(_bounds(given)), _target(given))
    return _of_program(path, text.of_program(file, str(path), str(found.path), found.queries, None), str(found.path))


def from_log(path: Path, log: str, given: Given) -> Made:
    from autotrascale.service.starting.log import read_log  # of the extra [spark]

    seen = read_log(log)
    bounds = _bounds(given) if given.p_max is not None else ExecutorBounds(max(1, seen.executors))
    file = ProgramFile(
        given.name or seen.name or Path(log).stem, ProgramSettings(bounds), _target(given) or text.likely_target(seen)
    )
    queries = [query.name for query in seen.queries.values()]
    return _of_program(path, text.of_program(file, str(path), "my_app.py", queries, seen), "my_app.py")


def simulated(path: Path, given: Given, questions: Questions) -> Made:
    """A chain of operators."""
    questions.assumed.clear()  # that nobody named a script is what it is made of
    name = questions.ask("--name", "Its name", given.name, path.stem, str)
    operators: tuple[str, ...] = questions.ask(
        "operators", "Its operators, one behind the other", None, _OPERATORS, names
    )
    if len(set(operators)) < len(operators):
        raise InputError("operators", "name one twice", seen=" ".join(operators), remedy="give each its own name")
    rate, target, p_max = _asked(questions, given, _SIMULATED)
    wishes = text.Wishes(name, {operators[0]: rate}, target, p_max)
    made = text.of_simulated(operators, wishes, str(path), questions.assumed)
    return _checked_job(path, made, f"autotrascale tune {path}", questions)


def _of_job(path: Path, job: Job, given: Given, questions: Questions) -> Made:
    sources = job.topology.sources
    rate, target, p_max = _asked(questions, given, _SPARK)
    wishes = text.Wishes(given.name or job.name, dict.fromkeys(sources, rate), target, p_max)
    made = text.of_job(job, wishes, str(path), questions.assumed)
    return _checked_job(path, made, f"autotrascale doctor --job {path}", questions)


def _asked(questions: Questions, given: Given, usual: tuple[float, float, int]) -> tuple[float, float, int]:
    """Rate of each source, latency target and p_max."""
    rate = questions.ask("--rate", "Records per second, of each source", given.rate, usual[0], number("--rate"))
    target = questions.ask(
        "--target", "Each record through in so many seconds", given.target, usual[1], number("--target")
    )
    for option, value in (("--rate", rate), ("--target", target)):
        checks.within_reach(option, value)
    p_max = questions.ask("--p-max", "The most instances of an operator", given.p_max, usual[2], count("--p-max"))
    return rate, target, p_max


def _checked_job(path: Path, made: str, then: str, questions: Questions) -> Made:
    _check_text(made, path)
    read_yaml(made, JobFile, place=str(path))
    return Made(made, then, tuple(questions.assumed))


def _of_program(path: Path, made: str, command: str) -> Made:
    _check_text(made, path)
    read_yaml(made, ProgramFile, place=str(path))
    return Made(made, f"autotrascale run {path} -- {command}")


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


def _bounds(given: Given) -> ExecutorBounds:
    try:
        return ExecutorBounds(_EXECUTORS if given.p_max is None else given.p_max)
    except InputError as error:
        raise error.under("--p-max: ") from None


def _target(given: Given) -> Target | None:
    try:
        return None if given.target is None else Target(given.target)
    except InputError as error:
        raise error.under("--target: ") from None
