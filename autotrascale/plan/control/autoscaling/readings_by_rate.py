"""What a running job has shown so far: readings of its latency, kept by rate.

    symbol   meaning                                                           unit
    k        a parallelism that was read                                       instances
    l_r      its latency in one settled window                                 s
    R, r     the rate asked about, and the rate of a reading                   records/s

A tuning run stays at one rate; a running job is measured at whatever rate there is. So readings are kept in cells of a
geometric grid of rates, each with the floor and the loads of its rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from autotrascale.plan.control.autoscaling.rate_history import round_rate_to_grid
from autotrascale.plan.search.lattice import Lattice, Point
from autotrascale.plan.search.study_runs import MIN_LATENCY, Run
from autotrascale.plan.sizing.floor import floor_micro_batch
from autotrascale.plan.sizing.sizing import Sizing

MAX_CELLS = 60  # rates that are remembered
MAX_RUNS = 12  # configurations of one rate
MAX_AVERAGED_WINDOWS = 8  # readings averaged in one configuration: later ones slowly replace the first
MAX_NEAR_CELLS = 10  # other rates that a prediction is made from
RATE_GRID_STEP = 1.05  # from one rate to the next
USUAL_RATE_RANGE = math.log(2.0)  # e-folds of the rate within which a reading says what is usual
SPARE_UTILISATION = 0.6  # busy share up to which an operator's queue hardly matters


@dataclass(frozen=True)
class RateReadings:
    sizing: Sizing
    runs: tuple[Run, ...] = ()


@dataclass(frozen=True)
class ReadingsByRate:
    """The most recently used cell comes last."""

    cells: tuple[RateReadings, ...] = ()

    def adding(self, sizing: Sizing, k: Point, latency: float | None) -> ReadingsByRate:
        """One window at `k`; None when it fell behind. Below the floor there is nothing that a model could place."""
        cell = next((each for each in self.cells if each.sizing.rate == sizing.rate), RateReadings(sizing))
        if latency is not None:
            cell = replace(cell, sizing=_lowered(cell.sizing, k))
        if any(own < low or own > high for own, low, high in zip(k, cell.sizing.floor, cell.sizing.upper, strict=True)):
            return self
        run = Run(k, None if latency is None else max(latency, MIN_LATENCY))
        before = next((each for each in cell.runs if each.parallelism == k), None)
        merged = run if before is None else _averaged(before, run)
        runs = (*(each for each in cell.runs if each.parallelism != k), merged)[-MAX_RUNS:]
        others = tuple(each for each in self.cells if each.sizing.rate != sizing.rate)
        return ReadingsByRate((*others, replace(cell, runs=runs))[-MAX_CELLS:])

    def at(self, rate: float) -> RateReadings | None:
        return next((cell for cell in self.cells if cell.sizing.rate == rate), None)

    def near(self, rate: float) -> list[RateReadings]:
        """Those of other rates, the nearest first."""
        others = [cell for cell in self.cells if cell.sizing.rate != rate and cell.runs]
        return sorted(others, key=lambda cell: abs(math.log(cell.sizing.rate / rate)))[:MAX_NEAR_CELLS]

    def usual(self, sized: Sizing, target: float) -> Point | None:
        """What met the target at a rate around, made larger or smaller as the rates are: as busy as it was."""
        found = []
        for cell in self.cells:
            if abs(math.log(sized.rate / cell.sizing.rate)) <= USUAL_RATE_RANGE:
                good = (run for run in cell.runs if run.latency is not None and run.latency <= 0.95 * target)
                found += [_as_busy(run.parallelism, cell.sizing.rate, sized) for run in good]
        return min(found, key=sum, default=None)


def _as_busy(k: Point, rate: float, sized: Sizing) -> Point:
    """`k` was right at `rate`. Batches: the least that makes no longer ones. Pipelines: each operator as busy as it
    was; one that has much time to spare has it still."""
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
    return round_rate_to_grid(rate, RATE_GRID_STEP)


def _lowered(sized: Sizing, k: Point) -> Sizing:
    """A parallelism that carries the rate is no less than the floor, whatever the loads said."""
    floor = tuple(min(own, low) for own, low in zip(k, sized.floor, strict=True))
    return sized if floor == sized.floor else replace(sized, floor=floor)


def _averaged(before: Run, new: Run) -> Run:
    """In the logarithm, as `Run.again`, with a bounded memory; one window that fell behind is outweighed by later ones
    that did not, for a job that runs on meets more than one that is tried."""
    if before.latency is None or new.latency is None:
        return replace(new, windows=1)
    windows = min(before.windows, MAX_AVERAGED_WINDOWS - 1)
    latency = math.exp((windows * math.log(before.latency) + math.log(new.latency)) / (windows + 1))
    return Run(new.parallelism, latency, new.throughput, windows + 1)
