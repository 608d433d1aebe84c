"""Fixed costs of tasks, which do not depend on their records: start, files, commit of state.

    symbol    meaning                                                       unit
    n, t      records that a task read; its useful time                     records, ms
    α, β      t = α + β n, for the tasks of one stage                       ms, ms per record

A fixed cost comes with every batch and not with every record, so it is no load: longer batches have less of it. At a
few records a batch it is nearly all of the useful time, and a load that contains it asks for too many executors. So it
counts as a cost of the batch.

α and β are fitted by least squares to the tasks of some batches. β is taken two standard errors above the fit, and α
follows from it. Where tasks had many records each, or all had as many, α is 0.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from msgspec import structs

from autotrascale.analyze.facts import BatchFact

Costs = Mapping[str, float]  # α of each stage, by name
FEWEST = 12  # tasks of a stage that a line is fitted to
MOST = 0.8  # greatest share of a stage's work that counts as a fixed cost
_DOUBT = 2.0  # standard errors


def fit_task_costs(batches: Iterable[BatchFact]) -> dict[str, float]:
    """Return α of each stage in ms, by the stage's name."""
    tasks: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for batch in batches:
        name_of = {stage.stage: stage.operator for stage in batch.stages}
        for task in batch.tasks:
            if task.stage in name_of and task.read is not None and task.useful_ms is not None:
                tasks[name_of[task.stage]].append((task.read, task.useful_ms))
    return {name: _fixed_cost(points) for name, points in tasks.items() if len(points) >= FEWEST}


def remove_task_costs(batches: Sequence[BatchFact], costs: Costs) -> tuple[list[BatchFact], float]:
    """Return the batches without their fixed costs, and the removed time in seconds of slots."""
    cheaper, removed_ms = list[BatchFact](), 0.0
    for batch in batches:
        cost_of = {stage.stage: costs.get(stage.operator, 0.0) for stage in batch.stages}
        tasks = []
        for task in batch.tasks:
            cost = 0 if task.useful_ms is None else min(task.useful_ms, round(cost_of.get(task.stage, 0.0)))
            removed_ms += cost
            tasks.append(structs.replace(task, useful_ms=task.useful_ms - cost) if cost and task.useful_ms else task)
        cheaper.append(replace(batch, tasks=tuple(tasks)))
    return cheaper, removed_ms / 1000


def _fixed_cost(points: Sequence[tuple[int, int]]) -> float:
    """Return the lowest plausible α of a stage's tasks."""
    count = len(points)
    n, t = (math.fsum(each) / count for each in zip(*points, strict=True))
    spread = math.fsum((own - n) ** 2 for own, _ in points)
    if not spread:
        return 0.0
    slope = math.fsum((own - n) * (took - t) for own, took in points) / spread
    left = math.fsum((took - t - slope * (own - n)) ** 2 for own, took in points)
    steepest = max(0.0, slope) + _DOUBT * math.sqrt(left / (count - 2) / spread)
    return min(MOST * t, max(0.0, t - steepest * n))
