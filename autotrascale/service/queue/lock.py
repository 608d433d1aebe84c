"""One server at a time works for one name in one store: two would both carry on the same runs."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from autotrascale.domain.errors import InputError
from autotrascale.files import FileLock
from autotrascale.knowledge.store import Store

_SQLITE = "sqlite:///"


@contextmanager
def alone(store: Store, server: str) -> Iterator[None]:
    """The kernel lets go of the lock however this process ends."""
    path = _path(store, server)
    try:
        lock = FileLock(path, 0o600)
    except OSError as error:
        raise InputError(str(path), f"cannot be locked: {error.strerror}", remedy="correct its rights") from None
    try:
        if not lock.acquire(wait=False):
            raise InputError("serve", f"is running already, under the name {server} on {store.where}",
                             remedy="end it, or give this one another --name")  # fmt: skip
        yield
    finally:
        lock.close()


def _path(store: Store, server: str) -> Path:
    """Beside an embedded store; for a served one, on this machine."""
    if store.uri.startswith(_SQLITE):
        database = Path(store.uri.removeprefix(_SQLITE))
        return database.with_name(f"{database.name}.serve-{server}.lock")
    name = hashlib.sha256(f"{store.uri} {server}".encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"autotrascale-serve-{os.getuid()}-{name}.lock"
