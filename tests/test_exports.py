"""The public names: they resolve on use, cost nothing until then, and are documented and typed."""

from __future__ import annotations

import inspect
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import autotrascale

HEAVY = ["numpy", "scipy", "sklearn", "pyspark", "py4j", "mlflow", "pydantic", "typer"]


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize("name", autotrascale.__all__)
def test_every_name_resolves(name: str) -> None:
    assert getattr(autotrascale, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Flaw'"):
        autotrascale.Flaw  # type: ignore[attr-defined]  # noqa: B018


def test_dir_lists_the_public_names_before_they_are_loaded() -> None:
    code = (
        "import sys, autotrascale; print(set(autotrascale.__all__) <= set(dir(autotrascale)), 'numpy' in sys.modules)"
    )
    assert python(code) == "True False"


def test_help_of_the_study_documents_every_parameter_and_member() -> None:
    described = inspect.getdoc(autotrascale.Study) or ""
    for name in inspect.signature(autotrascale.Study).parameters:
        assert f"{name}: " in described, name
    for name, member in inspect.getmembers(autotrascale.Study):
        if name.startswith("_"):
            continue
        text = inspect.getdoc(member) or ""
        assert text, name
        if inspect.isfunction(member):
            for parameter in set(inspect.signature(member).parameters) - {"self"}:
                assert f"{parameter}: " in text, f"{name}({parameter})"


def test_public_objects_print_their_main_values() -> None:
    study = autotrascale.Study(floor=(3, 4), p_max=9, latency_target=0.18)
    study.tell((3, 4), latency=0.2)
    assert repr(study).startswith("Study(floor=(3, 4), p_max=(9, 9), latency_target=0.18, ")
    assert "rate=100, floor=(3, 4), p_max=(9, 9), latency_target=0.18" in repr(study.model(100))
    assert repr(autotrascale.Operator(stateful=True)) == "Operator(upstream=(), stateful=True, minimum=1, maximum=None)"


def test_an_editable_install_is_a_path_that_type_checkers_follow(tmp_path: Path) -> None:
    root = Path(__file__).parent.parent
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(root / name, tmp_path)
    shutil.copytree(root / "autotrascale", tmp_path / "autotrascale", ignore=shutil.ignore_patterns("__pycache__"))
    code = "import sys; from setuptools import build_meta; print(build_meta.build_editable(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    with zipfile.ZipFile(tmp_path / done.stdout.split()[-1]) as wheel:
        (path_file,) = [name for name in wheel.namelist() if name.endswith(".pth")]
        assert wheel.read(path_file).decode().strip() == str(tmp_path)


def test_importing_it_loads_nothing_heavy() -> None:
    assert python(f"import sys, autotrascale; print([m for m in {HEAVY} if m in sys.modules])") == "[]"


WITHOUT_PYSPARK = """
import sys
sys.modules["pyspark"] = None
import autotrascale
from autotrascale import BenefitModel, Operator, Study
for name in ("Flow", "Query", "job"):
    try:
        getattr(autotrascale, name)
    except ImportError as error:
        print(error)
"""


def test_without_pyspark_planning_works_and_jobs_say_what_to_install() -> None:
    says = "needs pyspark, which is not installed: pip install 'autotrascale[spark]'"
    assert python(WITHOUT_PYSPARK).splitlines() == [f"autotrascale.{name} {says}" for name in ("Flow", "Query", "job")]
