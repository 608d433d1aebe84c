"""`autotrascale pause | resume | pin | apply JOB`: commands to a running control loop, in whichever process it runs."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from autotrascale.app.console import OutputFormat, complain, note, print_answer, say
from autotrascale.cli.completion import complete_loop_names
from autotrascale.cli.options import BAD_USAGE, FAILED, FormatOption, StoreOption, argument

if TYPE_CHECKING:
    from autotrascale.plan.control.commands import CommandKind

JobArgument = Annotated[str, argument("Job with a control loop.", "JOB", autocompletion=complete_loop_names)]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


def pause(
    job: JobArgument, yes: YesOption = False, store: StoreOption = None, form: FormatOption = OutputFormat.table
) -> None:
    """Pause rescaling until `resume`.

    The loop goes on observing the job, and starts it again if it dies.
    """
    _send(job, "pause", {}, "the loop will rescale nothing until `resume`", yes, store, form)


def resume(
    job: JobArgument, yes: YesOption = False, store: StoreOption = None, form: FormatOption = OutputFormat.table
) -> None:
    """End a pause or a pin."""
    _send(job, "resume", {}, "the loop will decide again, and may rescale the job", yes, store, form)


def pin(
    job: JobArgument,
    operators: Annotated[list[str], argument("Instances of each operator to pin.", "OPERATOR=K…")],
    yes: YesOption = False,
    store: StoreOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Hold operators at a parallelism until `resume`.

    The loop goes on scaling all other operators.
    """
    pins = dict(_parse_pin(text) for text in operators)
    if len(pins) < len(operators):
        raise typer.BadParameter("names an operator twice", param_hint="OPERATOR=K")
    effect = ", ".join(f"{name} to {k}" for name, k in pins.items())
    _send(job, "pin", pins, f"the loop will rescale {effect} and hold it until `resume`", yes, store, form)


def apply(
    job: JobArgument, yes: YesOption = False, store: StoreOption = None, form: FormatOption = OutputFormat.table
) -> None:
    """Carry out a loop's recommendation once.

    For a loop that only advises, or that is paused. It goes on advising, or stays paused.
    """
    _send(job, "apply", {}, "the loop will carry out its next recommendation, once", yes, store, form)


def register(app: typer.Typer) -> None:
    for verb in (pause, resume, pin, apply):
        app.command(verb.__name__)(verb)


def _parse_pin(text: str) -> tuple[str, int]:
    name, equals, k = text.rpartition("=")
    if not (name and equals and k.isascii() and k.isdecimal() and len(k) < 10):
        raise typer.BadParameter(f"is not OPERATOR=K: {text!r}; write flatmap=8", param_hint="OPERATOR=K")
    return name, int(k)


def _send(
    job: str, what: CommandKind, pins: dict[str, int], effect: str, yes: bool, store: str | None, form: OutputFormat
) -> None:
    from autotrascale.app import loop_commands
    from autotrascale.app.stores import require_decisions
    from autotrascale.knowledge.requested_by import current_user
    from autotrascale.views.loop_status_text import format_recommendation

    decisions = require_decisions(store)
    session = loop_commands.find_loop_for(decisions, job, what)
    loop_commands.check_pin(session, pins)
    if what == "apply":
        effect += f" (now: {format_recommendation(session.state.observed, session.state.planned)})"
    _confirm(f"{what} {job}: {effect}. Continue?", yes)
    command = loop_commands.send_command(decisions, job, what, current_user(), pins)
    decisions.close()
    text = f"command {command.number} to {job}: {command.description}; the loop reads it with its next observation"
    print_answer(form, {"job": job, **asdict(command)}, lambda: say(text))


def _confirm(question: str, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        complain("--yes: is required without a terminal to confirm on; add it")
        raise typer.Exit(BAD_USAGE)
    if not typer.confirm(question, err=True):
        note("no command was sent")
        raise typer.Exit(FAILED)
