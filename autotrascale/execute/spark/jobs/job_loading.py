"""Import of a job by its name "module:attribute".

The attribute is a dataclass whose fields are the job's options, a job made by `@job`, or a ready job object.
"""

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
    """Import the job `name` and apply `options`.

    The current folder and PYTHONPATH are searched. Raises `InputError`, with `place` as the section of the job file.
    """
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        raise InputError(f"{place}.job", "is not of the form module:attribute", seen=name, remedy="name both")
    module = _import(module_name, place)
    try:
        imported = getattr(module, attribute)
    except AttributeError:
        raise InputError(f"{place}.job", f"module {module_name} has no {attribute!r}", remedy="correct it") from None
    return _apply_options(imported, options, name, place)


def _import(name: str, place: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(name)
    except Exception as error:
        # A user's module may raise anything while it is imported; the user sees one line.
        problem = f"cannot be imported: {type(error).__name__}: {error}"
        remedy = "check the name, and that its folder is the current one or in spark.python_path"
        raise InputError(f"{place}.job", problem, seen=name, remedy=remedy) from error
    if not name.startswith("autotrascale."):
        # Pickled by value: the workers of a cluster need not have the file.
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return module


def _apply_options(imported: object, options: Mapping[str, Any], name: str, place: str) -> StreamingJob:
    job: object = imported
    if isinstance(imported, FunctionJob):
        job = imported.with_options(options, place=f"{place}.options")
    elif isinstance(imported, type) and is_dataclass(imported):
        job = validation.validate(dict(options), imported, place=f"{place}.options")
    elif options:
        raise InputError(
            f"{place}.options", "are given, but the job has no options", seen=dict(options), remedy="remove them"
        )
    if not isinstance(job, StreamingJob):
        remedy = "make it a dataclass with name, topology and build, or decorate a function with @job"
        raise InputError(f"{place}.job", "is not a job", seen=name, remedy=remedy)
    return job
