"""A program on a real standalone cluster, from its controller's side: executors come and go, partitions follow, and the
verb that does it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from autotrascale.analyze.unmarked_query import OPERATOR
from autotrascale.app.program_file import DEFAULT_KNOBS, ExecutorBounds, ProgramFile, ProgramSettings
from autotrascale.domain.errors import EngineError
from autotrascale.domain.target import Target
from autotrascale.execute.spark.common.program_environment import ProgramOptions
from autotrascale.execute.spark.controller.adopted_application import AdoptedApplication
from autotrascale.execute.spark.controller.adopted_job import AdoptedJob
from autotrascale.execute.spark.controller.program_command import parse_command
from autotrascale.execute.spark.controller.program_process import ProgramProcess
from autotrascale.loop import Loop, LoopCollaborators
from autotrascale.plan.control.autoscaling.prediction import AutoscalingSettings
from autotrascale.plan.control.commands import LoopCommand
from autotrascale.plan.control.events import Event
from autotrascale.plan.control.loop_state import DecisionEntry, Rules, State
from autotrascale.plan.sizing.executor_plan import ExecutorRange
from autotrascale.testing import standalone_cluster
from tests.loop.scripts import Diary

pytestmark = pytest.mark.spark

SCRIPT = """
    import sys
    from autotrascale import mark
    from pyspark.sql import SparkSession, functions as F

    spark = SparkSession.builder.appName("shops").getOrCreate()
    orders = spark.readStream.format("rate").option("rowsPerSecond", 200).option("numPartitions", 2).load()
    orders = mark(orders, "orders_of_shops", parallelism=2)
    totals = mark(orders.groupBy((F.col("value") % 50).alias("shop")).count(), "totals_of_shops")
    writer = totals.writeStream.queryName("totals").outputMode("update").format("noop")
    query = writer.option("checkpointLocation", sys.argv[1]).trigger(processingTime="500 milliseconds").start()
    while query.lastProgress is None or query.lastProgress["batchId"] < int(sys.argv[2]):
        query.awaitTermination(1)
    sys.exit(5)
