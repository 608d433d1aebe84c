"""Counters of the kernel: from complete files, from missing files, and on this very machine."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autotrascale.monitor import host_counters

STAT = "cpu  300 100 200 5000 50 30 70 400 11 12\ncpu0 1 2 3\nctxt 5\n"
PRESSURE = "some avg10=1.00 avg60=2.00 avg300=3.00 total=2500000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
VMSTAT = "nr_free_pages 100\npswpin 256\npswpout 768\npgpgin 5\n"


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    (tmp_path / "stat").write_text(STAT)
    (tmp_path / "pressure").mkdir()
    (tmp_path / "pressure" / "cpu").write_text(PRESSURE)
    (tmp_path / "vmstat").write_text(VMSTAT)
    for thread, waited in ((41, 1_500_000_000), (42, 500_000_000)):
        folder = tmp_path / "41" / "task" / str(thread)
        folder.mkdir(parents=True)
        (folder / "schedstat").write_text(f"9000000000 {waited} 77\n")
    return tmp_path


def test_the_files_as_they_are(proc: Path) -> None:
    reading = host_counters.read_host([41], proc)
    assert reading is not None
    ticks = os.sysconf("SC_CLK_TCK")
    assert reading.worked == (300 + 100 + 200 + 30 + 70) / ticks
    assert reading.stolen == 400 / ticks
    assert reading.crowded == 2.5
    assert reading.waited == 2.0
    assert reading.swapped_mb == 1024 * os.sysconf("SC_PAGE_SIZE") / 2**20


@pytest.mark.parametrize("file", ["pressure/cpu", "vmstat", "41/task/41/schedstat", "41/task/42/schedstat"])
@pytest.mark.parametrize("text", [None, "", "rubbish\n", "some total=x", "pswpin x\n"])
def test_missing_or_damaged_counters_are_unknown(proc: Path, file: str, text: str | None) -> None:
    (proc / file).unlink()
    if text is not None:
        (proc / file).write_text(text)
    reading = host_counters.read_host([41], proc)
    assert reading is not None
    assert reading.crowded == (None if file.startswith("pressure") else 2.5)
    assert reading.swapped_mb == (0.0 if file == "vmstat" else 4.0 * os.sysconf("SC_PAGE_SIZE") / 4096)
    assert reading.waited == {"41/task/41/schedstat": 0.5, "41/task/42/schedstat": 1.5}.get(file, 2.0)


@pytest.mark.parametrize("text", [None, "", "cpu  1 2 3\n", "cpu a b c d e f g h\n"])
def test_another_kernel_has_no_counters(proc: Path, text: str | None) -> None:
    (proc / "stat").unlink()
    if text is not None:
        (proc / "stat").write_text(text)
    assert host_counters.read_host([41], proc) is None


def test_the_waiting_of_ended_processes_is_unknown(proc: Path) -> None:
    reading = host_counters.read_host([4242], proc)
    assert reading is not None
    assert reading.waited is None


BURN = "import time\nuntil = time.monotonic() + 0.6\nwhile time.monotonic() < until: pass"


def test_processes_that_share_a_core_wait() -> None:
    """On this machine: two processes share one core, and each needs a whole core."""
    core = min(os.sched_getaffinity(0))
    burners = [
        subprocess.Popen([sys.executable, "-S", "-c", BURN], preexec_fn=lambda: os.sched_setaffinity(0, {core}))
        for _ in range(2)
    ]
    try:
        time.sleep(0.5)
        reading = host_counters.read_host([burner.pid for burner in burners])
    finally:
        for burner in burners:
            burner.wait()
    assert reading is not None
    assert reading.worked > 0
    if Path("/proc/self/schedstat").exists():
        assert reading.waited is not None
        assert reading.waited > 0.1
