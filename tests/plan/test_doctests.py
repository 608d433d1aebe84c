"""The examples in docstrings of the planning core are right."""

from __future__ import annotations

import doctest
import pkgutil
from importlib import import_module

import pytest

from autotrascale import plan

MODULES = [module.name for module in pkgutil.walk_packages(plan.__path__, f"{plan.__name__}.")]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_are_right(name: str) -> None:
    assert doctest.testmod(import_module(name)).failed == 0
