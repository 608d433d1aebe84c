"""Spark without starting it, and with `--deep` a session that runs a query."""

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

CONNECT_SECONDS = 3.0
IMPORT_SECONDS = 60.0  # for importing pandas or a user's module
_PRINT_VERSION = "import sys, pyarrow, pandas; print('%d.%d' % sys.version_info[:2])"
_PRINT_OPERATORS = (
    "import json, sys\n"
    "from autotrascale.domain.errors import AuTraScaleError\n"
    "from autotrascale.execute.spark.jobs.job_loading import load_job\n"
    "try:\n"
    "    job = load_job(*json.load(sys.stdin))\n"
    "except AuTraScaleError as error:\n"
    "    sys.exit(str(error))\n"
    "print(json.dumps(list(job.topology)))\n"
)
TRIAL_RATE = 200.0  # records/s of the deep check: enough for batches, too few for a backlog


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


def java(context: CheckContext) -> Finding | None:
    if context.spark is None:
        return None
    where, found = preflight.check_java()
    return ok(f"Java {found}, {os.path.realpath(where)}")


def spark(context: CheckContext) -> Finding | None:
    """Check that SPARK_HOME, which wins over the Spark of the package, has the same version."""
    if context.spark is None or find_spec("pyspark") is None:
        return None
    package, home = version("pyspark"), Path(context.environment.get("SPARK_HOME") or _package_folder())
    jars = sorted((home / "jars").glob("spark-core_*.jar"))
    if not jars:
        return problem(f"{home} has no Spark: jars/spark-core_*.jar is missing", "correct or unset SPARK_HOME")
    found = jars[0].stem.rpartition("-")[2]
    if found != package:
        return problem(f"SPARK_HOME {home} has Spark {found}, but pyspark is {package}", "unset SPARK_HOME")
    if not os.access(home / "bin" / "spark-submit", os.X_OK):
        return problem(f"{home}/bin/spark-submit is not executable", "install pyspark again")
    return ok(f"Spark {package}, {home}")


def workers_python(context: CheckContext) -> Finding | None:
    """Check that workers run the driver's version of Python, with pandas and pyarrow."""
    if context.spark is None:
        return None
    asked = context.spark.conf.get("spark.pyspark.python") or context.environment.get("PYSPARK_PYTHON")
    if not asked:
        return ok(f"the driver's, {sys.executable} (PYSPARK_PYTHON is not set)")
    if not context.spark.local:
        return ok(f"{asked} is on the executors' hosts: not checked")
    there = shutil.which(asked)
    if there is None:
        return problem(f"PYSPARK_PYTHON is {asked}, which is not executable", "correct it, or unset it")
    done = subprocess.run(
        [there, "-c", _PRINT_VERSION], capture_output=True, text=True, timeout=IMPORT_SECONDS, check=False
    )
    if done.returncode:
        return problem(
            f"PYSPARK_PYTHON {there} lacks a package of workers: {_last_line(done.stderr)}",
            f"unset it, or set it to {sys.executable}",
        )
    ours = f"{sys.version_info.major}.{sys.version_info.minor}"
    if done.stdout.strip() != ours:
        return problem(
            f"PYSPARK_PYTHON {there} is Python {done.stdout.strip()}, but the driver's is {ours}",
            f"unset it, or set it to {sys.executable}",
        )
    return ok(f"Python {ours}, {there}")


def job_code(context: CheckContext) -> Finding | None:
    """Import the job in a process of its own, as a user's module may do anything when it is imported."""
    if context.job is None or context.job.spark is None or find_spec("pyspark") is None:
        return None
    name = context.job.spark.job
    environment = {**context.environment, "PYTHONPATH": _python_path(context, context.job.spark)}
    done = subprocess.run(
        [sys.executable, "-c", _PRINT_OPERATORS],
        input=json.dumps([name, dict(context.job.spark.options)]),
        env=environment,
        capture_output=True,
        text=True,
        timeout=IMPORT_SECONDS,
        check=False,
    )
    if done.returncode:
        seen, _, remedy = _last_line(done.stderr).rpartition("; ")
        return problem(seen or remedy, remedy if seen else "correct it")
    return ok(f"{name} can be imported, operators {', '.join(json.loads(_last_line(done.stdout)))}")


def master(context: CheckContext) -> Finding | None:
    if context.spark is None:
        return None
    if not context.spark.master.startswith("spark://"):
        return ok(context.spark.master + ("" if context.spark.local else " is reached by Spark: not checked"))
    refused = []
    for place in context.spark.master.removeprefix("spark://").split(","):
        parts = urlsplit(f"//{place}")
        try:
            socket.create_connection((parts.hostname or "", parts.port or 7077), CONNECT_SECONDS).close()
        except (OSError, ValueError) as error:
            refused.append(f"{place}: {error}")
        else:
            return ok(f"{context.spark.master} listens at {place}")
    return problem(f"no master at {'; '.join(refused)}", "start it, or correct spark.master")


def slots(context: CheckContext) -> Finding | None:
    """Compare slots with cores. More slots than cores suit operators that wait, not operators that compute."""
    if context.spark is None or not context.spark.local:
        return None
    cores, slots = len(os.sched_getaffinity(0)), _count_slots(context.spark)
    seen = f"{slots} slots on {cores} cores"
    if context.job is not None and context.job.p_max > slots:
        return warning(
            f"{seen}, but p_max is {context.job.p_max}: tasks beyond the slots run in a second wave",
            f"use master: local[{context.job.p_max}], or lower p_max",
        )
    if slots > cores:
        return warning(
            f"{seen}: operators that compute will share the cores", f"use local[{cores}] unless operators wait"
        )
    return ok(seen)


def memory(context: CheckContext) -> Finding | None:
    if context.spark is None or find_spec("psutil") is None:
        return None
    free = preflight.check_memory(context.spark.driver_megabytes)
    return ok(f"{free} MB free, and the driver takes {context.spark.driver_megabytes}")


def runs_a_query(context: CheckContext) -> Finding | None:
    """Run the job, or the word count, with one instance of each operator and for a few batches."""
    if context.spark is None:
        return None
    from autotrascale.analyze.stability import StabilityRules
    from autotrascale.domain.trial import Verdict
    from autotrascale.execute.spark.controller.trial_engine import SparkEngine

    rules = StabilityRules(window_seconds=1.0, min_batches=3, tolerance=1.0, max_seconds=20.0)
    began = time.monotonic()
    with SparkEngine(replace(context.spark, window=rules, prime_batches=1, keep_event_log=False)) as engine:
        topology = engine.topology
        opened = time.monotonic() - began
        trial = engine.run(dict.fromkeys(topology, 1), dict.fromkeys(topology.sources, TRIAL_RATE))
        batches = 0 if engine.window is None else engine.window.batches
    if trial.verdict is Verdict.FAILED:
        return problem(f"the query failed: {trial.detail}", "read the named log")
    return ok(f"a session in {opened:.0f} s, a query of {batches} batches ended after {time.monotonic() - began:.0f} s")


def _count_slots(settings: SparkSettings) -> int:
    slots = settings.master.removeprefix("local").strip("[]")
    return len(os.sched_getaffinity(0)) if slots == "*" else int(slots or 1)


def _python_path(context: CheckContext, settings: SparkSettings) -> str:
    paths = [*settings.python_path, os.getcwd(), context.environment.get("PYTHONPATH", "")]
    return os.pathsep.join(path for path in paths if path)


def _package_folder() -> str:
    found = find_spec("pyspark")
    return str(Path(found.origin).parent) if found is not None and found.origin else ""


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no output"])[-1]
