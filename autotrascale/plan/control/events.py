"""The events that a step of the control loop takes in, and the instructions that it returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autotrascale.domain.observation import Observation, RescaleResult
from autotrascale.plan.control.commands import LoopCommand
from autotrascale.plan.control.loop_state import DecisionEntry, Parallelism


@dataclass(frozen=True)
class ObservationTaken:
    """The job was observed."""

    observation: Observation
    services: Mapping[str, float] = field(default_factory=dict)  # latency in seconds of services that the job calls
    slots_left: int | None = None  # of a quota shared by jobs, this job's own slots included; None: no shared quota
    commands: tuple[LoopCommand, ...] = ()  # new commands of users

    @property
    def at(self) -> float:
        return self.observation.at


@dataclass(frozen=True)
class RescaleEnded:
    """A rescale was carried out, or failed."""

    rescaled: RescaleResult

    @property
    def at(self) -> float:
        return self.rescaled.at


Event = ObservationTaken | RescaleEnded


@dataclass(frozen=True)
class RescaleJob:
    parallelism: Parallelism


@dataclass(frozen=True)
class StartJob:
    """Start the job. `parallelism` None: the job never ran, and starts at its initial parallelism."""

    parallelism: Parallelism | None


@dataclass(frozen=True)
class KeepModel:
    """Store the model that was learned at one rate (records/s)."""

    rate: float


Instruction = RescaleJob | StartJob | KeepModel | DecisionEntry
