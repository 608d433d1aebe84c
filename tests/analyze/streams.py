"""Random streams of batches, drawn from a seed: several operators, retries, skew, empty batches, idle instances."""

from __future__ import annotations

import random
from dataclasses import dataclass

from making import Batch, Stage, Task

from autotrascale.domain.topology import Operator, Topology


@dataclass(frozen=True)
class Shape:
    """A stream: operators in the order of the data, each with its instances and with the places of those that it
    reads. `inner` operators shuffle inside, and so run as two stages."""

    operators: tuple[tuple[str, int, tuple[int, ...], bool, bool], ...]  # name, instances, reads, stateful, inner

    @property
    def topology(self) -> Topology:
        names = [name for name, *_ in self.operators]
        return Topology(
            {
                name: Operator(tuple(names[at] for at in reads), stateful)
                for name, _, reads, stateful, _ in self.operators
            }
        )


def shape(chance: random.Random) -> Shape:
    """A tree: one or two sources, joined, and a chain behind them."""
    sources = chance.choice([1, 1, 2])
    found = [(f"source{at}", chance.randint(1, 4), (), False, False) for at in range(sources)]
    for at in range(chance.randint(1, 3)):
        reads = tuple(range(sources)) if at == 0 else (sources + at - 1,)
        # What shuffles inside reads from one operator only: the join comes before.
        inner = len(reads) == 1 and chance.random() < 0.3
        found.append((f"step{at}", chance.randint(1, 5), reads, chance.random() < 0.4, inner))
    return Shape(tuple(found))


def stream(chance: random.Random, of: Shape, run: str, count: int) -> list[Batch]:
    at, batches, arrived = 1_700_000_000_000, [], 1_699_999_999.0
    for number in range(count):
        seconds = round(chance.uniform(0.3, 3.0), 3)
        rows = 0 if chance.random() < 0.15 else chance.randint(1, 4000)
        batches.append(batch(chance, of, run, number, at, seconds, rows, arrived))
        arrived = at / 1000
        at += round(seconds * 1000) + chance.choice([0, 0, 5, 900])
    return batches


def batch(
    chance: random.Random, of: Shape, run: str, number: int, started: int, seconds: float, rows: int, arrived: float
) -> Batch:
    stages: list[Stage] = []
    place: dict[int, int] = {}  # of an operator's last stage
    marks: dict[str, tuple[int | float | None, ...]] = {}
    taken = []
    for at, (name, k, reads, stateful, inner) in enumerate(of.operators):
        gets = rows if not reads else sum(int(marks[of.operators[read][0]][0] or 0) for read in reads)
        gives = chance.choice([gets, 2 * gets, gets // 3, 0])
        below = tuple(place[read] for read in reads)
        begin = started + 10 * len(stages)
        if inner:
            stages.append(stage(chance, "", k, below, gets, gets, False, begin))
            below = (len(stages) - 1,)
        stages.append(stage(chance, name, k, below, gets, gives, stateful, begin + 5))
        place[at] = len(stages) - 1
        first, last = round(arrived * 1e6), started * 1000
        times = (first, (first + last) / 2 + 0.25, last) if rows else (None, None, None)
        marks[name] = (gives, *times) if not reads else (gives,)
        if not reads:
            taken.append(rows)
    rates = tuple(chance.choice(["NaN", 0.0, round(row / seconds, 3)]) for row in taken)
    return Batch(run, number, started, seconds, tuple(stages), marks, tuple(taken), rates, name=f"job-{run}")


def stage(
    chance: random.Random, mark: str, k: int, reads: tuple[int, ...], gets: int, gives: int, stateful: bool, begin: int
) -> Stage:
    weights = [chance.choice([0, 1, 1, 1, 30]) for _ in range(k)]
    tasks = []
    for index, weight in enumerate(weights):
        share = weight / (sum(weights) or 1)
        run = chance.randint(0, 400) + round(gets * share)
        task = Task(
            index,
            run,
            chance.randint(0, 9),
            chance.randint(0, 3),
            chance.choice([0, 0, chance.randint(0, 500)]),
            chance.randint(0, 20),
            chance.randint(0, 10**9),
            sent=round(gives * share),
            **{"shuffled" if reads else "taken": round(gets * share)},
        )
        if chance.random() < 0.1:
            tasks.append(Task(index, run, failed=True))
        tasks.append(task)
        if chance.random() < 0.05:
            tasks.append(task)  # a stage that was tried again does some of its tasks twice
    ended = begin + chance.randint(1, 900)
    return Stage(mark, tuple(tasks), begin, ended, reads, stateful, width=k, attempts=chance.choice([1, 1, 1, 2]))
