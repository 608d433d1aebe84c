"""The runs of a study, as told: one record for each configuration, its windows averaged."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from autotrascale.domain import checks
from autotrascale.domain.errors import InputError
from autotrascale.plan.search.lattice import Point
from autotrascale.plan.sizing.sizing import Sizing

# An engine that counts whole milliseconds may read zero; nothing takes less than a microsecond.
MIN_LATENCY = 1e-6


@dataclass(frozen=True)
class WindowMeasurement:
    """What a window says of the job beside its latency: the loads of its operators at that parallelism and, where it
    runs in batches, the seconds that a batch takes beside them."""

    loads: tuple[float, ...]
    fixed: float | None = None

    @classmethod
    def of(cls, sizing: Sizing | None) -> WindowMeasurement | None:
        """None where the load of an operator is not known."""
        if sizing is None or None in sizing.load or min(sizing.hottest) <= 0:
            return None
        return cls(sizing.hottest, sizing.fixed_seconds or None)

    def again(self, other: WindowMeasurement, windows: int) -> WindowMeasurement:
        loads = tuple(_mean(mine, theirs, windows) for mine, theirs in zip(self.loads, other.loads, strict=True))
        known = self.fixed is not None and other.fixed is not None
        return WindowMeasurement(loads, _mean(self.fixed or 0.0, other.fixed or 0.0, windows) if known else None)


def _mean(mine: float, other: float, windows: int) -> float:
    """Of so many windows and one more, in the logarithm."""
    return math.exp((windows * math.log(mine) + math.log(other)) / (windows + 1))


@dataclass(frozen=True)
class Run:
    """One configuration and what was measured of it. `latency` is None for a run that failed or fell behind.

    Windows at the same configuration are averaged in the logarithm, where the noise of a latency is even.
    """

    parallelism: Point
    latency: float | None
    throughput: float | None = None
    windows: int = 1
    measured: WindowMeasurement | None = None
    scatter: float = 0.0  # Σ (ln l_w − mean)² over its windows w

    @property
    def failed(self) -> bool:
        return self.latency is None

    def again(self, other: Run) -> Run:
        """This run with one more window of it. A window that failed outweighs those that did not."""
        windows, measured = self.windows + 1, self._measured_again(other)
        if self.latency is None or other.latency is None:
            return Run(self.parallelism, None, other.throughput, windows, measured)
        apart = math.log(other.latency) - math.log(self.latency)
        return replace(
            self,
            latency=_mean(self.latency, other.latency, self.windows),
            throughput=other.throughput,
            windows=windows,
            measured=measured,
            scatter=self.scatter + apart**2 * self.windows / windows,
        )

    def _measured_again(self, other: Run) -> WindowMeasurement | None:
        if self.measured is None or other.measured is None:
            return self.measured or other.measured
        return self.measured.again(other.measured, self.windows)


@dataclass(frozen=True)
class Best:
    """The configuration to use, and whether it meets the target as measured. `probability` that its true latency does,
    where the search knows one; `trusted` when that is enough."""

    parallelism: Point
    latency: float | None
    score: float
    met_target: bool
    probability: float | None = None
    trusted: bool = False


def make_run(
    k: Point, latency: float | None, throughput: float | None, failed: bool, measured: WindowMeasurement | None = None
) -> Run:
    """A run from what `tell` was handed, checked."""
    if throughput is not None:
        checks.non_negative("throughput", throughput)
    if failed:
        return Run(k, None, throughput, measured=measured)
    if latency is None:
        raise InputError("latency", "is missing", remedy="give seconds, or say failed=True")
    if latency == math.inf:
        raise InputError("latency", "must be finite", seen=latency, remedy="say failed=True for a run that fell behind")
    checks.positive("latency", latency)
    return Run(k, float(latency), throughput, measured=measured)
