"""What was measured of a job in one window: the input of every policy.

A number that is not known is None. It is never zero: a useful time of zero seconds does not mean "infinitely fast".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, get_args

from autotrascale.domain import checks
from autotrascale.domain.errors import InputError
from autotrascale.domain.target import Statistic
from autotrascale.domain.topology import Operator, Topology, check_source_rates

Execution = Literal["pipelined", "shared", "micro-batch"]


@dataclass(frozen=True)
class Latency:
    """Record latency, arrival to result, in seconds."""

    mean: float | None = None
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None

    def __post_init__(self) -> None:
        for statistic in get_args(Statistic):
            checks.optional(checks.non_negative, statistic, self.of(statistic))

    def of(self, statistic: Statistic) -> float | None:
        value: float | None = getattr(self, statistic)
        return value


@dataclass(frozen=True)
class Work:
    """What an operator, or one instance of it, did in the window: R_in, R_out and the useful time T_u."""

    records_in: float | None = None
    records_out: float | None = None
    useful_seconds: float | None = None
    waiting_seconds: float | None = None
    deserialise_seconds: float | None = None
    gc_seconds: float | None = None

    def __post_init__(self) -> None:
        for name in WORK_FIELDS:
            checks.optional(checks.non_negative, name, getattr(self, name))


WORK_FIELDS = ("records_in", "records_out", "useful_seconds", "waiting_seconds", "deserialise_seconds", "gc_seconds")


@dataclass(frozen=True)
class NarrowWork:
    """The part of an operator's work that `width` instances share at most, as the partitions of a topic are read by as
    many tasks: whoever comes beyond waits while it is done. A width need not be whole: 3 partitions keep 1.5 executors
    of 2 cores busy."""

    share: float
    width: float

    def __post_init__(self) -> None:
        checks.share("share", self.share)
        checks.positive("width", self.width)


@dataclass(frozen=True)
class OperatorMetrics(Work):
    """One operator's window: `instances` one by one, or their sums in the fields of `Work`, never both."""

    parallelism: int = field(kw_only=True)
    upstream: tuple[str, ...] = ()
    stateful: bool = False
    minimum: int = 1
    maximum: int | None = None
    instances: tuple[Work, ...] = ()
    backpressure: float | None = None  # share of the window in which it could not push, in [0, 1]
    backlog_records: float | None = None  # records waiting in front of it
    arrival_cv2: float | None = None  # squared coefficient of variation of inter-arrival times
    service_cv2: float | None = None  # … and of service times
    undivided: float | None = None  # share of its work that one instance does alone, where tasks tell it
    narrow: NarrowWork | None = None  # of what is divided
    stage_seconds: float | None = None  # of batch time in which its stages ran; what several share counts once

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.count("parallelism", self.parallelism)
        for name in ("backpressure", "undivided"):
            checks.optional(checks.share, name, getattr(self, name))
        for name in ("backlog_records", "arrival_cv2", "service_cv2", "stage_seconds"):
            checks.optional(checks.non_negative, name, getattr(self, name))
        if not self.instances:
            return
        if len(self.instances) > self.parallelism:
            raise InputError(
                "instances",
                f"are more than the parallelism of {self.parallelism}",
                seen=len(self.instances),
                remedy="give one entry for each instance",
            )
        if any(getattr(self, name) is not None for name in WORK_FIELDS):
            raise InputError("instances", "stand beside their own sums", remedy="give one or the other")

    @cached_property
    def total(self) -> Work:
        """The sums over the instances; a sum is None as soon as one instance does not know its part."""
        if not self.instances:
            return Work(*(getattr(self, name) for name in WORK_FIELDS))
        return Work(*(_sum(getattr(work, name) for work in self.instances) for name in WORK_FIELDS))

    @property
    def silent_instances(self) -> int:
        """Instances that ought to have reported and did not. Sums stand for all instances."""
        return self.parallelism - len(self.instances) if self.instances else 0

    @property
    def skew(self) -> float:
        """What the hottest instance took in, over the mean; 1 where the instances are not known apart. Who stands for
        many tasks, as an executor does, took what it was dealt: there the tasks tell it."""
        if self.undivided is not None:
            return 1.0 + self.undivided * (self.parallelism - 1)
        taken = [work.records_in for work in self.instances if work.records_in is not None]
        total = sum(taken)
        return max(taken) * len(taken) / total if total else 1.0

    @property
    def hot_share(self) -> float:
        """The share of the records that one instance takes in beside its even part, as the holder of a hot key does:
        of 4 instances the hottest takes in s + (1 − s)/4. Zero where the instances are not known apart."""
        if self.undivided is not None:
            return self.undivided
        counted = sum(work.records_in is not None for work in self.instances)
        return min(max((self.skew - 1.0) / (counted - 1.0), 0.0), 1.0) if counted > 1 else 0.0

    @property
    def operator(self) -> Operator:
        return Operator(self.upstream, self.stateful, self.minimum, self.maximum)


