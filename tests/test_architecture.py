"""The import rule: arrows point inward, and each room uses only the libraries it is allowed.

ARCHITECTURE.md has the same table in words. Imports under `if TYPE_CHECKING` count too: a type is a dependency.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "autotrascale"

MATHS = {"numpy", "scipy", "sklearn", "skopt", "threadpoolctl"}
# Room → the rooms it may import, and the libraries. A room may always import itself and the standard library.
ROOMS: dict[str, tuple[set[str], set[str]]] = {
    "domain": (set(), set()),
    "plan": ({"domain"}, MATHS),
    "reading": ({"domain"}, {"pydantic", "pydantic_core", "yaml"}),
    "files": (set(), set()),
    "monitor": ({"domain", "reading", "files"}, {"pydantic", "influxdb_client", "urllib3", "msgspec", "pyarrow"}),
    "analyze": ({"domain", "reading", "monitor"}, {"pyspark", "numpy", "pyarrow", "msgspec"}),
    "execute": (
        {"domain", "plan", "reading", "files", "monitor", "analyze"},
        {"numpy", "scipy", "pyspark", "py4j", "psutil", "pyarrow", "pandas"},
    ),
    "jobs": ({"domain", "execute"}, {"pyspark", "pyarrow", "pandas", "redis", "numpy"}),
    "knowledge": ({"domain", "plan", "reading", "files", "execute", "tuning"}, {"mlflow", "pandas", "numpy"}),
    "tuning": ({"domain", "plan", "execute"}, set()),
    "study": ({"domain", "plan", "views"}, set()),
    "loop": ({"domain", "plan", "execute"}, set()),
    "views": ({"domain", "plan", "tuning"}, {"numpy", "rich"}),
    "testing": (
        {"domain", "plan", "monitor", "execute", "reading", "tuning", "knowledge", "loop"},
        {"numpy", "pytest", "hypothesis", "pyspark", "psutil"},
    ),
    "service": (
        {"domain", "plan", "reading", "files", "monitor", "analyze", "execute", "knowledge"}
        | {"tuning", "loop", "views"},
        {"typer", "rich", "pydantic", "numpy", "mlflow", "yaml", "packaging", "redis"}
        | {"fastapi", "starlette", "uvicorn", "h11", "anyio", "prometheus_client", "jinja2", "markupsafe"},
    ),
}
# Never in the planning core, whatever they are imported for: the outside world.
FORBIDDEN_CALLS = {"time", "datetime", "random", "os", "pathlib", "socket", "subprocess", "threading", "logging"}


def modules(room: str) -> list[Path]:
    folder = PACKAGE / room
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [PACKAGE / f"{room}.py"]


def imports(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide which room they reach into"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def test_every_room_is_in_the_table() -> None:
    found = {p.name for p in PACKAGE.iterdir() if p.is_dir() and any(p.rglob("*.py"))}
    found |= {p.stem for p in PACKAGE.glob("*.py")} - {"__init__"}
    assert found == set(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_what_it_may(room: str) -> None:
    rooms, libraries = ROOMS[room]
    for path in modules(room):
        for name in imports(path):
            top, *rest = name.split(".")
            if top == "autotrascale":
                assert rest[0] in rooms | {room, "__version__"}, f"{path} imports {name}"
            elif top not in sys.stdlib_module_names | {"_typeshed"}:
                assert top in libraries, f"{path} imports {name}"


@pytest.mark.parametrize("room", ["domain", "plan"])
def test_the_planning_core_reaches_no_outside_world(room: str) -> None:
    for path in modules(room):
        reached = {name.split(".")[0] for name in imports(path)} & FORBIDDEN_CALLS
        assert not reached, f"{path} imports {reached}"


def test_nothing_imports_the_jobs() -> None:
    for room in set(ROOMS) - {"jobs"}:
        for path in modules(room):
            assert not any(name.startswith("autotrascale.execute.spark.jobs.wordcount") for name in imports(path)), path


def test_planning_loads_no_heavy_library() -> None:
    """What the table says of the sources, said once more of a running interpreter."""
    heavy = ["pyspark", "mlflow", "pydantic", "fastapi", "influxdb_client", "typer", "py4j"]
    wanted = "autotrascale.plan.search.ask_tell, autotrascale.tuning"
    code = f"import sys, {wanted}; print([m for m in {heavy} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
