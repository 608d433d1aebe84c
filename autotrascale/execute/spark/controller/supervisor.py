"""Supervisor: a small process that starts a program, waits for its end, and starts it again with other settings.

    python -m autotrascale.execute.spark.controller.supervisor FOLDER command…
    python -m autotrascale.execute.spark.controller.supervisor FOLDER

A controller may die and another controller may follow: the supervisor keeps the exit code for both. It forwards
signals to the program and sleeps otherwise. Without a command it replaces a supervisor that was killed. Then it takes
over the program that still runs, or starts the launch that is due.

A program has one launch after another, each with its own settings. A launch that replaces another launch is on trial.
If it fails, or has no batch done in time, the program is started again with the former settings.
The files of the folder (`program_folder.py`) hold the whole state, and a supervisor decides from them alone. A crash
between any two writes therefore leaves exactly one launch to go on with:

    end of the present launch                                    next launch
    signal.json exists                                           none
    the driver announced its stop in stopping.json               settings of next.json, on trial
    killed at most 60 s after next.json was written              settings of next.json, on trial
    failed or late while on trial                                former settings
    killed before its first batches with the former settings     the same settings, at most three times
    any other end                                                none
"""

from __future__ import annotations

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

from autotrascale.atomic_files import FileLock
from autotrascale.execute.spark.common.program_folder import (
    EXIT_FILE,
    LAUNCH_FILE,
    NEXT_FILE,
    PROGRAM_FILE,
    READY_FILE,
    SIGNAL_FILE,
    STOPPING_FILE,
    read_json,
    write_json,
)

FORWARDED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LOCK_FILE = "supervisor.lock"
_ENDED_ON_PURPOSE = (0, *(-each for each in FORWARDED_SIGNALS), *(128 + each for each in FORWARDED_SIGNALS))
_KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)  # spark-submit reports the latter when its Python was killed
_POLL_SECONDS = 0.2
_TERMINATE_SECONDS = 10.0  # the JVM closes its event log and releases its executors
_RECENT_REQUEST_SECONDS = 60.0  # age of next.json up to which a controller is taken to be asking for a stop
_MAX_ATTEMPTS = 3  # of a launch that is killed before its first batches
_FIRST_LAUNCH: Mapping[str, Any] = {"number": 1, "settings": {}}
_LAUNCH_DEFAULTS: Mapping[str, Any] = {"action": 0, "within": 300.0, "trial": 600.0}


class Process(Protocol):
    """The program: a child of this supervisor, or an orphan of a supervisor that was killed."""

    pid: int

    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, number: int) -> None: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...


class _SignalForwarder:
    """Writes signals down, so that no launch follows, and passes them on to the program."""

    def __init__(self, folder: Path) -> None:
        self.program: Process | None = None
        self._folder, self._delivered = folder, False
        for each in FORWARDED_SIGNALS:
            signal.signal(each, self._forward)

    def deliver_earlier_signal(self) -> None:
        """Send a signal that arrived before the program was started."""
        earlier = read_json(self._folder / SIGNAL_FILE)
        if earlier is not None and not self._delivered and self.program is not None:
            self.program.send_signal(int(earlier["signal"]))

    def _forward(self, number: int, _: FrameType | None) -> None:
        with suppress(OSError):
            write_json(self._folder / SIGNAL_FILE, {"signal": number})
        if self.program is not None and self.program.poll() is None:
            self.program.send_signal(number)
            self._delivered = True


def supervise(folder: Path, command: Sequence[str]) -> int:
    """Run the program until no launch follows, and return its exit code.

    An empty `command` takes the place of a supervisor that was killed. Returns 1 if another supervisor is at work.
    """
    lock = FileLock(folder / LOCK_FILE, 0o600)  # held as long as this process lives
    if not lock.acquire(wait=False):
        return 1
    forwarder, session = _SignalForwarder(folder), os.getsid(0)
    if not command:
        command, forwarder.program, session = _recover(folder)
    while True:
        launch = read_json(folder / LAUNCH_FILE) or _FIRST_LAUNCH
        if forwarder.program is None:
            session = os.getsid(0)
            try:
                forwarder.program = subprocess.Popen(command, restore_signals=True)
            except OSError as error:
                print(f"autotrascale: {command[0]}: {error.strerror}", file=sys.stderr)
                write_json(folder / EXIT_FILE, {"code": 127})
                return 127
        program = forwarder.program
        record = {"supervisor": os.getpid(), "program": program.pid, "command": list(command), "session": session}
        write_json(folder / PROGRAM_FILE, {**record, "launch": launch["number"]})
        forwarder.deliver_earlier_signal()
        code, failure = _await_end(program, folder, launch)
        following = _choose_next_launch(folder, launch, code, failure)
        if following is None:
            code = code if isinstance(program, subprocess.Popen) else 1  # the code of an orphan is unknown
            write_json(folder / EXIT_FILE, {"code": code})
            return code
        _end_leftovers(folder, session)
        _begin_launch(folder, following)
        forwarder.program = None


