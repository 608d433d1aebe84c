"""Shell completion of job files, jobs, runs and control loops.

Completion must be quick and must never print an error. It reads SQLite stores directly, as importing MLflow alone takes
a second. It does not ask MLflow servers.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from autotrascale.app.environment_variables import STORE_VARIABLES

MAX_RUNS = 20
JOB_FILE_SUFFIXES = (".yaml", ".yml")
_SQLITE = "sqlite:///"
_BUSY_SECONDS = 0.2  # how long to wait for a locked store
_JOBS = "SELECT name FROM experiments WHERE lifecycle_stage = 'active' AND name LIKE ? ORDER BY name"
_LOOPS = "SELECT DISTINCT job FROM session ORDER BY job"
_RUNS = (
    "SELECT run_uuid FROM runs JOIN tags USING (run_uuid) WHERE lifecycle_stage = 'active' "
    "AND tags.key = ? AND tags.value = ? ORDER BY start_time DESC LIMIT ?"
)


def complete_job_files(incomplete: str) -> list[str]:
    """Return the YAML files that begin with `incomplete`, and those one folder further down."""
    folder, prefix = os.path.split(incomplete)
    names: list[str] = []
    for entry in _list_folder(folder or "."):
        name = os.path.join(folder, entry.name)
        is_hidden = entry.name.startswith(".") and not prefix.startswith(".")
        if not entry.name.startswith(prefix) or is_hidden:
            continue
        if entry.is_dir():
            names += [
                os.path.join(name, inner.name) for inner in _list_folder(name) if inner.name.endswith(JOB_FILE_SUFFIXES)
            ]
        elif entry.name.endswith(JOB_FILE_SUFFIXES):
            names.append(name)
    return names


def complete_job_names(incomplete: str) -> list[str]:
    """Return the jobs of the store that begin with `incomplete`."""
    from autotrascale.knowledge.mlflow_store import EXPERIMENT

    names = (name.removeprefix(EXPERIMENT) for (name,) in _query_store(_JOBS, f"{EXPERIMENT}%"))
    return [name for name in names if name.startswith(incomplete)]


def complete_run_names(incomplete: str) -> list[str]:
    """Return names of runs that begin with `incomplete`: `last`, ids of runs, and jobs."""
    from autotrascale.knowledge import tags

    rows = _query_store(_RUNS, tags.KIND, tags.TUNING, MAX_RUNS) if incomplete else iter(())
    ids = [run_id for (run_id,) in rows]
    return [name for name in ("last", *ids) if name.startswith(incomplete)] + complete_job_names(incomplete)


def complete_loop_names(incomplete: str) -> list[str]:
    """Return the jobs with a control loop, running or ended, that begin with `incomplete`."""
    return [name for (name,) in _query_store(_LOOPS, file_name="decisions.db") if name.startswith(incomplete)]


def _list_folder(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


def _query_store(query: str, *values: object, file_name: str = "") -> Iterator[tuple[str]]:
    """Return the rows of `query`, or nothing if the store is missing, on a server, or damaged.

    Args:
        query: SQL with one column.
        values: parameters of the query.
        file_name: another SQLite file in the folder of the store.
    """
    from autotrascale.knowledge.mlflow_store import DEFAULT_URI

    uri = next((uri for name in STORE_VARIABLES if (uri := os.environ.get(name))), DEFAULT_URI)
    path = Path(uri.removeprefix(_SQLITE))
    path = path.with_name(file_name) if file_name else path
    if not uri.startswith(_SQLITE) or not path.is_file():
        return iter(())
    try:
        read_only = f"{path.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(read_only, uri=True, timeout=_BUSY_SECONDS)) as connection:
            return iter(connection.execute(query, values).fetchall())
    except sqlite3.Error:
        return iter(())
