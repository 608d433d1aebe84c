"""Spark's settings for a query that was measured, and a target: each with its reason, and only where it should differ.

| symbol | meaning                                                              | unit      |
|--------|----------------------------------------------------------------------|-----------|
| T      | target; of it `MARGIN` is kept for what the prediction does not know | s         |
| λ      | rate of the sources                                                  | records/s |

The fewest executors are looked for with which the predicted latency (`batch_time`) is within T. With k executors:

    partitions of shuffles   those of today where they cost at most `WORTH` more than k · c would, else k · c: one wave
    partitions of a source   the same, in whole waves: a topic's own partitions are the least that Kafka gives
    trigger                  today's, where T allows it; else the longest that does: b + q · D ≤ T, q of the statistic
    records in a batch       so many that a batch lasts T at most, while a backlog is worked off:  λ · (T − o) / Σ τ

Nothing is advised that was not measured: without the work of the stages there is no advice, without a source that can
be limited no limit.
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

MARGIN = 0.1  # of the target
WORTH = 0.05  # a change of partitions that saves less than this share of the stages' time is not worth one
SURE = 0.25  # a prediction of today that is further off than this share of what was measured is rough
SHUFFLES, INSTANCES, CORES_MAX = "spark.sql.shuffle.partitions", "spark.executor.instances", "spark.cores.max"
EXECUTOR_CORES, MASTER = "spark.executor.cores", "spark.master"

Kind = Literal["conf", "source option", "trigger", "mark"]
SourceKind = Literal["kafka", "files"]
LIMITS: Mapping[SourceKind, str] = {"kafka": "maxOffsetsPerTrigger", "files": "maxFilesPerTrigger"}


@dataclass(frozen=True)
class CurrentSettings:
    """What the query runs with. `conf` has the settings that are set, `limit` what its source gives in one batch at
    most, if `limit_known`; `unit_records`: how many records one unit of that limit is, 1 for Kafka's offsets."""

    setup: QuerySetup
    master: str
    conf: Mapping[str, str] = field(default_factory=dict)
    source: SourceKind | None = None
    stages: Mapping[str, int] = field(default_factory=dict)  # marked with a number of their own
    limit: int | None = None
    limit_known: bool = False
    unit_records: float | None = 1.0
    measured_latency: float | None = None  # of the target's statistic
    measured_batch: float | None = None


@dataclass(frozen=True)
class AdvisedSetting:
    """One line to paste. `now` is None where it is not set, or, of what is not `known`, where nobody can say."""

    kind: Kind
    name: str
    value: str
    now: str | None
    reason: str
    known: bool = True


@dataclass(frozen=True)
class SetupPrediction:
    """With one setup: what it costs, and what is predicted of it."""

    executors: int
    slots: int
    batch_seconds: float
    latency_seconds: float
    busy: float


@dataclass(frozen=True)
class SettingsAdvice:
    """`settings` is empty where today's are right. `today` is the same prediction for what runs now."""

    target: Target
    today: SetupPrediction
    then: SetupPrediction
    reachable: bool
    settings: tuple[AdvisedSetting, ...]
    caveats: tuple[str, ...]


def advise(of: QueryWorkload, today: CurrentSettings, target: Target, most: int) -> SettingsAdvice:
    """The fewest executors, up to `most`, that hold the target, and what goes with them."""
    chosen, reachable = _chosen(of, today, target, most)
    then = predict_setup(of, chosen, target)
    now = predict_setup(of, today.setup, target)
    settings = (
        *_executors(today, chosen, of, then),
        *_partitions(of, today, chosen),
        *_limit(of, today, chosen, target),
        *_trigger(today, chosen, target),
    )
    return SettingsAdvice(
        target,
        now,
        then,
        reachable,
        settings,
        tuple(_caveats(of, today, chosen, now, target, None if reachable else most)),
    )


def predict_setup(of: QueryWorkload, setup: QuerySetup, target: Target) -> SetupPrediction:
    found = predict_batch_time(of, setup)
    return SetupPrediction(setup.executors, setup.slots, found.seconds, found.latency(target.statistic), found.busy)


def _chosen(of: QueryWorkload, today: CurrentSettings, target: Target, most: int) -> tuple[QuerySetup, bool]:
    """Where nothing holds the target: what comes nearest to it, with the fewest executors."""
    nearest: tuple[float, QuerySetup] | None = None
    for k in range(1, max(most, 1) + 1):
        for setup in _fitted(of, today, k, target):
            latency = predict_batch_time(of, setup).latency(target.statistic)
            if latency <= _allowed(target):
                return setup, True
            if nearest is None or latency < nearest[0] * (1 - 1e-9):
                nearest = latency, setup
    assert nearest is not None
    return nearest[1], False


