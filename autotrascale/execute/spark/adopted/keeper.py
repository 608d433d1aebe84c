"""Stays with the program, so that its exit code is known to whoever comes later:

    python -m autotrascale.execute.spark.adopted.keeper FOLDER command…

A controller may die and another one come, and neither of them is the program's parent. It passes on what it is told by
signals, and otherwise sleeps.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

PROGRAM, PYTHON, EXIT = "program.json", "python.json", "exit.json"
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def keep(folder: Path, command: Sequence[str]) -> int:
    waiting: list[int] = []  # signals that come before there is anybody to have them
    for passed in PASSED_ON:
        signal.signal(passed, lambda number, _: waiting.append(number))
    try:
        program = subprocess.Popen(command, restore_signals=True)
    except OSError as error:
        print(f"autotrascale: {command[0]}: {error.strerror}", file=sys.stderr)
        _write(folder / EXIT, {"code": 127})
        return 127

    def pass_on(number: int, _: FrameType | None) -> None:
        if program.poll() is None:
            program.send_signal(number)

    for passed in PASSED_ON:
        signal.signal(passed, pass_on)
    for number in waiting:
        pass_on(number, None)
    _write(folder / PROGRAM, {"keeper": os.getpid(), "program": program.pid, "command": list(command)})
    code = program.wait()
    _write(folder / EXIT, {"code": code})
    return code


def as_shells_say(code: int) -> int:
    """Of a program that was ended by a signal."""
    return 128 - code if code < 0 else code


def _write(path: Path, content: dict[str, object]) -> None:
    """Whole or not at all. Nothing of ours is loaded for it: this process lives as long as the program."""
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(content), encoding="utf-8")
    os.replace(fresh, path)


if __name__ == "__main__":
    sys.exit(as_shells_say(keep(Path(sys.argv[1]), sys.argv[2:])))
