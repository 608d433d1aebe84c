"""Simulated streaming jobs, pipelined and in micro-batches: seeded, fast, and never anything but simulated."""

from autotrascale.execute.simulator.case import Case, Optimum, Point, throughput_floor
from autotrascale.execute.simulator.dynamics import FluidJob, Step
from autotrascale.execute.simulator.engine import SimulatorEngine
from autotrascale.execute.simulator.families import DEVELOPMENT, FAMILIES, HELD_APART, draw
from autotrascale.execute.simulator.job import SimulatedJob, SimulatedOperator, plain
from autotrascale.execute.simulator.presets import PRESETS
from autotrascale.execute.simulator.steady import SteadyState, steady_state

__all__ = [
    "DEVELOPMENT",
    "FAMILIES",
    "HELD_APART",
    "PRESETS",
    "Case",
    "FluidJob",
    "Optimum",
    "Point",
    "SimulatedJob",
    "SimulatedOperator",
    "SimulatorEngine",
    "SteadyState",
    "Step",
    "draw",
    "plain",
    "steady_state",
    "throughput_floor",
]
