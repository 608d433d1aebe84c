"""Predict the batch time of a query with other executors, partitions or triggers than measured.

| symbol | meaning                                                                            | unit       |
|--------|------------------------------------------------------------------------------------|------------|
| k, c   | executors; cores of one                                                            |            |
| S      | slots = k · c                                                                       |            |
| P_j    | tasks of stage j                                                                    |            |
| w_j    | work of all its tasks for each second of input                                     | s per s    |
| s_j    | share of its work that one task does alone (a hot key)                              | [0, 1]     |
| o      | fixed cost of a batch: time in which no stage runs                                  | s          |
| τ_j    | duration of stage j for each second of input                                        | s per s    |
| D      | trigger interval; 0: a batch begins when the previous batch is done                 | s          |
| a, b   | input time that a batch covers; its duration                                        | s          |
| x      | latency of a record: a wait for its batch, uniform in [0, a], and then b            | s          |

The stages of a batch follow each other. Tasks run in waves of S, and the last wave ends with the hot task:

    τ_j = w_j · (s_j + (1 − s_j) · ⌈P_j / S⌉ / P_j)          b = o + a · Σ τ_j          a = max(D, b)

so b = o + D · Σ τ_j where that is at most D, else b = o / (1 − Σ τ_j), and at Σ τ_j ≥ 1 the query falls behind.
Mean of x: b + a/2; its quantile q: b + q · a.

The prediction neglects the cost of additional tasks (o is used as measured) and contention on a machine. So the
prediction for the measured setup is shown with the measurement.
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
    """The work of one stage.

    Args:
        name: name of the stage.
        work: w_j.
        tasks: P_j as measured.
        undivided: s_j, default 0.
        reads_source: it has one task for each partition of the source.
        stateful: it keeps state.
        single: it always has one task, such as the last step of a sum over all records.
    """

    name: str
    work: float
    tasks: int
    undivided: float = 0.0
    reads_source: bool = False
    stateful: bool = False
    single: bool = False


@dataclass(frozen=True)
class QueryWorkload:
    """The work of one query at `rate` records per second, with o."""

    fixed_seconds: float
    stages: tuple[StageWork, ...]
    rate: float

    @property
    def work(self) -> float:
        """Σ w_j: the number of slots that are always busy."""
        return math.fsum(stage.work for stage in self.stages)

    @property
    def stateful(self) -> bool:
        """True when a stage keeps state."""
        return any(stage.stateful for stage in self.stages)

    def at_rate(self, rate: float) -> QueryWorkload:
        """Return the workload of the same records at `rate` records per second."""
        factor = rate / self.rate if self.rate else 1.0
        return replace(self, rate=rate, stages=tuple(replace(stage, work=stage.work * factor) for stage in self.stages))


@dataclass(frozen=True)
class QuerySetup:
    """The resources and partitions of a query.

    Args:
        executors: k.
        cores: c.
        partitions: tasks of every stage that reads a shuffle. Default: as measured.
        source_partitions: tasks of every stage that reads a source. Default: as measured.
        trigger_seconds: D, default 0.
    """

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
        """S."""
        return self.executors * self.cores

    def tasks(self, stage: StageWork) -> int:
        """Return P_j of a stage in this setup."""
        wanted = self.source_partitions if stage.reads_source else self.partitions
        return stage.tasks if wanted is None or stage.single else wanted


@dataclass(frozen=True)
class BatchTime:
    """b (`seconds`), a (`covered`) and Σ τ_j (`busy`). b and a are infinite when the query falls behind."""

    seconds: float
    covered: float
    busy: float

    @property
    def keeps_up(self) -> bool:
        """True when the query keeps up with its input."""
        return self.busy < 1

    def latency(self, statistic: Statistic) -> float:
        """Return a statistic of x."""
        return self.seconds + _QUANTILE[statistic] * self.covered


def build_workload(sizing: Sizing, stages: Sequence[StageTime], cores: float) -> QueryWorkload | None:
    """Return the workload of a query that was measured as one operator, or None when a measurement is missing.

    The load gives the work for a second of input, and the stages give its distribution.

    Args:
        sizing: sizing of the query.
        stages: times of its stages.
        cores: cores of an executor.
    """
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


def predict_batch_time(workload: QueryWorkload, setup: QuerySetup) -> BatchTime:
    """Return b, a and Σ τ_j of the workload in a setup."""
    busy = math.fsum(predict_stage_seconds(stage, setup.tasks(stage), setup.slots) for stage in workload.stages)
    fits = workload.fixed_seconds + setup.trigger_seconds * busy
    if fits <= setup.trigger_seconds:
        return BatchTime(fits, setup.trigger_seconds, busy)
    own = workload.fixed_seconds / (1 - busy) if busy < 1 else math.inf
    return BatchTime(own, own, busy)


def predict_stage_seconds(stage: StageWork, tasks: int, slots: int) -> float:
    """Return τ_j of a stage with `tasks` tasks on `slots` slots."""
    waves = -(-tasks // slots)
    return stage.work * (stage.undivided + (1 - stage.undivided) * waves / tasks)


def _undivided(stage: StageTime) -> float:
    """Return s_j from the time of the hottest task over the mean."""
    if stage.hottest is None or stage.tasks < 2:
        return 0.0
    return min(1.0, max(0.0, (stage.hottest - 1) / (stage.tasks - 1)))
