"""What a simulated job is made of: the `simulator:` section of a job file, read without coercions.

Notation (per operator i, per instance):

| symbol | field | meaning | unit |
|---|---|---|---|
| s_i | service_seconds | useful time of one record on a quiet machine | s |
| | selectivity | records out for each record in | |
| | hop_seconds | fixed cost of reaching the operator | s |
| σ_i, κ_i | coherency, crosstalk | growth of the useful time with k_i: 1 + σ(k − 1) + κ k(k − 1) | |
| | skew | hottest instance's load over the mean; no k > 1 escapes it | |
| | hot_share | share of the records that one key holds: the hottest instance never gets less | |
| | straggling | the slowest of k instances, another one in each window, takes 1 + straggling · ln k times as long | |
| | state | what all instances together keep in memory, spread evenly over them | any |
| L_i | external_limit | what the world behind the operator takes, whatever its k | records/s |
| c_a², c_s² | arrival_cv2, service_cv2 | variability of arrivals and of service | |
| | commit_seconds | micro-batch only: committing one state partition | s |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from typing import Any, Literal

from autotrascale.domain import checks
from autotrascale.domain.errors import InputError
from autotrascale.domain.topology import Topology

SimulatedExecution = Literal["pipelined", "micro-batch"]
Queueing = Literal["pooled", "partitioned"]


@dataclass(frozen=True)
class SimulatedOperator:
    """One operator's true behaviour, which no policy is told."""

    service_seconds: float
    selectivity: float = 1.0
    hop_seconds: float = 0.0
    coherency: float = 0.0
    crosstalk: float = 0.0
    skew: float = 1.0
    hot_share: float = 0.0
    straggling: float = 0.0
    state: float = 0.0
    external_limit: float | None = None
    arrival_cv2: float = 1.0
    service_cv2: float = 1.0
    commit_seconds: float = 0.0

    def __post_init__(self) -> None:
        checks.positive("service_seconds", self.service_seconds)
        for name in ("selectivity", "hop_seconds", "coherency", "crosstalk", "arrival_cv2", "service_cv2"):
            checks.non_negative(name, getattr(self, name))
        for name in ("commit_seconds", "straggling", "state"):
            checks.non_negative(name, getattr(self, name))
        checks.share("hot_share", self.hot_share)
        checks.optional(checks.positive, "external_limit", self.external_limit)
        checks.positive("skew", self.skew)
        if self.skew < 1:
            raise InputError("skew", "is below 1", seen=self.skew, remedy="give the hottest instance's load / the mean")


@dataclass(frozen=True)
class SharedMachine:
    """What all operators share: useful times grow by `contention` for each further multiple of `cores` in use."""

    cores: int = 64
    contention: float = 0.0

    def __post_init__(self) -> None:
        checks.count("cores", self.cores)
        checks.non_negative("contention", self.contention)


@dataclass(frozen=True)
class MemoryLimits:
    """Two steps. An instance that keeps more than `room` of its operator's state spills it, and all of them collect
    garbage when more than `instances` run at a time: useful times grow by `spilling` and by `crowding`."""

    room: float | None = None
    spilling: float = 0.0
    instances: int | None = None
    crowding: float = 0.0

    def __post_init__(self) -> None:
        checks.optional(checks.positive, "room", self.room)
        checks.non_negative("spilling", self.spilling)
        if self.instances is not None:
            checks.count("instances", self.instances)
        checks.non_negative("crowding", self.crowding)


@dataclass(frozen=True)
class MicroBatch:
    """The fixed costs of a batch, and the slots its stages run on, one stage after another.

    `longest_seconds` is the longest batch that still counts as keeping up: the overhead share of the floor rule is
    h = o(k) / longest_seconds, and h + Σ load_i/k_i ≤ 1 says exactly that the steady batch is no longer than that.
    """

    planning_seconds: float = 0.1
    task_seconds: float = 0.002
    slots: int = 64
    longest_seconds: float = 10.0

    def __post_init__(self) -> None:
        checks.positive("planning_seconds", self.planning_seconds)
        checks.non_negative("task_seconds", self.task_seconds)
        checks.count("slots", self.slots)
        checks.positive("longest_seconds", self.longest_seconds)


@dataclass(frozen=True)
class SimulatedRescaleCosts:
    """How long the job stands still to change its parallelism: a fixed part, and one for each state partition moved;
    and how long it runs twice before that, where one takes over from the other."""

    fixed_seconds: float = 10.0
    partition_seconds: float = 0.0
    both_seconds: float = 0.0

    def __post_init__(self) -> None:
        checks.non_negative("fixed_seconds", self.fixed_seconds)
        checks.non_negative("partition_seconds", self.partition_seconds)
        checks.non_negative("both_seconds", self.both_seconds)


@dataclass(frozen=True)
class SimulatedJob:
    """A streaming job that exists only as arithmetic. Figures measured on it are simulated, and must say so.

    `buffer_records` records travel and queue together. `channel_seconds` is what each channel between an operator's
    instances and those of its upstreams adds to a hop, `coordination_seconds` what each instance of the whole job adds
    to a record's way (pipelined; batches have `task_seconds`). `noise` is the standard deviation of a reading's log.
    """

    operators: Mapping[str, SimulatedOperator]
    execution: SimulatedExecution = "pipelined"
    queueing: Queueing = "pooled"
    buffer_records: float = 1.0
    channel_seconds: float = 0.0
    coordination_seconds: float = 0.0
    noise: float = 0.05
    machine: SharedMachine = field(default_factory=SharedMachine)
    memory: MemoryLimits = field(default_factory=MemoryLimits)
    batch: MicroBatch = field(default_factory=MicroBatch)
    rescale: SimulatedRescaleCosts = field(default_factory=SimulatedRescaleCosts)

    def __post_init__(self) -> None:
        if not self.operators:
            raise InputError("operators", "is empty", remedy="describe every operator of the job")
        checks.positive("buffer_records", self.buffer_records)
        checks.non_negative("channel_seconds", self.channel_seconds)
        checks.non_negative("coordination_seconds", self.coordination_seconds)
        checks.non_negative("noise", self.noise)

    def check_fits(self, topology: Topology) -> None:
        """The job and the graph must speak of the same operators."""
        for name in topology:
            if name not in self.operators:
                raise InputError(
                    f"simulator.operators.{name}", "is missing", remedy="describe every operator of the topology"
                )
        for name in self.operators:
            if name not in topology.operators:
                raise InputError(
                    f"simulator.operators.{name}", "is not in the topology", remedy=f"use one of {', '.join(topology)}"
                )
        for name in topology.sources:
            if self.operators[name].selectivity != 1:
                raise InputError(
                    f"simulator.operators.{name}.selectivity",
                    "is not 1, but source rates are what sources put out (DS2 §3.2)",
                    seen=self.operators[name].selectivity,
                    remedy="leave it out, and set source_rates to the records that leave the source",
                )


def to_section(job: SimulatedJob) -> dict[str, Any]:
    """The job as plain data, defaults left out: its `simulator:` section, which `reading.validate` takes back."""
    section: dict[str, Any] = _without_defaults(job)
    return section


def _without_defaults(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_defaults(item) for name, item in value.items()}
    if not is_dataclass(value):
        return value
    kept = (
        (each.name, getattr(value, each.name)) for each in fields(value) if getattr(value, each.name) != _default(each)
    )
    return {name: _without_defaults(item) for name, item in kept}


def _default(each: Field[Any]) -> Any:
    return each.default_factory() if each.default_factory is not MISSING else each.default
