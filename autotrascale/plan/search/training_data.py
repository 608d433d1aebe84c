"""What was run, as numbers: the readings of sessions, and all of them laid out for the physics of the present job.

symbol  meaning                                                                        shape
T       runs that count, of all sessions
y       log(l_r / l_t) of each                                                         (T,)
q       its rate, over the present one
o       what a batch takes beside its operators, where the job runs in batches         s
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

# Readings this far above the target, or above the best of them where none is near it, only have to say "far off":
# without a bound one saturated run bends the whole surface.
FARTHEST = 3.0


@dataclass(frozen=True)
class SessionReadings:
    """Runs of one session, with what places them: the job's sizing at the session's rate. `rates` where they were made
    at several; `measured` where their windows were sized."""

    sizing: Sizing
    ks: tuple[Point, ...] = ()
    log_ratio: tuple[float, ...] = ()  # y
    weight: tuple[float, ...] = ()  # variance of a reading in units of ν²: 1/windows, more for a failed run
    failed: tuple[bool, ...] = ()
    rates: tuple[float, ...] = ()
    measured: tuple[WindowMeasurement | None, ...] = ()
    latency_target: float = 1.0  # l_t, that costs in seconds are compared with
    repeated: int = 0  # windows beyond the first of each configuration, where it is known how far apart they were …
    scatter: float = 0.0  # … Σ (y_w − mean)² over them

    @property
    def floor(self) -> Point:
        return self.sizing.floor

    @property
    def at_rates(self) -> tuple[float, ...]:
        """Of each run."""
        return self.rates or (self.sizing.rate,) * len(self.ks)

    def shares_window_of(self, other: SessionReadings) -> bool:
        """Made at the same rate, from the very same measured window: then its runs are as one's own."""
        mine, theirs = self.sizing, other.sizing
        return mine.measured and (mine.rate, mine.hottest) == (theirs.rate, theirs.hottest)

    @property
    def read(self) -> Mapping[tuple[Point, float], tuple[float, float]]:
        """y and its weight, by parallelism and rate, of what did not fail."""
        failed = self.failed or (False,) * len(self.ks)
        every = zip(self.ks, self.at_rates, self.log_ratio, self.weight, failed, strict=True)
        return {(k, rate): (y, weight) for k, rate, y, weight, bad in every if not bad}

    @property
    def windows(self) -> Iterator[tuple[Point, float, WindowMeasurement, float]]:
        """What was measured beside latencies, where, and the weight of its errors: a window that fell behind measures
        loads as well as any. The session's own sizing is one more window, unless it is of one of the runs."""
        runs = zip(self.ks, self.at_rates, self._said, self.weight, strict=True)
        told = [(k, rate, said, min(weight, 1.0)) for k, rate, said, weight in runs if said]
        if self.sizing.measured and all(said.loads != self.sizing.hottest for _, _, said, _ in told):
            known = WindowMeasurement(self.sizing.hottest, self.sizing.fixed_seconds or None)
            yield self.sizing.floor, self.sizing.rate, known, 1.0
        yield from told

    @property
    def tells_costs(self) -> bool:
        """Whether any window measured what a batch costs beside its operators."""
        return any(said.fixed is not None for _, _, said, _ in self.windows)

    @property
    def _said(self) -> tuple[WindowMeasurement | None, ...]:
        return self.measured or (None,) * len(self.ks)


@dataclass(frozen=True, eq=False)
class TrainingData:
    """All runs that count, as arrays, for the physics of the present job."""

    ks: Floats  # (T, N)
    log_q: Floats
    y: Floats
    weight: Floats
    at_least: NDArray[np.bool_]  # readings that only say "so much or more"
    session: NDArray[np.int64]  # 0: the present one
    loads: MeasuredLoads
    fixed_at: Floats  # (R, N) where o was measured
    log_fixed: Floats  # (R,) ln(o / l_t)
    fixed_weight: Floats


def build_training_data(
    physics: LatencyModel, parts: Sequence[SessionReadings], doubts: Sequence[Doubt]
) -> TrainingData:
    """Of the present session, and of those that are not left out (doubt None)."""
    present, n = parts[0].sizing, len(physics.floor)
    kept = [(s, part) for s, part in enumerate(parts) if doubts[s] is not None]
    y = np.array([each for _, part in kept for each in part.log_ratio], dtype=float)
    failed = [bad for _, part in kept for bad in part.failed or (False,) * len(part.ks)]
    log_q = [_log_rate(part.sizing, present, rate) for _, part in kept for rate in part.at_rates]
    farthest = FARTHEST + max(0.0, float(y.min()) if len(y) else 0.0)
    rows, fixed = _measured(physics, kept, parts[0])
    return TrainingData(
        ks=np.array([k for _, part in kept for k in part.ks], dtype=float).reshape(-1, n),
        log_q=np.array(log_q, dtype=float),
        y=np.clip(y, -FARTHEST, farthest),
        weight=np.array([each for _, part in kept for each in part.weight], dtype=float),
        at_least=np.array(failed, dtype=bool) | (y >= farthest),
        session=np.array([s for s, part in kept for _ in part.ks], dtype=np.int64),
        loads=MeasuredLoads(rows, n, beyond=any(any(part.measured) for _, part in kept)),
        fixed_at=np.array([k for k, _, _ in fixed], dtype=float).reshape(-1, n),
        log_fixed=np.array([cost for _, cost, _ in fixed], dtype=float),
        fixed_weight=np.array([weight for _, _, weight in fixed], dtype=float),
    )


def _measured(
    physics: LatencyModel, kept: Sequence[tuple[int, SessionReadings]], own: SessionReadings
) -> tuple[list[LoadRow], list[tuple[Point, float, float]]]:
    """What windows measured of loads, and of what a batch costs beside them; no window twice."""
    rows: dict[tuple[Point, float, tuple[float, ...]], LoadRow] = {}
    fixed: dict[tuple[Point, float, tuple[float, ...]], tuple[Point, float, float]] = {}
    for number, part in kept:
        same = part.shares_window_of(own)
        for k, rate, said, weight in part.windows:
            window = (k, rate, said.loads)
            row = LoadRow(k, _log_rate(part.sizing, own.sizing, rate), said.loads, 0 if same else number, weight)
            rows.setdefault(window, row)
            if said.fixed is not None and physics.execution == "micro-batch":
                fixed.setdefault(window, (k, float(np.log(said.fixed / part.latency_target)), weight))
    return list(rows.values()), list(fixed.values())


def _log_rate(sizing: Sizing, present: Sizing, rate: float) -> float:
    """ln q. Where a study was not told its rate, the floors say it roughly."""
    if sizing is present or sizing.rate == present.rate:
        return float(np.log(rate / present.rate)) if rate != present.rate else 0.0
    if rate > 0 and present.rate > 0:
        return float(np.log(rate / present.rate))
    return float(np.median(np.log(np.asarray(sizing.floor) / np.asarray(present.floor))))
