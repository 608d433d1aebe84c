"""Drivers, JVMs and controllers that die or hang: each gives a clear verdict and leaves no process behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from conftest import HERE, Bench, settings

from autotrascale.domain.errors import EngineError
from autotrascale.domain.trial import Trial, Verdict
from autotrascale.execute.spark.common.processes import session_members
from autotrascale.execute.spark.common.spark_settings import SparkTimeouts
from autotrascale.execute.spark.controller.trial_engine import SparkEngine

pytestmark = pytest.mark.spark

ONES = {"source": 1, "flatmap": 1, "count": 1, "sink": 1}


def started(own: Bench) -> int:
    """Return the process id of the driver. Start a driver if none runs."""
    return own.engine._connect().process.pid


def members(leader: int) -> list[str]:
    return sorted(process.name() for process in session_members(leader))


def eventually(condition: Callable[[], bool], seconds: float = 15.0) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.1)
    return condition()


def child(leader: int, name: str) -> psutil.Process:
    return next(process for process in session_members(leader) if process.name() == name)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Yield an engine whose drivers may be killed."""
    folder = tmp_path_factory.mktemp("faults")
    patience = SparkTimeouts(start=90.0, command=30.0, first_batch=30.0)
    return Bench(SparkEngine(settings(folder, master="local[2]", patience=patience)), folder / "flavour.json")


def killed_in_mid_trial(own: Bench, victim: int) -> Trial:
    killer = subprocess.Popen(["sh", "-c", f"sleep 2; kill -9 {victim}"])
    trial = own.run((1, 1, 1, 1), rate=10.0)
    killer.wait()
    return trial


def test_a_jvm_that_dies_fails_its_trial(own: Bench) -> None:
    leader = started(own)
    trial = killed_in_mid_trial(own, child(leader, "java").pid)
    assert trial.verdict is Verdict.FAILED
    assert trial.detail == f"the JVM ended by itself; see {own.engine.log}"
    assert eventually(lambda: not members(leader)), members(leader)


def test_a_jvm_without_memory_says_so(own: Bench) -> None:
    leader = started(own)
    trial = own.run((1, 1, 1, 1), rate=10.0, fills_heap=True)
    assert trial.verdict is Verdict.FAILED
    assert trial.detail.startswith("the JVM ran out of memory: raise spark.driver_memory")
    assert eventually(lambda: not members(leader)), members(leader)


def test_a_job_that_hangs_is_given_up_and_killed(own: Bench) -> None:
    """A job that hangs in its first batch cannot be judged. The driver is killed with its sleeping worker."""
    leader = started(own)
    began = time.monotonic()
    trial = own.run((1, 1, 1, 1), rate=100.0, hangs=1000.0)
    assert trial.verdict is Verdict.FAILED
    assert "no batch was committed within 30 s" in trial.detail
    assert time.monotonic() - began < 90
    assert eventually(lambda: not members(leader)), members(leader)


def test_a_host_that_dies_fails_its_trial_and_the_next_one_starts_another(own: Bench) -> None:
    leader = started(own)
    trial = killed_in_mid_trial(own, leader)
    assert trial.verdict is Verdict.FAILED
    assert trial.detail == f"the driver was killed by signal 9; see {own.engine.log}"
    assert eventually(lambda: not members(leader)), members(leader)
    assert own.run((1, 1, 1, 1), rate=10.0).verdict is Verdict.STABLE
    assert started(own) != leader


def test_closing_leaves_nothing_but_the_log_that_verdicts_have_named(own: Bench) -> None:
    leader = started(own)
    assert "java" in members(leader)
    own.engine.close()
    assert not members(leader)
    assert [path.name for path in own.engine.log.parent.iterdir()] == ["driver.log"]


PARENT = """
import json, sys, threading
from autotrascale.execute.spark.controller.trial_engine import SparkEngine
from autotrascale.execute.spark.common.spark_settings import SparkSettings
from autotrascale.validation import validate
engine = SparkEngine(validate(json.loads(sys.argv[1]), SparkSettings, place="argument"))
engine.p_max
print(engine._connection.process.pid, engine.log.parent, flush=True)
engine.run(dict.fromkeys(engine.topology, 2), {"source": 50.0})
threading.Event().wait()
"""


@pytest.mark.parametrize("ending", ["SIGKILL", "SIGKILL both", "SIGINT"])
def test_nothing_outlives_the_parent_however_it_ends(ending: str, tmp_path: Path) -> None:
    section = {
        "job": "flavoured:Flavoured",
        "options": {"flavour": str(tmp_path / "flavour.json")},
        "python_path": [str(HERE)],
        "master": "local[2]",
        "work_dir": str(tmp_path),
    }
    (tmp_path / "flavour.json").write_text("{}")
    parent = subprocess.Popen(
        # Where the tests run in the background of a shell that has no job control, an interrupt is ignored.
        ["env", "--default-signal=INT", sys.executable, "-c", PARENT, json.dumps(section)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    leader_text, work = parent.stdout.readline().split()
    leader = int(leader_text)
    assert eventually(lambda: "java" in members(leader))
    # In mid-trial: the daemon of Python workers is there, and workers too.
    assert eventually(lambda: len([name for name in members(leader) if name.startswith("python")]) > 2, 60.0)
    parent.send_signal(getattr(signal, ending.split()[0]))
    if ending == "SIGKILL both":
        os.kill(leader, signal.SIGKILL)
    _, errors = parent.communicate(timeout=90)
    assert eventually(lambda: not members(leader)), members(leader)
    if ending != "SIGKILL both":
        assert eventually(lambda: not Path(work).exists())
    assert "WARN" not in errors


def test_a_master_that_is_not_there_is_an_error_of_the_run(tmp_path: Path) -> None:
    nowhere = settings(tmp_path, master="spark://127.0.0.1:1", patience=SparkTimeouts(start=15.0))
    with SparkEngine(nowhere) as engine, pytest.raises(EngineError) as failed:
        engine.run(ONES, {"source": 1.0})
    assert "Boot was not answered within 15 s" in str(failed.value)
    assert "\n" not in str(failed.value)
