"""A Spark session for all tests: the engine is started once and runs all flavours of the test job."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from autotrascale.analyze.stability import StabilityRules
from autotrascale.domain.trial import Trial
from autotrascale.execute.spark.common.spark_settings import SparkSettings, SparkTimeouts
from autotrascale.execute.spark.controller.trial_engine import SparkEngine

HERE = Path(__file__).parent
QUICK = StabilityRules(window_seconds=3.0, min_batches=4, tolerance=0.25, max_seconds=40.0)
# Short-lived JVMs on few cores: compiling everything thoroughly would take longer than the tests do.
BRISK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
PATIENCE = SparkTimeouts(start=90.0, command=60.0, first_batch=60.0, finish_batch=20.0)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "spark: runs a real Spark; seconds, not milliseconds")


@dataclass
class Bench:
    """The shared engine, and the file with the flavour of the next trial."""

    engine: SparkEngine
    flavour: Path

    def run(self, k: tuple[int, ...], rate: float, **flavour: Any) -> Trial:
        self.flavour.write_text(json.dumps(flavour))
        return self.engine.run(self.engine.topology.named(k), {"source": rate})


def settings(folder: Path, **changes: Any) -> SparkSettings:
    """Return settings of the test job, which reads its flavour from `folder` at each start."""
    (folder / "flavour.json").write_text("{}")
    changes["conf"] = {"spark.driver.extraJavaOptions": BRISK, **changes.get("conf", {})}
    return SparkSettings(
        **{
            "job": "flavoured:Flavoured",
            "options": {"flavour": str(folder / "flavour.json")},
            "python_path": (str(HERE),),
            "master": "local[8]",
            "prime_batches": 2,
            "window": QUICK,
            "patience": PATIENCE,
            "work_dir": str(folder),
            **changes,
        }
    )


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("spark")
    with SparkEngine(settings(folder)) as engine:
        yield Bench(engine, folder / "flavour.json")
