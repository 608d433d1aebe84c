"""Options that the controller passes to the driver of a program in environment variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast, get_args

from autotrascale.domain.errors import InputError
from autotrascale.plan.migration.rescale_mode import RescaleMode

FOLDER_VARIABLE = "AUTOTRASCALE_PROGRAM"
"""Folder of the program; all its processes carry this variable."""
EXECUTORS_VARIABLE = "AUTOTRASCALE_EXECUTORS"
RESCALE_VARIABLE = "AUTOTRASCALE_RESCALE"
APPLY_VARIABLE = "AUTOTRASCALE_APPLY"
MEMORY_METRICS_VARIABLE = "AUTOTRASCALE_MEASURED"


@dataclass(frozen=True)
class ProgramOptions:
    """Permissions of AuTraScale in a program.

    `apply`: its queries may be rescaled; else they are only observed. `executors`: the least and the most that the
    program may have, None for no bounds. `rescale`: how its queries move to other partitions. `memory_metrics`: Spark
    reports the memory that executors use.
    """

    apply: bool = False
    executors: tuple[int, int] | None = None
    rescale: RescaleMode = "in-place"
    memory_metrics: bool = False

    def to_environment(self) -> dict[str, str]:
        """Return the variables that tell the driver of these options."""
        bounds = {} if self.executors is None else {EXECUTORS_VARIABLE: f"{self.executors[0]}:{self.executors[1]}"}
        flags = {APPLY_VARIABLE: self.apply, MEMORY_METRICS_VARIABLE: self.memory_metrics}
        return {**bounds, **{name: str(int(flag)) for name, flag in flags.items()}, RESCALE_VARIABLE: self.rescale}

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> ProgramOptions:
        """Read the options back. Variables that are not set have their defaults."""
        least, colon, most = environment.get(EXECUTORS_VARIABLE, "").partition(":")
        return cls(
            apply=environment.get(APPLY_VARIABLE) == "1",
            executors=(int(least), int(most)) if colon else None,
            rescale=parse_rescale_mode(environment.get(RESCALE_VARIABLE, "in-place")),
            memory_metrics=environment.get(MEMORY_METRICS_VARIABLE) == "1",
        )


def parse_rescale_mode(text: str) -> RescaleMode:
    """Return the rescale mode that an option or a variable names. Raises `InputError` for any other text."""
    if text in get_args(RescaleMode):
        return cast("RescaleMode", text)
    remedy = f"use one of: {', '.join(get_args(RescaleMode))}"
    raise InputError("rescale", "is not a rescale mode", seen=text, remedy=remedy)
