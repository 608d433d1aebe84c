"""What was measured of one query of an application → advice on Spark's settings, for the verbs that give it."""

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

MIN_BATCHES = 5  # batches that say anything


@dataclass(frozen=True)
class QueryAdvice:
    """`advice` is None where `why` says what was not measured."""

    snapshot: Snapshot | None
    stages: tuple[StageTime, ...] = ()
    advice: SettingsAdvice | None = None
    why: str = ""

    @property
    def held(self) -> bool:
        """Whether its target was, as it ran."""
        if self.snapshot is None or self.advice is None:
            return False
        target = self.advice.target
        seen = self.snapshot.latency_seconds.of(target.statistic)
        return seen is not None and seen <= target.latency_seconds


@dataclass(frozen=True)
class QueryAdviceReport:
    """Where the time of a query's batches goes, and what to set: for people, or for programs."""

    query: str
    found: QueryAdvice
    sources: Sequence[SourcePartitions] = ()
    price: float | None = None  # of an executor hour

    def show(self) -> None:
        if self.found.stages:
            say(f"\n{self.query}: where the time of a batch goes")
            print_table(views.STAGE_COLUMNS, views.stage_rows(self.found.stages))
        for source in self.sources:
            say(f"reads {views.format_source(source)}")
        advice = self.found.advice
        if advice is None:
            if self.found.why:
                say(f"{self.query}: no settings are advised: {self.found.why}")
            return
        for line in views.advice_lines(advice, price=self.price):
            say(line)
        if pasted := views.spark_submit_arguments(advice.settings):
            say(f"spark-submit {pasted} …")
        for line in views.program_lines(advice.settings):
            say(f"in the program: {line}")

    def as_data(self) -> dict[str, Any]:
        """`advice` is null where `why` says what was not measured, or where there was no target."""
        return {
            "job": self.query,
            "stages": [asdict(stage) | {"true_rate": stage.true_rate} for stage in self.found.stages],
            "sources": [
                asdict(source) | {"waiting": source.waiting, "lag_seconds": source.lag_seconds}
                for source in self.sources
            ],
            "advice": None if self.found.advice is None else views.advice_as_data(self.found.advice, price=self.price),
            "why": self.found.why,
        }


def advise_query(
    name: str,
    batches: Sequence[BatchFact],
    executors: Mapping[str, RunningExecutor],
    conf: Mapping[str, str],
    target: Target,
    most: int,
    options: Mapping[str, str] | None = None,
    own: Mapping[str, int] | None = None,
) -> QueryAdvice:
    """`conf` is what the application was started with; `most`, up to how many executors it may have; `options` are
    those of its source, by names in lower case, where they are known; `own`, the numbers of stages that
    are marked with one."""
    if len(batches) < MIN_BATCHES:
        return QueryAdvice(None, why=f"{len(batches)} batches were seen, and it takes {MIN_BATCHES} to say anything")
    snapshot, stages = measured.take_query_snapshot(name, batches, executors, most), measured.measure_stages(batches)
    if snapshot is None:
        return QueryAdvice(None, stages, why="nothing in the event log says at what rate records arrive")
    cores, sized = measured.mean_cores(executors), size(snapshot)
    found = None if cores is None or isinstance(sized, Unsized) else build_workload(sized, stages, cores)
    if found is None or cores is None:
        return QueryAdvice(snapshot, stages, why="the event log does not say what work the executors did")
    source = measured.find_source_kind(batches)
    limit = "" if source is None or options is None else options.get(LIMITS[source].lower(), "")
    today = CurrentSettings(
        QuerySetup(len(executors), max(1, round(cores)), trigger_seconds=measured.estimate_trigger_seconds(batches)),
        conf.get("spark.master", "local"),
        conf,
        source,
        stages=own or {},
        limit=int(limit) if limit.isdecimal() else None,
        limit_known=options is not None,
        unit_records=1.0 if source == "kafka" else None,
        measured_latency=snapshot.latency_seconds.of(target.statistic),
        measured_batch=snapshot.batch_seconds,
    )
    return QueryAdvice(snapshot, stages, advise(found, today, target, most))
