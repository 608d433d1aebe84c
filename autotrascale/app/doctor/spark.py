"""Spark, as far as it can be known without starting it, and with `--deep` a session that really runs a query."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from dataclasses import replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from autotrascale.app.doctor.checks import Check, CheckContext, Finding, ok, problem, warning
from autotrascale.execute.spark.common.spark_settings import SparkSettings
from autotrascale.execute.spark.controller import preflight

PATIENCE = 3.0
_SLOW = 60.0  # seconds that a Python may take to import pandas, or a user's module whatever it imports
_LOOK = "import sys, pyarrow, pandas; print('%d.%d' % sys.version_info[:2])"
_LOAD = (
    "import json, sys\n"
    "from autotrascale.domain.errors import AuTraScaleError\n"
    "from autotrascale.execute.spark.jobs.job_loading import load_job\n"
    "try:\n"
    "    job = load_job(*json.load(sys.stdin))\n"
    "except AuTraScaleError as error:\n"
    "    sys.exit(str(error))\n"
    "print(json.dumps(list(job.topology)))\n"
)
_RATE = 200.0  # records/s of the deep check: enough to make batches, too few to be late


def checks(*, deep: bool) -> dict[str, Check]:
    shallow: dict[str, Check] = {
        "java": java,
        "spark": spark,
        "workers' python": workers_python,
        "job code": job_code,
        "master": master,
        "slots": slots,
        "memory": memory,
    }
    return {**shallow, "a query on Spark": runs_a_query} if deep else shallow


def java(case: CheckContext) -> Finding | None:
    if case.spark is None:
        return None
    where, found = preflight.check_java()
    return ok(f"Java {found}, {os.path.realpath(where)}")


def spark(case: CheckContext) -> Finding | None:
    """SPARK_HOME goes before the package's own Spark, and two versions do not understand each other."""
    if case.spark is None or find_spec("pyspark") is None:
        return None
    package, home = version("pyspark"), Path(case.environment.get("SPARK_HOME") or _package_folder())
    jars = sorted((home / "jars").glob("spark-core_*.jar"))
    if not jars:
        return problem(f"{home} holds no Spark (no jars/spark-core_*.jar)", "correct or unset SPARK_HOME")
    found = jars[0].stem.rpartition("-")[2]
    if found != package:
        return problem(f"SPARK_HOME {home} holds Spark {found}, and pyspark is {package}", "unset SPARK_HOME")
    if not os.access(home / "bin" / "spark-submit", os.X_OK):
        return problem(f"{home}/bin/spark-submit cannot be run", "install pyspark again")
    return ok(f"Spark {package}, {home}")


def workers_python(case: CheckContext) -> Finding | None:
    """Workers must run the driver's Python, and have pandas and pyarrow there."""
    if case.spark is None:
        return None
    asked = case.spark.conf.get("spark.pyspark.python") or case.environment.get("PYSPARK_PYTHON")
    if not asked:
        return ok(f"the driver's, {sys.executable} (PYSPARK_PYTHON is not set)")
    if not case.spark.local:
        return ok(f"{asked} is on the executors' machines: not looked at")
    there = shutil.which(asked)
    if there is None:
        return problem(f"PYSPARK_PYTHON is {asked}, which cannot be run", "correct it, or unset it")
    done = subprocess.run([there, "-c", _LOOK], capture_output=True, text=True, timeout=_SLOW, check=False)
    if done.returncode:
        return problem(
            f"PYSPARK_PYTHON {there} lacks what workers need: {_last(done.stderr)}",
            f"unset it, or name this one: {sys.executable}",
        )
    ours = f"{sys.version_info.major}.{sys.version_info.minor}"
    if done.stdout.strip() != ours:
        return problem(
            f"PYSPARK_PYTHON {there} is Python {done.stdout.strip()}, and the driver's is {ours}",
            f"unset it, or name this one: {sys.executable}",
        )
    return ok(f"Python {ours}, {there}")


