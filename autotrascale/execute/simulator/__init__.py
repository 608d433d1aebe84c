"""Simulated streaming jobs, pipelined and in micro-batches: seeded, fast, and never anything but simulated."""

from autotrascale.execute.simulator.engine import SimulatorEngine
from autotrascale.execute.simulator.fluid_job import FluidJob, FluidStep
from autotrascale.execute.simulator.simulated_job import SimulatedJob, SimulatedOperator, to_section
from autotrascale.execute.simulator.steady_state import SteadyState, steady_state
from benchmarks.workloads.case import Case, Optimum, Point, throughput_floor
from benchmarks.workloads.families import DEVELOPMENT, FAMILIES, HELD_APART, draw
from benchmarks.workloads.presets import PRESETS

__all__ = [
    "DEVELOPMENT",
    "FAMILIES",
    "HELD_APART",
    "PRESETS",
    "Case",
    "FluidJob",
    "FluidStep",
    "Optimum",
    "Point",
    "SimulatedJob",
    "SimulatedOperator",
    "SimulatorEngine",
    "SteadyState",
    "draw",
    "steady_state",
    "throughput_floor",
    "to_section",
]
