"""Override keys of a job file by environment variables: `AUTOTRASCALE_JOB__TARGET__LATENCY_SECONDS=2`.

Two underscores separate the levels of a key. Case is ignored. A value is read as YAML.
Precedence: command line, then environment, then file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml

from autotrascale.app.environment_variables import JOB as PREFIX
from autotrascale.domain.errors import InputError
from autotrascale.validation import check_size, read_plain, validate

T = TypeVar("T")


def read_with_overrides(path: Path, kind: type[T]) -> T:
    """Return the file at `path` as `kind`, with the overrides of the environment.

    Raises:
        InputError: names the file and the variables that were applied.
    """
    names = list_override_names()
    place = f"{path} with {', '.join(names)}" if names else str(path)
    content = apply_overrides(read_plain(path))
    check_size(content, place)
    return validate(content, kind, place=place)


def list_override_names(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return the names of all set variables that override a key, sorted."""
    return sorted(name for name in environment if name.startswith(PREFIX))


def apply_overrides(content: object, environment: Mapping[str, str] = os.environ) -> object:
    """Return a copy of a file's content with the overrides of the environment. `content` itself stays unchanged."""
    if not isinstance(content, dict):
        return content
    changed: dict[str, Any] = dict(content)
    for name in list_override_names(environment):
        path = name.removeprefix(PREFIX).split("__")
        if not all(path):
            raise InputError(name, "names no key of a job file", remedy=f"write {PREFIX}TARGET__LATENCY_SECONDS")
        _set_key(changed, path, _parse_value(name, environment[name]), name)
    return changed


def _set_key(section: dict[str, Any], path: list[str], value: object, name: str) -> None:
    # Inner sections are copied: a YAML alias may share one section between several keys.
    key = next((key for key in section if str(key).lower() == path[0].lower()), path[0].lower())
    if len(path) == 1:
        section[key] = value
        return
    inner = section.get(key)
    if inner is not None and not isinstance(inner, dict):
        raise InputError(name, f"sets a key inside {key}, which is not a section", remedy="shorten the variable's name")
    section[key] = dict(inner or {})
    _set_key(section[key], path[1:], value, name)


def _parse_value(name: str, text: str) -> object:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        raise InputError(name, "is not a YAML value", remedy="put it between quotes") from None
