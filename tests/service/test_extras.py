"""Without an extra's packages a verb that needs them says so in one line, and the others work."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from autotrascale.service.extras import _EXTRA_OF, _EXTRAS

ROOT = Path(__file__).parents[2]
LOGS = ROOT / "tests" / "analyze" / "logs"
# What is None among the modules cannot be imported, and is not found either: as in an environment without it.
MAIN = "import sys; sys.modules.update(dict.fromkeys({modules!r})); from autotrascale.service.cli import main; main()"


def run(without: list[str], folder: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    modules = [module for extra in without for module in _EXTRAS[extra]]
    code = MAIN.format(modules=modules)
    command = [sys.executable, "-c", code, *(str(each) for each in arguments)]
    environment = {name: value for name, value in os.environ.items() if name != "AUTOTRASCALE_STORE"}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, timeout=120)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["tune", ROOT / "configs" / "wordcount.yaml"], "'autotrascale[spark]'"),
        (["snapshot", "--event-log", LOGS / "plain"], "'autotrascale[spark]'"),
        (["snapshot", "--event-log", "nowhere"], "'autotrascale[spark]'"),
        (["autoscale", ROOT / "configs" / "wordcount-live.yaml"], "'autotrascale[spark]'"),
        (
            ["autoscale", ROOT / "configs" / "wordcount-live.yaml", "--advise", "--event-log", LOGS / "marked"],
            "'autotrascale[spark]'",
        ),
        (["serve"], "'autotrascale[service]'"),
        (["runs", "ls"], "--store: is none"),
        (["models", "ls"], "--store: is none"),
        (["explain", "last"], "--store: is none"),
        (["models", "ls", "--store", "sqlite:///x.db"], "'autotrascale[mlflow]'"),
    ],
    ids=lambda value: " ".join(str(word) for word in value[:2]) if isinstance(value, list) else "",
)
def test_what_is_missing_is_one_line(arguments: list[str | Path], says: str, tmp_path: Path) -> None:
    done = run(["spark", "mlflow", "redis", "influxdb", "service"], tmp_path, *arguments)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    *notes, last = done.stderr.splitlines()
    assert last.startswith("autotrascale: ")
    assert says in last
    assert not [line for line in notes if line.startswith("autotrascale: ")]
    assert done.stdout == ""


def test_what_needs_none_of_it_works(tmp_path: Path) -> None:
    everything = list(_EXTRAS)
    assert run(everything, tmp_path, "decide", ROOT / "examples" / "snapshot.json").returncode == 0
    looked = run(everything, tmp_path, "doctor")
    assert looked.returncode in (0, 1)
    assert "Traceback" not in looked.stderr + looked.stdout
    assert "packages: core" in looked.stdout


def test_the_table_is_what_the_project_declares() -> None:
    """Each module that may be missing comes with the extra that is named."""
    declared = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for module, extra in _EXTRA_OF.items():
        package = module.replace("_", "-")
        section = next(line for line in declared.splitlines() if line.startswith(f"{extra} = ["))
        brought_along = {"py4j", "urllib3", "starlette", "anyio", "h11"}
        assert package in section or module in brought_along, (module, extra)


def test_output_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "autotrascale.service.cli", "decide", str(ROOT / "examples" / "snapshot.json")],
            stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "No space left on device; free some room" in done.stderr
