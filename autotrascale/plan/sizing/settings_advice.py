"""Advise Spark settings for a measured query and a target: each with its reason, and only where a change is needed.

| symbol | meaning                                                                | unit      |
|--------|------------------------------------------------------------------------|-----------|
| T      | target minus `MARGIN`, which covers the error of the prediction        | s         |
| λ      | rate of the sources                                                    | records/s |
| k, c   | executors; cores of one                                                |           |
| o, Σ τ | fixed cost of a batch; work of the stages (see `batch_time`)           | s; s per s |
| q, D   | quantile of the target's statistic; trigger interval                   | [0, 1]; s |

The advice takes the fewest executors whose predicted latency is within T. With k executors it sets:

    partitions of shuffles   today's number if it costs at most `WORTH` more than k · c, else k · c: one wave
    partitions of a source   the same, in whole waves; Kafka gives at least the partitions of the topic
    trigger                  today's interval if T allows it, else the longest with b + q · D ≤ T
    records in a batch       the number with which a batch lasts T while a backlog is processed: λ · (T − o) / Σ τ

Only measured quantities lead to advice: no advice without the work of the stages, no limit without a source that
accepts one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from autotrascale.domain.target import Target
from autotrascale.plan.formatting import format_amount, format_percent, format_seconds
from autotrascale.plan.sizing.batch_time import (
    BatchTime,
    QuerySetup,
    QueryWorkload,
    StageWork,
    predict_batch_time,
    predict_stage_seconds,
)

MARGIN = 0.1  # share of the target
WORTH = 0.05  # least share of the stages' time that a change of partitions must save
SURE = 0.25  # relative error of today's prediction from which the advice is called rough
SHUFFLES, INSTANCES, CORES_MAX = "spark.sql.shuffle.partitions", "spark.executor.instances", "spark.cores.max"
EXECUTOR_CORES, MASTER = "spark.executor.cores", "spark.master"

Kind = Literal["conf", "source option", "trigger", "mark"]
SourceKind = Literal["kafka", "files"]
LIMITS: Mapping[SourceKind, str] = {"kafka": "maxOffsetsPerTrigger", "files": "maxFilesPerTrigger"}


@dataclass(frozen=True)
class CurrentSettings:
    """The present settings of a query.

    Args:
        setup: executors, cores, partitions and trigger.
        master: Spark master.
        conf: Spark settings that are set.
        source: kind of the source, if it accepts a limit.
        stages: partitions of stages with a marked number of their own.
        limit: most units in a batch; None when there is no limit, or when `limit_known` is False.
        limit_known: the limit is known, default False.
        unit_records: records in one unit of the limit, 1 for Kafka; None when it is not known.
        measured_batch: measured batch time in seconds.
    """

    setup: QuerySetup
    master: str
    conf: Mapping[str, str] = field(default_factory=dict)
    source: SourceKind | None = None
    stages: Mapping[str, int] = field(default_factory=dict)
    limit: int | None = None
    limit_known: bool = False
    unit_records: float | None = 1.0
    measured_batch: float | None = None


@dataclass(frozen=True)
class AdvisedSetting:
    """One setting to change. `now` is None when it is not set, or when its value is not `known`."""

    kind: Kind
    name: str
    value: str
    now: str | None
    reason: str
    known: bool = True


@dataclass(frozen=True)
class SetupPrediction:
    """The predicted batch time, latency and busy share of a setup. Times are seconds."""

    executors: int
    slots: int
    batch_seconds: float
    latency_seconds: float
    busy: float


@dataclass(frozen=True)
class SettingsAdvice:
    """Advised settings, empty when the present ones are right, with predictions for the present and advised setups."""

    target: Target
    today: SetupPrediction
    then: SetupPrediction
    reachable: bool
    settings: tuple[AdvisedSetting, ...]
    caveats: tuple[str, ...]


def advise(workload: QueryWorkload, current: CurrentSettings, target: Target, most: int) -> SettingsAdvice:
    """Return the settings with the fewest executors, up to `most`, that hold the target."""
    chosen, is_reachable = _choose_setup(workload, current, target, most)
    then = predict_setup(workload, chosen, target)
    now = predict_setup(workload, current.setup, target)
    settings = (
        *_advise_executors(current, chosen, workload, then),
        *_advise_partitions(workload, current, chosen),
        *_advise_limit(workload, current, chosen, target),
        *_advise_trigger(current, chosen, target),
    )
    caveats: list[str] = []
    if not is_reachable:
        caveats.append(
            f"No setup with up to {most} executors is predicted to hold {format_seconds(target.latency_seconds)}: "
            f"the fixed cost of a batch is {format_seconds(workload.fixed_seconds)}. This setup comes nearest."
        )
    caveats += _list_caveats(workload, current, chosen, now)
    return SettingsAdvice(target, now, then, is_reachable, settings, tuple(caveats))


def predict_setup(workload: QueryWorkload, setup: QuerySetup, target: Target) -> SetupPrediction:
    """Return batch time, latency in the target's statistic, and busy share of a setup."""
    predicted = predict_batch_time(workload, setup)
    latency = predicted.latency(target.statistic)
    return SetupPrediction(setup.executors, setup.slots, predicted.seconds, latency, predicted.busy)


