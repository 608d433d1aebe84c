"""`autotrascale snapshot`: snapshots of a job from event logs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from autotrascale.app.console import OutputFormat, print_answer, print_table, say
from autotrascale.cli.options import FormatOption, flag, option

if TYPE_CHECKING:
    from autotrascale.analyze.archive.snapshot_form import MeasuredSnapshot
    from autotrascale.domain.snapshot import OperatorMetrics


def snapshot(
    event_log: Annotated[list[str], option("Event log, or folder of event logs; repeatable.", "PATH")],
    window: Annotated[str, option("Length of a window in seconds, or one window for each run.", "SECONDS|run")] = "60",
    job: Annotated[str, option("Query or application to read.", "NAME", default="all")] = "",
    every: Annotated[bool, flag("--all", "Show all windows, not only the newest of each job.")] = False,
    p_max: Annotated[
        int | None, option("Most instances of an operator.", "N", default="the executors' cores", min=1)
    ] = None,
    output: Annotated[str, option("Folder for all windows as Parquet, by job and day.", "FOLDER", default="none")] = "",
    driver_memory: Annotated[str, option("Memory of Spark's JVM, which several large logs need.", "SIZE")] = "1g",
    form: FormatOption = OutputFormat.table,
) -> None:
    """Turn event logs of Spark into snapshots.

    `decide` reads the JSON output, which has one snapshot on each line.
    """
    seconds = _parse_window(window)
    from autotrascale.analyze.archive.snapshot_form import snapshot_as_dict
    from autotrascale.app.event_log_snapshots import read_snapshots

    snapshots = read_snapshots(
        event_log, seconds, job=job, every=every, p_max=p_max, output=output, driver_memory=driver_memory
    )
    for each in snapshots:
        print_answer(form, snapshot_as_dict(each.snapshot), partial(_print_snapshot, each))


def register(app: typer.Typer) -> None:
    app.command("snapshot")(snapshot)


def _parse_window(window: str) -> float | None:
    if window == "run":
        return None
    try:
        seconds = float(window)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise typer.BadParameter(f"{window!r} is neither `run` nor a number of seconds", param_hint="--window")
    return seconds


def _print_snapshot(measured: MeasuredSnapshot) -> None:
    snapshot = measured.snapshot
    rates = ", ".join(f"{name} {rate:,.1f}/s" for name, rate in snapshot.source_rates.items())
    say(
        f"{snapshot.job}: {measured.began} UTC, {snapshot.window_seconds:.1f} s, {measured.batches} batches, "
        f"p_max {snapshot.p_max}"
    )
    say(
        f"  input {rates}; throughput {_format(snapshot.throughput, '/s')}; "
        f"latency {_format(snapshot.latency_seconds.mean, ' s')}"
    )
    print_table(
        ("operator", "k", "records in", "records out", "true rate/s", "busy", "skew", "GC"),
        [_operator_row(name, each, snapshot.window_seconds) for name, each in snapshot.operators.items()],
    )


def _operator_row(name: str, operator: OperatorMetrics, window_seconds: float) -> tuple[object, ...]:
    from autotrascale.domain.true_rates import compute_true_rates

    total = operator.total
    useful, gc = total.useful_seconds, total.gc_seconds
    return (
        name,
        operator.parallelism,
        _format(total.records_in),
        _format(total.records_out),
        _format(compute_true_rates(operator).processing),
        "?" if useful is None else f"{useful / window_seconds / operator.parallelism:.0%}",
        _format(operator.skew),
        f"{gc / useful:.0%}" if useful and gc is not None else "?",
    )


def _format(value: float | None, unit: str = "") -> str:
    if value is None:
        return "?"
    return (f"{value:,.0f}" if value >= 100 else f"{value:.3g}") + unit
