"""The processes and the present launch of a program, read from its folder (`program_folder.py`)."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from autotrascale import validation
from autotrascale.execute.spark.common.launches import Launch
from autotrascale.execute.spark.common.program_environment import FOLDER_VARIABLE
from autotrascale.execute.spark.common.program_folder import LAUNCH_FILE, PROGRAM_FILE


@dataclass(frozen=True)
class ProgramRecord:
    """Process ids of a program and its supervisor.

    `created_at` is the creation time of a program that attached itself and has no supervisor; else 0.
    `session` is the session of all processes of the present launch, `launch` the number of that launch.
    """

    supervisor: int
    program: int
    command: tuple[str, ...]
    created_at: float = 0.0
    session: int = 0
    launch: int = 1

    @property
    def is_attached(self) -> bool:
        return self.created_at > 0


def read_program(folder: Path) -> ProgramRecord:
    """Read the process ids of the program in `folder`."""
    return validation.read_file(folder / PROGRAM_FILE, ProgramRecord)


def read_launch(folder: Path) -> Launch:
    """Read the present launch of the program in `folder`; a program that was never relaunched has no such file."""
    path = folder / LAUNCH_FILE
    return validation.read_file(path, Launch) if path.exists() else Launch()


def belongs_to_program(pid: int, folder: Path) -> bool:
    """Return whether the process lives and belongs to the program in `folder`.

    The environment decides, because the system may have given the number to another process.
    """
    with suppress(psutil.Error, OSError):
        process = psutil.Process(pid)
        return bool(process.status() != psutil.STATUS_ZOMBIE and process.environ().get(FOLDER_VARIABLE) == str(folder))
    return False