def _choose_setup(
    workload: QueryWorkload, current: CurrentSettings, target: Target, most: int
) -> tuple[QuerySetup, bool]:
    """Return the setup with the fewest executors that holds the target, else the fewest with the lowest latency."""
    nearest: tuple[float, QuerySetup] | None = None
    for k in range(1, max(most, 1) + 1):
        for setup in _list_setups(workload, current, k, target):
            latency = predict_batch_time(workload, setup).latency(target.statistic)
            if latency <= _allowed_seconds(target):
                return setup, True
            if nearest is None or latency < nearest[0] * (1 - 1e-9):
                nearest = latency, setup
    assert nearest is not None
    return nearest[1], False


def _list_setups(workload: QueryWorkload, current: CurrentSettings, k: int, target: Target) -> Iterator[QuerySetup]:
    """Yield setups of `k` executors, fewest changes first, each with a trigger that the target allows.

    Setups with today's partitions are left out when they cost more than `WORTH`.
    """
    now = replace(current.setup, executors=k)
    read = max((stage.tasks for stage in workload.stages if stage.reads_source), default=0)
    whole_waves = -(-read // now.slots) * now.slots
    setups = [now, replace(now, partitions=now.slots)]
    if current.source == "kafka" and read and whole_waves != read:
        setups += [replace(setup, source_partitions=whole_waves) for setup in setups]
    best = predict_batch_time(workload, setups[-1]).busy
    for setup in setups:
        predicted = predict_batch_time(workload, setup)
        if predicted.busy - best > WORTH * best:
            continue
        if setup.trigger_seconds and predicted.latency(target.statistic) > _allowed_seconds(target):
            setup = replace(setup, trigger_seconds=_longest_trigger(workload, target, predicted))
        yield setup


def _longest_trigger(workload: QueryWorkload, target: Target, predicted: BatchTime) -> float:
    """Return D with o + D · Σ τ + q · D = T, rounded down to a usual step; 0 when the shortest batch lasts as long."""
    q = predicted.latency(target.statistic) - predicted.seconds
    share = q / predicted.covered if predicted.keeps_up and predicted.covered else 0.5
    longest = (_allowed_seconds(target) - workload.fixed_seconds) / (predicted.busy + share)
    step = next((step for step in (60.0, 10.0, 5.0, 1.0, 0.5, 0.1) if longest >= 2 * step), 0.1)
    longest = math.floor(longest / step + 1e-9) * step
    return longest if longest > 0 and workload.fixed_seconds + longest * predicted.busy <= longest else 0.0


def _allowed_seconds(target: Target) -> float:
    return target.latency_seconds * (1 - MARGIN)


# --- settings ---------------------------------------------------------------------------------------------------------


def _advise_executors(
    current: CurrentSettings, chosen: QuerySetup, workload: QueryWorkload, then: SetupPrediction
) -> list[AdvisedSetting]:
    if chosen.executors == current.setup.executors:
        return []
    cores = f"{chosen.cores} core{'' if chosen.cores == 1 else 's'}"
    executors = f"{chosen.executors} executor{'' if chosen.executors == 1 else 's'} of {cores}"
    reason = f"1 s of input is {format_amount(workload.work)} s of work; "
    if then.busy < 1:
        reason += f"{executors} do it in batches of {format_seconds(then.batch_seconds)}"
    else:
        reason += f"that is too much for {executors}"
    if current.master.startswith("local"):
        return [AdvisedSetting("conf", MASTER, f"local[{chosen.slots}]", current.master, reason)]
    if current.master.startswith("spark://"):
        settings = [_advise_conf(current, CORES_MAX, chosen.slots, reason)]
        if EXECUTOR_CORES not in current.conf:
            why = "without it, a worker gives all its cores to 1 executor"
            settings.append(_advise_conf(current, EXECUTOR_CORES, chosen.cores, why))
        return settings
    return [_advise_conf(current, INSTANCES, chosen.executors, reason)]


def _advise_partitions(workload: QueryWorkload, current: CurrentSettings, chosen: QuerySetup) -> list[AdvisedSetting]:
    settings = []
    changed = _list_changed_stages(workload, current, chosen)
    unmarked = [stage for stage in changed if not _own_mark(stage, current)]
    if unmarked and chosen.partitions is not None:
        now = current.setup.tasks(unmarked[-1])
        reason = _describe_waves(now, chosen.slots)
        settings.append(_advise_conf(current, SHUFFLES, chosen.partitions, reason, str(now)))
    for name in dict.fromkeys(_own_mark(stage, current) for stage in changed):
        if name and chosen.partitions is not None:
            now = current.stages[name]
            reason = _describe_waves(now, chosen.slots)
            settings.append(AdvisedSetting("mark", name, str(chosen.partitions), str(now), reason))
    wanted = chosen.source_partitions
    if wanted is not None and wanted != current.setup.source_partitions:
        now = max(stage.tasks for stage in workload.stages if stage.reads_source)
        reason = _describe_waves(now, chosen.slots)
        settings.append(AdvisedSetting("source option", "minPartitions", str(wanted), str(now), reason))
    return settings


def _own_mark(stage: StageWork, current: CurrentSettings) -> str:
    """Return the mark that gives the stage its own number of tasks: the first mark of the stage; or ""."""
    name = stage.name.partition(" + ")[0]
    return name if name in current.stages else ""


def _list_changed_stages(workload: QueryWorkload, current: CurrentSettings, chosen: QuerySetup) -> list[StageWork]:
    """Return the stages behind a shuffle whose number of tasks changes."""
    shuffled = (stage for stage in workload.stages if not stage.reads_source)
    return [stage for stage in shuffled if current.setup.tasks(stage) != chosen.tasks(stage)]


def _describe_waves(tasks: int, slots: int) -> str:
    waves = -(-tasks // slots)
    if waves == 1:
        return f"{tasks} tasks leave {slots - tasks} of {slots} slots idle"
    return f"{tasks} tasks on {slots} slots run in {waves} waves, the last with {tasks - (waves - 1) * slots} tasks"


def _advise_limit(
    workload: QueryWorkload, current: CurrentSettings, chosen: QuerySetup, target: Target
) -> list[AdvisedSetting]:
    """Return a limit for a source that accepts one, if it admits more than arrives."""
    predicted = predict_batch_time(workload, chosen)
    if current.source is None or not current.unit_records or not predicted.keeps_up or not predicted.busy:
        return []
    records = workload.rate * (_allowed_seconds(target) - workload.fixed_seconds) / predicted.busy
    needed = workload.rate * predicted.covered * (1 + MARGIN)
    units = math.floor(records / current.unit_records)
    admitted = None if current.limit is None else current.limit * current.unit_records
    if records < needed or units < 1 or (admitted is not None and needed <= admitted <= records):
        return []
    value = _round_down(units)
    if value * current.unit_records < needed:
        value = units
    if admitted is not None and admitted < needed:
        reason = f"the present limit admits {format_amount(admitted)} records per batch, {format_amount(needed)} arrive"
    else:
        reason = f"after a stop, a backlog is split into batches of at most {format_seconds(_allowed_seconds(target))}"
    now = None if current.limit is None else str(current.limit)
    is_known = current.limit is not None or current.limit_known
    return [AdvisedSetting("source option", LIMITS[current.source], str(value), now, reason, is_known)]


def _advise_trigger(current: CurrentSettings, chosen: QuerySetup, target: Target) -> list[AdvisedSetting]:
    now, then = current.setup.trigger_seconds, chosen.trigger_seconds
    if then == now:
        return []
    reason = (
        f"with a batch every {format_seconds(now)}, a record waits {format_seconds(now / 2)} on average; "
        f"the target is {format_seconds(target.latency_seconds)}"
    )
    value = f"{then:g} seconds" if then else "0 seconds"
    return [AdvisedSetting("trigger", "processingTime", value, f"{now:g} seconds", reason)]


def _advise_conf(
    current: CurrentSettings, name: str, value: int, reason: str, now: str | None = None
) -> AdvisedSetting:
    return AdvisedSetting("conf", name, str(value), current.conf.get(name, now), reason)


def _round_down(value: int) -> int:
    """Return `value` rounded down to two digits."""
    step = int(10 ** max(0, len(str(value)) - 2))
    return value // step * step


# --- caveats ----------------------------------------------------------------------------------------------------------


def _list_caveats(
    workload: QueryWorkload, current: CurrentSettings, chosen: QuerySetup, now: SetupPrediction
) -> Iterator[str]:
    changed = _list_changed_stages(workload, current, chosen)
    if any(stage.stateful and not _own_mark(stage, current) for stage in changed):
        yield (
            f"{SHUFFLES} has no effect on a stateful query with a checkpoint: Spark keeps the first number. "
            "Start with a new checkpoint, or let `autotrascale run --apply` move the state."
        )
    for stage in workload.stages:
        if stage.undivided * stage.work > WORTH:
            yield _describe_hot_task(stage, current)
    for stage in workload.stages:
        tasks = chosen.tasks(stage)
        if stage.reads_source and current.source == "kafka" and tasks < chosen.slots:
            reading = format_seconds(predict_stage_seconds(stage, tasks, chosen.slots))
            yield (
                f"{stage.name} has {tasks} tasks, one per partition of its source, so {chosen.slots - tasks} of "
                f"{chosen.slots} slots wait during the read. It takes {reading} of each second; more slots do not help."
            )
    if current.measured_batch and math.isfinite(now.batch_seconds):
        error = abs(now.batch_seconds - current.measured_batch) / current.measured_batch
        if error > SURE:
            yield (
                f"The figures are rough: for the present settings, {format_seconds(now.batch_seconds)} per batch are "
                f"predicted and {format_seconds(current.measured_batch)} were measured."
            )


def _describe_hot_task(stage: StageWork, current: CurrentSettings) -> str:
    hot = f"One task of {stage.name} does {format_percent(stage.undivided)} of its work"
    if not stage.reads_source or current.source != "kafka":
        return f"{hot}; no setting divides it."
    seconds = format_seconds(stage.undivided * stage.work)
    return (
        f"{hot}: it reads the busiest partition for {seconds} of each second. More executors do not help. "
        f"Distribute the keys more evenly, or set minPartitions above {stage.tasks}."
    )