@dataclass(frozen=True)
class CriticalShares:
    """What of the batches' time was on their critical paths and is shortened by no more instances, as shares of it.
    `straggler` is what would be saved if the instances of each operator took equally long; `operator` has the one that
    lags most."""

    driver: float = 0.0  # its own work: offsets, planning, scheduling
    commits: float = 0.0  # logs and state
    external: float = 0.0  # the sink's own function and what it calls
    straggler: float = 0.0
    operator: str = ""

    def __post_init__(self) -> None:
        for name in CRITICAL_FIELDS:
            checks.share(name, getattr(self, name))

    @property
    def elsewhere(self) -> float:
        """All of it together."""
        return min(1.0, self.driver + self.commits + self.external + self.straggler)

    @property
    def most(self) -> str:
        """Which of them is the greatest."""
        return max(CRITICAL_FIELDS, key=lambda name: float(getattr(self, name)))


CRITICAL_FIELDS = ("driver", "commits", "external", "straggler")


@dataclass(frozen=True)
class Snapshot:
    """One window of one job. Times in seconds, rates in records per second."""

    job: str
    window_seconds: float
    p_max: int
    source_rates: Mapping[str, float]
    operators: Mapping[str, OperatorMetrics]
    version: Literal[1] = 1
    execution: Execution = "pipelined"
    overhead_share: float | None = None  # h, the share of a micro-batch of `batch_seconds` that no operator is busy in
    batch_seconds: float | None = None
    throughput: float | None = None
    latency_seconds: Latency = field(default_factory=Latency)
    backlog_records: float | None = None
    critical: CriticalShares | None = None  # of micro-batches, where their tasks' times are known
    slots: int | None = None  # tasks that can run at once, the stages of micro-batches one after another

    def __post_init__(self) -> None:
        if not self.job:
            raise InputError("job", "is empty", remedy="name the job")
        checks.positive("window_seconds", self.window_seconds)
        checks.count("p_max", self.p_max)
        checks.optional(checks.share, "overhead_share", self.overhead_share)
        checks.optional(checks.positive, "batch_seconds", self.batch_seconds)
        checks.optional(checks.non_negative, "throughput", self.throughput)
        checks.optional(checks.non_negative, "backlog_records", self.backlog_records)
        if self.slots is not None:
            checks.count("slots", self.slots)
        check_source_rates(self.topology, self.source_rates)
        for name, metrics in self.operators.items():
            for bound in ("parallelism", "minimum"):
                if getattr(metrics, bound) > self.p_max:
                    raise InputError(
                        f"operators.{name}.{bound}",
                        f"is above p_max = {self.p_max}",
                        seen=getattr(metrics, bound),
                        remedy="raise p_max, or lower it",
                    )

    @cached_property
    def topology(self) -> Topology:
        return Topology({name: metrics.operator for name, metrics in self.operators.items()})

    @property
    def parallelism(self) -> dict[str, int]:
        """What is running, as observed."""
        return {name: metrics.parallelism for name, metrics in self.operators.items()}

    def with_batch_limit(self, seconds: float) -> Snapshot:
        """The same window, its overhead told as a share of the longest batch that shall be.

        The overhead of a batch is a time, not a share: long batches of a job that falls behind hide it, and a floor
        computed from them would be too low for any shorter batch.
        """
        if self.execution != "micro-batch" or self.batch_seconds is None or self.overhead_share is None:
            return self
        share = min(self.overhead_share * self.batch_seconds / seconds, 1.0)
        return replace(self, overhead_share=share, batch_seconds=seconds)

    @property
    def target_rate(self) -> float:
        """What the world offers, all sources together."""
        return sum(self.source_rates.values())


def _sum(values: Iterable[float | None]) -> float | None:
    total = 0.0
    for value in values:
        if value is None:
            return None
        total += value
    return total
