"""`autotrascale status [JOB]`: how the control loops stand that keep their journal beside this store."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from autotrascale.service.completing import loop_names
from autotrascale.service.output import Format, FormatOption, emit, say, table
from autotrascale.service.store import StoreOption, need_decisions

if TYPE_CHECKING:
    from autotrascale.knowledge.decisions.status import LoopStatus, OrderStatus


def status(
    job: Annotated[
        str, typer.Argument(metavar="[JOB]", help="One job; else all that are kept.", autocompletion=loop_names)
    ] = "",
    everything: Annotated[bool, typer.Option("--all", help="Loops that have ended, too.")] = False,
    store: StoreOption = None,
    form: FormatOption = Format.table,
) -> None:
    """Show the control loops: what runs, was asked for and is recommended, the target, and the orders in force."""
    from autotrascale.knowledge.decisions.status import statuses
    from autotrascale.service import orders

    decisions = need_decisions(store)
    if job:
        orders.check_known(decisions, job)
    found = statuses(decisions, job or None, ended=bool(job) or everything)
    decisions.close()
    answer = {"loops": [asdict(each) for each in found]}
    if job:
        emit(form, answer, lambda: _show_all(found))
    else:
        emit(form, answer, lambda: _list(found))


def register(app: typer.Typer) -> None:
    app.command("status")(status)


def _list(found: list[LoopStatus]) -> None:
    from autotrascale.plan.words import amount
    from autotrascale.views.loops import ago, parallelism

    if not found:
        say("no control loop runs; begin one with: autotrascale autoscale JOB.yaml")
        return
    table(
        ("job", "state", "running", "requested", "recommended", "rate", "latency", "looked", "decided", "orders"),
        [
            (
                each.job + (" (simulated)" if each.simulated else ""),
                each.state,
                parallelism(each.running),
                parallelism(each.requested),
                parallelism(each.recommended),
                "–" if each.rate is None else f"{amount(each.rate)}/s",
                _latency(each),
                ago(each.looked_seconds_ago),
                ago(each.decided_seconds_ago),
                "; ".join(_order(one) for one in _orders(each)) or "–",
            )
            for each in found
        ],
    )


def _show_all(found: list[LoopStatus]) -> None:
    for each in found:
        _show(each)


def _show(each: LoopStatus) -> None:
    from autotrascale.plan.words import amount, percent
    from autotrascale.views.loops import ago, parallelism

    say(f"{each.job}{' (simulated)' if each.simulated else ''}: {each.state}, session {each.session}")
    share = "" if each.within_target is None else f", within it for {percent(each.within_target)} of the measured time"
    holds = f", {each.held_in_a_row} in a row held: {each.holds_for}" if each.held_in_a_row else ""
    backlog = "" if each.backlog_records is None else f", {amount(each.backlog_records)} records wait"
    rate = "–" if each.rate is None else f"{amount(each.rate)}/s"
    lines = {
        "running": parallelism(each.running),
        "requested": parallelism(each.requested),
        "recommended": parallelism(each.recommended),
        "rate": rate + backlog,
        "latency": _latency(each) + share,
        "looked": f"{ago(each.looked_seconds_ago)}, {each.looks} looks{holds}",
        "metrics": ago(each.measured_seconds_ago),
        "decided": ago(each.decided_seconds_ago),
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
    from autotrascale.plan.words import seconds

    now = "–" if each.latency_seconds is None else seconds(each.latency_seconds)
    met = {True: "met", False: "missed", None: "not known"}[each.target_met]
    return f"{now} of {seconds(each.latency_target)}, {met}"


def _orders(each: LoopStatus) -> list[OrderStatus]:
    return [order for order in (each.order, each.applying, *each.waiting) if order is not None]


def _order(order: OrderStatus) -> str:
    from autotrascale.views.loops import order as in_words

    return in_words(order.what, order.parallelism, order.asked_by, order.asked_seconds_ago)
