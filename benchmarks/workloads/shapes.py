"""Shapes that make a job hard to tune, and families of random jobs with 2 to 20 operators made of such shapes.

| shape | difficulty |
|---|---|
| total | each instance of the job adds to the latency |
| machine | useful times grow with the cores in use |
| shuffle | each pair of instances of neighbouring operators has a cost |
| own | useful times of an operator grow early with its own instances |
| memory | jumps of the useful time: too much state in an instance, too many instances |
| stragglers | the slowest instance gets slower with the number of instances |
| keys | hot instances and hot keys |
| overheads | fixed costs of a batch: planning, tasks, state partitions |
| waves | more tasks than slots, so a stage runs in rounds |
| tails | readings with heavy tails |
| drift | a machine whose speed changes slowly from window to window |

A draft has relative units: a cost is drawn as a share of the latency at the floor, so it matters for two operators as
much as for twenty. `problems.py` turns drafts into problems.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autotrascale.domain.topology import Operator, Topology
from autotrascale.execute.simulator.simulated_job import (
    MemoryLimits,
    MicroBatch,
    SharedMachine,
    SimulatedJob,
    SimulatedOperator,
)
from benchmarks.workloads.readings import Disturbance

Rng = np.random.Generator

FEWEST, MOST = 2, 20  # operators
WIDE = 10
BUFFER = (0.004, 0.04)  # seconds that an operator holds a buffer
FIRST_FLOOR = (0.1, 0.4)  # need of the busiest operator as a share of P_max, so that twice the rate is within reach


@dataclass
class Draft:
    """A draft of a job, which shapes change in place. `loads` are the busy instances on an idle machine."""

    topology: Topology
    rates: dict[str, float]
    loads: NDArray[np.float64]
    p_max: int
    execution: str
    buffer_seconds: float
    extras: list[dict[str, float]]
    settings: dict[str, Any] = field(default_factory=dict)
    batch: dict[str, Any] = field(default_factory=dict)
    disturbance: dict[str, float] = field(default_factory=dict)

    @property
    def is_batched(self) -> bool:
        return self.execution == "micro-batch"

    @property
    def estimated_floor(self) -> NDArray[np.float64]:
        """Return an estimate of the floor from the loads."""
        if not self.is_batched:
            return np.asarray(np.ceil(self.loads))
        return np.asarray(np.ceil(np.sqrt(self.loads) * np.sqrt(self.loads).sum()))

    def job(self) -> SimulatedJob:
        operators = self._operators()
        if self.is_batched:
            return SimulatedJob(operators, execution="micro-batch", batch=MicroBatch(**self.batch), **self.settings)
        mean = float(np.mean([operator.service_seconds for operator in operators.values()]))
        return SimulatedJob(operators, buffer_records=max(1.0, self.buffer_seconds / mean), **self.settings)

    def _operators(self) -> dict[str, SimulatedOperator]:
        """Return operators with the drafted loads: s_i = load_i / λ_i, selectivities included."""
        place = {name: i for i, name in enumerate(self.topology)}
        made: dict[str, SimulatedOperator] = {}
        arriving: dict[str, float] = {}
        for name in self.topology.order:
            upstream, extra = self.topology.operators[name].upstream, dict(self.extras[place[name]])
            if not upstream:
                extra["selectivity"] = 1.0
            before = sum(arriving[up] * made[up].selectivity for up in upstream)
            arriving[name] = before if upstream else self.rates[name]
            made[name] = SimulatedOperator(service_seconds=float(self.loads[place[name]] / arriving[name]), **extra)
        return {name: made[name] for name in self.topology}


# --- a plain job ----------------------------------------------------------------------------------------------------


def draw_plain_draft(rng: Rng, operators: int, execution: str, p_max: int) -> Draft:
    topology = _draw_graph(rng, operators)
    rates = {name: float(round(log_uniform(rng, 5_000, 400_000), -2)) for name in topology.sources}
    draft = Draft(
        topology=topology,
        rates=rates,
        loads=_draw_loads(rng, operators, execution, p_max),
        p_max=p_max,
        execution=execution,
        buffer_seconds=log_uniform(rng, *BUFFER),
        extras=[{"selectivity": log_uniform(rng, 0.3, 3.0)} for _ in range(operators)],
        settings={"noise": float(rng.uniform(0.03, 0.07))},
    )
    if draft.is_batched:
        planning = float(rng.uniform(0.05, 0.5))
        task = planning * float(rng.uniform(0.1, 0.6)) / float(draft.estimated_floor.sum())
        longest = float(rng.uniform(3.0, 12.0))
        draft.batch = {"planning_seconds": planning, "task_seconds": task, "slots": p_max, "longest_seconds": longest}
    else:
        for extra in draft.extras:
            extra["hop_seconds"] = draft.buffer_seconds * float(rng.uniform(0.1, 1.0))
        draft.settings["queueing"] = str(rng.choice(["pooled", "partitioned"]))
    return draft


def _draw_loads(rng: Rng, operators: int, execution: str, p_max: int) -> NDArray[np.float64]:
    loads = np.array([log_uniform(rng, 1.0, 15.0) for _ in range(operators)])
    busiest = rng.uniform(*FIRST_FLOOR) * p_max
    if execution == "pipelined":
        return np.asarray(loads * (busiest / loads.max()))
    wanted = np.sqrt(loads) * np.sqrt(loads).sum()  # stages take turns: k_i = √load_i · Σ √load
    return np.asarray(loads * (busiest / wanted.max()))


def _draw_graph(rng: Rng, operators: int) -> Topology:
    """Return a chain, or a graph in which each operator reads from one or two of the three before it."""
    names = ["source", *(f"step{i}" for i in range(1, operators - 1)), "sink"]
    if operators < 4 or rng.random() < 0.6:
        return Topology.chain(*names)
    upstream: dict[str, tuple[str, ...]] = {"source": ()}
    for i in range(1, operators):
        near = names[max(0, i - 3) : i]
        count = 2 if len(near) > 1 and rng.random() < 0.3 else 1
        upstream[names[i]] = tuple(sorted(str(name) for name in rng.choice(near, size=count, replace=False)))
    return Topology({name: Operator(upstream=before) for name, before in upstream.items()})


# --- shapes ---------------------------------------------------------------------------------------------------------


def total(draft: Draft, rng: Rng) -> None:
    """Add a coordination cost of 0.1 to 0.6 of the buffer time at the floor."""
    if draft.is_batched:
        draft.batch["task_seconds"] *= float(rng.uniform(1.5, 4.0))
        return
    share = float(rng.uniform(0.1, 0.6)) * len(draft.loads) * draft.buffer_seconds
    draft.settings["coordination_seconds"] = share / float(draft.estimated_floor.sum())


def machine(draft: Draft, rng: Rng) -> None:
    """Give the machine about as many cores as the floor uses."""
    used = float(draft.estimated_floor.max() if draft.is_batched else draft.estimated_floor.sum())
    cores = max(1, round(used * float(rng.uniform(0.8, 1.6))))
    draft.settings["machine"] = SharedMachine(cores=cores, contention=float(rng.uniform(0.1, 0.6)))


def shuffle(draft: Draft, rng: Rng) -> None:
    if draft.is_batched:
        draft.batch["task_seconds"] *= float(rng.uniform(1.0, 3.0))
        for extra in draft.extras:
            extra["crosstalk"] = log_uniform(rng, 1e-4, 1e-3)
        return
    pairs = float(np.mean(draft.estimated_floor)) ** 2
    draft.settings["channel_seconds"] = float(rng.uniform(0.1, 0.6)) * draft.buffer_seconds / pairs


def own(draft: Draft, rng: Rng) -> None:
    for extra in draft.extras:
        extra["coherency"] = float(rng.uniform(0.01, 0.05))
        extra["crosstalk"] = log_uniform(rng, 2e-4, 3e-3)


def memory(draft: Draft, rng: Rng) -> None:
    """Limit memory: state fits at or a little above the floor, and crowding begins somewhat higher."""
    floor = draft.estimated_floor
    for extra, k in zip(draft.extras, floor, strict=True):
        extra["state"] = float(k * rng.uniform(0.9, 1.5)) if rng.random() < 0.6 else 0.0
    crowd = float(floor.max() if draft.is_batched else floor.sum()) * float(rng.uniform(1.2, 1.8))
    draft.settings["memory"] = MemoryLimits(
        room=1.0,
        spilling=float(rng.uniform(0.1, 0.6)),
        instances=max(1, round(crowd)),
        crowding=float(rng.uniform(0.1, 0.6)),
    )


def stragglers(draft: Draft, rng: Rng) -> None:
    for extra in draft.extras:
        extra["straggling"] = float(rng.uniform(0.02, 0.15))


def keys(draft: Draft, rng: Rng) -> None:
    for extra, load in zip(draft.extras, draft.loads, strict=True):
        extra["skew"] = float(rng.uniform(1.0, 1.5))
        extra["hot_share"] = min(0.5, float(rng.uniform(0.0, 0.5)) / max(float(load), 1.0))


def overheads(draft: Draft, rng: Rng) -> None:
    """Make tasks and state partitions cost 0.3 to 2 times the planning at the floor, for micro-batches."""
    if not draft.is_batched:
        return
    floor, planning = draft.estimated_floor, draft.batch["planning_seconds"]
    stateful = rng.random(len(floor)) < 0.5
    costs = planning * float(rng.uniform(0.3, 2.0))
    state = float(rng.uniform(0.2, 0.8)) if stateful.any() else 0.0
    draft.batch["task_seconds"] = (1 - state) * costs / float(floor.sum())
    for extra, has_state in zip(draft.extras, stateful, strict=True):
        extra["commit_seconds"] = state * costs / float(floor[stateful].sum()) if has_state else 0.0


def waves(draft: Draft, rng: Rng) -> None:
    """Give the job few slots beyond the floor."""
    draft.batch["slots"] = max(2, round(float(draft.estimated_floor.max()) * float(rng.uniform(1.1, 1.7))))


def tails(draft: Draft, rng: Rng) -> None:
    draft.disturbance["freedom"] = float(rng.uniform(2.5, 4.0))


def drift(draft: Draft, rng: Rng) -> None:
    draft.disturbance["drift"] = float(rng.uniform(0.01, 0.04))


Shape = Callable[[Draft, Rng], None]
COSTS: tuple[Shape, ...] = (total, machine, shuffle, own, memory, stragglers, keys, overheads)


def some(draft: Draft, rng: Rng) -> None:
    """Apply two or three of the costs."""
    for i in rng.choice(len(COSTS), size=int(rng.integers(2, 4)), replace=False):
        COSTS[i](draft, rng)


def many(draft: Draft, rng: Rng) -> None:
    """Apply each shape with a probability of 0.4."""
    for shape in (*COSTS, tails, drift):
        if rng.random() < 0.4:
            shape(draft, rng)
    if draft.is_batched and rng.random() < 0.4:
        waves(draft, rng)


# --- families -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Recipe:
    """The recipe of a family.

    Attributes:
        shapes: shapes that each job gets.
        aim: the way in which targets are chosen (see `problems.py`).
        executions: kinds of execution to draw from.
        operators: smallest and largest number of operators.
        p_max: upper bounds to draw from.
        noise: noise of a reading; drawn by default.
    """

    shapes: tuple[Shape, ...]
    aim: str = "share"
    executions: tuple[str, ...] = ("pipelined", "micro-batch")
    operators: tuple[int, int] = (FEWEST, MOST)
    p_max: tuple[int, ...] = (24, 32, 40, 64)
    noise: float | None = None

    def draft(self, rng: Rng, operators: int | None = None) -> Draft:
        drawn = round(log_uniform(rng, self.operators[0] - 0.49, self.operators[1] + 0.49))
        execution = str(rng.choice(self.executions))
        p_max = int(rng.choice(self.p_max))
        draft = draw_plain_draft(rng, operators or drawn, execution, p_max)
        for shape in self.shapes:
            shape(draft, rng)
        if self.noise is not None:
            draft.settings["noise"] = self.noise
        return draft

    def disturbance(self, draft: Draft) -> Disturbance:
        return Disturbance(draft.disturbance.get("freedom"), draft.disturbance.get("drift", 0.0))


PIPELINED, BATCHES = ("pipelined",), ("micro-batch",)

RECIPES: Mapping[str, Recipe] = {
    "total": Recipe((total, machine, shuffle), "near-8", PIPELINED, operators=(4, 4), p_max=(40,), noise=0.05),
    "machine": Recipe((machine,), executions=PIPELINED),
    "shuffle": Recipe((shuffle,), executions=PIPELINED),
    "memory": Recipe((memory,)),
    "stragglers": Recipe((stragglers,)),
    "tails": Recipe((some, tails)),
    "drift": Recipe((some, drift)),
    "waves": Recipe((overheads, waves), executions=BATCHES),
    "overheads": Recipe((overheads,), executions=BATCHES),
    "interior": Recipe((own, total), "interior", PIPELINED),
    "near": Recipe((some,), "near"),
    "barely": Recipe((some,), "barely", noise=0.03),
    "wide": Recipe((some,), operators=(WIDE, MOST)),
    "mixed": Recipe((many,)),
}
FAMILIES = tuple(RECIPES)


def log_uniform(rng: Rng, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))
