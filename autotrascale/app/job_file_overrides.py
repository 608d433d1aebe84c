"""Settings of a job from the environment, over what its file says: `AUTOTRASCALE_JOB__TARGET__LATENCY_SECONDS=2`.

Two underscores go one level down, capitals do not matter, and a value is read as YAML. An option of the command line
counts for more than the environment, and the environment for more than the file: a file is written once, an environment
belongs to where it is used.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml

from autotrascale.app import environment_variables
from autotrascale.domain.errors import InputError
from autotrascale.validation import check_size, read_plain, validate

T = TypeVar("T")

PREFIX = environment_variables.JOB


def read_with_overrides(path: Path, kind: type[T]) -> T:
    """A job's file as `kind`, with what the environment says. Who is told that something is wrong is told of both."""
    said = list_override_names()
    place = f"{path} with {', '.join(said)}" if said else str(path)
    content = apply_overrides(read_plain(path))
    check_size(content, place)
    return validate(content, kind, place=place)


def list_override_names(environment: Mapping[str, str] = os.environ) -> list[str]:
    return sorted(name for name in environment if name.startswith(PREFIX))


def apply_overrides(content: object, environment: Mapping[str, str] = os.environ) -> object:
    """A job file's content with what the environment says."""
    if not isinstance(content, dict):
        return content
    changed: dict[str, Any] = dict(content)
    for name in list_override_names(environment):
        path = name.removeprefix(PREFIX).split("__")
        if not all(path):
            raise InputError(name, "names no setting", remedy=f"write {PREFIX}TARGET__LATENCY_SECONDS")
        _put(changed, path, _value(name, environment[name]), name)
    return changed


def _put(within: dict[str, Any], path: list[str], value: object, name: str) -> None:
    """Into copies: what a file says in several places by an alias is not changed in all of them."""
    key = next((key for key in within if str(key).lower() == path[0].lower()), path[0].lower())
    if len(path) == 1:
        within[key] = value
        return
    inner = within.get(key)
    if inner is not None and not isinstance(inner, dict):
        raise InputError(name, f"goes into {key}, which is no section", remedy="take a part of the name away")
    within[key] = dict(inner or {})
    _put(within[key], path[1:], value, name)


def _value(name: str, text: str) -> object:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        raise InputError(name, "is no YAML value", remedy="put it between quotes") from None
