"""Settings that were advised, as people read and as they paste them."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from autotrascale.domain.partitions import SourcePartitions
from autotrascale.domain.stages import StageTime, shares
from autotrascale.plan.sizing.settings import Advice, Expected, Setting
from autotrascale.plan.words import amount, percent, seconds
from autotrascale.views.bill import money

UNKNOWN = "?"
UNEVEN = 1.5  # times the mean, from which on the busiest partition is named


def lines(advice: Advice, *, measured_latency: float | None = None, price: float | None = None) -> list[str]:
    """What to change and why, what it is expected to bring, and what to mind."""
    target, statistic = seconds(advice.target.latency_seconds), advice.target.statistic
    found = []
    if not advice.settings:
        found.append(f"today's settings are right for {target} ({statistic})")
    for setting in advice.settings:
        now = setting.now or ("not set" if setting.known else "unknown")
        found.append(f"{_named(setting)}: {now} → {setting.value}  ({setting.reason})")
    was = "" if measured_latency is None else f", measured {seconds(measured_latency)}"
    found.append(f"today:    {_expected(advice.today, statistic, price)}{was}")
    found.append(f"expected: {_expected(advice.then, statistic, price)}, target {target}")
    return [*found, *(f"note: {caveat}" for caveat in advice.caveats)]


def arguments(settings: Sequence[Setting]) -> str:
    """For `spark-submit`; empty where nothing of Spark's own changes. Options of a source and triggers stand in the
    program."""
    found = []
    for setting in settings:
        if setting.kind == "conf" and setting.name == "spark.master":
            found += ["--master", setting.value]
        elif setting.kind == "conf":
            found += ["--conf", f"{setting.name}={setting.value}"]
    return shlex.join(found)


def in_the_program(settings: Sequence[Setting]) -> list[str]:
    """Lines for the reader or the writer of the query, and for its marks."""
    found = [f'.option("{each.name}", "{each.value}")' for each in settings if each.kind == "source option"]
    found += [f'mark(…, "{each.name}", parallelism={each.value})' for each in settings if each.kind == "mark"]
    return found + [f'.trigger({each.name}="{each.value}")' for each in settings if each.kind == "trigger"]


def as_data(advice: Advice, *, price: float | None = None) -> dict[str, Any]:
    """For JSON. What cannot keep up has no latency."""
    return {
        "target_seconds": advice.target.latency_seconds,
        "statistic": advice.target.statistic,
        "reachable": advice.reachable,
        "settings": [asdict(setting) for setting in advice.settings],
        "spark_submit": arguments(advice.settings),
        "in_the_program": in_the_program(advice.settings),
        "today": _as_data(advice.today, price),
        "expected": _as_data(advice.then, price),
        "caveats": list(advice.caveats),
    }


STAGE_COLUMNS = (
    "stage",
    "tasks",
    "seconds",
    "work",
    "share",
    "hottest task",
    "records in",
    "records out",
    "rate per slot",
)


def stage_rows(stages: Sequence[StageTime]) -> list[tuple[str, ...]]:
    """Where a batch's time goes, under `STAGE_COLUMNS`."""
    return [
        (
            stage.name,
            str(stage.tasks),
            seconds(stage.seconds),
            UNKNOWN if stage.work_seconds is None else seconds(stage.work_seconds),
            UNKNOWN if share is None else percent(share),
            UNKNOWN if stage.hottest is None else f"{stage.hottest:.1f} × the mean",
            UNKNOWN if stage.records_in is None else amount(stage.records_in),
            UNKNOWN if stage.records_out is None else amount(stage.records_out),
            UNKNOWN if stage.true_rate is None else f"{amount(stage.true_rate)}/s",
        )
        for stage, share in zip(stages, shares(stages), strict=True)
    ]


def source_line(source: SourcePartitions) -> str:
    """`clicks: 3 partitions, 1,200 records behind, 4.1 s of input; partition 2 has 61% of what arrives`"""
    count, waiting, lag = len(source.partitions), source.waiting, source.lag_seconds
    line = f"{', '.join(source.topics)}: {count} partition{'' if count == 1 else 's'}, {amount(waiting)} records behind"
    if waiting and lag is not None:
        line += f", {seconds(lag)} of input"
    if count > 1 and source.rate and (source.skew or 0.0) >= UNEVEN:
        share = percent((source.busiest.rate or 0.0) / source.rate)
        line += f"; partition {source.busiest.number} has {share} of what arrives"
    return line


def _named(setting: Setting) -> str:
    if setting.kind == "mark":
        return f"parallelism of {setting.name}"
    return setting.name if setting.kind == "conf" else f"{setting.kind} {setting.name}"


def _as_data(of: Expected, price: float | None) -> dict[str, Any]:
    plain = {name: value if math.isfinite(value) else None for name, value in asdict(of).items()}
    return plain if price is None else plain | {"price_an_hour": price * of.executors}


def _expected(of: Expected, statistic: str, price: float | None) -> str:
    executors = f"{of.executors} executor{'' if of.executors == 1 else 's'}"
    cost = "" if price is None else f", {money(price * of.executors)} an hour"
    if not math.isfinite(of.latency_seconds):
        return f"{executors}{cost}: falls behind, each second of input takes {of.busy:.2f} s"
    return f"{executors}{cost}: {seconds(of.latency_seconds)} ({statistic}), batches of {seconds(of.batch_seconds)}"
