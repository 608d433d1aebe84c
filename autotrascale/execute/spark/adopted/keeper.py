"""Stays with the program, so that its exit code is known to whoever comes later:

    python -m autotrascale.execute.spark.adopted.keeper FOLDER command…

A controller may die and another one come, and neither of them is the program's parent. It passes on what it is told by
signals, and otherwise sleeps.

One program may have several lives, one after the other, each with settings of its own:

    next.json     the settings of the life to come, written whole before anybody is asked to leave
    leaving.json  written by the driver before it stops its first query: this life ends to make room for the next
    life.json     the present life. One that replaced another is on trial until some time after its first batches:
                  should it fail or not come up, the program is started with the settings of before
    arrived.json  its first batches are done
    told.json     somebody told the program to end: there are no more lives

What is written here is read by whoever starts next, so a death between any two of them leaves one life to go on with.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

PROGRAM, PYTHON, EXIT = "program.json", "python.json", "exit.json"
NEXT, LEAVING, LIFE, ARRIVED, TOLD = "next.json", "leaving.json", "life.json", "arrived.json", "told.json"
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_ENDED_ON_PURPOSE = (0, *(-each for each in PASSED_ON), *(128 + each for each in PASSED_ON))
_LOOK_SECONDS = 0.2
_END_SECONDS = 10.0  # a JVM closes its event log, and says good-bye to its executors
_FIRST: Mapping[str, Any] = {"number": 1, "settings": {}}
_USUAL: Mapping[str, Any] = {"action": 0, "within": 300.0, "trial": 600.0}


def keep(folder: Path, command: Sequence[str]) -> int:
    program: subprocess.Popen[bytes] | None = None
    delivered = False

    def pass_on(number: int, _: FrameType | None) -> None:
        nonlocal delivered
        with suppress(OSError):
            _write(folder / TOLD, {"signal": number})
        if program is not None and program.poll() is None:
            program.send_signal(number)
            delivered = True

    for passed in PASSED_ON:
        signal.signal(passed, pass_on)
    while True:
        life = _read(folder / LIFE) or _FIRST
        try:
            program = subprocess.Popen(command, restore_signals=True)
        except OSError as error:
            print(f"autotrascale: {command[0]}: {error.strerror}", file=sys.stderr)
            _write(folder / EXIT, {"code": 127})
            return 127
        _write(folder / PROGRAM, {"keeper": os.getpid(), "program": program.pid, "command": list(command)})
        told = _read(folder / TOLD)  # before there was anybody to have it
        if told is not None and not delivered:
            program.send_signal(int(told["signal"]))
        code, trouble = _end_of(program, folder, life)
        following = _following(folder, life, trouble)
        if following is None:
            _write(folder / EXIT, {"code": code})
            return code
        _clear()
        _write(folder / LIFE, following)
        for done in (NEXT, LEAVING, ARRIVED):
            (folder / done).unlink(missing_ok=True)


def as_shells_say(code: int) -> int:
    """Of a program that was ended by a signal."""
    return 128 - code if code < 0 else code


def _end_of(program: subprocess.Popen[bytes], folder: Path, life: Mapping[str, Any]) -> tuple[int, str]:
    """Its exit code, and what speaks against another life with its settings."""
    if "former" not in life:
        return program.wait(), ""
    began, arrived = time.monotonic(), 0.0
    while (code := program.poll()) is None:
        now = time.monotonic()
        if not arrived and (folder / ARRIVED).exists():
            arrived = now
        if arrived and now - arrived > life["trial"]:
            return program.wait(), ""
        if not arrived and now - began > life["within"]:
            return _ended(program), f"it had no batch done within {life['within']:.0f} s"
        time.sleep(_LOOK_SECONDS)
    trouble = "" if code in _ENDED_ON_PURPOSE else f"it ended with exit code {as_shells_say(code)}"
    return code, trouble


def _following(folder: Path, life: Mapping[str, Any], trouble: str) -> dict[str, Any] | None:
    """The next life; None where the program has come to its end."""
    if (folder / TOLD).exists():
        return None
    number, left = life["number"] + 1, _read(folder / LEAVING)
    if left is not None and left["life"] == life["number"]:
        wanted = _read(folder / NEXT) or {"settings": life["settings"]}
        return {**_USUAL, **wanted, "number": number, "former": life["settings"], "left_at": left.get("at")}
    if trouble:
        return {"number": number, "action": life["action"], "settings": life["former"], "why": trouble}
    return None


def _ended(program: subprocess.Popen[bytes]) -> int:
    program.terminate()
    try:
        return program.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        program.kill()
        return program.wait()


def _clear() -> None:
    """Of the life that ended nothing goes on beside the next: a JVM may outlive its Python, and commit."""
    from autotrascale.execute.spark.connection.processes import kill_session, session_members

    me = os.getpid()
    if os.getsid(0) != me:
        return
    until = time.monotonic() + _END_SECONDS
    while time.monotonic() < until and any(each.pid != me for each in session_members(me)):
        time.sleep(_LOOK_SECONDS)
    kill_session(me, spare=me)


def _read(path: Path) -> dict[str, Any] | None:
    """Files of ours are whole or not there."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _write(path: Path, content: dict[str, object]) -> None:
    """Whole or not at all. Nothing of ours is loaded for it: this process lives as long as the program."""
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(content), encoding="utf-8")
    os.replace(fresh, path)


if __name__ == "__main__":
    sys.exit(as_shells_say(keep(Path(sys.argv[1]), sys.argv[2:])))
