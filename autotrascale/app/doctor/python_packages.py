"""Python and its packages, extra by extra, as this very installation declares them."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
import tomllib
from functools import partial
from pathlib import Path

from packaging.requirements import Requirement

from autotrascale.app.doctor.checks import Check, CheckContext, Finding, ok, problem, warning
from autotrascale.app.doctor.redis import address
from autotrascale.monitor.stores.store_settings import InfluxSettings

CORE = "core"
_PROJECT = Path(__file__).parents[3] / "pyproject.toml"
_NOT_FOR_USERS = {"all", "dev", "docs", "peers"}


def checks() -> dict[str, Check]:
    extras = [extra for extra in _declared() if extra not in _NOT_FOR_USERS]
    return {"python": interpreter, **{f"packages: {extra}": partial(packages, extra=extra) for extra in extras}}


def interpreter(case: CheckContext) -> Finding:  # noqa: ARG001 - as all checks are called
    return ok(f"Python {platform.python_version()}, {sys.executable}")


def packages(case: CheckContext, *, extra: str) -> Finding:
    wrong = [said for requirement in _declared()[extra] if (said := _what_is_wrong(requirement))]
    if not wrong:
        return ok("all there")
    name = "autotrascale" if extra == CORE else f"'autotrascale[{extra}]'"
    return (problem if _is_needed(extra, case) else warning)("; ".join(wrong), f"pip install {name}")


def _declared() -> dict[str, list[Requirement]]:
    """What each extra asks for. In a checkout the project file counts: what pip once read of it ages."""
    if _PROJECT.is_file():
        said = tomllib.loads(_PROJECT.read_text(encoding="utf-8"))["project"]
        lists = {CORE: said["dependencies"], **said["optional-dependencies"]}
        return {extra: [Requirement(line) for line in lines] for extra, lines in lists.items()}
    metadata = importlib.metadata.metadata("autotrascale")
    every = [Requirement(line) for line in importlib.metadata.requires("autotrascale") or []]
    found = {CORE: [each for each in every if each.marker is None]}
    for extra in metadata.get_all("Provides-Extra") or []:
        found[extra] = [each for each in every if each.marker is not None and each.marker.evaluate({"extra": extra})]
    return found


def _what_is_wrong(requirement: Requirement) -> str:
    try:
        version = importlib.metadata.version(requirement.name)
    except importlib.metadata.PackageNotFoundError:
        return f"{requirement.name} is missing"
    if requirement.specifier.contains(version, prereleases=True):
        return ""
    return f"{requirement.name} is {version}, and {requirement.specifier} is needed"


def _is_needed(extra: str, case: CheckContext) -> bool:
    match extra:
        case "core":
            return True
        case "spark":
            return case.job is not None and case.job.spark is not None
        case "redis":
            return address(case) is not None
        case "influxdb":
            return isinstance(case.metrics, InfluxSettings)
        case _:
            return False
