"""What the user wants of the job: a latency it must hold, and how close to the input rate is close enough."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from autotrascale.domain import checks
from autotrascale.domain.errors import InputError

Statistic = Literal["mean", "p50", "p95", "p99"]


@dataclass(frozen=True)
class Target:
    """l_t and the statistic of record latency that it speaks of; throughput within `throughput_tolerance` of the
    input rate counts as keeping up."""

    latency_seconds: float
    statistic: Statistic = "mean"
    throughput_tolerance: float = 0.02

    def __post_init__(self) -> None:
        checks.positive_in_range("latency_seconds", self.latency_seconds)
        checks.share("throughput_tolerance", self.throughput_tolerance)
        if self.statistic not in get_args(Statistic):
            raise InputError(
                "statistic",
                "is not a latency statistic",
                seen=self.statistic,
                remedy=f"use one of {', '.join(get_args(Statistic))}",
            )
