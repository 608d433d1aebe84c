"""`autotrascale status [JOB]`: how the control loops stand that keep their journal beside this store."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from autotrascale.app.console import FormatOption, OutputFormat, print_answer, print_table, say
from autotrascale.app.stores import StoreOption, require_decisions
from autotrascale.cli.completion import complete_loop_names

if TYPE_CHECKING:
    from autotrascale.knowledge.decision_journal.loop_status import CommandStatus, LoopStatus


def status(
    job: Annotated[
        str,
        typer.Argument(metavar="[JOB]", help="One job; else all that are kept.", autocompletion=complete_loop_names),
    ] = "",
    everything: Annotated[bool, typer.Option("--all", help="Loops that have ended, too.")] = False,
    store: StoreOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Show the control loops: what runs, was asked for and is recommended, the target, and the orders in force."""
    from autotrascale.app import loop_commands
    from autotrascale.knowledge.decision_journal.loop_status import read_loop_statuses

    decisions = require_decisions(store)
    if job:
        loop_commands.check_loop_known(decisions, job)
    found = read_loop_statuses(decisions, job or None, ended=bool(job) or everything)
    decisions.close()
    answer = {"loops": [asdict(each) for each in found]}
    if job:
        print_answer(form, answer, lambda: _show_all(found))
    else:
        print_answer(form, answer, lambda: _list(found))


def register(app: typer.Typer) -> None:
    app.command("status")(status)


def _list(found: list[LoopStatus]) -> None:
    from autotrascale.plan.formatting import format_amount
    from autotrascale.views.loop_text import format_age, format_running

    if not found:
        say("no control loop runs; begin one with: autotrascale autoscale JOB.yaml")
        return
    print_table(
        ("job", "state", "running", "requested", "recommended", "rate", "latency", "looked", "decided", "orders"),
        [
            (
                each.job + (" (simulated)" if each.simulated else ""),
                each.state,
                format_running(each.running),
                format_running(each.requested),
                format_running(each.recommended),
                "–" if each.rate is None else f"{format_amount(each.rate)}/s",
                _latency(each),
                format_age(each.looked_seconds_ago),
                format_age(each.decided_seconds_ago),
                "; ".join(_order(one) for one in _orders(each)) or "–",
            )
            for each in found
        ],
    )


def _show_all(found: list[LoopStatus]) -> None:
    for each in found:
        _show(each)


def _show(each: LoopStatus) -> None:
    from autotrascale.plan.formatting import format_amount, format_percent
    from autotrascale.views.loop_text import format_age, format_running

    say(f"{each.job}{' (simulated)' if each.simulated else ''}: {each.state}, session {each.session}")
    share = (
        ""
        if each.within_target is None
        else f", within it for {format_percent(each.within_target)} of the measured time"
    )
    holds = f", {each.held_in_a_row} in a row held: {each.holds_for}" if each.held_in_a_row else ""
    backlog = "" if each.backlog_records is None else f", {format_amount(each.backlog_records)} records wait"
    rate = "–" if each.rate is None else f"{format_amount(each.rate)}/s"
    lines = {
        "running": format_running(each.running),
        "requested": format_running(each.requested),
        "recommended": format_running(each.recommended),
        "rate": rate + backlog,
        "latency": _latency(each) + share,
        "looked": f"{format_age(each.looked_seconds_ago)}, {each.looks} looks{holds}",
        "metrics": format_age(each.measured_seconds_ago),
        "decided": format_age(each.decided_seconds_ago),
        "rescales": str(each.rescales),
    }
    for name, text in lines.items():
        say(f"    {name:<12} {text}")
    for name, order in (("order", each.order), ("applying", each.applying), *(("not taken", o) for o in each.waiting)):
        if order is not None:
            say(f"    {name:<12} {_order(order)}")
    for reason in each.last_reasons:
        say(f"    {each.last_action}: {reason}")


def _latency(each: LoopStatus) -> str:
    from autotrascale.plan.formatting import format_seconds

    now = "–" if each.latency_seconds is None else format_seconds(each.latency_seconds)
    met = {True: "met", False: "missed", None: "not known"}[each.target_met]
    return f"{now} of {format_seconds(each.latency_target)}, {met}"


def _orders(each: LoopStatus) -> list[CommandStatus]:
    return [order for order in (each.order, each.applying, *each.waiting) if order is not None]


def _order(order: CommandStatus) -> str:
    from autotrascale.views.loop_text import format_command as in_words

    return in_words(order.what, order.parallelism, order.asked_by, order.asked_seconds_ago)
