"""Advised Spark settings as text, as arguments to paste, and as data."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from autotrascale.domain.partitions import SourcePartitions
from autotrascale.domain.stages import StageTime, compute_work_shares
from autotrascale.plan.formatting import format_amount, format_percent, format_seconds
from autotrascale.plan.sizing.settings_advice import AdvisedSetting, SettingsAdvice, SetupPrediction
from autotrascale.views.executor_cost import format_count, format_money

UNKNOWN = "?"
UNEVEN_RATIO = 1.5  # of the mean; from here on the busiest partition is named


def advice_lines(
    advice: SettingsAdvice, *, measured_latency: float | None = None, price: float | None = None
) -> list[str]:
    """Return the changes with reasons, today's and the expected latency, and caveats.

    Args:
        measured_latency: seconds.
        price: of one executor for an hour.
    """
    target, statistic = format_seconds(advice.target.latency_seconds), advice.target.statistic
    found = []
    if not advice.settings:
        found.append(f"no change: today's settings hold {target} ({statistic})")
    for setting in advice.settings:
        now = setting.now or ("not set" if setting.known else "unknown")
        found.append(f"{_name_setting(setting)}: {now} → {setting.value}  ({setting.reason})")
    was = "" if measured_latency is None else f", measured {format_seconds(measured_latency)}"
    found.append(f"today:    {_describe_prediction(advice.today, statistic, price)}{was}")
    found.append(f"expected: {_describe_prediction(advice.then, statistic, price)}, target {target}")
    return [*found, *(f"note: {caveat}" for caveat in advice.caveats)]


def spark_submit_arguments(settings: Sequence[AdvisedSetting]) -> str:
    """Return the arguments for `spark-submit`. Source options and triggers are set in the program instead."""
    found = []
    for setting in settings:
        if setting.kind == "conf" and setting.name == "spark.master":
            found += ["--master", setting.value]
        elif setting.kind == "conf":
            found += ["--conf", f"{setting.name}={setting.value}"]
    return shlex.join(found)


def program_lines(settings: Sequence[AdvisedSetting]) -> list[str]:
    """Return lines for the program: source options, marks and triggers."""
    found = [f'.option("{each.name}", "{each.value}")' for each in settings if each.kind == "source option"]
    found += [f'mark(…, "{each.name}", parallelism={each.value})' for each in settings if each.kind == "mark"]
    return found + [f'.trigger({each.name}="{each.value}")' for each in settings if each.kind == "trigger"]


def advice_as_data(advice: SettingsAdvice, *, price: float | None = None) -> dict[str, Any]:
    """Return the advice as plain data. A setup that falls behind has no latency."""
    return {
        "target_seconds": advice.target.latency_seconds,
        "statistic": advice.target.statistic,
        "reachable": advice.reachable,
        "settings": [asdict(setting) for setting in advice.settings],
        "spark_submit": spark_submit_arguments(advice.settings),
        "in_the_program": program_lines(advice.settings),
        "today": _prediction_as_data(advice.today, price),
        "expected": _prediction_as_data(advice.then, price),
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
    """Return a row for each stage of a batch, under `STAGE_COLUMNS`."""
    return [
        (
            stage.name,
            str(stage.tasks),
            format_seconds(stage.seconds),
            UNKNOWN if stage.work_seconds is None else format_seconds(stage.work_seconds),
            UNKNOWN if share is None else format_percent(share),
            UNKNOWN if stage.hottest is None else f"{stage.hottest:.1f} × the mean",
            UNKNOWN if stage.records_in is None else format_amount(stage.records_in),
            UNKNOWN if stage.records_out is None else format_amount(stage.records_out),
            UNKNOWN if stage.true_rate is None else f"{format_amount(stage.true_rate)}/s",
        )
        for stage, share in zip(stages, compute_work_shares(stages), strict=True)
    ]


def format_source(source: SourcePartitions) -> str:
    """Return a line such as `clicks: 3 partitions, 1,200 records behind, 4.1 s of input`."""
    partitions, waiting, lag = len(source.partitions), source.waiting, source.lag_seconds
    backlog = format_amount(waiting)
    line = f"{', '.join(source.topics)}: {format_count(partitions, 'partition')}, {backlog} records behind"
    if waiting and lag is not None:
        line += f", {format_seconds(lag)} of input"
    if partitions > 1 and source.rate and (source.skew or 0.0) >= UNEVEN_RATIO:
        share = format_percent((source.busiest.rate or 0.0) / source.rate)
        line += f"; partition {source.busiest.number} gets {share} of the records"
    return line


def _name_setting(setting: AdvisedSetting) -> str:
    if setting.kind == "mark":
        return f"parallelism of {setting.name}"
    return setting.name if setting.kind == "conf" else f"{setting.kind} {setting.name}"


def _prediction_as_data(of: SetupPrediction, price: float | None) -> dict[str, Any]:
    plain = {name: value if math.isfinite(value) else None for name, value in asdict(of).items()}
    return plain if price is None else plain | {"price_an_hour": price * of.executors}


def _describe_prediction(of: SetupPrediction, statistic: str, price: float | None) -> str:
    cost = "" if price is None else f", {format_money(price * of.executors)}/h"
    executors = f"{format_count(of.executors, 'executor')}{cost}"
    if not math.isfinite(of.latency_seconds):
        return f"{executors}: falls behind, each second of input takes {of.busy:.2f} s"
    latency, batch = format_seconds(of.latency_seconds), format_seconds(of.batch_seconds)
    return f"{executors}: {latency} ({statistic}), batches of {batch}"
