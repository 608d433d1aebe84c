"""A job by its name, "module:attribute": a dataclass whose fields are options, what `@job` made, or a ready job."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from dataclasses import is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from pyspark import cloudpickle

from autotrascale import validation
from autotrascale.domain.errors import InputError
from autotrascale.execute.spark.jobs.flow import FunctionJob, StreamingJob


def load_job(name: str, options: Mapping[str, Any], *, place: str = "spark") -> StreamingJob:
    """Imports the module (this folder and PYTHONPATH are searched) and applies the options."""
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        raise InputError(f"{place}.job", "is not of the form module:attribute", seen=name, remedy="name both")
    module = _import(module_name, place)
    try:
        found = getattr(module, attribute)
    except AttributeError:
        raise InputError(f"{place}.job", f"module {module_name} has no {attribute!r}", remedy="correct it") from None
    return _ready(found, options, name, place)


def _import(name: str, place: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(name)
    except Exception as error:
        # A user's module may raise anything while it is imported; all of it is one line for the user.
        problem = f"cannot be imported: {type(error).__name__}: {error}"
        remedy = "check the name, and that its folder is the current one or in spark.python_path"
        raise InputError(f"{place}.job", problem, seen=name, remedy=remedy) from error
    if not name.startswith("autotrascale."):
        # Shipped by value: the workers of a cluster need not have the file.
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return module


def _ready(found: object, options: Mapping[str, Any], name: str, place: str) -> StreamingJob:
    made: object = found
    if isinstance(found, FunctionJob):
        made = found.with_options(options, place=f"{place}.options")
    elif isinstance(found, type) and is_dataclass(found):
        made = validation.validate(dict(options), found, place=f"{place}.options")
    elif options:
        raise InputError(
            f"{place}.options", "are given, but the job takes none", seen=dict(options), remedy="drop them"
        )
    if not isinstance(made, StreamingJob):
        remedy = "make it a dataclass with name, topology and build, or decorate a function with @job"
        raise InputError(f"{place}.job", "is no job", seen=name, remedy=remedy)
    return made
