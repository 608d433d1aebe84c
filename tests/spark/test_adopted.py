"""Promises to a program whose queries are rescaled. The checks are in `adopted_checks.py`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.adopted_checks import CHECKS

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the traceback of each check, empty if it passed."""
    folder = tmp_path_factory.mktemp("adopted")
    command = [sys.executable, str(Path(__file__).with_name("adopted_checks.py")), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('["')]
    assert done.returncode == 0, done.stderr[-2000:]
    assert re.search(r"^autotrascale: queries that started before attach\(\) .*: before$", done.stderr, re.MULTILINE)
    return dict(lines)


@pytest.mark.parametrize("name", CHECKS)
def test_a_program_that_attached_us(wrong: dict[str, str], name: str) -> None:
    assert wrong[name] == ""
