"""Simulated streaming jobs, pipelined and in micro-batches: seeded, fast, and always reported as simulated."""

from autotrascale.execute.simulator.engine import SimulatorEngine
from autotrascale.execute.simulator.fluid_job import FluidJob, FluidStep
from autotrascale.execute.simulator.simulated_job import SimulatedJob, SimulatedOperator, to_section
from autotrascale.execute.simulator.steady_state import SteadyState, steady_state

__all__ = [
    "FluidJob",
    "FluidStep",
    "SimulatedJob",
    "SimulatedOperator",
    "SimulatorEngine",
    "SteadyState",
    "steady_state",
    "to_section",
]
