"""`autotrascale run`: a PySpark streaming program as it is, advised on while it runs or kept at its target."""

from __future__ import annotations

from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotrascale.app.console import OutputFormat, note
from autotrascale.cli.options import TARGET_NOT_MET, FormatOption, MetricsOption, StoreOption

if TYPE_CHECKING:
    from autotrascale.app.program_file import ExecutorBounds, ProgramFile
    from autotrascale.plan.migration.rescale_mode import RescaleMode

JOB_FILES = (".yaml", ".yml")
_MOST_UNSAID = 8  # executors that a program may have where nobody says how many


def run(
    context: typer.Context,
    advise: Annotated[
        bool, typer.Option("--advise", help="Say what it would do, and touch nothing (default).")
    ] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Keep it at its target: executors come and go.")] = False,
    seconds: Annotated[
        float | None, typer.Option("--for", metavar="SECONDS", help="How long; else until the program ends.", min=1.0)
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[QUERY=]SECONDS", help="The latency to hold, of all queries or of one; else learned. Repeatable."
        ),
    ] = None,
    executors: Annotated[str | None, typer.Option(metavar="MIN:MAX", help="How many executors it may have.")] = None,
    rescale: Annotated[
        str | None,
        typer.Option(
            metavar="HOW",
            help="overlap: another query is made ready while one runs on, and takes over; auto: where it is worth it;"
            " in-place (default).",
        ),
    ] = None,
    sizes: Annotated[
        bool, typer.Option("--sizes", help="With --apply: start it again with executors of another size, when it pays.")
    ] = False,
    price: Annotated[float | None, typer.Option(metavar="AMOUNT", help="Of one executor for an hour.")] = None,
    write_job: Annotated[
        Path | None, typer.Option("--write-job", metavar="FILE", help="Leave a job file of what was learned.")
    ] = None,
    program: Annotated[
        Path | None,
        typer.Option("--program", metavar="FOLDER", help="One that runs already, by the folder that it was given."),
    ] = None,
    store: StoreOption = None,
    metrics: MetricsOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Run a PySpark streaming program as it is: [JOB.yaml] -- my_app.py arguments… or -- spark-submit …"""
    from autotrascale.app import loop_session, notifications, program_controller, stores
    from autotrascale.app.metric_recording import open_metric_recorder
    from autotrascale.app.stores import open_store
    from autotrascale.domain.errors import InputError
    from autotrascale.execute.spark.common.program_environment import ProgramOptions
    from autotrascale.execute.spark.controller.program_command import parse_command
    from autotrascale.execute.spark.controller.program_process import ProgramProcess

    if advise and apply:
        raise InputError("--apply", "is given beside --advise, which touches nothing", remedy="give one of them")
    if rescale is not None and (program is not None or not apply):
        problem = "is for a program that is started here and kept" if apply else "is nothing to who touches nothing"
        raise InputError("--rescale", problem, seen=rescale, remedy="give it where the program starts, with --apply")
    if sizes and not apply:
        raise InputError(
            "--sizes", "is given without --apply, and nothing is touched then", remedy="give both, or none"
        )
    job_file, words = _split(context.args)
    if bool(words) == (program is not None):
        raise InputError(
            "program",
            "is missing" if program is None else "is named twice",
            remedy="name one behind --, or the folder of one that runs with --program",
        )
    command = parse_command(words) if program is None else None
    opened = open_store(store)
    with ExitStack() as stack:
        decisions = stores.open_decisions(opened)
        if decisions is not None:
            stack.callback(decisions.close)
        found = None if program is None else ProgramProcess.find(program.resolve())
        name = found.name if found is not None else command.name if command is not None else ""
        wishes = _wishes(job_file, name, target or [], executors, price, rescale, sizes=sizes)
        notifications.check_targets(wishes.notify or notifications.read_targets_from_environment())
        meter = stack.enter_context(open_metric_recorder(metrics, journalled=decisions is not None))
        around = loop_session.CommandContext(opened, decisions, meter, form, advise=not apply)
        if found is not None:
            running = found
        elif command is not None:
            folder = program_controller.new_program_folder(stores.live_job_folder(decisions, wishes.job))
            limits = wishes.program.executors
            running = ProgramProcess.start(
                command,
                folder,
                ProgramOptions(
                    apply=apply,
                    executors=(limits.minimum, limits.maximum),
                    rescale=wishes.program.rescale if apply else "in-place",
                    memory_metrics=apply and wishes.sizes is not None,
                ),
                all_to_stderr=form is OutputFormat.json,
            )
            note(f"should this command end before the program: autotrascale run --program {folder}")
        controller = program_controller.ProgramController(running, wishes, around)
        with running.forward_signals() if command is not None else nullcontext():
            controller.run(seconds)
            if write_job is not None:
                controller.write_job(write_job)
            code = running.wait() if command is not None else running.exit_code()
    raise typer.Exit(code or (TARGET_NOT_MET if controller.missed and code is None else 0))


def register(app: typer.Typer) -> None:
    # What stands behind the first word that is no option is the program's.
    app.command("run", context_settings={"allow_extra_args": True, "allow_interspersed_args": False})(run)


def _split(words: list[str]) -> tuple[Path | None, list[str]]:
    """The job file, if any, and the program's own command line."""
    rest = list(words)
    job_file = Path(rest.pop(0)) if rest and Path(rest[0]).suffix in JOB_FILES else None
    if rest and rest[0] == "--":
        rest.pop(0)
    return job_file, rest


