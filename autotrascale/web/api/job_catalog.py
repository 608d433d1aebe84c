"""The jobs that can be tuned over HTTP: the job files in the server's folder, by their names.

Job files name Python code, so that a client can only choose among them. A file is read when it is asked for and has
changed since. A broken file is listed with its error; the other files stay usable.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from autotrascale.app.job_file import JobFile, read_job_file
from autotrascale.app.job_file_changes import read_job_content
from autotrascale.domain.errors import AuTraScaleError, InputError
from autotrascale.knowledge.run_json import digest_json

NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
_SUFFIXES = (".yaml", ".yml", ".json")  # of several files with one name, the first suffix wins


@dataclass(frozen=True)
class CatalogEntry:
    """A job file, or the reason why it cannot be used. `digest` changes with the file's content."""

    name: str
    path: Path
    file: JobFile | None
    problem: str | None
    digest: str = ""


class JobCatalog:
    """The job files in `folder`. Raises `InputError` if there is no such folder.

    Attributes:
        counts: numbers of all files and of broken files, as of the last call of `all`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.counts = (0, 0)
        self._cache: dict[Path, tuple[tuple[int, int], CatalogEntry]] = {}
        self._lock = Lock()
        if not self.folder.is_dir():
            raise InputError(
                "--configs", "is not a folder", seen=str(folder), remedy="give the folder with the job files"
            )

    def all(self) -> list[CatalogEntry]:
        entries = [self._read(name, path) for name, path in sorted(self._paths().items())]
        self.counts = len(entries), sum(1 for each in entries if each.problem)
        return entries

    def find(self, name: str) -> CatalogEntry | None:
        """Return the entry of that name. The name is never used as a path."""
        path = self._paths().get(name)
        return None if path is None else self._read(name, path)

    def holds(self, path: Path) -> bool:
        return path in self._paths().values()

    def _paths(self) -> dict[str, Path]:
        paths: dict[str, Path] = {}
        for suffix in _SUFFIXES:
            for path in self.folder.glob(f"*{suffix}"):
                if re.fullmatch(NAME_PATTERN, path.stem) and path.is_file():
                    paths.setdefault(path.stem, path)
        return paths

    def _read(self, name: str, path: Path) -> CatalogEntry:
        with self._lock:
            try:
                stat = path.stat()
            except OSError as error:
                return CatalogEntry(name, path, None, f"{path.name}: cannot be read: {error.strerror}")
            version = (stat.st_mtime_ns, stat.st_size)
            known = self._cache.get(path)
            if known is None or known[0] != version:
                known = version, _parse(name, path)
                self._cache[path] = known
            return known[1]


def _parse(name: str, path: Path) -> CatalogEntry:
    try:
        return CatalogEntry(name, path, read_job_file(path), None, digest_json(read_job_content(path)))
    except AuTraScaleError as error:
        return CatalogEntry(name, path, None, str(error))
    except Exception as error:  # the job's own code may raise anything
        return CatalogEntry(name, path, None, f"{path.name}: {type(error).__name__}: {error}")
