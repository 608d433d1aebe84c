"""`autotrascale pause | resume | pin | apply JOB`: orders to a control loop that runs, in whatever process."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from autotrascale.app.console import FormatOption, OutputFormat, complain, note, print_answer, say
from autotrascale.app.stores import StoreOption, require_decisions
from autotrascale.cli.completion import complete_loop_names

if TYPE_CHECKING:
    from autotrascale.plan.control.commands import CommandKind

BAD_USAGE = 2

JobName = Annotated[
    str, typer.Argument(metavar="JOB", help="A job that a loop keeps.", autocompletion=complete_loop_names)
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask whether it is meant.")]


def pause(job: JobName, yes: Yes = False, store: StoreOption = None, form: FormatOption = OutputFormat.table) -> None:
    """Rescale nothing until it is resumed. The loop goes on looking, and a program that died is still started again."""
    _order(job, "pause", {}, "it will be looked at and not be rescaled until it is resumed", yes, store, form)


def resume(job: JobName, yes: Yes = False, store: StoreOption = None, form: FormatOption = OutputFormat.table) -> None:
    """End a pause or a pin: the loop decides again."""
    _order(job, "resume", {}, "its loop will decide again, and may rescale it", yes, store, form)


def pin(
    job: JobName,
    operators: Annotated[list[str], typer.Argument(metavar="OPERATOR=K…", help="How many instances of which.")],
    yes: Yes = False,
    store: StoreOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Bring operators to a parallelism and hold them there until it is resumed. Others go on being scaled."""
    pins = dict(_pin(text) for text in operators)
    if len(pins) < len(operators):
        raise typer.BadParameter("names an operator twice", param_hint="OPERATOR=K")
    wanted = ", ".join(f"{name} to {k}" for name, k in pins.items())
    _order(job, "pin", pins, f"{wanted}: it will be rescaled so at the next look, and held there", yes, store, form)


def apply(job: JobName, yes: Yes = False, store: StoreOption = None, form: FormatOption = OutputFormat.table) -> None:
    """Carry out once what a loop recommends that only advises, or is paused. It goes on advising, or stays paused."""
    _order(job, "apply", {}, "what its loop recommends at the next look will be carried out, once", yes, store, form)


def register(app: typer.Typer) -> None:
    for verb in (pause, resume, pin, apply):
        app.command(verb.__name__)(verb)


def _pin(text: str) -> tuple[str, int]:
    name, equals, k = text.rpartition("=")
    if not (name and equals and k.isascii() and k.isdecimal() and len(k) < 10):
        raise typer.BadParameter(f"is not OPERATOR=K: {text!r}; write flatmap=8", param_hint="OPERATOR=K")
    return name, int(k)


def _order(
    job: str, what: CommandKind, pins: dict[str, int], then: str, yes: bool, store: str | None, form: OutputFormat
) -> None:
    """Whether it can be asked at all is known before anybody is asked whether it is meant."""
    from autotrascale.app import loop_commands
    from autotrascale.knowledge.requested_by import current_user
    from autotrascale.views.loop_text import format_recommendation

    decisions = require_decisions(store)
    past = loop_commands.find_loop_for(decisions, job, what)
    loop_commands.check_pin(past, pins)
    if what == "apply":
        then += f" (now that is {format_recommendation(past.state.observed, past.state.planned)})"
    _confirm(f"{what} {job}: {then}. Go on?", yes)
    order = loop_commands.send_command(decisions, job, what, current_user(), pins)
    decisions.close()
    answer = {"job": job, **asdict(order)}
    print_answer(
        form, answer, lambda: say(f"order {order.number} to {job}: {order.in_words}; taken in at its next look")
    )


def _confirm(question: str, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        complain("--yes: is missing, and there is no terminal to ask whether it is meant; add it")
        raise typer.Exit(BAD_USAGE)
    if not typer.confirm(question, err=True):
        note("nothing was asked of the loop")
        raise typer.Exit(1)
