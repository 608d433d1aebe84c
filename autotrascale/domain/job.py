"""A job to be tuned: its graph, what the world offers it, what it may use, and what is wanted of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from autotrascale.domain import checks
from autotrascale.domain.errors import InputError
from autotrascale.domain.target import Target
from autotrascale.domain.topology import Topology, check_source_rates

MAX_INSTANCES = 2**31 - 1  # instances that an engine can count to


@dataclass(frozen=True)
class Job:
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
        if self.rate:  # zero is none yet, for `at_rate` or a loop to find
            checks.positive_in_range("source_rates", self.rate)
        for name, operator in self.topology.operators.items():
            if operator.minimum > self.p_max:
                raise InputError(
                    f"operators.{name}.minimum",
                    f"is above p_max = {self.p_max}",
                    seen=operator.minimum,
                    remedy="lower it, or raise p_max",
                )

    @property
    def rate(self) -> float:
        """Records per second, all sources together."""
        return sum(self.source_rates.values())

    @property
    def upper(self) -> tuple[int, ...]:
        """P_max of each operator: the job's own bound, or the operator's where that is lower."""
        return tuple(min(operator.maximum or self.p_max, self.p_max) for operator in self.topology.operators.values())

    def at_rate(self, rate: float) -> Job:
        """The same job at another total rate, its sources in the same proportions."""
        checks.positive_in_range("rate", rate)
        if self.rate == 0:
            raise InputError(
                "source_rates",
                "are all zero, so there are no proportions to keep",
                seen=dict(self.source_rates),
                remedy="give each source a rate",
            )
        return replace(self, source_rates={name: r * rate / self.rate for name, r in self.source_rates.items()})


def check_p_max(p_max: int) -> None:
    checks.count("p_max", p_max)
    if p_max > MAX_INSTANCES:
        raise InputError(
            "p_max",
            f"is above {MAX_INSTANCES}, more than an engine can count",
            seen=p_max,
            remedy="give what the cluster has",
        )
