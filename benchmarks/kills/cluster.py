"""A standalone cluster on loopback: a master, a worker, and the executors that it starts."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyspark

from autotrascale.execute.spark.connection.processes import kill_session

HOME = Path(pyspark.__file__).parent
_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dspark.deploy.maxExecutorRetries=-1"
CONF = {
    "spark.executor.cores": "2",
    "spark.executor.memory": "600m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.python.daemon.module": "autotrascale.execute.spark.host.daemon",
}


@dataclass(frozen=True)
class Cluster:
    url: str
    worker: int  # process

    def executors(self) -> list[int]:
        """The processes of the executors, the oldest first."""
        with suppress(psutil.Error):
            children = psutil.Process(self.worker).children(recursive=True)
            return [process.pid for process in children if _is_executor(process)]
        return []


@contextmanager
def cluster(folder: Path, cores: int = 4) -> Iterator[Cluster]:
    folder.mkdir()
    port = _free_port()
    url = f"spark://127.0.0.1:{port}"
    local = ("--host", "127.0.0.1", "--webui-port", "0")
    started = [_start("master.Master", folder / "master.log", *local, "--port", str(port))]
    try:
        _await_port(port)
        work = ("--work-dir", str(folder / "work"), "-c", str(cores), "-m", "2g")
        started.append(_start("worker.Worker", folder / "worker.log", *local, *work, url))
        yield Cluster(url, started[-1].pid)
    finally:
        for process in started[::-1]:
            kill_session(process.pid)
            process.wait()


def _start(kind: str, log: Path, *arguments: str) -> subprocess.Popen[bytes]:
    command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", *arguments]
    ours = {
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": _OPTIONS,
    }
    with log.open("wb") as output:
        return subprocess.Popen(
            command, stdout=output, stderr=output, env={**os.environ, **ours}, start_new_session=True
        )


def _is_executor(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return process.name() == "java" and any("CoarseGrainedExecutorBackend" in word for word in process.cmdline())
    return False


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def _await_port(port: int, seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError(f"nothing listens on {port}")
