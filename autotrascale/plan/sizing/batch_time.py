"""How long the batches of a query will take with other executors, partitions or triggers than it was measured with.

| symbol | meaning                                                                            | unit       |
|--------|------------------------------------------------------------------------------------|------------|
| k, c   | executors; cores of one                                                            |            |
| S      | slots = k · c                                                                       |            |
| P_j    | tasks of stage j                                                                    |            |
| w_j    | its work, of all tasks together, for each second of input                           | s per s    |
| s_j    | share of its work that one of its tasks does alone (a hot key)                      | [0, 1]     |
| o      | fixed cost of a batch: the time in which no stage runs                              | s          |
| τ_j    | how long stage j lasts for each second of input                                     | s per s    |
| D      | trigger interval; 0: the next batch begins when the one before is done              | s          |
| a, b   | input time that a batch covers; how long it takes                                   | s          |
| x      | latency of a record: it waits for its batch, evenly between 0 and a, and then b     | s          |

The stages of a batch follow each other. Tasks run in waves of S, and the last of them waits for the hot one:

    τ_j = w_j · (s_j + (1 − s_j) · ⌈P_j / S⌉ / P_j)          b = o + a · Σ τ_j          a = max(D, b)

so b = o + D · Σ τ_j where that is at most D, else b = o / (1 − Σ τ_j), and at Σ τ_j ≥ 1 the query falls behind.
Mean of x: b + a/2; its quantile q: b + q · a.

Not in it: what each further task costs (o is taken as it was measured), and what is slow for having many neighbours on
a machine. So the prediction for the setting that was measured is shown beside what was measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from autotrascale.domain import checks
from autotrascale.domain.stages import StageTime, compute_work_shares
from autotrascale.domain.target import Statistic
from autotrascale.plan.sizing.sizing import Sizing

_QUANTILE = {"mean": 0.5, "p50": 0.5, "p95": 0.95, "p99": 0.99}


@dataclass(frozen=True)
class StageWork:
    """w_j, P_j as it was measured, and s_j. `reads_source`: its tasks are as many as the source has partitions.
    `single`: it has one task by its nature, as the last step of a sum over everything has."""

    name: str
    work: float
    tasks: int
    undivided: float = 0.0
    reads_source: bool = False
    stateful: bool = False
    single: bool = False


@dataclass(frozen=True)
class QueryWorkload:
    """What one query asks for at one rate."""

    fixed_seconds: float
    stages: tuple[StageWork, ...]
    rate: float

    @property
    def work(self) -> float:
        """Σ w_j: slots that would be busy all the time."""
        return math.fsum(stage.work for stage in self.stages)

    @property
    def stateful(self) -> bool:
        return any(stage.stateful for stage in self.stages)

    def at_rate(self, rate: float) -> QueryWorkload:
        """The same records, so many of them a second."""
        factor = rate / self.rate if self.rate else 1.0
        return replace(self, rate=rate, stages=tuple(replace(stage, work=stage.work * factor) for stage in self.stages))


@dataclass(frozen=True)
class QuerySetup:
    """`partitions` of every stage that reads from a shuffle, `source_partitions` of those that read a source; None: as
    many as were measured."""

    executors: int
    cores: int
    partitions: int | None = None
    source_partitions: int | None = None
    trigger_seconds: float = 0.0

    def __post_init__(self) -> None:
        checks.count("executors", self.executors)
        checks.count("cores", self.cores)
        for name in ("partitions", "source_partitions"):
            if getattr(self, name) is not None:
                checks.count(name, getattr(self, name))
        checks.non_negative("trigger_seconds", self.trigger_seconds)

    @property
    def slots(self) -> int:
        return self.executors * self.cores

    def tasks(self, stage: StageWork) -> int:
        wanted = self.source_partitions if stage.reads_source else self.partitions
        return stage.tasks if wanted is None or stage.single else wanted


@dataclass(frozen=True)
class BatchTime:
    """`seconds` and `covered` are infinite where the query falls behind. `busy`: Σ τ_j."""

    seconds: float
    covered: float
    busy: float

    @property
    def keeps_up(self) -> bool:
        return self.busy < 1

    def latency(self, statistic: Statistic) -> float:
        return self.seconds + _QUANTILE[statistic] * self.covered


def build_workload(sizing: Sizing, stages: Sequence[StageTime], cores: float) -> QueryWorkload | None:
    """From a query that was measured as one operator; None where its load, its overhead or a stage's work is not known.
    The load says how much work there is for a second of input, the stages how it is spread."""
    load, each = sizing.load[0], compute_work_shares(stages)
    if load is None or sizing.fixed_seconds is None or not each:
        return None
    widest = max((stage.tasks for stage in stages if not stage.reads_source), default=1)
    found = [
        StageWork(
            stage.name,
            load * cores * share,
            stage.tasks,
            _undivided(stage),
            stage.reads_source,
            stage.stateful,
            single=not stage.reads_source and stage.tasks == 1 < widest,
        )
        for stage, share in zip(stages, each, strict=True)
        if share is not None
    ]
    return QueryWorkload(sizing.fixed_seconds, tuple(found), sizing.rate) if len(found) == len(stages) else None


def predict_batch_time(of: QueryWorkload, setup: QuerySetup) -> BatchTime:
    """b and a."""
    busy = math.fsum(predict_stage_seconds(stage, setup.tasks(stage), setup.slots) for stage in of.stages)
    fits = of.fixed_seconds + setup.trigger_seconds * busy
    if fits <= setup.trigger_seconds:
        return BatchTime(fits, setup.trigger_seconds, busy)
    own = of.fixed_seconds / (1 - busy) if busy < 1 else math.inf
    return BatchTime(own, own, busy)


def predict_stage_seconds(stage: StageWork, tasks: int, slots: int) -> float:
    """τ_j."""
    waves = -(-tasks // slots)
    return stage.work * (stage.undivided + (1 - stage.undivided) * waves / tasks)


def _undivided(stage: StageTime) -> float:
    """s_j, from the hottest task over the mean."""
    if stage.hottest is None or stage.tasks < 2:
        return 0.0
    return min(1.0, max(0.0, (stage.hottest - 1) / (stage.tasks - 1)))
