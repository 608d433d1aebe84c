"""The identity of a process that works on a run or a job, and whether that process still exists.

A process of the same machine is known to be gone at once. A process of another machine can only be silent; `lease.py`
decides how long silence must last.
"""

from __future__ import annotations

import os
import socket
import uuid
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from autotrascale.domain.errors import InputError
from autotrascale.validation import validate

HEARTBEAT_SECONDS = 10.0
LEASE_SECONDS = 60.0

# Tokens of the work that this process has under way. A server works on several objects at a time.
_active_tokens: set[str] = set()


@dataclass(frozen=True)
class ProcessIdentity:
    """A process, and a token for one piece of its work.

    Args:
        host: name of the machine, for messages.
        machine: boot and namespace within which `pid` means one process.
        pid: process number.
        started: start time in kernel ticks, which tells the process from a later one of the same number.
        token: unique name of the piece of work.
    """

    host: str
    machine: str
    pid: int
    started: str
    token: str

    @classmethod
    def current(cls) -> ProcessIdentity:
        """Return the identity of this process with a new token."""
        return cls(socket.gethostname(), _machine(), os.getpid(), _start_time(os.getpid()) or "", uuid.uuid4().hex)

    @classmethod
    def parse(cls, tag: Any) -> ProcessIdentity | None:
        """Return the identity that `as_dict` wrote, or None if the data is damaged."""
        try:
            return validate(tag, cls, place="owner")
        except InputError:
            return None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def is_on_this_machine(self) -> bool:
        return self.machine == _machine()

    @property
    def is_gone(self) -> bool:
        """True only when it is certain: the process is of this machine and does not exist, or has ended this work."""
        if not self.is_on_this_machine:
            return False
        if self.pid == os.getpid() and self.started == (_start_time(self.pid) or ""):
            return self.token not in _active_tokens
        return _start_time(self.pid) != self.started

    def seems_alive(self, silent_seconds: float) -> bool:
        """Return whether the process probably exists. `silent_seconds` is the age of its last heartbeat."""
        return not self.is_gone and (self.is_on_this_machine or silent_seconds < LEASE_SECONDS)

    def mark_active(self) -> None:
        _active_tokens.add(self.token)

    def mark_inactive(self) -> None:
        _active_tokens.discard(self.token)

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


@cache
def _machine() -> str:
    """Return one boot of one kernel and one namespace of process numbers."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{socket.gethostname()}/{boot}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:  # pragma: no cover - not Linux: the host name must do
        return socket.gethostname()


def _start_time(pid: int) -> str | None:
    """Return when the process began, in ticks since boot. None when there is no such process, or only a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None if Path("/proc/self/stat").exists() else _probe_without_proc(pid)
    state, *fields = stat.rpartition(")")[2].split()
    return None if state in "ZX" else fields[18]


def _probe_without_proc(pid: int) -> str | None:  # pragma: no cover - where there is no /proc
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    return ""