def job_code(case: CheckContext) -> Finding | None:
    """In a process of its own: a user's module may do anything while it is imported."""
    if case.job is None or case.job.spark is None or find_spec("pyspark") is None:
        return None
    name = case.job.spark.job
    environment = {**case.environment, "PYTHONPATH": _python_path(case, case.job.spark)}
    done = subprocess.run(
        [sys.executable, "-c", _LOAD],
        input=json.dumps([name, dict(case.job.spark.options)]),
        env=environment,
        capture_output=True,
        text=True,
        timeout=_SLOW,
        check=False,
    )
    if done.returncode:
        said, _, remedy = _last(done.stderr).rpartition("; ")
        return problem(said or remedy, remedy if said else "correct it")
    return ok(f"{name} can be imported, operators {', '.join(json.loads(_last(done.stdout)))}")


def master(case: CheckContext) -> Finding | None:
    if case.spark is None:
        return None
    if not case.spark.master.startswith("spark://"):
        return ok(case.spark.master + ("" if case.spark.local else " is Spark's to reach: not looked at"))
    refused = []
    for place in case.spark.master.removeprefix("spark://").split(","):
        parts = urlsplit(f"//{place}")
        try:
            socket.create_connection((parts.hostname or "", parts.port or 7077), PATIENCE).close()
        except (OSError, ValueError) as error:
            refused.append(f"{place}: {error}")
        else:
            return ok(f"{case.spark.master} listens at {place}")
    return problem(f"no master at {'; '.join(refused)}", "start it, or correct spark.master")


def slots(case: CheckContext) -> Finding | None:
    """Slots may exceed cores where operators wait; those that compute then share cores."""
    if case.spark is None or not case.spark.local:
        return None
    cores, slots = len(os.sched_getaffinity(0)), _slots(case.spark)
    seen = f"{slots} slots on {cores} cores"
    if case.job is not None and case.job.p_max > slots:
        return warning(
            f"{seen}, and p_max is {case.job.p_max}: what is beyond the slots runs in a second wave",
            f"use master: local[{case.job.p_max}], or lower p_max",
        )
    if slots > cores:
        return warning(
            f"{seen}: right for operators that wait, those that compute share the cores",
            f"for operators that compute, use local[{cores}]",
        )
    return ok(seen)


def memory(case: CheckContext) -> Finding | None:
    if case.spark is None or find_spec("psutil") is None:
        return None
    free = preflight.check_memory(case.spark.driver_megabytes)
    return ok(f"{free} MB are free, the driver asks for {case.spark.driver_megabytes}")


def runs_a_query(case: CheckContext) -> Finding | None:
    """The job, or our word count, with one instance of each operator for as few batches as can be judged."""
    if case.spark is None:
        return None
    from autotrascale.analyze.stability import StabilityRules
    from autotrascale.domain.trial import Verdict
    from autotrascale.execute.spark.controller.trial_engine import SparkEngine

    rules = StabilityRules(window_seconds=1.0, min_batches=3, tolerance=1.0, max_seconds=20.0)
    began = time.monotonic()
    with SparkEngine(replace(case.spark, window=rules, prime_batches=1, keep_event_log=False)) as engine:
        topology = engine.topology
        opened = time.monotonic() - began
        trial = engine.run(dict.fromkeys(topology, 1), dict.fromkeys(topology.sources, _RATE))
        batches = 0 if engine.window is None else engine.window.batches
    if trial.verdict is Verdict.FAILED:
        return problem(f"it failed: {trial.detail}", "read the log that it names")
    return ok(f"a session in {opened:.0f} s, a query of {batches} batches ended after {time.monotonic() - began:.0f} s")


def _slots(settings: SparkSettings) -> int:
    said = settings.master.removeprefix("local").strip("[]")
    return len(os.sched_getaffinity(0)) if said == "*" else int(said or 1)


def _python_path(case: CheckContext, settings: SparkSettings) -> str:
    paths = [*settings.python_path, os.getcwd(), case.environment.get("PYTHONPATH", "")]
    return os.pathsep.join(path for path in paths if path)


def _package_folder() -> str:
    found = find_spec("pyspark")
    return str(Path(found.origin).parent) if found is not None and found.origin else ""


def _last(text: str) -> str:
    return (text.strip().splitlines() or ["it said nothing"])[-1]
