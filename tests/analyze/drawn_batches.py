"""Batches as a driver and its executors might have run them, drawn by chance: tasks are dealt to free slots in waves,
stages begin when those that they read have ended, and numbers that Spark may leave out are left out now and then."""

from __future__ import annotations

import random

from autotrascale.analyze.facts import BatchFact, StageFact, TaskFact, TaskTimes

BEGAN = 1_700_000_000_000


def drawn_batches(chance: random.Random) -> list[BatchFact]:
    at, stage, found = BEGAN, 0, []
    slots = [(str(executor), slot) for executor in range(chance.randint(1, 3)) for slot in range(chance.randint(1, 3))]
    for number in range(chance.randint(1, 4)):
        batch = _batch(chance, number, at, stage, slots)
        found.append(batch)
        at = round(batch.committed_ms) + chance.choice((0, 0, chance.randint(1, 500)))
        stage += len(batch.stages)
    return found


def _batch(chance: random.Random, number: int, begin: int, first: int, slots: list[tuple[str, int]]) -> BatchFact:
    phases = {name: chance.choice((0, chance.randint(1, 300))) for name in ("latestOffset", "walCommit", "getBatch")}
    phases["queryPlanning"] = chance.randint(0, 400)
    rest = chance.randint(0, 60)  # that Spark tells nothing of
    before = sum(phases.values()) + chance.choice((0, rest))
    submitted = at = begin + before + chance.randint(0, 50)
    stages, tasks, ends = [], list[TaskFact](), dict[int, int]()
    free = dict.fromkeys(slots, at)
    for place in range(chance.choice((0, 1, 2, 3, 4))):
        parents = tuple(sorted(chance.sample(sorted(ends), chance.randint(0, min(2, len(ends))))))
        ready = max([submitted, *(ends[parent] for parent in parents)]) + chance.choice((0, 0, chance.randint(1, 40)))
        width = chance.randint(1, 7)
        own = [_task(chance, first + place, index, ready, free) for index in range(width)]
        last = max(task.times.finished_ms for task in own if task.times)
        ends[first + place] = over = last + chance.choice((0, chance.randint(1, 20)))
        stages.append(StageFact(first + place, f"operator {place}", width, ready, over, parents=parents))
        tasks += own
        at = max(at, over)
    end = at + chance.randint(0, 80)
    phases |= {"addBatch": end - (begin + before), "commitOffsets": chance.randint(0, 200)}
    took = end + phases["commitOffsets"] - begin + (rest if before == sum(phases.values()) else 0)
    return BatchFact(
        number,
        "run",
        begin,
        took / 1000,
        100,
        stages=tuple(stages),
        tasks=tuple(tasks),
        query="q",
        name="drawn",
        phases={name: ms / 1000 for name, ms in phases.items()},
        jobs_ms=(submitted,) if stages else (),
        sink=chance.choice(("NoopTable", "ForeachBatchSink")),
    )


def _task(chance: random.Random, stage: int, index: int, ready: int, free: dict[tuple[str, int], int]) -> TaskFact:
    slot = min(free, key=lambda each: (free[each], each))
    launched = max(ready + chance.choice((0, 0, chance.randint(1, 9))), free[slot])
    deserialise, run, serialise = chance.randint(0, 30), chance.randint(0, 300), chance.randint(0, 9)
    finished = launched + deserialise + run + serialise + chance.choice((0, chance.randint(1, 15)))
    free[slot] = finished

    def part(most: int) -> int | None:
        return chance.choice((None, 0, chance.randint(0, max(1, most))))

    remote, local = part(99), part(99)
    times = TaskTimes(
        launched, finished, run, serialise, part(run), part(run // 2), part(run // 4), part(run), remote, local
    )
    return TaskFact(stage, index, run, deserialise, part(run // 2), part(run), executor=slot[0], times=times)
