"""Read Linux counters of this machine and of some processes: CPU time, waiting for a core, swapping.

All counters are sums since the boot. The difference of two readings is used (`analyze/starvation.py`).
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
    """Counters at the time `at`, in seconds except for swapped memory. None: this kernel has no such counter.

    worked      CPU time of all cores
    stolen      time of all cores that the hypervisor gave to other machines
    crowded     time in which some task of the machine waited for a core
    waited      sum of the time in which threads of the given processes waited for a core
    swapped_mb  memory swapped in and out
    """

    at: float
    cores: int
    worked: float
    stolen: float
    crowded: float | None
    waited: float | None
    swapped_mb: float


def read_host(pids: Iterable[int] = (), proc: Path = PROC) -> HostReading | None:
    """Return a reading, with the waiting time of the processes `pids`. None on a system without /proc."""
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
        _read_crowded(proc),
        _read_waited(pids, proc),
        _read_swapped_mb(proc),
    )


def _read_crowded(proc: Path) -> float | None:
    # some avg10=0.00 avg60=0.00 avg300=0.00 total=123, in microseconds
    try:
        first = (proc / "pressure" / "cpu").read_text(encoding="ascii").split("\n", 1)[0]
        return int(first.rpartition("total=")[2]) / 1e6
    except (OSError, ValueError):
        return None


def _read_waited(pids: Iterable[int], proc: Path) -> float | None:
    # schedstat of a thread: nanoseconds on a core, nanoseconds of waiting, number of time slices.
    # The waiting of threads that have ended is not counted.
    total: float | None = None
    for pid in pids:
        with suppress(OSError):
            for thread in (proc / str(pid) / "task").iterdir():
                with suppress(OSError, ValueError, IndexError):
                    text = (thread / "schedstat").read_text(encoding="ascii")
                    total = (total or 0.0) + int(text.split()[1]) / 1e9
    return total


def _read_swapped_mb(proc: Path) -> float:
    try:
        lines = (proc / "vmstat").read_text(encoding="ascii").splitlines()
        pages = sum(int(line.split()[1]) for line in lines if line.startswith(("pswpin ", "pswpout ")))
    except (OSError, ValueError, IndexError):
        return 0.0
    return pages * _PAGE_MB
