"""Use case of `run`: start a program or find a running one, and control it until it ends."""

from __future__ import annotations

import time
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from autotrascale.app import notifications, stores
from autotrascale.app.command_context import CommandContext
from autotrascale.app.console import OutputFormat, note
from autotrascale.app.metric_recording import open_metric_recorder
from autotrascale.app.program_controller import ProgramController
from autotrascale.app.program_file import ExecutorBounds, ProgramFile, ProgramSettings, read_program_file
from autotrascale.app.sizes_section import SizesSection
from autotrascale.domain.errors import InputError
from autotrascale.domain.target import Target
from autotrascale.execute.spark.common.program_environment import ProgramOptions, parse_rescale_mode
from autotrascale.execute.spark.controller.program_command import ProgramCommand, parse_command
from autotrascale.execute.spark.controller.program_process import ProgramProcess

JOB_FILE_SUFFIXES = (".yaml", ".yml")
DEFAULT_MAX_EXECUTORS = 8


@dataclass(frozen=True)
class ProgramRequest:
    """A request to control a program.

    Args:
        words: the job file, if any, and the program's command line.
        folder: folder of a program that runs already, instead of a command line.
        apply: scale the program; else print recommendations only.
        targets: latency targets, `SECONDS` or `QUERY=SECONDS`.
        executors: number of executors, `MIN:MAX`.
        price: price of an executor for one hour.
        rescale: how state moves, by name.
        sizes: relaunch the program with other executor sizes.
        seconds: duration; None: until the program ends.
        write_job: where to write a job file with the learned targets.
    """

    words: list[str]
    folder: Path | None = None
    apply: bool = False
    targets: tuple[str, ...] = ()
    executors: str | None = None
    price: float | None = None
    rescale: str | None = None
    sizes: bool = False
    seconds: float | None = None
    write_job: Path | None = None

    def __post_init__(self) -> None:
        if self.rescale is not None and not self.apply:
            raise InputError("--rescale", "needs --apply", seen=self.rescale, remedy="give both, or none")
        if self.rescale is not None and self.folder is not None:
            raise InputError(
                "--rescale", "is fixed when the program starts", seen=self.rescale, remedy="leave it out with --program"
            )
        if self.sizes and not self.apply:
            raise InputError("--sizes", "needs --apply", remedy="give both, or none")
        if bool(self.command_line) == (self.folder is not None):
            raise InputError(
                "program",
                "is missing" if self.folder is None else "is given twice",
                remedy="give a command behind --, or the folder of a running program with --program",
            )

    @property
    def job_file(self) -> Path | None:
        return Path(self.words[0]) if self.words and Path(self.words[0]).suffix in JOB_FILE_SUFFIXES else None

    @property
    def command_line(self) -> list[str]:
        rest = self.words if self.job_file is None else self.words[1:]
        return rest[1:] if rest and rest[0] == "--" else list(rest)


@dataclass(frozen=True)
class ProgramResult:
    """The end of a controlled program. `exit_code` is None while the program runs on."""

    exit_code: int | None
    missed: bool


def run_program(
    request: ProgramRequest, store_option: str | None, metrics: str | None, form: OutputFormat
) -> ProgramResult:
    """Start or find the program, and control it.

    Args:
        request: the program, and what to do.
        store_option: the value of `--store`.
        metrics: the value of `--metrics`.
        form: how decisions and advice are printed.

    Raises:
        InputError: an option or the command line is wrong.
        EngineError: the program cannot be started.
    """
    command = parse_command(request.command_line) if request.folder is None else None
    store = stores.open_store(store_option)
    with ExitStack() as stack:
        decisions = stores.open_decisions(store)
        if decisions is not None:
            stack.callback(decisions.close)
        program = None if request.folder is None else ProgramProcess.find(request.folder.resolve())
        name = program.name if program is not None else command.name if command is not None else ""
        file = apply_options(request, name)
        notifications.check_targets(file.notify or notifications.read_targets_from_environment())
        recorder = stack.enter_context(open_metric_recorder(metrics, journalled=decisions is not None))
        context = CommandContext(store, decisions, recorder, form, advise=not request.apply)
        if command is not None:
            program = _start(command, stores.live_job_folder(decisions, file.job), file, request.apply, form)
        assert program is not None
        controller = ProgramController(program, file, context)
        with program.forward_signals() if command is not None else nullcontext():
            controller.run(request.seconds)
            if request.write_job is not None:
                controller.write_job(request.write_job)
            exit_code = program.wait() if command is not None else program.exit_code()
    return ProgramResult(exit_code, controller.missed)


def apply_options(request: ProgramRequest, name: str) -> ProgramFile:
    """Return the request's job file, or a default file for the program `name`, with the options of the command line.

    Raises:
        InputError: an option cannot be read.
    """
    if request.job_file is not None:
        file = read_program_file(request.job_file)
    else:
        file = ProgramFile(name, ProgramSettings(ExecutorBounds(DEFAULT_MAX_EXECUTORS)))
    program = file.program
    if request.executors is not None:
        program = replace(program, executors=_parse_bounds(request.executors))
    if request.price is not None:
        program = replace(program, price=request.price)
    if request.rescale is not None:
        try:
            program = replace(program, rescale=parse_rescale_mode(request.rescale))
        except InputError as error:
            raise error.with_prefix("--") from None
    file = replace(file, program=program)
    if request.sizes and file.sizes is None:
        file = replace(file, sizes=SizesSection())
    for text in request.targets:
        file = _apply_target(file, text)
    return file


def _start(command: ProgramCommand, home: Path, file: ProgramFile, apply: bool, form: OutputFormat) -> ProgramProcess:
    folder = home.resolve() / f"program-{time.strftime('%Y%m%d-%H%M%S')}-{time.time_ns() % 1_000_000:06}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    limits = file.program.executors
    options = ProgramOptions(
        apply=apply,
        executors=(limits.minimum, limits.maximum),
        rescale=file.program.rescale if apply else "in-place",
        memory_metrics=apply and file.sizes is not None,
    )
    program = ProgramProcess.start(command, folder, options, all_to_stderr=form is OutputFormat.json)
    note(f"if this command ends before the program, continue with: autotrascale run --program {folder}")
    return program


def _apply_target(file: ProgramFile, text: str) -> ProgramFile:
    """Return the file with a target from `SECONDS` or `QUERY=SECONDS`. The statistic stays the file's."""
    query, equals, number = text.rpartition("=")
    remedy = "write 5, or orders=2"
    try:
        seconds = float(number)
    except ValueError:
        raise InputError("--target", "is not SECONDS or QUERY=SECONDS", seen=text, remedy=remedy) from None
    if equals and not query:
        raise InputError("--target", "has no query name before =", seen=text, remedy=remedy)
    before = file.target_for(query)
    try:
        target = replace(before, latency_seconds=seconds) if before else Target(seconds)
    except InputError as error:
        raise error.with_prefix("--target: ") from None
    return file.with_target(target, query)


def _parse_bounds(text: str) -> ExecutorBounds:
    least, colon, most = text.partition(":")
    if not (least.isdecimal() and (most.isdecimal() if colon else True)):
        raise InputError("--executors", "is not MIN:MAX", seen=text, remedy="write two whole numbers, such as 1:8")
    return ExecutorBounds(int(most or least), int(least))
