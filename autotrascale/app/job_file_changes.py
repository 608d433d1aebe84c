"""Changes of a job file since a run began: a run is only resumed under the file that it began with."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from autotrascale.app.job_file_overrides import apply_overrides
from autotrascale.domain.errors import InputError
from autotrascale.domain.job import Job
from autotrascale.knowledge.run_json import RunOpening
from autotrascale.validation import read_text

MAX_SHOWN = 5  # differences


def read_job_content(path: Path) -> Mapping[str, Any]:
    """Return a valid job file as plain data, with the overrides of the environment.

    The section `notify:` is left out: it does not change the job, and its addresses are secrets.
    """
    content = json.loads(json.dumps(apply_overrides(yaml.safe_load(read_text(path))), default=str))
    return {name: each for name, each in content.items() if name != "notify"}


def check_job_file_unchanged(opening: RunOpening) -> None:
    """Raise InputError if the job file differs from the one of the run. Comments may differ, and it may be missing."""
    path = Path(opening.job_path)
    if not path.is_file():
        return
    try:
        now = read_job_content(path)
    except (InputError, yaml.YAMLError) as error:
        raise InputError(
            str(path), f"cannot be compared with the job file of the run: {error}", remedy="restore it"
        ) from None
    differences = list(list_differences(opening.job_file, now))
    if differences:
        more = f", and {len(differences) - MAX_SHOWN} more" if len(differences) > MAX_SHOWN else ""
        raise InputError(
            str(path),
            f"has changed since the run began: {'; '.join(differences[:MAX_SHOWN])}{more}",
            remedy="undo the changes to resume, or start a new run",
        )


def list_differences(before: object, now: object, place: str = "") -> Iterator[str]:
    """Yield one text for each place in which two job files differ: `target.latency_seconds: 0.18 → 0.2`."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for name in dict.fromkeys([*before, *now]):
            inner = f"{place}.{name}" if place else str(name)
            if name not in now:
                yield f"{inner} is gone (was {before[name]!r})"
            elif name not in before:
                yield f"{inner} is new ({now[name]!r})"
            else:
                yield from list_differences(before[name], now[name], inner)
        if list(before) != list(now) and set(before) == set(now) and place == "operators":
            yield f"{place} come in another order"
    elif before != now:
        yield f"{place}: {before!r} → {now!r}"


def check_operators_unchanged(now: Job, before: Job) -> None:
    """Raise InputError if the job's own code declares other operators than when the run began."""
    if now != before or list(now.topology) != list(before.topology):
        raise InputError(
            f"job {before.name}",
            "declares other operators than when the run began",
            seen=", ".join(now.topology),
            remedy="undo the change to resume, or start a new run",
        )
