"""The home of a live job: the folder with all that a later controller needs to continue the job."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from autotrascale import validation
from autotrascale.atomic_files import FileLock, write_atomically
from autotrascale.domain.errors import InputError
from autotrascale.domain.topology import Topology


@dataclass(frozen=True)
class OwnJobRecord:
    """The job in a home, and the parallelism that it runs at.

    After a crash in the middle of a rescale, the record has the parallelism before the rescale.
    """

    job: str
    operators: tuple[str, ...]
    folder: str
    parallelism: Mapping[str, int]
    rates: Mapping[str, float]


class OwnJobHome:
    """A home, locked for this process until `close`."""

    def __init__(self, path: Path) -> None:
        """Make the folder if necessary, and lock it. Raise `InputError` if another process has locked it."""
        self.path = path.resolve()
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(self.path / "lock")
        if not self._lock.acquire(wait=False):
            self._lock.close()
            raise InputError(str(self.path), "is in use by another process", remedy="stop that process first")

    def close(self) -> None:
        self._lock.close()

    def write(self, record: OwnJobRecord) -> None:
        """Replace the record atomically."""
        write_atomically(self.path / "job.json", json.dumps(asdict(record)))

    def read(self, job: str, topology: Topology) -> OwnJobRecord | None:
        """Return the record, or None without one. Raise `InputError` if it belongs to another job."""
        path = self.path / "job.json"
        if not path.exists():
            return None
        record = validation.read_file(path, OwnJobRecord)
        if (record.job, record.operators) != (job, tuple(topology)):
            raise InputError(
                str(self.path),
                "holds another job",
                seen=f"{record.job}: {', '.join(record.operators)}",
                remedy="give this job a folder of its own",
            )
        return record
