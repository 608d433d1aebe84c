"""The simulator's page says what the code does: its YAML is read, its Python runs, its files exist."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from autotrascale.execute import simulator
from autotrascale.execute.simulator.simulated_job import SimulatedJob
from autotrascale.validation import validate
from benchmarks.workloads.presets import SPARK_STALLED

FOLDER = Path(simulator.__file__).parent
PAGE = (FOLDER / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


def test_the_section_shown_is_the_preset() -> None:
    (section,) = map(yaml.safe_load, blocks("yaml"))
    assert validate(section["simulator"], SimulatedJob, place="README") == SPARK_STALLED.job


def test_the_python_shown_runs() -> None:
    names: dict[str, object] = {}
    for code in blocks("python"):
        exec(code, names)
    assert {"case", "problem"} <= set(names)


def test_every_file_is_explained() -> None:
    explained = set(re.findall(r"`(\w+\.py)`", PAGE))
    assert explained == {path.name for path in FOLDER.glob("*.py")} - {"__init__.py"}
