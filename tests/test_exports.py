"""What `import autotrascale` gives: names that resolve on use, and cost nothing until then."""

from __future__ import annotations

import subprocess
import sys

import pytest

import autotrascale

HEAVY = ["numpy", "scipy", "sklearn", "pyspark", "py4j", "mlflow", "pydantic", "typer"]


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize("name", autotrascale.__all__)
def test_every_name_resolves(name: str) -> None:
    assert getattr(autotrascale, name) is not None


def test_a_name_that_is_none_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Flaw'"):
        autotrascale.Flaw  # type: ignore[attr-defined]  # noqa: B018


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
