"""The README of the workloads describes the code: its Python runs, and it lists all files."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks import workloads

FOLDER = Path(workloads.__path__[0])
PAGE = (FOLDER / "README.md").read_text(encoding="utf-8")


def test_the_python_shown_runs() -> None:
    names: dict[str, object] = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL):
        exec(code, names)
    assert {"case", "problem"} <= set(names)


def test_every_file_is_explained() -> None:
    rows = re.findall(r"^\| (.*?) \|", PAGE, flags=re.MULTILINE)
    explained = {name for row in rows for name in re.findall(r"`(\w+\.py)`", row)}
    assert explained == {path.name for path in FOLDER.glob("*.py")} - {"__init__.py"}
