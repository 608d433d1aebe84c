"""Which extra brings what is missing; `tests/test_wheel.py` has an environment without any of them."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from autotrascale.app.optional_packages import CORE_MODULES, EXTRA_BY_MODULE

ROOT = Path(__file__).parents[2]


def test_the_table_is_what_the_project_declares() -> None:
    """Each module that may be missing comes with the extra that is named."""
    declared = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for module, extra in EXTRA_BY_MODULE.items():
        package = module.replace("_", "-")
        section = next(line for line in declared.splitlines() if line.startswith(f"{extra} = ["))
        brought_along = {"py4j", "urllib3", "starlette", "anyio", "h11"}
        assert package in section or module in brought_along, (module, extra)


def test_what_comes_with_the_package_is_what_it_declares() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    called = {"scikit-learn": "sklearn", "scikit-optimize": "skopt", "PyYAML": "yaml"}
    names = {re.split(r"[<>=]", line)[0] for line in declared}
    assert {called.get(name, name) for name in names} | {"pydantic_core"} == set(CORE_MODULES)


def test_output_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "autotrascale.cli.main", "decide", str(ROOT / "examples" / "snapshot.json")],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
        )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "No space left on device" in done.stderr
