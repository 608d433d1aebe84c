"""What a task costs whatever it is given: its start, its files, the commit of its state.

    symbol    meaning                                                       unit
    n, t      records that a task read; its useful time                     records, ms
    α, β      t = α + β n, for the tasks of one stage                       ms, ms for each record

Useful time that comes with every batch and not with every record is no load: in longer batches there is less of it. At
a few records a batch it is nearly all that there is, and a load that counts it asks for executors that nobody needs. So
it is told apart, and counted as what a batch costs beside its records.

α and β are fitted by least squares to the tasks of some batches. β is taken as high as it may be, two standard errors,
and α follows: where tasks had many records each, or all of them as many, nothing is told apart.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from msgspec import structs

from autotrascale.analyze.facts import BatchFact

Costs = Mapping[str, float]
"""α of each stage, by name."""

FEWEST = 12  # tasks of a stage that a line is drawn through
MOST = 0.8  # of a stage's work: more is not believed to be no load
_DOUBT = 2.0  # standard errors


def fit_task_costs(batches: Iterable[BatchFact]) -> dict[str, float]:
    tasks: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for batch in batches:
        name_of = {stage.stage: stage.operator for stage in batch.stages}
        for task in batch.tasks:
            if task.stage in name_of and task.read is not None and task.useful_ms is not None:
                tasks[name_of[task.stage]].append((task.read, task.useful_ms))
    return {name: _at_no_records(points) for name, points in tasks.items() if len(points) >= FEWEST}


def remove_task_costs(batches: Sequence[BatchFact], costs: Costs) -> tuple[list[BatchFact], float]:
    """The same batches with what their records cost alone, and the seconds of slots that were taken out."""
    kept, taken_ms = list[BatchFact](), 0.0
    for batch in batches:
        cost_of = {stage.stage: costs.get(stage.operator, 0.0) for stage in batch.stages}
        tasks = []
        for task in batch.tasks:
            cost = 0 if task.useful_ms is None else min(task.useful_ms, round(cost_of.get(task.stage, 0.0)))
            taken_ms += cost
            tasks.append(structs.replace(task, useful_ms=task.useful_ms - cost) if cost and task.useful_ms else task)
        kept.append(replace(batch, tasks=tuple(tasks)))
    return kept, taken_ms / 1000


def _at_no_records(points: Sequence[tuple[int, int]]) -> float:
    """α, as low as it may be."""
    count = len(points)
    n, t = (math.fsum(each) / count for each in zip(*points, strict=True))
    spread = math.fsum((own - n) ** 2 for own, _ in points)
    if not spread:
        return 0.0
    slope = math.fsum((own - n) * (took - t) for own, took in points) / spread
    left = math.fsum((took - t - slope * (own - n)) ** 2 for own, took in points)
    steepest = max(0.0, slope) + _DOUBT * math.sqrt(left / (count - 2) / spread)
    return min(MOST * t, max(0.0, t - steepest * n))
