"""What the README shows is run: its Python as it stands, and its commands but for those that need Spark."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.workloads.presets import PRESETS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    (autotrascale .*)$", README, re.MULTILINE)


def measure(k: tuple[int, ...]) -> float:
    """The simulated word count of the paper, which the README's floor and target are those of."""
    return float(PRESETS["wordcount"].latency(k)[0])


def test_the_python_blocks_run() -> None:
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert blocks
    names: dict[str, Any] = {"measure": measure, "print": lambda *_: None}
    for block in blocks:
        exec(block, names)
    assert names["study"].answer.trusted


@pytest.mark.parametrize("command", [c for c in COMMANDS if "simulated" in c or "decide" in c])
def test_a_command_runs(command: str, tmp_path: Path) -> None:
    words = [str(ROOT / word) if (ROOT / word).is_file() else word for word in shlex.split(command)[1:]]
    code = "from autotrascale.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", code, *words], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def test_the_guide_to_models_shows_the_trials_that_a_warm_start_saves(tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "how-to" / "models.md").read_text(encoding="utf-8")
    section = guide.partition("## 2. ")[2].partition("\n## ")[0]
    output = []
    for command in re.findall(r"^    autotrascale (.*)$", section, re.MULTILINE):
        words = [str(ROOT / word) if (ROOT / word).is_file() else word for word in shlex.split(command)]
        code = "from autotrascale.cli.main import main; main()"
        done = subprocess.run([sys.executable, "-c", code, *words], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        output.append(done)
    shown = re.findall(r"^    (.*\S)$", section, re.MULTILINE)
    written = f"{output[1].stdout}{output[1].stderr}".splitlines()
    assert len(shown) > 3
    assert {line for line in shown if not line.startswith(("autotrascale ", "…"))} <= set(written)
    assert "models:/" not in output[0].stderr.partition("floor")[0]


def test_every_file_it_names_exists() -> None:
    for name in re.findall(r"\]\(([^)#]+)\)", README) + re.findall(r"(?:configs|examples)/[\w./-]+", README):
        assert (ROOT / name).exists(), name


def test_every_verb_it_names_is_there() -> None:
    helped = subprocess.run(
        [sys.executable, "-c", "from autotrascale.cli.main import main; main()", "--help"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for verb in re.findall(r"`autotrascale ([a-z]+)", README):
        assert f" {verb} " in helped, verb
