"""Training data of the surrogate: the readings of sessions, and all of them as arrays relative to the present job.

symbol  meaning                                                                        shape
T       runs of all sessions that count
y       log(l_r / l_t) of each                                                         (T,)
q       rate of a run over the present rate                                            (T,)
R       windows with a measured fixed cost
o       fixed cost of a batch, for a job that runs in batches, in seconds              (R,)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autotrascale.plan.search.latency_model import LatencyModel
from autotrascale.plan.search.lattice import Point
from autotrascale.plan.search.measured_loads import LoadRow, MeasuredLoads
from autotrascale.plan.search.study_runs import WindowMeasurement
from autotrascale.plan.sizing.sizing import Sizing

Floats = NDArray[np.float64]
Doubt = float | None

# Log ratio above the target (or above the best reading, when that is far off) at which readings are clipped. Without a
# bound one saturated run bends the whole surface.
FARTHEST = 3.0


@dataclass(frozen=True)
class SessionReadings:
    """The runs of one session.

    Args:
        sizing: sizing of the job at the session's rate.
        ks: instances of each operator, by run.
        log_ratio: y of each run.
        weight: variance of each reading in units of ν²: 1/windows, larger for a failed run.
        failed: failed runs. Default: none failed.
        rates: rate of each run. Default: the rate of the sizing.
        measured: loads and costs of each run. Default: not measured.
        latency_target: l_t in seconds, default 1.
        repeated: windows beyond the first of each configuration whose scatter is known.
        scatter: Σ (y_w − mean)² over these configurations.
    """

    sizing: Sizing
    ks: tuple[Point, ...] = ()
    log_ratio: tuple[float, ...] = ()
    weight: tuple[float, ...] = ()
    failed: tuple[bool, ...] = ()
    rates: tuple[float, ...] = ()
    measured: tuple[WindowMeasurement | None, ...] = ()
    latency_target: float = 1.0
    repeated: int = 0
    scatter: float = 0.0

    @property
    def floor(self) -> Point:
        """k' of the session."""
        return self.sizing.floor

    @property
    def at_rates(self) -> tuple[float, ...]:
        """Rate of each run."""
        return self.rates or (self.sizing.rate,) * len(self.ks)

    def shares_window_of(self, other: SessionReadings) -> bool:
        """Return whether both sessions were sized from the same measured window, so that their runs count alike."""
        mine, theirs = self.sizing, other.sizing
        return mine.measured and (mine.rate, mine.hottest) == (theirs.rate, theirs.hottest)

    @property
    def read(self) -> Mapping[tuple[Point, float], tuple[float, float]]:
        """y and weight of the runs that did not fail, by parallelism and rate."""
        failed = self.failed or (False,) * len(self.ks)
        every = zip(self.ks, self.at_rates, self.log_ratio, self.weight, failed, strict=True)
        return {(k, rate): (y, weight) for k, rate, y, weight, bad in every if not bad}

    @property
    def windows(self) -> Iterator[tuple[Point, float, WindowMeasurement, float]]:
        """Parallelism, rate, measurement and error weight of each measured window.

        A window that fell behind measures loads as well as any other. The session's sizing counts as another window,
        unless it comes from one of the runs.
        """
        measured = self.measured or (None,) * len(self.ks)
        runs = zip(self.ks, self.at_rates, measured, self.weight, strict=True)
        windows = [(k, rate, found, min(weight, 1.0)) for k, rate, found, weight in runs if found]
        if self.sizing.measured and all(found.loads != self.sizing.hottest for _, _, found, _ in windows):
            own = WindowMeasurement(self.sizing.hottest, self.sizing.fixed_seconds or None)
            yield self.sizing.floor, self.sizing.rate, own, 1.0
        yield from windows

    @property
    def has_fixed_cost(self) -> bool:
        """True when a window measured the fixed cost of a batch."""
        return any(measured.fixed is not None for _, _, measured, _ in self.windows)


@dataclass(frozen=True, eq=False)
class TrainingData:
    """All runs that count, as arrays."""

    ks: Floats  # (T, N)
    log_q: Floats
    y: Floats
    weight: Floats
    at_least: NDArray[np.bool_]  # readings that are lower bounds of the latency
    session: NDArray[np.int64]  # 0: the present session
    loads: MeasuredLoads
    fixed_at: Floats  # (R, N) parallelism of the windows with a measured o
    log_fixed: Floats  # (R,) ln(o / l_t)
    fixed_weight: Floats


def build_training_data(
    latency_model: LatencyModel, parts: Sequence[SessionReadings], doubts: Sequence[Doubt]
) -> TrainingData:
    """Return the data of the present session (`parts[0]`) and of the sources, without sources of doubt None."""
    present, n = parts[0].sizing, len(latency_model.floor)
    kept = [(s, part) for s, part in enumerate(parts) if doubts[s] is not None]
    y = np.array([each for _, part in kept for each in part.log_ratio], dtype=float)
    failed = [bad for _, part in kept for bad in part.failed or (False,) * len(part.ks)]
    log_q = [_log_rate(part.sizing, present, rate) for _, part in kept for rate in part.at_rates]
    farthest = FARTHEST + max(0.0, float(y.min()) if len(y) else 0.0)
    rows, fixed = _collect_measurements(latency_model, kept, parts[0])
    return TrainingData(
        ks=np.array([k for _, part in kept for k in part.ks], dtype=float).reshape(-1, n),
        log_q=np.array(log_q, dtype=float),
        y=np.clip(y, -FARTHEST, farthest),
        weight=np.array([each for _, part in kept for each in part.weight], dtype=float),
        at_least=np.array(failed, dtype=bool) | (y >= farthest),
        session=np.array([s for s, part in kept for _ in part.ks], dtype=np.int64),
        loads=MeasuredLoads(rows, n, has_measured_runs=any(any(part.measured) for _, part in kept)),
        fixed_at=np.array([k for k, _, _ in fixed], dtype=float).reshape(-1, n),
        log_fixed=np.array([cost for _, cost, _ in fixed], dtype=float),
        fixed_weight=np.array([weight for _, _, weight in fixed], dtype=float),
    )


def _collect_measurements(
    latency_model: LatencyModel, kept: Sequence[tuple[int, SessionReadings]], own: SessionReadings
) -> tuple[list[LoadRow], list[tuple[Point, float, float]]]:
    """Return the measured loads and the measured fixed costs, each window once."""
    rows: dict[tuple[Point, float, tuple[float, ...]], LoadRow] = {}
    fixed: dict[tuple[Point, float, tuple[float, ...]], tuple[Point, float, float]] = {}
    for number, part in kept:
        same = part.shares_window_of(own)
        for k, rate, measured, weight in part.windows:
            window = (k, rate, measured.loads)
            row = LoadRow(k, _log_rate(part.sizing, own.sizing, rate), measured.loads, 0 if same else number, weight)
            rows.setdefault(window, row)
            if measured.fixed is not None and latency_model.execution == "micro-batch":
                fixed.setdefault(window, (k, float(np.log(measured.fixed / part.latency_target)), weight))
    return list(rows.values()), list(fixed.values())


def _log_rate(sizing: Sizing, present: Sizing, rate: float) -> float:
    """Return ln q, estimated from the floors when a rate is not known."""
    if sizing is present or sizing.rate == present.rate:
        return float(np.log(rate / present.rate)) if rate != present.rate else 0.0
    if rate > 0 and present.rate > 0:
        return float(np.log(rate / present.rate))
    return float(np.median(np.log(np.asarray(sizing.floor) / np.asarray(present.floor))))