"""
QUIET = {
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.log.level": "OFF",
    "spark.driver.memory": "600m",
    "spark.driver.extraJavaOptions": standalone_cluster.JAVA,
}


def script(folder: Path) -> Path:
    path = folder / "shops.py"
    path.write_text(textwrap.dedent(SCRIPT))
    return path


def submitted(folder: Path, url: str, batches: int, conf: dict[str, str]) -> list[str]:
    words = [str(Path(sys.executable).with_name("spark-submit")), "--master", url]
    for name, value in conf.items():
        words += ["--conf", f"{name}={value}"]
    return [*words, str(script(folder)), str(folder / "checkpoint"), str(batches)]


def environment() -> dict[str, str]:
    """Return the environment of a user of this virtual environment."""
    bin_folder = str(Path(sys.executable).parent)
    return {**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}", "PYSPARK_PYTHON": sys.executable}


@pytest.fixture
def program(tmp_path: Path) -> Iterator[ProgramProcess]:
    with standalone_cluster.standalone(tmp_path / "cluster", workers=2, cores=2, memory="2g") as cluster:
        conf = {**standalone_cluster.conf(), **QUIET}
        words = submitted(tmp_path, cluster.url, 10_000, conf)
        running = ProgramProcess.start(
            parse_command(words),
            tmp_path / "p",
            ProgramOptions(apply=True, executors=(1, 3), rescale="overlap"),
            environment=environment(),
        )
        try:
            yield running
        finally:
            running.kill()


@contextmanager
def opened(program: ProgramProcess, most: int) -> Iterator[AdoptedApplication]:
    until = time.monotonic() + 120.0
    with program.client(60.0) as client:
        while not client.queries() or client.executors().staying < 3:
            assert program.exit_code() is None, "the program ended"
            assert time.monotonic() < until, "three executors did not come"
            time.sleep(0.3)
        yield AdoptedApplication(client, client.application(), ExecutorRange(1, most))


def await_batches(job: AdoptedJob, count: int) -> None:
    until = time.monotonic() + 90.0
    while len(job.recent) < count:
        assert time.monotonic() < until, job.observe().detail
        job.observe()
        time.sleep(0.3)


class Pinned:
    """A journal that records nothing and delivers one command."""

    def __init__(self, pin: LoopCommand) -> None:
        self.pin = pin

    def begin(self, rules: Rules) -> None: ...

    def record(self, state: State, entry: DecisionEntry, event: Event) -> None: ...

    def commands_after(self, number: int) -> tuple[LoopCommand, ...]:
        return () if number else (self.pin,)


def pinned(job: AdoptedJob, executors: int) -> list[DecisionEntry]:
    """Rescale as a loop does after a pin."""
    diary = Diary()
    pin = LoopCommand(1, "pin", "somebody", 0.0, {OPERATOR: executors})
    loop = Loop(
        job,
        Rules(AutoscalingSettings(Target(5.0)), DEFAULT_KNOBS),
        initial={OPERATOR: 3},
        around=LoopCollaborators(Pinned(pin), listener=diary),
    )
    loop.run_once()
    return diary.entries


def test_executors_come_and_go_under_its_query(program: ProgramProcess, capfd: pytest.CaptureFixture[str]) -> None:
    with opened(program, most=3) as application:
        query = application.read_queries()[0]
        file = ProgramFile("shops", ProgramSettings(ExecutorBounds(3)), Target(5.0))
        job = AdoptedJob(file.query_job(query.name, Target(5.0)), query, application)
        assert (job.name, query.partitions, application.executors, application.cores) == ("shops.totals", 2, 3, 1)
        assert query.stages == {"orders_of_shops": 2}
        await_batches(job, 3)

        asked, given_back = pinned(job, 1)
        assert (asked.action, asked.wanted) == ("rescale", {OPERATOR: 1})
        assert (given_back.action, given_back.wanted) == ("rescaled", {OPERATOR: 1})
        assert given_back.reasons[-1].numbers["standstill_seconds"] == 0.0
        until = time.monotonic() + 30.0
        while application.client.executors().leaving:
            assert time.monotonic() < until, "it did not go within 30 s"
            time.sleep(0.2)
        await_batches(job, 5)
        assert application.read_queries()[0].run == query.run  # nothing was stopped for it

        grown = job.rescale({OPERATOR: 3})
        assert (grown.done, grown.running, grown.detail) == (True, {OPERATOR: 3}, "")
        assert set(grown.phases or ()) == {"executors", "partitions"}
        assert grown.how.startswith("in place: the output to noop")
        moved = application.read_queries()[0]
        assert (moved.id, moved.runs[0]) == (query.id, query.run)
        assert moved.run != query.run
        assert moved.partitions >= 3  # every slot gets a task
        assert moved.stages == {"orders_of_shops": moved.partitions}
        await_batches(job, 2)
        assert job.observe().running == {OPERATOR: 3}

        beyond = application.scale_query(query.id, 3)
        assert (beyond.done, beyond.running) == (True, {OPERATOR: 3})

        with program.forward_signals():  # Ctrl-C, in the middle of a batch as likely as not
            os.kill(os.getpid(), signal.SIGINT)
            while program.exit_code() is None:
                with suppress(EngineError):
                    application.read_queries()
                assert time.monotonic() < until + 120.0, "it did not end"
        assert program.exit_code() == 130
    said = capfd.readouterr().err
    assert "Traceback" not in said, said[-3000:]
    assert "ConnectionRefused" not in said


def test_the_verb_runs_a_program_and_says_what_to_set(tmp_path: Path) -> None:
    job_file = tmp_path / "written.yaml"
    words = submitted(tmp_path, "local[2]", 30, QUIET)
    verb = [sys.executable, "-m", "autotrascale.cli.main", "run", "--target", "5", "--write-job", str(job_file)]
    done = subprocess.run(
        [*verb, "--store", f"sqlite:///{tmp_path}/mlflow.db", "--metrics", "none", "--", *words],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment(),
        timeout=240,
        check=False,
    )
    assert done.returncode == 5, done.stderr[-3000:]  # the program's own
    assert " shops (local-" in done.stderr
    assert "master local[2] runs all tasks inside the driver" in done.stderr
    assert "where the time of a batch goes" in done.stdout
    for stage in ("totals_of_shops", "orders_of_shops"):
        assert re.search(rf"(?m)^ *{stage}  .* \d[\d,.]*/s *$", done.stdout), done.stdout
    assert "read rate stream" in done.stdout
    assert "expected: 1 executor" in done.stdout
    assert "target: {latency_seconds: 5.0}" in job_file.read_text()
