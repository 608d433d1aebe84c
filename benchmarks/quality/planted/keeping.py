"""A planted job on its own standalone cluster, with fixed sizes or under `autotrascale run --apply --sizes`.

Executors above their memory limit are killed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from autotrascale.analyze.executor_windows import read_executor_windows
from autotrascale.domain.errors import AuTraScaleError
from autotrascale.domain.executor_window import ExecutorSizes, ExecutorWindow
from autotrascale.execute.spark.common.processes import kill_session
from autotrascale.execute.spark.controller.program_process import ProgramProcess
from autotrascale.knowledge.decision_journal import size_action_log as action_log
from autotrascale.knowledge.decision_journal.journal import DecisionJournal
from autotrascale.plan.executor_size.relaunch import choose_settings
from autotrascale.plan.executor_size.size_changes import SizeChange
from autotrascale.plan.executor_size.size_evidence import REQUIRED_SETTINGS
from autotrascale.testing.standalone_cluster import JAVA, StandaloneCluster, standalone
from benchmarks.quality.planted.containers import Guard, Killed, read_overhead_mb
from benchmarks.quality.planted.sized import SETTINGS, Planted, service_latency

_ROOT = Path(__file__).parents[3]
_UP_SECONDS = 300.0
_PATIENCE_SECONDS = 30.0  # until a killed process is gone
# With the usual five seconds, a window of five seconds would have one look at memory.
MEASURED = {**REQUIRED_SETTINGS, "spark.executor.metrics.pollingInterval": "200ms"}


@dataclass(frozen=True)
class ShortSettings:
    """Windows and evidence that are as short as the batches of a planted job."""

    window: float = 5.0
    evidence: float = 60.0
    a_day: int = 10


@dataclass
class ProgramRun:
    """The run of a program: windows of all launches with the oldest first, killed executors, and the action log."""

    windows: list[ExecutorWindow] = field(default_factory=list)
    killed: list[Killed] = field(default_factory=list)
    actions: list[SizeChange] = field(default_factory=list)
    ended: int | None = None  # exit code of a program that ended itself


def run_with_fixed_sizes(job: Planted, sizes: ExecutorSizes, folder: Path, seconds: float, window: float) -> ProgramRun:
    """Run the program with fixed sizes for some seconds from its first batch on."""
    with _job(job, sizes, folder) as (cluster, words, given):
        process = _started(words, folder)
        try:
            with Guard(cluster, read_overhead_mb(given, folder), time.time) as guard:
                _await(folder, process, seconds, lambda: False)
                return ProgramRun(_windows(folder, window), guard.killed, [], process.poll())
        finally:
            _end(process, folder)


def run_with_sizing(
    job: Planted,
    sizes: ExecutorSizes,
    folder: Path,
    seconds: float,
    short: ShortSettings,
    settled: Callable[[Sequence[SizeChange], float], bool] = lambda *_: False,
) -> ProgramRun:
    """Run the program under AuTraScale. `settled` ends the run, from its action log and the time."""
    with (
        _job(job, sizes, folder) as (cluster, words, given),
        serve_prometheus(lambda at: service_latency(folder, at)) as url,
    ):
        (folder / "job.yaml").write_text(job_file(job.application, short, url if job.fault == "service" else ""))
        command = [
            sys.executable,
            "-m",
            "autotrascale.cli.main",
            "run",
            "--apply",
            "--metrics",
            "none",
            "--store",
            f"sqlite:///{folder}/mlflow.db",
            str(folder / "job.yaml"),
            "--",
        ]
        process = _started([*command, *words], folder)
        try:
            with Guard(cluster, read_overhead_mb(given, folder), time.time) as guard:
                _await(folder, process, seconds, lambda: settled(_actions(folder, job.application), time.time()))
                return ProgramRun(
                    _windows(folder, short.window), guard.killed, _actions(folder, job.application), process.poll()
                )
        finally:
            _end(process, folder)


def job_file(name: str, short: ShortSettings, service: str) -> str:
    lines = [
        "version: 1",
        f"job: {name}",
        "program: {executors: {minimum: 1, maximum: 1}}",
        "target: {latency_seconds: 30}",
        f"sizes: {{window_seconds: {short.window}, evidence_hours: {short.evidence / 3600:.6f}, a_day: {short.a_day}}}",
    ]
    if service:
        lines.append(f'services: {{prices: {{prometheus: {{url: "{service}", query: "prices"}}}}}}')
    return "\n".join(lines) + "\n"


@contextmanager
def serve_prometheus(value: Callable[[float], float]) -> Iterator[str]:
    """Serve the latency of a service in the form of Prometheus."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = {
                name: float(many[0]) for name, many in parse_qs(urlsplit(self.path).query).items() if name != "query"
            }
            at, values = asked["start"], []
            while at <= asked["end"]:
                values.append([at, str(value(at))])
                at += asked["step"]
            body = json.dumps({"status": "success", "data": {"result": [{"metric": {}, "values": values}]}}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def _job(
    job: Planted, sizes: ExecutorSizes, folder: Path
) -> Iterator[tuple[StandaloneCluster, list[str], dict[str, str]]]:
    """Start a cluster, and yield it with the command line of the job and the settings in it."""
    (folder / "log").mkdir(parents=True)
    with standalone(folder / "cluster", cores=4, memory="6g") as cluster:
        nothing = ExecutorSizes(1, 0, sizes.cores + 1, 1)
        given = {
            **SETTINGS,
            **job.settings,
            **MEASURED,
            **choose_settings(nothing, sizes, cluster.url),
            "spark.eventLog.dir": (folder / "log").as_uri(),
            "spark.driver.extraJavaOptions": JAVA,
            "spark.log.level": "OFF",
        }
        words = [str(Path(sys.executable).with_name("spark-submit")), "--master", cluster.url]
        for name, value in given.items():
            words += ["--conf", f"{name}={value}"]
        program = Path(__file__).with_name("sized_program.py")
        yield cluster, [*words, str(program), job.application, str(folder)], given


def _started(words: Sequence[str], folder: Path) -> subprocess.Popen[bytes]:
    path = os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment: Mapping[str, str] = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": path}
    with (folder / "said").open("wb") as said:
        return subprocess.Popen(words, stdout=said, stderr=said, cwd=folder, start_new_session=True, env=environment)


def _await(folder: Path, process: subprocess.Popen[bytes], seconds: float, settled: Callable[[], bool]) -> None:
    """Wait for the first batch, and for some seconds from then on."""
    begun, until = folder / "begun", time.time() + _UP_SECONDS
    while time.time() < until and process.poll() is None and not (begun.exists() and settled()):
        if not begun.exists() and (folder / "checkpoint" / "commits" / "0").exists():
            begun.write_text(str(time.time()))
            until = time.time() + seconds
        time.sleep(0.5)
    if not begun.exists():
        raise RuntimeError(f"it did not come up: {(folder / 'said').read_text()[-2000:]}")


def _windows(folder: Path, seconds: float) -> list[ExecutorWindow]:
    lives, _ = read_executor_windows([str(folder / "log")], seconds)
    return [window for life in lives for window in life.windows]


def _actions(folder: Path, application: str) -> list[SizeChange]:
    path = folder / "decisions.db"
    if not path.exists():
        return []
    decisions = DecisionJournal(path)
    try:
        return list(action_log.read_actions(decisions, application))
    finally:
        decisions.close()


def _end(process: subprocess.Popen[bytes], folder: Path) -> None:
    """Kill all processes that are left."""
    for found in folder.glob("live/*/program-*"):
        with suppress(AuTraScaleError):
            ProgramProcess.find(found).kill()
    kill_session(process.pid)
    process.wait(_PATIENCE_SECONDS)
