"""Laws of the source tree: which folder may import which, and limits on names, sizes and dead code.

`FOLDERS` is the map of the package. ARCHITECTURE.md explains it in words. Imports inside functions and below
`if TYPE_CHECKING` count like any other import: a type is a dependency too.
"""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "autotrascale"
MAX_LINES = 400


def _parse_table(text: str) -> dict[str, list[str]]:
    """Return the names behind the colon by the name before it. An indented line continues the line above."""
    table: dict[str, list[str]] = {}
    for line in inspect.cleandoc(text).splitlines():
        name, colon, rest = line.rpartition(":")
        if colon:
            table[name] = []
        table[next(reversed(table))] += rest.split()
    return table


# Folder or top-level module: the folders of the package that it may import, besides itself. All arrows point upward.
FOLDERS = _parse_table(
    """
    domain:
    atomic_files:
    closeable:
    validation: domain
    plan:
    plan/sizing: domain plan
    plan/search: domain plan/sizing
    plan/migration: domain plan
    plan/policies: domain plan plan/sizing plan/search
    plan/control/observations: domain plan plan/sizing plan/policies
    plan/control/manager: domain plan plan/sizing plan/policies
    plan/control/autoscaling: domain plan plan/sizing plan/search plan/policies
    plan/control: domain plan plan/sizing plan/search plan/migration plan/policies plan/control/observations
        plan/control/manager plan/control/autoscaling
    plan/executor_size: domain plan plan/control/observations
    monitor/eventlog: domain
    monitor/stores: domain atomic_files closeable validation
    monitor: domain validation monitor/stores
    analyze: domain monitor/eventlog monitor
    analyze/archive: domain validation monitor/eventlog analyze
    analyze/critical: domain monitor/eventlog analyze
    analyze/live: domain monitor/eventlog analyze analyze/critical
    execute: domain
    execute/simulator: domain atomic_files closeable
    execute/spark:
    execute/spark/jobs: domain atomic_files validation plan/sizing monitor
    execute/spark/common: domain atomic_files validation plan/migration analyze execute/spark/jobs
    execute/spark/protocol: domain validation execute/spark/common
    execute/spark/clusters: domain plan execute/spark/common
    execute/spark/driver_agent: domain atomic_files plan/migration plan/executor_size monitor execute/spark/jobs
        execute/spark/common execute/spark/protocol execute/spark/clusters
    execute/spark/controller: domain atomic_files closeable validation plan/sizing plan/migration plan/executor_size
        monitor/eventlog monitor analyze analyze/critical analyze/live execute/spark/jobs execute/spark/common
        execute/spark/protocol execute/spark/clusters
    tuning: domain plan/sizing plan/search plan/policies execute
    loop: domain plan/search plan/control/autoscaling plan/control execute
    knowledge: domain atomic_files closeable validation plan plan/search plan/policies tuning
    knowledge/decision_journal: domain validation plan/sizing plan/search plan/policies plan/control/manager
        plan/control/autoscaling plan/control plan/executor_size knowledge
    views: domain plan plan/sizing plan/search plan/policies plan/control/observations plan/control plan/executor_size
        tuning knowledge/decision_journal
    views/plots: domain plan plan/search plan/control/observations plan/control tuning views
    study: plan/search views
    app: domain atomic_files closeable validation plan plan/sizing plan/search plan/migration plan/policies
        plan/control/observations plan/control/manager plan/control/autoscaling plan/control plan/executor_size
        monitor/eventlog monitor/stores monitor analyze analyze/archive analyze/critical analyze/live execute
        execute/simulator execute/spark/jobs execute/spark/common execute/spark/protocol execute/spark/controller
        tuning loop knowledge knowledge/decision_journal views views/plots
    app/doctor: domain monitor/stores analyze execute/spark/common execute/spark/controller knowledge app
    app/run_queue: domain atomic_files validation tuning knowledge views app
    app/scaffold: domain atomic_files validation plan monitor/eventlog app
    web/api: domain validation plan/search plan/policies plan/control plan/executor_size tuning knowledge
        knowledge/decision_journal views views/plots app app/run_queue
    web/pages: domain plan plan/search plan/control plan/executor_size tuning knowledge knowledge/decision_journal
        views views/plots app app/run_queue web/api
    web: domain app app/run_queue web/api web/pages
    cli: domain atomic_files validation plan plan/search plan/policies plan/control analyze/archive tuning knowledge
        knowledge/decision_journal views views/plots app app/doctor app/scaffold web
    testing: domain closeable plan/search plan/policies monitor/stores execute execute/spark/common
    """
)
# Top-level folder or module → the libraries that it may import besides the standard library.
LIBRARIES = {
    "domain": "",
    "atomic_files": "",
    "closeable": "",
    "validation": "pydantic pydantic_core yaml",
    "plan": "numpy scipy sklearn skopt threadpoolctl",
    "monitor": "pydantic influxdb_client urllib3 msgspec pyarrow",
    "analyze": "pyspark numpy pyarrow msgspec",
    "execute": "numpy pyspark py4j psutil pyarrow pandas",
    "tuning": "",
    "loop": "",
    "study": "",
    "knowledge": "mlflow pandas numpy",
    "views": "numpy rich",
    "app": "rich mlflow yaml packaging redis",
    "web": "fastapi starlette uvicorn h11 anyio pydantic prometheus_client jinja2 markupsafe mlflow",
    "cli": "typer",
    "testing": "pytest hypothesis pyspark psutil",
}
# The planning core must not reach the world outside, whatever the reason.
OUTSIDE_WORLD = {"time", "datetime", "random", "os", "pathlib", "socket", "subprocess", "threading", "logging"}
# Modules that another program starts by their file.
STARTED_BY_PATH = ("autotrascale.execute.spark.driver_agent.driver",)

