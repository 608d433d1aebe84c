"""The runs of a study: one record for each configuration, with its windows averaged."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from autotrascale.domain import checks
from autotrascale.domain.errors import InputError
from autotrascale.plan.search.lattice import Point
from autotrascale.plan.sizing.sizing import Sizing

# An engine that counts whole milliseconds may measure zero.
MIN_LATENCY = 1e-6


@dataclass(frozen=True)
class WindowMeasurement:
    """The measurements of a window other than latency.

    Args:
        loads: load of each operator in instances, at the parallelism of the window.
        fixed: fixed cost of a batch in seconds; None when the job does not run in batches.
    """

    loads: tuple[float, ...]
    fixed: float | None = None

    @classmethod
    def of(cls, sizing: Sizing | None) -> WindowMeasurement | None:
        """Return the measurement of a sized window; None when the load of an operator is not known."""
        if sizing is None or None in sizing.load or min(sizing.hottest) <= 0:
            return None
        return cls(sizing.hottest, sizing.fixed_seconds or None)

    def again(self, other: WindowMeasurement, windows: int) -> WindowMeasurement:
        """Return the mean of `windows` windows with this measurement and one more window."""
        loads = tuple(_average(mine, theirs, windows) for mine, theirs in zip(self.loads, other.loads, strict=True))
        known = self.fixed is not None and other.fixed is not None
        return WindowMeasurement(loads, _average(self.fixed or 0.0, other.fixed or 0.0, windows) if known else None)


def _average(mine: float, other: float, windows: int) -> float:
    """Return the geometric mean of `windows` windows with mean `mine` and one more window."""
    return math.exp((windows * math.log(mine) + math.log(other)) / (windows + 1))


@dataclass(frozen=True)
class Run:
    """A configuration and its measurements, averaged over its windows.

    Latencies are averaged in the logarithm, in which their noise is even.

    Args:
        parallelism: instances of each operator.
        latency: mean latency in seconds; None when the run failed or fell behind.
        throughput: records per second of the last window; None when not known.
        windows: number of windows, default 1.
        measured: loads and batch cost; None when not measured.
        scatter: Σ (ln l_w − mean)² over its windows w.
    """

    parallelism: Point
    latency: float | None
    throughput: float | None = None
    windows: int = 1
    measured: WindowMeasurement | None = None
    scatter: float = 0.0

    @property
    def failed(self) -> bool:
        """True when the run failed or fell behind."""
        return self.latency is None

    def again(self, other: Run) -> Run:
        """Return this run with one more window. A run with a failed window has failed."""
        windows, measured = self.windows + 1, self._average_measured(other)
        if self.latency is None or other.latency is None:
            return Run(self.parallelism, None, other.throughput, windows, measured)
        apart = math.log(other.latency) - math.log(self.latency)
        return replace(
            self,
            latency=_average(self.latency, other.latency, self.windows),
            throughput=other.throughput,
            windows=windows,
            measured=measured,
            scatter=self.scatter + apart**2 * self.windows / windows,
        )

    def _average_measured(self, other: Run) -> WindowMeasurement | None:
        if self.measured is None or other.measured is None:
            return self.measured or other.measured
        return self.measured.again(other.measured, self.windows)


@dataclass(frozen=True)
class Best:
    """The configuration to use.

    Args:
        parallelism: instances of each operator.
        latency: mean latency in seconds; None when its run failed.
        score: benefit score.
        met_target: the measured latency meets the target, or the configuration is trusted.
        probability: probability that the true latency meets the target; None when it is not modelled.
        trusted: the probability suffices, or the measured latency meets the target when none is modelled.
    """

    parallelism: Point
    latency: float | None
    score: float
    met_target: bool
    probability: float | None = None
    trusted: bool = False


def make_run(
    k: Point, latency: float | None, throughput: float | None, failed: bool, measured: WindowMeasurement | None = None
) -> Run:
    """Return the run of one window, from the checked arguments of `Study.tell`.

    Raises:
        InputError: the latency is missing, infinite or not positive.
    """
    if throughput is not None:
        checks.non_negative("throughput", throughput)
    if failed:
        return Run(k, None, throughput, measured=measured)
    if latency is None:
        raise InputError("latency", "is missing", remedy="give seconds, or failed=True")
    if latency == math.inf:
        raise InputError(
            "latency", "must be finite", seen=latency, remedy="give failed=True for a run that fell behind"
        )
    checks.positive("latency", latency)
    return Run(k, float(latency), throughput, measured=measured)
