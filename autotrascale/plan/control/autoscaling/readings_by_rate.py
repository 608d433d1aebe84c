"""Latency readings of a running job, stored by rate.

    symbol   meaning                                                           unit
    k        a parallelism                                                     instances
    l_r      its latency in one settled window                                 s
    R, r     the rate in question, and the rate of a reading                   records/s

A tuning run stays at one rate; a running job is measured at any rate. Therefore readings are stored in cells of a
geometric grid of rates. Each cell has the floor and the loads of its rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from autotrascale.plan.control.autoscaling.rate_history import round_rate_to_grid
from autotrascale.plan.search.lattice import Lattice, Point
from autotrascale.plan.search.study_runs import MIN_LATENCY, Run
from autotrascale.plan.sizing.floor import floor_micro_batch
from autotrascale.plan.sizing.sizing import Sizing

MAX_CELLS = 60
MAX_RUNS = 12  # configurations of one cell
MAX_AVERAGED_WINDOWS = 8  # of one configuration; later readings slowly replace the first ones
MAX_NEAR_CELLS = 10  # that a prediction uses
RATE_GRID_STEP = 1.05  # factor between two rates of the grid
USUAL_RATE_RANGE = math.log(2.0)  # e-folds of the rate within which a configuration can be scaled to another rate
USUAL_MARGIN = 0.95  # of the target, which a usual configuration met
SPARE_UTILISATION = 0.6  # below, an operator's queue hardly matters


@dataclass(frozen=True)
class RateReadings:
    """The readings of one cell."""

    sizing: Sizing
    runs: tuple[Run, ...] = ()


@dataclass(frozen=True)
class ReadingsByRate:
    """All cells; the most recently used cell comes last."""

    cells: tuple[RateReadings, ...] = ()

    def add(self, sizing: Sizing, k: Point, latency: float | None) -> ReadingsByRate:
        """Return the readings with one more window at `k`.

        Args:
            sizing: the sizing at the rate of the cell.
            k: the parallelism. Outside of the sizing's floor and maximum, the model has no place for it.
            latency: seconds; None if the job fell behind.
        """
        cell = next((each for each in self.cells if each.sizing.rate == sizing.rate), RateReadings(sizing))
        if latency is not None:
            cell = replace(cell, sizing=_lower_floor(cell.sizing, k))
        if any(own < low or own > high for own, low, high in zip(k, cell.sizing.floor, cell.sizing.upper, strict=True)):
            return self
        run = Run(k, None if latency is None else max(latency, MIN_LATENCY))
        before = next((each for each in cell.runs if each.parallelism == k), None)
        merged = run if before is None else _average(before, run)
        runs = (*(each for each in cell.runs if each.parallelism != k), merged)[-MAX_RUNS:]
        others = tuple(each for each in self.cells if each.sizing.rate != sizing.rate)
        return ReadingsByRate((*others, replace(cell, runs=runs))[-MAX_CELLS:])

    def at(self, rate: float) -> RateReadings | None:
        return next((cell for cell in self.cells if cell.sizing.rate == rate), None)

    def near(self, rate: float) -> list[RateReadings]:
        """Return the cells of other rates, the nearest first."""
        others = [cell for cell in self.cells if cell.sizing.rate != rate and cell.runs]
        return sorted(others, key=lambda cell: abs(math.log(cell.sizing.rate / rate)))[:MAX_NEAR_CELLS]

    def find_usual(self, sized: Sizing, target: float) -> Point | None:
        """Return the smallest configuration that met `target` at a similar rate, scaled to the rate of `sized`."""
        scaled = []
        for cell in self.cells:
            if abs(math.log(sized.rate / cell.sizing.rate)) <= USUAL_RATE_RANGE:
                good = (run for run in cell.runs if run.latency is not None and run.latency <= USUAL_MARGIN * target)
                scaled += [_scale_to_rate(run.parallelism, cell.sizing.rate, sized) for run in good]
        return min(scaled, key=sum, default=None)


def _scale_to_rate(k: Point, rate: float, sized: Sizing) -> Point:
    """Scale `k`, which was right at `rate`, to the rate of `sized` at the same utilisation.

    Micro-batches: the least parallelism whose batches are no longer. Pipelines: each operator as busy as before; an
    operator with much spare time keeps its instances.
    """
    factor = sized.rate / rate
    if sized.execution == "micro-batch":
        busy = sum(load / factor / own for load, own in zip(sized.hottest, k, strict=True))
        return tuple(floor_micro_batch(sized.hottest, sized.floor, sized.upper, max(0.0, 1 - busy)))
    scaled = [
        own if load / own <= SPARE_UTILISATION and factor > 1 else math.ceil(own * factor - 0.1)
        for own, load in zip(k, sized.hottest, strict=True)
    ]
    return Lattice(sized.floor, sized.upper).clip(scaled)


def round_rate(rate: float) -> float:
    """Return the nearest rate that has a cell of its own."""
    return round_rate_to_grid(rate, RATE_GRID_STEP)


def _lower_floor(sized: Sizing, k: Point) -> Sizing:
    """Lower the floor to a parallelism that carried the rate, even if the loads say otherwise."""
    floor = tuple(min(own, low) for own, low in zip(k, sized.floor, strict=True))
    return sized if floor == sized.floor else replace(sized, floor=floor)


def _average(before: Run, new: Run) -> Run:
    """Average latencies in the logarithm, as `Run.again` does, with a bounded memory.

    The next window that keeps up replaces a window that fell behind.
    """
    if before.latency is None or new.latency is None:
        return replace(new, windows=1)
    windows = min(before.windows, MAX_AVERAGED_WINDOWS - 1)
    latency = math.exp((windows * math.log(before.latency) + math.log(new.latency)) / (windows + 1))
    return Run(new.parallelism, latency, new.throughput, windows + 1)