_DOTTED_NAME = re.compile(r"autotrascale(?:\.\w+)+")


@dataclass(frozen=True)
class Module:
    """One source file of the package."""

    name: str
    path: Path
    folder: str

    @property
    def tree(self) -> ast.Module:
        return _parse(self.path)


@cache
def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def modules() -> dict[str, Module]:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        relative = path.relative_to(PACKAGE)
        name = ".".join(("autotrascale", *relative.with_suffix("").parts)).removesuffix(".__init__")
        folder = relative.parent.as_posix()
        found[name] = Module(name, path, relative.stem if folder == "." else folder)
    return found


def imported_names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"a relative import hides its folder: line {node.lineno}"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def strings(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def find_module(name: str) -> Module | None:
    """Return the module that defines `name`, or None. `name` may end in a class or function."""
    while name and name not in modules():
        name = name.rpartition(".")[0]
    return modules().get(name)


def folder_imports() -> Iterator[tuple[Module, Module]]:
    """Yield each import across folders. The version number of the package does not count."""
    for module in modules().values():
        for name in imported_names(module.tree):
            imported = find_module(name)
            if imported is None or name == "autotrascale.__version__":
                continue
            if imported.folder != module.folder:
                yield module, imported


def library_imports(tree: ast.Module) -> set[str]:
    tops = {name.partition(".")[0] for name in imported_names(tree)}
    return tops - set(sys.stdlib_module_names) - {"_typeshed", "autotrascale"}


def verbs() -> set[str]:
    """Return the modules that `autotrascale.cli.main` loads by name."""
    for node in modules()["autotrascale.cli.main"].tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "VERBS":
            return set(ast.literal_eval(node.value))
    raise AssertionError("autotrascale.cli.main names no VERBS")


def python_files(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def test_every_folder_is_in_the_table() -> None:
    assert {module.folder for module in modules().values()} - {"__init__"} == set(FOLDERS)
    assert {name.partition("/")[0] for name in FOLDERS} == set(LIBRARIES)


def test_all_arrows_of_the_table_point_upward() -> None:
    above: set[str] = set()
    for folder, allowed in FOLDERS.items():
        assert set(allowed) <= above, folder
        above.add(folder)


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_imports_only_what_the_table_allows(folder: str) -> None:
    allowed = FOLDERS[folder]
    wrong = {
        f"{module.name} imports {imported.name}"
        for module, imported in folder_imports()
        if module.folder == folder and imported.folder not in allowed
    }
    assert not wrong


def test_no_arrow_of_the_table_is_unused() -> None:
    used = {(module.folder, imported.folder) for module, imported in folder_imports()}
    allowed = {(folder, name) for folder, names in FOLDERS.items() for name in names}
    assert not allowed - used


def test_no_folders_import_each_other_in_a_circle() -> None:
    edges: dict[str, set[str]] = {}
    for module, imported in folder_imports():
        edges.setdefault(module.folder, set()).add(imported.folder)
    reachable = {folder: _reachable(edges, folder) for folder in edges}
    circles = {folder for folder, others in reachable.items() if folder in others}
    assert not circles


def _reachable(edges: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    waiting = set(edges.get(start, ()))
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting |= edges.get(name, set())
    return seen


@pytest.mark.parametrize("area", LIBRARIES)
def test_an_area_imports_only_its_libraries(area: str) -> None:
    for module in modules().values():
        if module.folder.partition("/")[0] == area:
            assert library_imports(module.tree) <= set(LIBRARIES[area].split()), module.path


@pytest.mark.parametrize("area", ["domain", "plan"])
def test_the_planning_core_does_not_reach_the_outside_world(area: str) -> None:
    for module in modules().values():
        if module.folder.partition("/")[0] == area:
            reached = {name.partition(".")[0] for name in imported_names(module.tree)} & OUTSIDE_WORLD
            assert not reached, module.path


def test_planning_loads_no_heavy_library() -> None:
    """The import table checks the sources; this test checks a running interpreter."""
    heavy = ["pyspark", "mlflow", "pydantic", "fastapi", "influxdb_client", "typer", "py4j"]
    wanted = [name for name, module in modules().items() if module.folder.partition("/")[0] in ("plan", "tuning")]
    code = f"import sys, {', '.join(wanted)}; print([m for m in {heavy} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_the_domain_names_no_other_module_in_a_string() -> None:
    for module in modules().values():
        if module.folder != "domain":
            continue
        named = {name for text in strings(module.tree) for name in _DOTTED_NAME.findall(text)}
        assert not {name for name in named if find_module(name) is not None and name != "autotrascale"}, module.path


def test_a_class_name_stands_once_in_the_package() -> None:
    names: Counter[str] = Counter()
    for module in modules().values():
        names.update(node.name for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef))
    assert not sorted(name for name, count in names.items() if count > 1)


def test_no_file_is_longer_than_the_limit() -> None:
    lengths = {module.name: len(module.path.read_text(encoding="utf-8").splitlines()) for module in modules().values()}
    assert not {name: length for name, length in lengths.items() if length > MAX_LINES}


def test_every_module_is_reached() -> None:
    """From a verb, a public name, a module that is started by name or path, or the helpers for tests.

    A module that other code names in a string, as in `python -m autotrascale.x`, counts as reached by that code.
    """
    references = {
        module.name: {*imported_names(module.tree), *(n for s in strings(module.tree) for n in _DOTTED_NAME.findall(s))}
        for module in modules().values()
    }
    waiting = ["autotrascale", "autotrascale.cli.main", *(f"autotrascale.cli.{verb}" for verb in verbs())]
    waiting += [*STARTED_BY_PATH, *(name for name in modules() if name.startswith("autotrascale.testing"))]
    reached: set[str] = set()
    while waiting:
        module = find_module(waiting.pop())
        if module is None or module.name in reached:
            continue
        reached.add(module.name)
        waiting += [*references[module.name], module.name.rpartition(".")[0]]
    assert not sorted(set(modules()) - reached)


def test_every_verb_has_its_module_and_every_module_of_a_verb_is_named() -> None:
    registering = {
        module.name.rpartition(".")[2]
        for module in modules().values()
        if module.folder == "cli"
        and any(isinstance(node, ast.FunctionDef) and node.name == "register" for node in module.tree.body)
    }
    assert registering == verbs()


def test_the_package_imports_no_other_tree_of_the_repository() -> None:
    trees = {"tests", "benchmarks", "experiments", "examples", "scripts"}
    for module in modules().values():
        assert not {name.partition(".")[0] for name in imported_names(module.tree)} & trees, module.path


def test_benchmarks_import_no_experiment() -> None:
    for path in python_files("benchmarks"):
        assert not [name for name in imported_names(_parse(path)) if name.startswith("experiments")], path


def test_experiments_import_only_the_workloads_of_benchmarks() -> None:
    for path in python_files("experiments"):
        benchmarks = [name for name in imported_names(_parse(path)) if name.startswith("benchmarks.")]
        assert not [name for name in benchmarks if not name.startswith("benchmarks.workloads.")], path