def _fitted(of: QueryWorkload, today: CurrentSettings, k: int, target: Target) -> Iterator[QuerySetup]:
    """These executors with the partitions of today, and with others where these cost more than `WORTH`; the fewest
    changes first, each with a trigger that the target allows."""
    now = replace(today.setup, executors=k)
    read = max((stage.tasks for stage in of.stages if stage.reads_source), default=0)
    whole_waves = -(-read // now.slots) * now.slots
    setups = [now, replace(now, partitions=now.slots)]
    if today.source == "kafka" and read and whole_waves != read:
        setups += [replace(setup, source_partitions=whole_waves) for setup in setups]
    best = predict_batch_time(of, setups[-1]).busy
    for setup in setups:
        found = predict_batch_time(of, setup)
        if found.busy - best > WORTH * best:
            continue
        if setup.trigger_seconds and found.latency(target.statistic) > _allowed(target):
            setup = replace(setup, trigger_seconds=_longest_trigger(of, target, found))
        yield setup


def _longest_trigger(of: QueryWorkload, target: Target, found: BatchTime) -> float:
    """D with o + D · Σ τ + q · D = T, in steps that people write; 0 where even the shortest batch is as long."""
    q = found.latency(target.statistic) - found.seconds
    share = q / found.covered if found.keeps_up and found.covered else 0.5
    longest = (_allowed(target) - of.fixed_seconds) / (found.busy + share)
    step = next((step for step in (60.0, 10.0, 5.0, 1.0, 0.5, 0.1) if longest >= 2 * step), 0.1)
    longest = math.floor(longest / step + 1e-9) * step
    return longest if longest > 0 and of.fixed_seconds + longest * found.busy <= longest else 0.0


def _allowed(target: Target) -> float:
    return target.latency_seconds * (1 - MARGIN)


# --- each setting -----------------------------------------------------------------------------------------------------


def _executors(
    today: CurrentSettings, chosen: QuerySetup, of: QueryWorkload, then: SetupPrediction
) -> list[AdvisedSetting]:
    if chosen.executors == today.setup.executors:
        return []
    cores = f"{chosen.cores} core{'' if chosen.cores == 1 else 's'}"
    who = f"{chosen.executors} executor{'' if chosen.executors == 1 else 's'} of {cores}"
    reason = f"a second of input takes {format_amount(of.work)} s of work, "
    reason += (
        f"which {who} do in batches of {format_seconds(then.batch_seconds)}" if then.busy < 1 else f"too much for {who}"
    )
    if today.master.startswith("local"):
        return [AdvisedSetting("conf", MASTER, f"local[{chosen.slots}]", today.master, reason)]
    if today.master.startswith("spark://"):
        found = [_conf(today, CORES_MAX, chosen.slots, reason)]
        if EXECUTOR_CORES not in today.conf:
            why = "without it a worker gives all its cores to one executor"
            found.append(_conf(today, EXECUTOR_CORES, chosen.cores, why))
        return found
    return [_conf(today, INSTANCES, chosen.executors, reason)]


def _partitions(of: QueryWorkload, today: CurrentSettings, chosen: QuerySetup) -> list[AdvisedSetting]:
    found = []
    changed = _changed(of, today, chosen)
    shuffled = [stage for stage in changed if not _own(stage, today)]
    if shuffled and chosen.partitions is not None:
        now = today.setup.tasks(shuffled[-1])
        found.append(_conf(today, SHUFFLES, chosen.partitions, _waves(now, chosen.slots), str(now)))
    for name in dict.fromkeys(_own(stage, today) for stage in changed):
        if name and chosen.partitions is not None:
            own = today.stages[name]
            found.append(AdvisedSetting("mark", name, str(chosen.partitions), str(own), _waves(own, chosen.slots)))
    read = [stage for stage in of.stages if stage.reads_source]
    wanted = chosen.source_partitions
    if wanted is not None and wanted != today.setup.source_partitions:
        now = max(stage.tasks for stage in read)
        why = _waves(now, chosen.slots)
        found.append(AdvisedSetting("source option", "minPartitions", str(wanted), str(now), why))
    return found


def _own(stage: StageWork, today: CurrentSettings) -> str:
    """The mark that gives the stage a number of its own: it stands at its beginning, before other marks in it."""
    name = stage.name.partition(" + ")[0]
    return name if name in today.stages else ""


def _changed(of: QueryWorkload, today: CurrentSettings, chosen: QuerySetup) -> list[StageWork]:
    """The stages behind a shuffle that will have another number of tasks."""
    shuffled = (stage for stage in of.stages if not stage.reads_source)
    return [stage for stage in shuffled if today.setup.tasks(stage) != chosen.tasks(stage)]


def _waves(now: int, slots: int) -> str:
    waves = -(-now // slots)
    if waves == 1:
        return f"{now} tasks leave {slots - now} of {slots} slots idle"
    return f"{now} tasks on {slots} slots run in {waves} waves, the last of them {now - (waves - 1) * slots} wide"


def _limit(of: QueryWorkload, today: CurrentSettings, chosen: QuerySetup, target: Target) -> list[AdvisedSetting]:
    """A limit only where a source can have one, and where it lets through more than arrives."""
    found = predict_batch_time(of, chosen)
    if today.source is None or not today.unit_records or not found.keeps_up or not found.busy:
        return []
    records = of.rate * (_allowed(target) - of.fixed_seconds) / found.busy
    needed = of.rate * found.covered * (1 + MARGIN)
    units = math.floor(records / today.unit_records)
    if (
        records < needed
        or units < 1
        or (today.limit is not None and needed <= today.limit * today.unit_records <= records)
    ):
        return []
    value = _round_down(units)
    if value * today.unit_records < needed:
        value = units
    if today.limit is not None and today.limit * today.unit_records < needed:
        why = f"today's lets {format_amount(today.limit * today.unit_records)} records into a batch, and {format_amount(needed)} come"
    else:
        why = f"after a stop a backlog comes in batches of {format_seconds(_allowed(target))} at most, and not in one"
    known = today.limit is not None or today.limit_known
    return [AdvisedSetting("source option", LIMITS[today.source], str(value), _text(today.limit), why, known)]


def _trigger(today: CurrentSettings, chosen: QuerySetup, target: Target) -> list[AdvisedSetting]:
    now, then = today.setup.trigger_seconds, chosen.trigger_seconds
    if then == now:
        return []
    allowed = format_seconds(target.latency_seconds)
    why = f"a record waits {format_seconds(now / 2)} on average for a batch every {format_seconds(now)}, and {allowed} are allowed"
    value = f"{then:g} seconds" if then else "0 seconds"
    return [AdvisedSetting("trigger", "processingTime", value, f"{now:g} seconds", why)]


def _conf(today: CurrentSettings, name: str, value: int, reason: str, now: str | None = None) -> AdvisedSetting:
    return AdvisedSetting("conf", name, str(value), today.conf.get(name, now), reason)


def _text(value: int | None) -> str | None:
    return None if value is None else str(value)


def _round_down(value: int) -> int:
    """To two digits."""
    step = int(10 ** max(0, len(str(value)) - 2))
    return value // step * step


# --- what must be said besides ----------------------------------------------------------------------------------------


def _caveats(
    of: QueryWorkload,
    today: CurrentSettings,
    chosen: QuerySetup,
    now: SetupPrediction,
    target: Target,
    most: int | None,
) -> Iterator[str]:
    """`most`: up to how many executors nothing holds the target."""
    if most is not None:
        yield (
            f"nothing up to {most} executors is predicted to hold {format_seconds(target.latency_seconds)}, a batch having"
            f" {format_seconds(of.fixed_seconds)} of fixed cost: this comes nearest"
        )
    if any(stage.stateful and not _own(stage, today) for stage in _changed(of, today, chosen)):
        yield (
            f"{SHUFFLES} alone does nothing to a stateful query that has a checkpoint: Spark keeps the number that it"
            " began with; start with a new checkpoint, or let autotrascale run --apply move the state"
        )
    hot = [stage for stage in of.stages if stage.undivided * stage.work > WORTH]
    for stage in hot:
        alone = f"one task of {stage.name} does {format_percent(stage.undivided)} of its work alone"
        if stage.reads_source and today.source == "kafka":
            yield (
                f"{alone}, the reader of the busiest partition: {format_seconds(stage.undivided * stage.work)} in each second"
                f" that no executor divides; more even keys do, or minPartitions above {stage.tasks}"
            )
        else:
            yield f"{alone}, which no setting divides"
    for stage in of.stages:
        tasks = chosen.tasks(stage)
        if stage.reads_source and today.source == "kafka" and tasks < chosen.slots:
            yield (
                f"{stage.name} has {tasks} tasks, as many as its source has partitions: {chosen.slots - tasks} of"
                f" {chosen.slots} slots wait while it is read, {format_seconds(predict_stage_seconds(stage, tasks, chosen.slots))} in"
                " each second that more slots do not shorten"
            )
    if today.measured_batch and math.isfinite(now.batch_seconds):
        off = abs(now.batch_seconds - today.measured_batch) / today.measured_batch
        if off > SURE:
            yield (
                f"for today's settings {format_seconds(now.batch_seconds)} a batch are predicted, where"
                f" {format_seconds(today.measured_batch)} were measured: take the figures as rough"
            )
