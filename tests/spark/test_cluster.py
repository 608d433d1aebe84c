"""The same job on a real standalone cluster: one master and two workers on loopback."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyspark
import pytest
from conftest import BRISK, Bench, settings

from autotrascale.domain.trial import Verdict
from autotrascale.execute.spark.connection.processes import kill_session
from autotrascale.execute.spark.engine import SparkEngine
from autotrascale.jobs.wordcount import WordCount, read_results

pytestmark = pytest.mark.spark

HOME = Path(pyspark.__file__).parent


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def daemon(kind: str, log: Path, *arguments: str) -> subprocess.Popen[bytes]:
    command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", *arguments]
    ours = {"SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_JAVA_OPTS": BRISK}
    environment = {**os.environ, **ours}
    with log.open("wb") as output:
        return subprocess.Popen(command, stdout=output, stderr=output, env=environment, start_new_session=True)


def await_port(port: int, seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError(f"nothing listens on {port}")


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder, port = tmp_path_factory.mktemp("cluster"), free_port()
    url = f"spark://127.0.0.1:{port}"
    no_ui = ["--webui-port", "0"]
    started = [daemon("master.Master", folder / "master.log", "--host", "127.0.0.1", "--port", str(port), *no_ui)]
    try:
        await_port(port)
        for number in (1, 2):
            work = ["--work-dir", str(folder / f"work{number}"), "-c", "3", "-m", "1g", "--host", "127.0.0.1"]
            started.append(daemon("worker.Worker", folder / f"worker{number}.log", *work, *no_ui, url))
        yield url
    finally:
        for process in started:
            kill_session(process.pid)
            process.wait()


def test_the_same_job_on_two_workers(master: str, tmp_path: Path) -> None:
    """Executors come from both workers, counts are exact, and instances are measured one by one."""
    results = tmp_path / "results"
    results.mkdir()
    conf = {
        "spark.executor.memory": "600m",
        "spark.executor.extraJavaOptions": BRISK,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.python.daemon.module": "autotrascale.execute.spark.host.daemon",
    }
    with SparkEngine(settings(tmp_path, master=master, conf=conf)) as engine:
        assert engine.p_max == 6
        bench = Bench(engine, tmp_path / "flavour.json")
        trial = bench.run((2, 4, 3, 2), rate=300.0, word_count={"vocabulary": 60, "results": str(results)})
        assert trial.verdict is Verdict.STABLE, trial.detail
        assert trial.snapshot is not None
        assert trial.snapshot.parallelism == {"source": 2, "flatmap": 4, "count": 3, "sink": 2}
        assert len(trial.snapshot.operators["flatmap"].instances) == 4
    counts = read_results(results)
    lines = WordCount(vocabulary=60).sentences(np.arange(sum(counts.values()) // 3))[0]
    assert counts == dict(Counter(word for line in lines for word in line.split()))
