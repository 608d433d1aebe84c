"""The target of a job: the latency to hold, and the tolerance for its throughput."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from autotrascale.domain import checks
from autotrascale.domain.errors import InputError

Statistic = Literal["mean", "p50", "p95", "p99"]


@dataclass(frozen=True)
class Target:
    """The target of a job.

    Args:
        latency_seconds: record latency to hold, in seconds (l_t).
        statistic: statistic of record latency that the target is about, default "mean".
        throughput_tolerance: a throughput within this share of the input rate counts as keeping up, default 0.02.
    """

    latency_seconds: float
    statistic: Statistic = "mean"
    throughput_tolerance: float = 0.02

    def __post_init__(self) -> None:
        checks.positive_in_range("latency_seconds", self.latency_seconds)
        checks.share("throughput_tolerance", self.throughput_tolerance)
        if self.statistic not in get_args(Statistic):
            remedy = f"use one of {', '.join(get_args(Statistic))}"
            raise InputError("statistic", "is not a latency statistic", seen=self.statistic, remedy=remedy)
