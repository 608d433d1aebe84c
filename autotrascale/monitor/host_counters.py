"""What the kernel says of this machine, and of a few processes on it: time at work, time without a core, swapping.

All are sums since some beginning; what they mean is the difference of two readings (`analyze/starvation.py`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 2**20
_STOLEN = 7  # the place of `steal` in the line of `cpu` in /proc/stat: user nice system idle iowait irq softirq steal
_WORKED = (0, 1, 2, 5, 6)


@dataclass(frozen=True)
class HostReading:
    """Seconds, but for memory. `worked` and `stolen` are of all cores: a hypervisor gave the second to somebody else.
    `crowded` is the time in which some task on the machine wanted a core and had none. `waited` is how long the threads
    of the processes asked about stood in line for a core, added up. None: this kernel does not say."""

    at: float
    cores: int
    worked: float
    stolen: float
    crowded: float | None
    waited: float | None
    swapped_mb: float


def read_host(pids: Iterable[int] = (), proc: Path = PROC) -> HostReading | None:
    """None where there is no such kernel."""
    try:
        line = (proc / "stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:]
        ticks = [int(each) for each in line]
        worked = sum(ticks[at] for at in _WORKED) / _TICKS
        stolen = ticks[_STOLEN] / _TICKS
    except (OSError, ValueError, IndexError):
        return None
    return HostReading(
        time.monotonic(),
        len(os.sched_getaffinity(0)),
        worked,
        stolen,
        _crowded(proc),
        _waited(pids, proc),
        _swapped_mb(proc),
    )


def _crowded(proc: Path) -> float | None:
    """`some avg10=0.00 avg60=0.00 avg300=0.00 total=123` in microseconds."""
    try:
        first = (proc / "pressure" / "cpu").read_text(encoding="ascii").split("\n", 1)[0]
        return int(first.rpartition("total=")[2]) / 1e6
    except (OSError, ValueError):
        return None


def _waited(pids: Iterable[int], proc: Path) -> float | None:
    """Of each thread: nanoseconds that it ran, that it could have run, and how often it did. Threads come and go; what
    one that has gone waited is not counted."""
    total: float | None = None
    for pid in pids:
        with suppress(OSError):
            for thread in (proc / str(pid) / "task").iterdir():
                with suppress(OSError, ValueError, IndexError):
                    text = (thread / "schedstat").read_text(encoding="ascii")
                    total = (total or 0.0) + int(text.split()[1]) / 1e9
    return total


def _swapped_mb(proc: Path) -> float:
    """In and out."""
    try:
        lines = (proc / "vmstat").read_text(encoding="ascii").splitlines()
        pages = sum(int(line.split()[1]) for line in lines if line.startswith(("pswpin ", "pswpout ")))
    except (OSError, ValueError, IndexError):
        return 0.0
    return pages * _PAGE_MB
