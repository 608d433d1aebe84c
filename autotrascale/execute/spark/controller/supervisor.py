"""Stays with the program, so that its exit code is known to whoever comes later:

    python -m autotrascale.execute.spark.controller.supervisor FOLDER command…
    python -m autotrascale.execute.spark.controller.supervisor FOLDER

A controller may die and another one come, and neither of them is the program's parent. It passes on what it is told by
signals, and otherwise sleeps. Without a command it takes the place of a keeper that was killed, wherever that had come
to: it keeps what runs, or starts what should.

One program may have several lives, one after the other, each with settings of its own:

    next.json     the settings of the life to come, written whole before anybody is asked to leave
    leaving.json  written by the driver before it stops its first query: this life ends to make room for the next
    life.json     the present life. One that replaced another is on trial until some time after its first batches:
                  should it fail or not come up, the program is started with the settings of before
    arrived.json  its first batches are done
    told.json     somebody told the program to end: there are no more lives

What is written here is read by whoever starts next, so a death between any two of them leaves one life to go on with. A
program that is killed (SIGKILL) while it is asked to leave has left; one that is killed before its first batches with
the settings of before is started with them again.
"""

from __future__ import annotations

import fcntl
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
from typing import Any, Protocol

PROGRAM_FILE, PYTHON_FILE, EXIT_FILE = "program.json", "python.json", "exit.json"
NEXT_FILE, LEAVING_FILE, LAUNCH_FILE, READY_FILE, STOP_FILE = (
    "next.json",
    "leaving.json",
    "life.json",
    "arrived.json",
    "told.json",
)
FORWARDED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LOCK = "keeper.lock"
_ENDED_ON_PURPOSE = (0, *(-each for each in FORWARDED_SIGNALS), *(128 + each for each in FORWARDED_SIGNALS))
_KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)  # the latter is spark-submit's word for its Python
_LOOK_SECONDS = 0.2
_END_SECONDS = 10.0  # a JVM closes its event log, and says good-bye to its executors
_ASKED_SECONDS = 60.0  # after the settings are written, in which somebody is asking it to leave
_MOST_TRIES = 3  # of a life that is killed before its first batches
_FIRST: Mapping[str, Any] = {"number": 1, "settings": {}}
_USUAL: Mapping[str, Any] = {"action": 0, "within": 300.0, "trial": 600.0}


class Process(Protocol):
    """The program: a child of ours, or one that is left by another keeper."""

    pid: int

    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, number: int) -> None: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...


class _Signals:
    """Passed on to the program, and written down: it has no other life then."""

    def __init__(self, folder: Path) -> None:
        self.program: Process | None = None
        self._folder, self._delivered = folder, False
        for each in FORWARDED_SIGNALS:
            signal.signal(each, self._pass_on)

    def begun(self) -> None:
        """What was told before there was anybody to have it."""
        told = _read(self._folder / STOP_FILE)
        if told is not None and not self._delivered and self.program is not None:
            self.program.send_signal(int(told["signal"]))

    def _pass_on(self, number: int, _: FrameType | None) -> None:
        with suppress(OSError):
            _write(self._folder / STOP_FILE, {"signal": number})
        if self.program is not None and self.program.poll() is None:
            self.program.send_signal(number)
            self._delivered = True


def supervise(folder: Path, command: Sequence[str]) -> int:
    """No command: that of the keeper whose place is taken."""
    lock = _alone(folder)
    if lock is None:
        return 1
    signals, session = _Signals(folder), os.getsid(0)
    if not command:
        command, signals.program, session = _left(folder)
    while True:
        life = _read(folder / LAUNCH_FILE) or _FIRST
        if signals.program is None:
            session = os.getsid(0)
            try:
                signals.program = subprocess.Popen(command, restore_signals=True)
            except OSError as error:
                print(f"autotrascale: {command[0]}: {error.strerror}", file=sys.stderr)
                _write(folder / EXIT_FILE, {"code": 127})
                return 127
        program = signals.program
        about = {"keeper": os.getpid(), "program": program.pid, "command": list(command), "session": session}
        _write(folder / PROGRAM_FILE, {**about, "life": life["number"]})
        signals.begun()
        code, trouble = _end_of(program, folder, life)
        following = _following(folder, life, code, trouble)
        if following is None:
            code = code if isinstance(program, subprocess.Popen) else 1  # nobody knows
            _write(folder / EXIT_FILE, {"code": code})
            return code
        _clear(folder, session)
        _begin(folder, following)
        signals.program = None


