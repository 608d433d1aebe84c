"""A real Spark standalone cluster on loopback, from the installed PySpark: a master, and workers of one size.

Each worker has its own address (127.0.0.2, 127.0.0.3, …), so Spark sees executors on different hosts.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyspark

from autotrascale.execute.spark.common.processes import kill_session

# These JVMs live shortly on few cores, so thorough compilation would never pay.
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_HOME = Path(pyspark.__file__).parent
_MASTER_HOST = "127.0.0.1"
_BACKEND = "CoarseGrainedExecutorBackend"
# Tests kill executors on purpose. Without this the master would give the application up.
_OPTIONS = f"{JAVA} -Dspark.deploy.maxExecutorRetries=-1"
_START_TIMEOUT_SECONDS = 120.0  # a busy machine is slow


@dataclass(frozen=True)
class StandaloneCluster:
    """A running cluster.

    Args:
        url: address of the master, for `spark.master`.
        workers: process ids of the workers.
    """

    url: str
    workers: tuple[int, ...]

    def executors(self) -> list[int]:
        """Return the process ids of the executors, the oldest first."""
        return list(self._executors().values())

    def executor(self, name: str) -> int:
        """Return the process id of one executor of the only application. Raise KeyError if the executor is unknown."""
        return self._executors()[name]

    def _executors(self) -> Mapping[str, int]:
        found: list[tuple[float, str, int]] = []
        for worker in self.workers:
            with suppress(psutil.Error):
                for process in psutil.Process(worker).children(recursive=True):
                    if name := _executor_id(process):
                        found.append((process.create_time(), name, process.pid))
        return {name: pid for _, name, pid in sorted(found)}


def conf(cores: int = 1, memory: str = "512m") -> dict[str, str]:
    """Return the settings of an application on such a cluster, with executors of this size."""
    return {
        "spark.executor.cores": str(cores),
        "spark.executor.memory": memory,
        "spark.executor.extraJavaOptions": JAVA,
        "spark.driver.host": _MASTER_HOST,
        "spark.driver.bindAddress": _MASTER_HOST,
        "spark.python.daemon.module": "autotrascale.execute.spark.driver_agent.python_daemon",
    }


@contextmanager
def standalone(folder: Path, *, workers: int = 1, cores: int = 4, memory: str = "2g") -> Iterator[StandaloneCluster]:
    """Run a cluster within the block, and kill all of its processes at the end.

    Args:
        folder: folder for logs and work files.
        workers: number of workers.
        cores: cores of each worker.
        memory: memory of each worker for executors.
    """
    folder.mkdir(parents=True, exist_ok=True)
    port = _free_port()
    url = f"spark://{_MASTER_HOST}:{port}"
    started = [_start("master.Master", folder / "master.log", _MASTER_HOST, "--port", str(port))]
    try:
        _await_port(port, started[0], folder / "master.log")
        for number in range(1, workers + 1):
            size = ("--work-dir", str(folder / f"work{number}"), "-c", str(cores), "-m", memory)
            log = folder / f"worker{number}.log"
            started.append(_start("worker.Worker", log, f"127.0.0.{number + 1}", *size, url))
        yield StandaloneCluster(url, tuple(process.pid for process in started[1:]))
    finally:
        for process in started[::-1]:
            kill_session(process.pid)
            process.wait()


def _start(kind: str, log: Path, host: str, *arguments: str) -> subprocess.Popen[bytes]:
    command = [str(_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", "--host", host]
    settings = {
        "SPARK_HOME": str(_HOME),
        "SPARK_LOCAL_IP": host,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": _OPTIONS,
    }
    with log.open("wb") as output:
        return subprocess.Popen(
            [*command, "--webui-port", "0", *arguments],
            stdout=output,
            stderr=output,
            env={**os.environ, **settings},
            start_new_session=True,
        )


def _executor_id(process: psutil.Process) -> str:
    """Return the executor id of a process, or "" if it is not an executor."""
    with suppress(psutil.Error, ValueError, IndexError):
        words: list[str] = process.cmdline() if process.name() == "java" else []
        if any(_BACKEND in word for word in words):
            return words[words.index("--executor-id") + 1]
    return ""


def _free_port() -> int:
    with socket.create_server((_MASTER_HOST, 0)) as server:
        port: int = server.getsockname()[1]
        return port


def _await_port(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + _START_TIMEOUT_SECONDS
    while time.monotonic() < until and process.poll() is None:
        with socket.socket() as client:
            if client.connect_ex((_MASTER_HOST, port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError(f"the master did not open port {port} in {_START_TIMEOUT_SECONDS:.0f} s: see {log}")
