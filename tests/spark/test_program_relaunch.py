"""One program on a real standalone cluster, relaunched with other sizes from its checkpoint, and brought back."""

from __future__ import annotations

import os
import signal
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from autotrascale.domain.errors import EngineError
from autotrascale.execute.spark.common.launches import NextLaunch
from autotrascale.execute.spark.common.program_environment import ProgramOptions
from autotrascale.execute.spark.controller.program_command import parse_command
from autotrascale.execute.spark.controller.program_process import ProgramProcess
from autotrascale.execute.spark.protocol.agent_messages import StopForRelaunch
from autotrascale.testing import standalone_cluster

pytestmark = pytest.mark.spark

SCRIPT = """
    import sys
    from pyspark.sql import SparkSession, functions as F

    checkpoint, seen = sys.argv[1:]
    spark = SparkSession.builder.appName("shops").getOrCreate()

    def write(frame, batch):
        rows = [row["value"] for row in frame.collect()]
        with open(seen, "a") as file:
            file.writelines(f"{batch} {value}\\n" for value in rows)

    orders = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).option("numPartitions", 1).load()
    try:
        writer = orders.writeStream.option("checkpointLocation", checkpoint).trigger(processingTime="300 milliseconds")
        writer.foreachBatch(write).start().awaitTermination()
        raise ValueError("it returned")
    finally:
        print("its own last word", file=sys.stderr)
"""


def test_a_program_continues_with_other_sizes_and_returns_from_sizes_that_fail(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    script, seen = tmp_path / "shops.py", tmp_path / "seen"
    script.write_text(textwrap.dedent(SCRIPT))
    with standalone_cluster.standalone(tmp_path / "cluster", cores=1, memory="1500m") as cluster:
        settings = {
            **standalone_cluster.conf(1, "512m"),
            "spark.cores.max": "1",
            "spark.ui.enabled": "false",
            "spark.log.level": "OFF",
            "spark.driver.memory": "600m",
            "spark.driver.extraJavaOptions": standalone_cluster.JAVA,
        }
        words = [str(Path(sys.executable).with_name("spark-submit")), "--master", cluster.url]
        for name, value in settings.items():
            words += ["--conf", f"{name}={value}"]
        program = ProgramProcess.start(
            parse_command([*words, str(script), str(tmp_path / "checkpoint"), str(seen)]),
            tmp_path / "p",
            ProgramOptions(apply=True, memory_metrics=True),
            environment={**os.environ, "PYSPARK_PYTHON": sys.executable},
        )
        try:
            _await(lambda: _rows(seen) > 10, program)
            assert _heap(cluster) == "512M"
            with program.client(60.0) as client:
                with pytest.raises(EngineError, match=r"next\.json"):
                    client.stop_for_relaunch(StopForRelaunch(30.0))
                program.write_next_launch(NextLaunch(1, {"spark.executor.memory": "600m"}, 400.0, 120.0))
                assert not client.stop_for_relaunch(StopForRelaunch(30.0)).cut_off
            _await(lambda: program.launch.number == 2 and program.arrived() is not None, program)
            assert _heap(cluster) == "600M"

            program.write_next_launch(
                NextLaunch(2, {"spark.executor.memory": "100m"}, 400.0, 120.0)
            )  # Spark refuses that
            with program.client(60.0) as client:
                client.stop_for_relaunch(StopForRelaunch(30.0))
            rows = _rows(seen)
            _await(lambda: program.launch.number == 4 and _rows(seen) > rows, program)
            assert program.launch.why == "the program ended with exit code 1"
            assert _heap(cluster) == "600M"
            program.send_signal(signal.SIGTERM)
            assert program.wait(60.0) == 143
        finally:
            program.kill()
    lines = [line.split() for line in seen.read_text().splitlines()]
    assert [int(value) for _, value in lines] == list(range(len(lines)))  # each record once, in order
    said = "".join(capfd.readouterr())
    assert said.count("its own last word") >= 2
    assert "it returned" not in said
    assert said.count("is started again with other settings") == 2
    assert "Traceback" not in said.partition("set spark.executor.memory to 100m")[0]


def _heap(cluster: standalone_cluster.StandaloneCluster) -> str:
    (executor,) = cluster.executors()
    words: list[str] = psutil.Process(executor).cmdline()
    return next(word[4:] for word in words if word.startswith("-Xmx"))


def _rows(seen: Path) -> int:
    return len(seen.read_text().splitlines()) if seen.exists() else 0


def _await(sign: Callable[[], bool], program: ProgramProcess) -> None:
    until = time.monotonic() + 400.0
    while not sign():
        assert program.exit_code() is None, "the program ended"
        assert time.monotonic() < until
        time.sleep(0.1)
