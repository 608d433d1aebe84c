"""Advice for one query of an adopted program: where the time of a batch goes, and which Spark settings to change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from autotrascale.analyze import unmarked_query as measured
from autotrascale.analyze.facts import BatchFact
from autotrascale.analyze.unmarked_query import RunningExecutor
from autotrascale.app.console import print_table, say
from autotrascale.domain.partitions import SourcePartitions
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.stages import StageTime
from autotrascale.domain.target import Target
from autotrascale.plan.sizing.batch_time import QuerySetup, build_workload
from autotrascale.plan.sizing.settings_advice import LIMITS, CurrentSettings, SettingsAdvice, advise
from autotrascale.plan.sizing.sizing import Unsized, size
from autotrascale.views import settings_advice as views

MIN_BATCHES = 5  # for a snapshot


@dataclass(frozen=True)
class QueryAdvice:
    """Measurements of a query and the advice. Without advice, `why` says which measurement is missing."""

    snapshot: Snapshot | None
    stages: tuple[StageTime, ...] = ()
    advice: SettingsAdvice | None = None
    why: str = ""

    @property
    def target_held(self) -> bool:
        """Whether the measured latency met the target."""
        if self.snapshot is None or self.advice is None:
            return False
        target = self.advice.target
        latency = self.snapshot.latency_seconds.of(target.statistic)
        return latency is not None and latency <= target.latency_seconds


@dataclass(frozen=True)
class QueryAdviceReport:
    """Advice for printing. `price` is that of an executor for one hour."""

    query: str
    result: QueryAdvice
    sources: Sequence[SourcePartitions] = ()
    price: float | None = None

    def show(self) -> None:
        """Print the report for people."""
        if self.result.stages:
            say(f"\n{self.query}: where the time of a batch goes")
            print_table(views.STAGE_COLUMNS, views.stage_rows(self.result.stages))
        for source in self.sources:
            say(f"reads {views.format_source(source)}")
        advice = self.result.advice
        if advice is None:
            if self.result.why:
                say(f"{self.query}: no advice: {self.result.why}")
            return
        for line in views.advice_lines(advice, price=self.price):
            say(line)
        if arguments := views.spark_submit_arguments(advice.settings):
            say(f"spark-submit {arguments} …")
        for line in views.program_lines(advice.settings):
            say(f"in the program: {line}")

    def as_data(self) -> dict[str, Any]:
        """Return the report as plain data. `advice` is null if a measurement (`why`) or the target is missing."""
        advice = self.result.advice
        return {
            "job": self.query,
            "stages": [asdict(stage) | {"true_rate": stage.true_rate} for stage in self.result.stages],
            "sources": [
                asdict(source) | {"waiting": source.waiting, "lag_seconds": source.lag_seconds}
                for source in self.sources
            ],
            "advice": None if advice is None else views.advice_as_data(advice, price=self.price),
            "why": self.result.why,
        }


def advise_query(
    name: str,
    batches: Sequence[BatchFact],
    executors: Mapping[str, RunningExecutor],
    conf: Mapping[str, str],
    target: Target,
    max_executors: int,
    source_options: Mapping[str, str] | None = None,
    stage_partitions: Mapping[str, int] | None = None,
) -> QueryAdvice:
    """Return measurements of a query, and advice on Spark settings.

    Args:
        name: name of the query.
        batches: recent batches.
        executors: running executors, by id.
        conf: Spark configuration of the application.
        target: latency target.
        max_executors: most executors that the application may have.
        source_options: options of the query's source by lower-case name; None: unknown.
        stage_partitions: partitions of stages that the program marks with a number.
    """
    if len(batches) < MIN_BATCHES:
        return QueryAdvice(None, why=f"{len(batches)} batches ended, and advice needs at least {MIN_BATCHES}")
    snapshot = measured.take_query_snapshot(name, batches, executors, max_executors)
    stages = measured.measure_stages(batches)
    if snapshot is None:
        return QueryAdvice(None, stages, why="the event log does not contain the input rate")
    cores, sized = measured.mean_cores(executors), size(snapshot)
    workload = None if cores is None or isinstance(sized, Unsized) else build_workload(sized, stages, cores)
    if workload is None or cores is None:
        return QueryAdvice(snapshot, stages, why="the event log does not contain the work of the executors")
    source = measured.find_source_kind(batches)
    limit = "" if source is None or source_options is None else source_options.get(LIMITS[source].lower(), "")
    current = CurrentSettings(
        QuerySetup(len(executors), max(1, round(cores)), trigger_seconds=measured.estimate_trigger_seconds(batches)),
        conf.get("spark.master", "local"),
        conf,
        source,
        stages=stage_partitions or {},
        limit=int(limit) if limit.isdecimal() else None,
        limit_known=source_options is not None,
        unit_records=1.0 if source == "kafka" else None,
        measured_batch=snapshot.batch_seconds,
    )
    return QueryAdvice(snapshot, stages, advise(workload, current, target, max_executors))
