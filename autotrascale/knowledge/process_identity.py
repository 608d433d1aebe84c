"""Who carries something on, and whether that process still exists.

Seen from the same machine a process that is gone is known at once. Seen from elsewhere it can only be silent: how that
is told from being gone is for `lease.py` to say.
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

# Tokens of what this very process carries on: a service may do so with several things at a time.
_mine: set[str] = set()


@dataclass(frozen=True)
class ProcessIdentity:
    """`machine` is as far as a process number means anything; `started` tells a process from a later namesake."""

    host: str
    machine: str
    pid: int
    started: str
    token: str

    @classmethod
    def me(cls) -> ProcessIdentity:
        return cls(socket.gethostname(), _machine(), os.getpid(), _started(os.getpid()) or "", uuid.uuid4().hex)

    @classmethod
    def read(cls, tag: Any) -> ProcessIdentity | None:
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
        """Known for sure: it is of this machine, and there is no such process, or this one has let go of it."""
        if not self.is_on_this_machine:
            return False
        if self.pid == os.getpid() and self.started == (_started(self.pid) or ""):
            return self.token not in _mine
        return _started(self.pid) != self.started

    def lives(self, silent_seconds: float) -> bool:
        """As far as one look can tell. `silent_seconds`: since it last wrote the time, by whatever clock."""
        return not self.is_gone and (self.is_on_this_machine or silent_seconds < LEASE_SECONDS)

    def take(self) -> None:
        _mine.add(self.token)

    def leave(self) -> None:
        _mine.discard(self.token)

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


@cache
def _machine() -> str:
    """One boot of one kernel, and one space of process numbers in it."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{socket.gethostname()}/{boot}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:  # pragma: no cover - not Linux: host names must do
        return socket.gethostname()


def _started(pid: int) -> str | None:
    """When the process began, in ticks since boot; None when there is none, or only its unburied rest."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        if Path("/proc/self/stat").exists():
            return None
        return _asked(pid)
    state, *fields = stat.rpartition(")")[2].split()
    return None if state in "ZX" else fields[18]


def _asked(pid: int) -> str | None:  # pragma: no cover - where there is no /proc
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        return ""
    return ""
