"""The time of `autotrascale --help`, compared with an empty Python and with one that imports typer and rich.

    python -m benchmarks.run start

Each command is a new process, in turns. The least of several turns is the cost of the program; the rest is the machine.
CPU time (user and system) stays comparable on a busy machine.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time

TURNS = 9
LIMIT_SECONDS = 0.5
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import typer, rich": [sys.executable, "-c", "import typer, rich"],
    "autotrascale --help": [sys.executable, "-m", "autotrascale.cli.main", "--help"],
    "autotrascale tune --help": [sys.executable, "-m", "autotrascale.cli.main", "tune", "--help"],
}


def figures() -> dict[str, object]:
    """Return the least wall and CPU seconds of each command, and their ratios."""
    wall: dict[str, list[float]] = {name: [] for name in COMMANDS}
    cpu: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for turn in range(TURNS + 1):
        for name, command in COMMANDS.items():
            seconds, used = _once(command)
            if turn:  # the first turn compiles, and fills the file system's cache
                wall[name].append(seconds)
                cpu[name].append(used)
    least = {
        name: {"wall_seconds": round(min(wall[name]), 3), "cpu_seconds": round(min(cpu[name]), 3)} for name in COMMANDS
    }
    ours, nothing, libraries = (least[name] for name in ("autotrascale --help", "python -c pass", "import typer, rich"))
    return {
        "limit_seconds": LIMIT_SECONDS,
        "least_of": TURNS,
        **least,
        "help_to_pass": {unit: round(ours[unit] / nothing[unit], 1) for unit in ours},
        "help_to_typer_and_rich": {unit: round(ours[unit] / libraries[unit], 1) for unit in ours},
    }


def _once(command: list[str]) -> tuple[float, float]:
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - began, cpu_seconds