def shell_exit_code(code: int) -> int:
    """Of a program that was ended by a signal."""
    return 128 - code if code < 0 else code


def _left(folder: Path) -> tuple[list[str], Process | None, int]:
    """By a keeper that was killed: the command, the program if it had begun its present life, and its session. What was
    started and not yet written down is begun anew."""
    from autotrascale.execute.spark.controller.orphans import OrphanedProgram

    note, life = _read(folder / PROGRAM_FILE) or {}, _read(folder / LAUNCH_FILE) or _FIRST
    session = int(note.get("session") or note["keeper"])
    if note.get("life", life["number"]) == life["number"]:
        return note["command"], OrphanedProgram(int(note["program"]), folder), session
    _clear(folder, session)
    return note["command"], None, session


def _end_of(program: Process, folder: Path, life: Mapping[str, Any]) -> tuple[int, str]:
    """Its exit code, and what speaks against another life with its settings."""
    if "former" not in life:
        return program.wait(), ""
    began, arrived = time.monotonic(), 0.0
    while (code := program.poll()) is None:
        now = time.monotonic()
        if not arrived and (folder / READY_FILE).exists():
            arrived = now
        if arrived and now - arrived > life["trial"]:
            return program.wait(), ""
        if not arrived and now - began > life["within"]:
            return _ended(program), f"it had no batch done within {life['within']:.0f} s"
        time.sleep(_LOOK_SECONDS)
    if not isinstance(program, subprocess.Popen):
        return code, "it ended when the keeper that would know how had been killed"
    return code, "" if code in _ENDED_ON_PURPOSE else f"it ended with exit code {shell_exit_code(code)}"


def _following(folder: Path, life: Mapping[str, Any], code: int, trouble: str) -> dict[str, Any] | None:
    """The next life; None where the program has come to its end."""
    if (folder / STOP_FILE).exists():
        return None
    number, left, killed = life["number"] + 1, _read(folder / LEAVING_FILE), code in _KILLED
    wanted = _read(folder / NEXT_FILE)
    if left is not None and left["life"] == life["number"]:
        wanted = wanted or {"settings": life["settings"]}
        return {**_USUAL, **wanted, "number": number, "former": life["settings"], "left_at": left.get("at")}
    if killed and wanted is not None and _is_asked(folder, wanted, life):
        return {**_USUAL, **wanted, "number": number, "former": life["settings"]}
    if trouble:
        return {"number": number, "action": life["action"], "settings": life["former"], "why": trouble}
    tries = life.get("tries", 1)
    if killed and life.get("why") and not (folder / READY_FILE).exists() and tries < _MOST_TRIES:
        return {**life, "number": number, "tries": tries + 1}
    return None


def _is_asked(folder: Path, wanted: Mapping[str, Any], life: Mapping[str, Any]) -> bool:
    """To leave, just now. What was written long ago nobody came to ask for."""
    with suppress(OSError):
        fresh = time.time() - (folder / NEXT_FILE).stat().st_mtime < _ASKED_SECONDS
        return fresh and wanted["action"] != life.get("action")
    return False


def _begin(folder: Path, life: dict[str, Any]) -> None:
    """Batches of the life before are none of this one's; all else goes by the number of a life or of its action."""
    (folder / READY_FILE).unlink(missing_ok=True)
    _write(folder / LAUNCH_FILE, life)
    for done in (NEXT_FILE, LEAVING_FILE):
        (folder / done).unlink(missing_ok=True)


def _ended(program: Process) -> int:
    program.terminate()
    try:
        return program.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        program.kill()
        return program.wait()


def _clear(folder: Path, session: int) -> None:
    """Of the life that ended nothing goes on beside the next: a JVM may outlive its Python, and commit."""
    from autotrascale.execute.spark.controller.orphans import end_session

    if session == os.getsid(0) != os.getpid():
        return
    end_session(session, folder, _END_SECONDS)


def _alone(folder: Path) -> int | None:
    """Held for as long as this process lives: a program has one keeper at a time."""
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None
    return lock


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
    sys.exit(shell_exit_code(supervise(Path(sys.argv[1]), sys.argv[2:])))
