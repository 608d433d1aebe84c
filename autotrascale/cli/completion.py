"""What a shell may offer after Tab, beyond verbs and options: job files here, and the jobs and runs of the store.

It has to be quick and must never complain, so an embedded store is read past MLflow, whose import alone takes a
second; a served one is not asked.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

SHOWN = 20  # runs, the latest first
_SQLITE = "sqlite:///"
_PATIENCE = 0.2  # seconds for a store that is busy
_SUFFIXES = (".yaml", ".yml")
_JOBS = "SELECT name FROM experiments WHERE lifecycle_stage = 'active' AND name LIKE ? ORDER BY name"
_LOOPS = "SELECT DISTINCT job FROM session ORDER BY job"
_RUNS = (
    "SELECT run_uuid FROM runs JOIN tags USING (run_uuid) WHERE lifecycle_stage = 'active' "
    "AND tags.key = ? AND tags.value = ? ORDER BY start_time DESC LIMIT ?"
)


def complete_job_files(incomplete: str) -> list[str]:
    """YAML files here and one folder further down. Where there are none, bash offers whatever files there are."""
    folder, begun = os.path.split(incomplete)
    found: list[str] = []
    for entry in _entries(folder or "."):
        name = os.path.join(folder, entry.name)
        if not entry.name.startswith(begun) or entry.name.startswith(".") > begun.startswith("."):
            continue
        if entry.is_dir():
            found += [os.path.join(name, inner.name) for inner in _entries(name) if inner.name.endswith(_SUFFIXES)]
        elif entry.name.endswith(_SUFFIXES):
            found.append(name)
    return found


def complete_job_names(incomplete: str) -> list[str]:
    from autotrascale.knowledge.mlflow_store import EXPERIMENT

    names = (name.removeprefix(EXPERIMENT) for (name,) in _asked(_JOBS, f"{EXPERIMENT}%"))
    return [name for name in names if name.startswith(incomplete)]


def complete_run_names(incomplete: str) -> list[str]:
    """As `find_run` understands them: `last`, a job, an id."""
    from autotrascale.knowledge import tags

    ids = [run_id for (run_id,) in _asked(_RUNS, tags.KIND, tags.TUNING, SHOWN)] if incomplete else []
    return [name for name in ("last", *ids) if name.startswith(incomplete)] + complete_job_names(incomplete)


def complete_loop_names(incomplete: str) -> list[str]:
    """Jobs that a control loop keeps, or kept."""
    return [name for (name,) in _asked(_LOOPS, beside="decisions.db") if name.startswith(incomplete)]


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


def _asked(question: str, *values: object, beside: str = "") -> Iterator[tuple[str]]:
    """Nothing where the store is not there, not embedded, or says no."""
    from autotrascale.app.stores import STORE_VARIABLES
    from autotrascale.knowledge.mlflow_store import DEFAULT_URI

    uri = next((uri for name in STORE_VARIABLES if (uri := os.environ.get(name))), DEFAULT_URI)
    path = Path(uri.removeprefix(_SQLITE))
    path = path.with_name(beside) if beside else path
    if not uri.startswith(_SQLITE) or not path.is_file():
        return iter(())
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=_PATIENCE)) as store:
            return iter(store.execute(question, values).fetchall())
    except sqlite3.Error:
        return iter(())
