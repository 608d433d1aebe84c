"""`autotrascale status [JOB]`: the state of the control loops that keep their journal beside the store."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from autotrascale.app.console import OutputFormat, print_answer, print_table, say
from autotrascale.cli.completion import complete_loop_names
from autotrascale.cli.options import FormatOption, StoreOption, argument, flag

if TYPE_CHECKING:
    from autotrascale.knowledge.decision_journal.loop_status import JournaledLoop


def status(
    job: Annotated[str, argument("Job to show in detail.", "JOB", "all jobs", autocompletion=complete_loop_names)] = "",
    everything: Annotated[bool, flag("--all", "Also list loops that have ended.")] = False,
    store: StoreOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Show the control loops and their state.

    The answer has the running, requested and recommended parallelism, the latency target, and commands in force.
    """
    from autotrascale.app import loop_commands
    from autotrascale.app.stores import require_decisions
    from autotrascale.knowledge.decision_journal.loop_status import read_loops

    decisions = require_decisions(store)
    if job:
        loop_commands.check_loop_known(decisions, job)
    loops = read_loops(decisions, job or None, include_ended=bool(job) or everything)
    decisions.close()
    answer = {"loops": [asdict(loop.status()) for loop in loops]}
    print_answer(form, answer, lambda: _show(loops) if job else _list(loops))


def register(app: typer.Typer) -> None:
    app.command("status")(status)


def _list(loops: list[JournaledLoop]) -> None:
    from autotrascale.views.loop_status_text import describe_loop

    if not loops:
        say("no control loop runs; start one with: autotrascale autoscale JOB.yaml")
        return
    texts = [(loop, describe_loop(loop)) for loop in loops]
    print_table(
        ("job", "state", "running", "requested", "recommended", "rate", "latency", "target", "commands"),
        [
            (
                _format_job(loop),
                text.state,
                text.running,
                text.requested or "–",
                text.recommended or "–",
                text.rate,
                text.latency,
                text.met,
                "; ".join(text.commands) or "–",
            )
            for loop, text in texts
        ],
    )


def _show(loops: list[JournaledLoop]) -> None:
    from autotrascale.views.loop_status_text import describe_loop, format_age

    for loop in loops:
        text, status = describe_loop(loop), loop.status()
        lines = {
            "running": text.running,
            "requested": text.requested,
            "recommended": text.recommended,
            "rate": text.rate,
            "backlog": text.backlog,
            "latency": text.latency,
            "target": f"{text.target}: {text.met}",
            "cost": text.cost,
            "saved": text.saved,
            "rescales": str(status.rescales),
            "observed": f"{format_age(status.looked_seconds_ago)}, {status.looks} observations",
            "metrics": format_age(status.measured_seconds_ago),
            "decided": format_age(status.decided_seconds_ago),
            "commands": "; ".join(text.commands),
            "reason": text.reason,
            "next step": text.next_step,
        }
        say(f"{_format_job(loop)}: {text.state}, session {status.session}")
        for name, value in lines.items():
            if value:
                say(f"    {name:<12} {value}")


def _format_job(loop: JournaledLoop) -> str:
    return f"{loop.job} (simulated)" if loop.session.header.simulated else loop.job
