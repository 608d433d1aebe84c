"""Snapshots: the measurements of a job in one window, which are the input of every policy.

A number that is not known is None and never zero: a useful time of zero would mean "infinitely fast".
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
    """Record latency, from arrival to result, in seconds."""

    mean: float | None = None
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None

    def __post_init__(self) -> None:
        for statistic in get_args(Statistic):
            checks.optional(checks.non_negative, statistic, self.of(statistic))

    def of(self, statistic: Statistic) -> float | None:
        """Return the value of `statistic`."""
        value: float | None = getattr(self, statistic)
        return value


@dataclass(frozen=True)
class Work:
    """The work of an operator, or of one instance, in a window: R_in, R_out, the useful time T_u and its rest."""

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
    """The part of an operator's work that at most `width` instances can share; further instances wait meanwhile.

    A topic, for instance, is read by one task per partition. The width may be a fraction: 3 partitions keep 1.5
    executors of 2 cores busy.

    Args:
        share: share of the operator's divisible work, in [0, 1].
        width: instances that can share it, above 0.
    """

    share: float
    width: float

    def __post_init__(self) -> None:
        checks.share("share", self.share)
        checks.positive("width", self.width)


@dataclass(frozen=True)
class OperatorMetrics(Work):
    """The window of one operator. `instances` has their work one by one, or the fields of `Work` have the sums.

    Args:
        parallelism: observed instances.
        upstream: names of the operators that it reads from.
        stateful: the operator keeps state.
        minimum: least instances that it may have, default 1.
        maximum: most instances that it may have, default P_max of the job.
        instances: work of each instance; empty when only sums are known.
        backpressure: share of the window in which it could not push, in [0, 1].
        backlog_records: records that wait in front of it.
        arrival_cv2: squared coefficient of variation of inter-arrival times.
        service_cv2: squared coefficient of variation of service times.
        undivided: share of its work that one instance does alone, as measured by tasks.
        narrow: part of the remaining work that few instances share.
        stage_seconds: batch time in which its stages ran; a stage shared by several operators counts once.
    """

    parallelism: int = field(kw_only=True)
    upstream: tuple[str, ...] = ()
    stateful: bool = False
    minimum: int = 1
    maximum: int | None = None
    instances: tuple[Work, ...] = ()
    backpressure: float | None = None
    backlog_records: float | None = None
    arrival_cv2: float | None = None
    service_cv2: float | None = None
    undivided: float | None = None
    narrow: NarrowWork | None = None
    stage_seconds: float | None = None

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
            problem = f"are more than the parallelism of {self.parallelism}"
            raise InputError("instances", problem, seen=len(self.instances), remedy="give one entry for each instance")
        if any(getattr(self, name) is not None for name in WORK_FIELDS):
            raise InputError("instances", "are given together with their sums", remedy="give the instances or the sums")

    @cached_property
    def total(self) -> Work:
        """Sums over the instances; a sum is None when the value of one instance is not known."""
        if not self.instances:
            return Work(*(getattr(self, name) for name in WORK_FIELDS))
        return Work(*(_sum(getattr(work, name) for work in self.instances) for name in WORK_FIELDS))

    @property
    def silent_instances(self) -> int:
        """Number of instances that did not report; 0 when only sums are known."""
        return self.parallelism - len(self.instances) if self.instances else 0

    @property
    def skew(self) -> float:
        """Input of the hottest instance over the mean input; 1 when the instances are not known one by one.

        `undivided` takes precedence: an executor runs many tasks, so only the tasks show a skew.
        """
        if self.undivided is not None:
            return 1.0 + self.undivided * (self.parallelism - 1)
        taken = [work.records_in for work in self.instances if work.records_in is not None]
        total = sum(taken)
        return max(taken) * len(taken) / total if total else 1.0

    @property
    def hot_share(self) -> float:
        """Share s of the records that one instance receives beside its even part, such as the records of a hot key.

        Of 4 instances the hottest receives s + (1 − s)/4. Zero when the instances are not known one by one.
        """
        if self.undivided is not None:
            return self.undivided
        counted = sum(work.records_in is not None for work in self.instances)
        return min(max((self.skew - 1.0) / (counted - 1.0), 0.0), 1.0) if counted > 1 else 0.0

    @property
    def operator(self) -> Operator:
        """The operator as the topology declares it."""
        return Operator(self.upstream, self.stateful, self.minimum, self.maximum)


@dataclass(frozen=True)
class CriticalShares:
    """Shares of batch time on the critical paths that more instances do not shorten.

    Args:
        driver: work of the driver: offsets, planning, scheduling.
        commits: commits of logs and state.
        external: the sink's own function and the services it calls.
        straggler: saving if all instances of each operator took equally long.
        operator: operator with the largest straggler.
    """

    driver: float = 0.0
    commits: float = 0.0
    external: float = 0.0
    straggler: float = 0.0
    operator: str = ""

    def __post_init__(self) -> None:
        for name in CRITICAL_FIELDS:
            checks.share(name, getattr(self, name))

    @property
    def elsewhere(self) -> float:
        """Sum of all shares, at most 1."""
        return min(1.0, self.driver + self.commits + self.external + self.straggler)

    @property
    def most(self) -> str:
        """Name of the largest share."""
        return max(CRITICAL_FIELDS, key=lambda name: float(getattr(self, name)))


CRITICAL_FIELDS = ("driver", "commits", "external", "straggler")


@dataclass(frozen=True)
class Snapshot:
    """The measurements of one job in one window. Rates are records per second; None means not known.

    Args:
        job: name of the job.
        window_seconds: length of the window.
        p_max: most instances of any operator.
        source_rates: offered rate of each source.
        operators: metrics by operator.
        version: version of the JSON form, always 1.
        execution: execution model of the engine, default "pipelined".
        overhead_share: h, share of a micro-batch of `batch_seconds` in which no operator is busy.
        batch_seconds: duration of a micro-batch.
        throughput: records per second that the job processed.
        latency_seconds: statistics of record latency.
        backlog_records: records that wait in front of the job.
        critical: shares of batch time that more instances do not shorten, from task times of micro-batches.
        slots: tasks that can run at once; the stages of a micro-batch share them one after another.
    """

    job: str
    window_seconds: float
    p_max: int
    source_rates: Mapping[str, float]
    operators: Mapping[str, OperatorMetrics]
    version: Literal[1] = 1
    execution: Execution = "pipelined"
    overhead_share: float | None = None
    batch_seconds: float | None = None
    throughput: float | None = None
    latency_seconds: Latency = field(default_factory=Latency)
    backlog_records: float | None = None
    critical: CriticalShares | None = None
    slots: int | None = None

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
                    problem = f"is above p_max = {self.p_max}"
                    remedy = "raise p_max, or lower it"
                    raise InputError(f"operators.{name}.{bound}", problem, seen=getattr(metrics, bound), remedy=remedy)

    @cached_property
    def topology(self) -> Topology:
        """The graph of the operators."""
        return Topology({name: metrics.operator for name, metrics in self.operators.items()})

    @property
    def parallelism(self) -> dict[str, int]:
        """Observed instances by operator."""
        return {name: metrics.parallelism for name, metrics in self.operators.items()}

    def with_batch_limit(self, seconds: float) -> Snapshot:
        """Return this window with its overhead as a share of batches of `seconds`.

        The overhead of a batch is a fixed time. Long batches of a job that falls behind hide it, and a floor computed
        from their share would be too low for shorter batches.
        """
        if self.execution != "micro-batch" or self.batch_seconds is None or self.overhead_share is None:
            return self
        share = min(self.overhead_share * self.batch_seconds / seconds, 1.0)
        return replace(self, overhead_share=share, batch_seconds=seconds)

    @property
    def target_rate(self) -> float:
        """Offered rate of all sources together."""
        return sum(self.source_rates.values())


def _sum(values: Iterable[float | None]) -> float | None:
    total = 0.0
    for value in values:
        if value is None:
            return None
        total += value
    return total