def _wishes(
    job_file: Path | None,
    name: str,
    targets: list[str],
    executors: str | None,
    price: float | None,
    rescale: str | None = None,
    *,
    sizes: bool = False,
) -> ProgramFile:
    """As the file says, and over it what the command line says."""
    from dataclasses import replace

    from autotrascale.app.program_file import ExecutorBounds, ProgramFile, ProgramSettings, read_program_file
    from autotrascale.app.sizes_section import SizesSection

    if job_file is not None:
        file = read_program_file(job_file)
    else:
        file = ProgramFile(name, ProgramSettings(ExecutorBounds(_MOST_UNSAID)))
    if executors is not None:
        file = replace(file, program=replace(file.program, executors=_bounds(executors)))
    if price is not None:
        file = replace(file, program=replace(file.program, price=price))
    if rescale is not None:
        file = replace(file, program=replace(file.program, rescale=_how(rescale)))
    if sizes and file.sizes is None:
        file = replace(file, sizes=SizesSection())
    for said in targets:
        file = _aiming(file, said)
    return file


def _aiming(file: ProgramFile, said: str) -> ProgramFile:
    """`5`, or `orders=2` for one query; the statistic stays the file's."""
    from dataclasses import replace

    from autotrascale.domain.errors import InputError
    from autotrascale.domain.target import Target

    query, equals, number = said.rpartition("=")
    try:
        seconds = float(number)
    except ValueError:
        raise InputError(
            "--target", "is not SECONDS or QUERY=SECONDS", seen=said, remedy="write 5, or orders=2"
        ) from None
    if equals and not query:
        raise InputError("--target", "names no query before its =", seen=said, remedy="write 5, or orders=2")
    before = file.target_for(query)
    try:
        target = replace(before, latency_seconds=seconds) if before else Target(seconds)
    except InputError as error:
        raise error.with_prefix("--target: ") from None
    return file.with_target(target, query)


def _how(said: str) -> RescaleMode:
    from autotrascale.domain.errors import InputError
    from autotrascale.execute.spark.common.program_environment import parse_rescale_mode

    try:
        return parse_rescale_mode(said)
    except InputError as error:
        raise error.with_prefix("--") from None


def _bounds(text: str) -> ExecutorBounds:
    from autotrascale.app.program_file import ExecutorBounds
    from autotrascale.domain.errors import InputError

    least, colon, most = text.partition(":")
    if not (least.isdecimal() and (most.isdecimal() if colon else True)):
        raise InputError("--executors", "is not MIN:MAX", seen=text, remedy="give two whole numbers, such as 1:8")
    return ExecutorBounds(int(most or least), int(least))
