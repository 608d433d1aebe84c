"""The simulator's README describes the code: its YAML is a preset, and it lists all files."""

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


def test_the_section_shown_is_the_preset() -> None:
    (section,) = map(yaml.safe_load, re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL))
    assert validate(section["simulator"], SimulatedJob, place="README") == SPARK_STALLED.job


def test_every_file_is_explained() -> None:
    rows = re.findall(r"^\| (.*?) \|", PAGE, flags=re.MULTILINE)
    explained = {name for row in rows for name in re.findall(r"`(\w+\.py)`", row)}
    assert explained == {path.name for path in FOLDER.glob("*.py")} - {"__init__.py"}
