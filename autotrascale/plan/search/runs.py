"""The runs of a study, as told: one record for each configuration, its windows averaged."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from autotrascale.domain import checks
from autotrascale.domain.displayed import Displayed
from autotrascale.domain.errors import InputError
from autotrascale.plan.search.lattice import Point

# An engine that counts whole milliseconds may read zero; nothing takes less than a microsecond.
LEAST_LATENCY = 1e-6


@dataclass(frozen=True)
class Run(Displayed):
    """One configuration and what was measured of it. `latency` is None for a run that failed or fell behind.

    Windows at the same configuration are averaged in the logarithm, where the noise of a latency is even.
    """

    parallelism: Point
    latency: float | None
    throughput: float | None = None
    windows: int = 1

    @property
    def failed(self) -> bool:
        return self.latency is None

    def again(self, other: Run) -> Run:
        """This run with one more window of it. A window that failed outweighs those that did not."""
        if self.latency is None or other.latency is None:
            return Run(self.parallelism, None, other.throughput, self.windows + 1)
        total = self.windows * math.log(self.latency) + math.log(other.latency)
        latency = math.exp(total / (self.windows + 1))
        return replace(self, latency=latency, throughput=other.throughput, windows=self.windows + 1)


@dataclass(frozen=True)
class Best(Displayed):
    """The configuration to use, and whether it meets the target as measured. `probability` that its true latency does,
    where the search knows one; `trusted` when that is enough."""

    parallelism: Point
    latency: float | None
    score: float
    met_target: bool
    probability: float | None = None
    trusted: bool = False


def checked_run(k: Point, latency: float | None, throughput: float | None, failed: bool) -> Run:
    """A run from what `tell` was handed, checked."""
    if throughput is not None:
        checks.non_negative("throughput", throughput)
    if failed:
        return Run(k, None, throughput)
    if latency is None:
        raise InputError("latency", "is missing", remedy="give seconds, or say failed=True")
    if latency == math.inf:
        raise InputError("latency", "must be finite", seen=latency, remedy="say failed=True for a run that fell behind")
    checks.positive("latency", latency)
    return Run(k, float(latency), throughput)
