"""Stores for tests. MLflow needs seconds to make an empty database, so it is made once and then copied."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

from autotrascale.domain.job import Job
from autotrascale.domain.target import Target
from autotrascale.domain.topology import Operator, Topology
from autotrascale.execute.simulator.engine import SimulatorEngine
from autotrascale.execute.simulator.simulated_job import SimulatedJob, SimulatedOperator
from autotrascale.knowledge.mlflow_store import MlflowStore
from autotrascale.knowledge.model_card import ModelCard
from autotrascale.knowledge.run_json import RunOpening
from autotrascale.plan.search.benefit_model import BenefitModel
from autotrascale.plan.sizing.sizing import Sizing
from autotrascale.tuning import Outcome, TrialJournal, TuningSettings, tune

START_SECONDS = 90.0

# Small enough to be tuned in a third of a second, and so close to its target that a second window is needed.
CONTENT: dict[str, Any] = {
    "version": 1,
    "job": "small",
    "p_max": 24,
    "source_rates": {"source": 300_000.0},
    "operators": {"source": {}, "count": {"upstream": ["source"], "stateful": True}},
    "target": {"latency_seconds": 0.07},
    "tuning": {"seed": 8},
    "simulator": {
        "operators": {
            "source": {"service_seconds": 8e-6, "hop_seconds": 0.02, "coherency": 0.01, "crosstalk": 0.0003},
            "count": {"service_seconds": 2e-5, "hop_seconds": 0.02, "coherency": 0.01},
        },
        "buffer_records": 460.0,
        "noise": 0.05,
    },
}
_SIMULATED = CONTENT["simulator"]
SIMULATED = SimulatedJob(
    {name: SimulatedOperator(**values) for name, values in _SIMULATED["operators"].items()},
    buffer_records=_SIMULATED["buffer_records"],
    noise=_SIMULATED["noise"],
)
TOPOLOGY = Topology({"source": Operator(), "count": Operator(("source",), True)})
SETTINGS = TuningSettings(seed=8)


def job(name: str = "small", rate: float = 300_000.0, latency: float = 0.07) -> Job:
    return Job(name, TOPOLOGY, 24, {"source": rate}, Target(latency))


def engine(done: int = 0, seed: int = 8) -> SimulatorEngine:
    opened = SimulatorEngine(SIMULATED, TOPOLOGY, p_max=24, seed=seed, name="small")
    opened.runs = done
    return opened


def opening(tuned: Job, settings: TuningSettings = SETTINGS) -> RunOpening:
    return RunOpening(tuned, "simulator", True, settings, None, "/nowhere/job.yaml", {"job": tuned.name})


def tuned(at: Job, journal: TrialJournal | None = None, **given: Any) -> Outcome:
    return tune(at, engine(), SETTINGS, journal=journal, **given)


def learned(at: Job, **card: Any) -> tuple[BenefitModel, ModelCard]:
    """Return a model and its card, from two made-up runs instead of a tuning run."""
    from autotrascale import Study

    sizing = Sizing.of_loads((4, 8), (24, 24), execution="pipelined")
    study = Study((4, 8), 24, at.target.latency_seconds, sizing=sizing)
    study.tell((4, 8), latency=0.09)
    study.tell((5, 10), latency=0.06)
    model = study.model(at.rate)
    return model, replace(ModelCard.for_model(model, at, simulated=True, run_id="0" * 32), **card)


def job_file(folder: Path, name: str = "small", **changed: Any) -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump({**CONTENT, "job": name, **changed}, sort_keys=False))
    return path


def template(config: pytest.Config) -> Path:
    """Return the database of an empty store, which is kept between test sessions."""
    folder = Path(config.cache.mkdir(f"mlflow-{version('mlflow')}")) if config.cache else Path("/nowhere")
    path = folder / "empty.db"
    if not path.exists():
        fresh = folder / f"{os.getpid()}.db"
        MlflowStore(f"sqlite:///{fresh}").client  # noqa: B018 - it makes the file
        fresh.replace(path)
    return path


@contextmanager
def quick_folder() -> Iterator[Path]:
    """Yield a folder in memory where the machine has one, because a database syncs its disk often."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder)


def embedded(template: Path, folder: Path) -> MlflowStore:
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(template, folder / "mlflow.db")
    return MlflowStore(f"sqlite:///{folder / 'mlflow.db'}")


@contextmanager
def served(template: Path, folder: Path) -> Iterator[str]:
    """Run a real server on loopback and yield its address."""
    shutil.copy(template, folder / "mlflow.db")
    port = _free_port()
    command = [
        sys.executable,
        "-m",
        "mlflow",
        "server",
        "--backend-store-uri",
        f"sqlite:///{folder / 'mlflow.db'}",
        "--artifacts-destination",
        str(folder / "artifacts"),
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--workers",
        "1",
    ]
    environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
    with (folder / "server.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, env=environment)
    try:
        uri = f"http://127.0.0.1:{port}"
        _wait(uri, process, folder / "server.log")
        yield uri
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _wait(uri: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{uri}/health", timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"no server at {uri}: {log.read_text()[-2000:]}")


def forgive_mlflow(items: list[pytest.Item], folder: Path) -> None:
    """Ignore MLflow's own deprecation warnings: it calls parts of SQLAlchemy that will be removed."""
    for item in items:
        if item.path.is_relative_to(folder):
            item.add_marker(pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning"))
