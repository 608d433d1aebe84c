"""Processes of a job are killed during rescales: no record is lost or doubled, and no process is left.

`python -m benchmarks.run kill` runs many more kills.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from autotrascale.execute.spark.common.processes import kill_leftovers
from benchmarks.faults.kill_bench import all_kills, draw_kills
from benchmarks.faults.kills.jobs import JOBS, lines
from benchmarks.faults.kills.run import PHASES, VICTIMS, Fire, Kill, Outcome

KILLS = [
    Kill("two-states", "in the move", "controller"),
    Kill("two-states", "before the move", "JVM"),
    Kill("two-states", "coming back", "driver"),
    Kill("two-states", "after the rename", "driver"),
]


@pytest.mark.spark
def test_a_job_survives_kills_during_rescales(tmp_path: Path) -> None:
    fire = Fire("two-states", tmp_path / "job", random.Random(0))
    try:
        assert fire.up().running is not None
        for kill in KILLS:
            outcome = fire.rescale_under_fire(kill)
            assert not outcome.down, (kill, outcome.detail)
            assert outcome.kills == (2 if kill.phase == "coming back" else 1), kill
            assert outcome.records > 0
            assert (outcome.lost, outcome.doubled, outcome.left) == (0, 0, 0), kill
        overlapped = fire.rescale(how="overlap")
        assert overlapped.how.startswith("overlap: "), overlapped
        fire.check(outcome)
        assert (outcome.lost, outcome.doubled) == (0, 0)
    finally:
        assert fire.close() == 0


@pytest.mark.spark
def test_files_that_spark_writes_go_on_in_one_log(tmp_path: Path) -> None:
    """After a blue-green rescale and a batch that is cut off, each number is once in the files of the log."""
    fire = Fire("stateful", tmp_path / "job", random.Random(1), fenced=True)
    try:
        assert fire.up().running is not None
        assert fire.rescale(how="overlap").how.startswith("overlap: ")
        assert not fire.rescale(patience=0.0).detail
        fire.check(outcome := Outcome(Kill("stateful", "", "none")))
        assert outcome.records > 0
        assert (outcome.lost, outcome.doubled, outcome.down) == (0, 0, False)
    finally:
        assert fire.close() == 0


def test_the_benchmark_kills_each_victim_in_each_phase() -> None:
    kills = all_kills()
    assert {kill.victim for kill in kills} == set(VICTIMS)
    assert {kill.phase for kill in kills} == set(PHASES)
    assert set(draw_kills(len(kills), seed=1)) == set(kills)
    assert draw_kills(30, seed=1) == draw_kills(30, seed=1) != draw_kills(30, seed=2)


@pytest.mark.parametrize("name", JOBS)
def test_a_loss_or_a_double_would_be_noticed(name: str) -> None:
    """The expected results of a job differ for another number of records, unless the records repeat."""
    job = JOBS[name](folder="nowhere")
    expected = [job.expected(records) for records in (800, 1000, 1200, 1201)]
    assert all(len(one) > 0 for one in expected)
    assert expected[0] != expected[1]
    assert expected[2] != expected[3]


def test_results_are_read_from_the_files_in_the_log(tmp_path: Path) -> None:
    log = tmp_path / "_spark_metadata"
    log.mkdir()
    for name, entries in {"8": "a", "9.compact": "ab", "10": "c", "11": ""}.items():
        paths = [f'{{"path":"file:{tmp_path}/{entry}","action":"add"}}' for entry in entries]
        (log / name).write_text("\n".join(["v1", *paths]))
    for name in "abcd":
        (tmp_path / name).write_text(f'{{"n":"{name}"}}\n')
    assert sorted(line["n"] for line in lines(tmp_path)) == ["a", "b", "c"]  # d was never committed


def test_processes_that_an_earlier_driver_left_are_killed_by_their_owner_alone(tmp_path: Path) -> None:
    sleeper = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"]
    owned, other = (
        subprocess.Popen(
            sleeper, env={**os.environ, "AUTOTRASCALE_DRIVER_OF": str(tmp_path / name)}, stdout=subprocess.PIPE
        )
        for name in ("home", "another")
    )
    try:
        for process in (owned, other):
            assert process.stdout is not None
            process.stdout.readline()
        kill_leftovers(str(tmp_path / "home"))
        assert not psutil.pid_exists(owned.pid)  # kill_leftovers also waits for its end
        time.sleep(0.1)
        assert other.poll() is None
    finally:
        for process in (owned, other):
            process.kill()
            process.communicate()
