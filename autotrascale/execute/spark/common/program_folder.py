"""Files in the folder of a program: written by its supervisor, by its driver and by the controller.

    file            writer       content
    program.json    supervisor   process ids and the command (`ProgramRecord`)
    python.json     driver       process id of the Python that runs the program's code
    started.json    controller   working directory and environment of the program
    exit.json       supervisor   exit code of the program
    next.json       controller   settings of the next launch; written before the driver is asked to stop (`NextLaunch`)
    stopping.json   driver       number of the launch that is about to stop its queries: another launch may follow
    launch.json     supervisor   the present launch (`Launch`)
    ready.json      driver       time at which the first batches of the present launch were done
    signal.json     any          a signal that told the program to end: no launch follows

Only small modules are imported here: the supervisor lives as long as the program and must need little memory.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from autotrascale.atomic_files import write_atomically

PROGRAM_FILE, PYTHON_FILE, STARTED_FILE, EXIT_FILE = "program.json", "python.json", "started.json", "exit.json"
NEXT_FILE, STOPPING_FILE, LAUNCH_FILE = "next.json", "stopping.json", "launch.json"
READY_FILE, SIGNAL_FILE = "ready.json", "signal.json"


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the object in the file, or None if the file is missing or holds no JSON object."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Replace the file in one step."""
    write_atomically(path, json.dumps(content))
