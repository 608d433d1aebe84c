"""The description of a simulated job: the `simulator:` section of a job file, read without coercions.

Notation (of operator i, per instance):

| symbol | field | unit |
|---|---|---|
| s_i | service_seconds | s |
| σ_i, κ_i | coherency, crosstalk: the useful time grows by 1 + σ(k − 1) + κ k(k − 1) | |
| L_i | external_limit | records/s |
| c_a², c_s² | arrival_cv2, service_cv2 | |
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
    """The true behaviour of an operator, which no policy gets to know."""

    service_seconds: float  # Useful time of a record on an idle machine, in seconds.
    selectivity: float = 1.0  # Records out for each record in.
    hop_seconds: float = 0.0  # Fixed cost of reaching the operator, in seconds.
    coherency: float = 0.0  # σ: the useful time is multiplied by 1 + σ(k − 1) + κ k(k − 1) on k instances.
    crosstalk: float = 0.0  # κ of the same factor.
    skew: float = 1.0  # Load of the hottest instance over the mean, for every k > 1.
    hot_share: float = 0.0  # Share of the records with the hottest key; the hottest instance gets at least this share.
    straggling: float = 0.0  # In each window another one of k instances takes 1 + straggling · ln k times as long.
    state: float = 0.0  # State of all instances together, in any unit; it is spread evenly.
    external_limit: float | None = None  # Limit of a service behind the operator, in records/s, for every k.
    arrival_cv2: float = 1.0  # Squared coefficient of variation of arrivals.
    service_cv2: float = 1.0  # Squared coefficient of variation of service times.
    commit_seconds: float = 0.0  # Micro-batch only: commit of one state partition, in seconds.

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
            raise InputError(
                "skew", "is below 1", seen=self.skew, remedy="give the load of the hottest instance / the mean"
            )


@dataclass(frozen=True)
class SharedMachine:
    """The machine of all operators."""

    cores: int = 64  # Cores of the machine.
    contention: float = 0.0  # Growth of useful times for each further multiple of `cores` in use.

    def __post_init__(self) -> None:
        checks.count("cores", self.cores)
        checks.non_negative("contention", self.contention)


@dataclass(frozen=True)
class MemoryLimits:
    """Two limits of memory, each of which makes useful times longer once it is exceeded.

    Attributes:
        room: state that an instance can hold before it spills, in the unit of `state`; default: no limit.
        spilling: growth of the useful time of an operator whose instances spill.
        instances: running instances before garbage collection slows all of them; default: no limit.
        crowding: growth of all useful times beyond `instances`.
    """

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
    """The fixed costs of a batch. Its stages run one after the other.

    The overhead share of the floor rule is h = o(k) / longest_seconds, and h + Σ load_i/k_i ≤ 1 is equivalent to a
    steady batch within that time.

    Attributes:
        planning_seconds: cost of planning a batch, in seconds.
        task_seconds: cost of starting a task, in seconds.
        slots: tasks that run at once.
        longest_seconds: longest batch that still counts as keeping up, in seconds.
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
    """The costs of a rescale.

    Attributes:
        fixed_seconds: standstill of each rescale, in seconds.
        partition_seconds: further standstill for each state partition, in seconds.
        both_seconds: seconds in which the old and the new parallelism run at once, before the standstill.
    """

    fixed_seconds: float = 10.0
    partition_seconds: float = 0.0
    both_seconds: float = 0.0

    def __post_init__(self) -> None:
        checks.non_negative("fixed_seconds", self.fixed_seconds)
        checks.non_negative("partition_seconds", self.partition_seconds)
        checks.non_negative("both_seconds", self.both_seconds)


@dataclass(frozen=True)
class SimulatedJob:
    """A streaming job that exists only as arithmetic. Figures measured on it must be labelled as simulated.

    Attributes:
        operators: behaviour by operator name.
        execution: records flow through all operators at once, or in micro-batches.
        queueing: pipelined only: one queue for all instances of an operator, or one for each instance.
        buffer_records: records that travel and queue together.
        channel_seconds: cost of a hop for each pair of an instance and an upstream instance, in seconds.
        coordination_seconds: pipelined only: latency for each instance of the whole job, in seconds.
        noise: standard deviation of the logarithm of a measured time.
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
        """Raise `InputError` unless the job describes exactly the operators of `topology`.

        Source rates are the records that leave a source (DS2 §3.2), so the selectivity of a source must be 1.
        """
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
                    "is not 1, but source rates count the records that leave a source",
                    seen=self.operators[name].selectivity,
                    remedy="leave it out, and set source_rates to the records that leave the source",
                )


def to_section(job: SimulatedJob) -> dict[str, Any]:
    """Return the `simulator:` section of the job, without default values."""
    section: dict[str, Any] = _without_defaults(job)
    return section


def _without_defaults(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_defaults(item) for name, item in value.items()}
    if not is_dataclass(value):
        return value
    values = {each.name: getattr(value, each.name) for each in fields(value)}
    return {
        each.name: _without_defaults(values[each.name]) for each in fields(value) if values[each.name] != _default(each)
    }


def _default(each: Field[Any]) -> Any:
    return each.default_factory() if each.default_factory is not MISSING else each.default
