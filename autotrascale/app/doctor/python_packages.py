"""Python, and the packages of each extra that this installation declares."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
import tomllib
from functools import partial
from pathlib import Path

from packaging.requirements import Requirement

from autotrascale.app.doctor.checks import Check, CheckContext, Finding, ok, problem, warning
from autotrascale.app.doctor.redis import find_address
from autotrascale.monitor.stores.store_settings import InfluxSettings

CORE = "core"
_PROJECT = Path(__file__).parents[3] / "pyproject.toml"
_NOT_FOR_USERS = {"all", "dev", "docs", "peers"}


def checks() -> dict[str, Check]:
    extras = [extra for extra in _read_requirements() if extra not in _NOT_FOR_USERS]
    return {"python": interpreter, **{f"packages: {extra}": partial(packages, extra=extra) for extra in extras}}


def interpreter(context: CheckContext) -> Finding:  # noqa: ARG001 - signature of checks
    return ok(f"Python {platform.python_version()}, {sys.executable}")


def packages(context: CheckContext, *, extra: str) -> Finding:
    wrong = [fault for requirement in _read_requirements()[extra] if (fault := _find_fault(requirement))]
    if not wrong:
        return ok("all are installed")
    name = "autotrascale" if extra == CORE else f"'autotrascale[{extra}]'"
    return (problem if _is_required(extra, context) else warning)("; ".join(wrong), f"pip install {name}")


def _read_requirements() -> dict[str, list[Requirement]]:
    """Return the requirements of each extra. In a checkout pyproject.toml is newer than the installed metadata."""
    if _PROJECT.is_file():
        project = tomllib.loads(_PROJECT.read_text(encoding="utf-8"))["project"]
        lists = {CORE: project["dependencies"], **project["optional-dependencies"]}
        return {extra: [Requirement(line) for line in lines] for extra, lines in lists.items()}
    metadata = importlib.metadata.metadata("autotrascale")
    every = [Requirement(line) for line in importlib.metadata.requires("autotrascale") or []]
    found = {CORE: [each for each in every if each.marker is None]}
    for extra in metadata.get_all("Provides-Extra") or []:
        found[extra] = [each for each in every if each.marker is not None and each.marker.evaluate({"extra": extra})]
    return found


def _find_fault(requirement: Requirement) -> str:
    try:
        version = importlib.metadata.version(requirement.name)
    except importlib.metadata.PackageNotFoundError:
        return f"{requirement.name} is missing"
    if requirement.specifier.contains(version, prereleases=True):
        return ""
    return f"{requirement.name} is {version}, but {requirement.specifier} is required"


def _is_required(extra: str, context: CheckContext) -> bool:
    match extra:
        case "core":
            return True
        case "spark":
            return context.job is not None and context.job.spark is not None
        case "redis":
            return find_address(context) is not None
        case "influxdb":
            return isinstance(context.metrics, InfluxSettings)
        case _:
            return False