def shell_exit_code(code: int) -> int:
    """Return the exit code as a shell reports it: 128 + n for a program that was ended by signal n."""
    return 128 - code if code < 0 else code


def _recover(folder: Path) -> tuple[list[str], Process | None, int]:
    """Return command, program and session of a supervisor that was killed.

    The program is None if its present launch was not yet written down. That launch is then started anew.
    """
    from autotrascale.execute.spark.controller.orphans import OrphanedProgram

    record, launch = read_json(folder / PROGRAM_FILE) or {}, read_json(folder / LAUNCH_FILE) or _FIRST_LAUNCH
    session = int(record.get("session") or record["supervisor"])
    if record.get("launch", launch["number"]) == launch["number"]:
        return record["command"], OrphanedProgram(int(record["program"]), folder), session
    _end_leftovers(folder, session)
    return record["command"], None, session


def _await_end(program: Process, folder: Path, launch: Mapping[str, Any]) -> tuple[int, str]:
    """Return the exit code, and why the settings of a launch on trial are given up, if they are."""
    if "former" not in launch:
        return program.wait(), ""
    began, ready_at = time.monotonic(), 0.0
    while (code := program.poll()) is None:
        now = time.monotonic()
        if not ready_at and (folder / READY_FILE).exists():
            ready_at = now
        if ready_at and now - ready_at > launch["trial"]:
            return program.wait(), ""
        if not ready_at and now - began > launch["within"]:
            return _terminate(program), f"no batch was done within {launch['within']:.0f} s"
        time.sleep(_POLL_SECONDS)
    if not isinstance(program, subprocess.Popen):
        return code, "the program ended while it had no supervisor"
    return code, "" if code in _ENDED_ON_PURPOSE else f"the program ended with exit code {shell_exit_code(code)}"


def _choose_next_launch(folder: Path, launch: Mapping[str, Any], code: int, failure: str) -> dict[str, Any] | None:
    """Return the next launch by the table above, or None if the program has come to its end."""
    if (folder / SIGNAL_FILE).exists():
        return None
    number, was_killed = launch["number"] + 1, code in _KILLED
    stopping, wanted = read_json(folder / STOPPING_FILE), read_json(folder / NEXT_FILE)
    if stopping is not None and stopping["launch"] == launch["number"]:
        wanted = wanted or {"settings": launch["settings"]}
        on_trial = {"number": number, "former": launch["settings"], "left_at": stopping.get("at")}
        return {**_LAUNCH_DEFAULTS, **wanted, **on_trial}
    if was_killed and wanted is not None and _is_recent_request(folder, wanted, launch):
        return {**_LAUNCH_DEFAULTS, **wanted, "number": number, "former": launch["settings"]}
    if failure:
        return {"number": number, "action": launch["action"], "settings": launch["former"], "why": failure}
    attempts = launch.get("tries", 1)
    if was_killed and launch.get("why") and not (folder / READY_FILE).exists() and attempts < _MAX_ATTEMPTS:
        return {**launch, "number": number, "tries": attempts + 1}
    return None


def _is_recent_request(folder: Path, wanted: Mapping[str, Any], launch: Mapping[str, Any]) -> bool:
    with suppress(OSError):
        age = time.time() - (folder / NEXT_FILE).stat().st_mtime
        return age < _RECENT_REQUEST_SECONDS and wanted["action"] != launch.get("action")
    return False


def _begin_launch(folder: Path, launch: dict[str, Any]) -> None:
    # ready.json has no launch number, so it goes first. The other files carry the number of a launch or an action.
    (folder / READY_FILE).unlink(missing_ok=True)
    write_json(folder / LAUNCH_FILE, launch)
    for done in (NEXT_FILE, STOPPING_FILE):
        (folder / done).unlink(missing_ok=True)


def _terminate(program: Process) -> int:
    program.terminate()
    try:
        return program.wait(_TERMINATE_SECONDS)
    except subprocess.TimeoutExpired:
        program.kill()
        return program.wait()


def _end_leftovers(folder: Path, session: int) -> None:
    """End all processes of the former launch: a JVM may outlive its Python and commit a batch."""
    from autotrascale.execute.spark.controller.orphans import end_session

    if session == os.getsid(0) != os.getpid():
        return
    end_session(session, folder, _TERMINATE_SECONDS)


if __name__ == "__main__":
    sys.exit(shell_exit_code(supervise(Path(sys.argv[1]), sys.argv[2:])))
