"""The jobs that may be tuned over HTTP: those of the server's own folder, by the names of their files.

Job files name Python code, so a client can only choose among them. Each is read when it is asked for, unless it has
not changed since; one that is broken is reported with its complaint, and keeps none of the others from working.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from autotrascale.app.job_file import JobFile, read_job_file
from autotrascale.app.tuning_run import read_job_content
from autotrascale.domain.errors import AuTraScaleError, InputError
from autotrascale.knowledge.run_json import digest_json

NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
_SUFFIXES = (".yaml", ".yml", ".json")  # the first wins


@dataclass(frozen=True)
class CatalogEntry:
    """A job file, or why it is none."""

    name: str
    path: Path
    file: JobFile | None
    problem: str | None
    digest: str = ""  # of its content, which says whether it has changed


class JobCatalog:
    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self._read: dict[Path, tuple[tuple[int, int], CatalogEntry]] = {}
        self._lock = Lock()
        self.counted = (0, 0)  # files and broken ones, when they were last looked at
        if not self.folder.is_dir():
            raise InputError("--configs", "is no folder", seen=str(folder), remedy="name the folder of the job files")

    def names(self) -> list[str]:
        return sorted(self._paths())

    def all(self) -> list[CatalogEntry]:
        listed = [self._listed(name, path) for name, path in sorted(self._paths().items())]
        self.counted = len(listed), sum(1 for each in listed if each.problem)
        return listed

    def find(self, name: str) -> CatalogEntry | None:
        """Never by way of a path: a name is looked up among those that are there."""
        path = self._paths().get(name)
        return None if path is None else self._listed(name, path)

    def holds(self, path: Path) -> bool:
        return path in self._paths().values()

    def _paths(self) -> dict[str, Path]:
        found: dict[str, Path] = {}
        for suffix in _SUFFIXES:
            for path in self.folder.glob(f"*{suffix}"):
                if re.fullmatch(NAME_PATTERN, path.stem) and path.is_file():
                    found.setdefault(path.stem, path)
        return found

    def _listed(self, name: str, path: Path) -> CatalogEntry:
        with self._lock:
            try:
                seen = path.stat()
            except OSError as error:
                return CatalogEntry(name, path, None, f"{path.name}: cannot be read: {error.strerror}")
            version = (seen.st_mtime_ns, seen.st_size)
            known = self._read.get(path)
            if known is None or known[0] != version:
                known = version, _read(name, path)
                self._read[path] = known
            return known[1]


def _read(name: str, path: Path) -> CatalogEntry:
    try:
        return CatalogEntry(name, path, read_job_file(path), None, digest_json(read_job_content(path)))
    except AuTraScaleError as error:
        return CatalogEntry(name, path, None, str(error))
    except Exception as error:  # a job file loads code of its own: whatever that does is its affair alone
        return CatalogEntry(name, path, None, f"{path.name}: {type(error).__name__}: {error}")
