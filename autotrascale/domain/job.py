"""A job to tune: its graph, its input rates, the parallelism it may use, and its latency target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from autotrascale.domain import checks
from autotrascale.domain.errors import InputError
from autotrascale.domain.target import Target
from autotrascale.domain.topology import Topology, check_source_rates

MAX_INSTANCES = 2**31 - 1  # engines count instances in 32 bits


@dataclass(frozen=True)
class Job:
    """A job to tune.

    Args:
        name: name of the job.
        topology: operators and streams.
        p_max: most instances of any operator.
        source_rates: records per second of each source; all zero means not known yet.
        target: latency target.
    """

    name: str
    topology: Topology
    p_max: int
    source_rates: Mapping[str, float]
    target: Target

    def __post_init__(self) -> None:
        if not self.name:
            raise InputError("job", "is empty", remedy="name the job")
        check_p_max(self.p_max)
        check_source_rates(self.topology, self.source_rates)
        if self.rate:
            checks.positive_in_range("source_rates", self.rate)
        for name, operator in self.topology.operators.items():
            if operator.minimum > self.p_max:
                problem = f"is above p_max = {self.p_max}"
                remedy = "lower it, or raise p_max"
                raise InputError(f"operators.{name}.minimum", problem, seen=operator.minimum, remedy=remedy)

    @property
    def rate(self) -> float:
        """Records per second of all sources together."""
        return sum(self.source_rates.values())

    @property
    def upper(self) -> tuple[int, ...]:
        """Most instances of each operator: `p_max`, or the operator's own maximum where that is lower."""
        return tuple(min(operator.maximum or self.p_max, self.p_max) for operator in self.topology.operators.values())

    def at_rate(self, rate: float) -> Job:
        """Return the job at `rate` records per second in all, with its sources in the same proportions."""
        checks.positive_in_range("rate", rate)
        if self.rate == 0:
            problem = "are all zero, so there are no proportions to keep"
            raise InputError("source_rates", problem, seen=dict(self.source_rates), remedy="give each source a rate")
        return replace(self, source_rates={name: r * rate / self.rate for name, r in self.source_rates.items()})


def check_p_max(p_max: int) -> None:
    """Check that `p_max` is a number of instances that an engine can count."""
    checks.count("p_max", p_max)
    if p_max > MAX_INSTANCES:
        remedy = "give the slots of the cluster"
        raise InputError("p_max", f"is above {MAX_INSTANCES}, more than an engine can count", seen=p_max, remedy=remedy)
