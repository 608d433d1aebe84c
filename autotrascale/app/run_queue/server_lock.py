"""One server at a time for one name in one store: two servers would work on the same runs.

Beside a SQLite store this is a file lock. Several machines may share an MLflow server, where it is a lease.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from autotrascale.app.stores import SQLITE_PREFIX
from autotrascale.atomic_files import FileLock
from autotrascale.domain.errors import InputError
from autotrascale.knowledge import lease
from autotrascale.knowledge.lease import LeaseHolder
from autotrascale.knowledge.mlflow_store import MlflowStore
from autotrascale.knowledge.store_retry import ShowMessage


@contextmanager
def hold_server_name(store: MlflowStore, server: str, watch: ShowMessage | None = None) -> Iterator[MlflowStore]:
    """Hold the name of a server, and yield the store as that server may write to it.

    Args:
        store: the store of runs.
        server: name of the server.
        watch: see `lease.take_lease`.

    Raises:
        InputError: another server holds the name.
    """
    if store.uri.startswith(SQLITE_PREFIX):
        with _lock_file(store, server):
            yield store
        return
    taken = lease.take_lease(store, f"server {server}", "served", watch=watch)
    if isinstance(taken, LeaseHolder):
        raise _name_in_use(store, server, f", by {taken}")
    with taken:
        yield taken.fence(store)


@contextmanager
def _lock_file(store: MlflowStore, server: str) -> Iterator[None]:
    """Hold a lock on a file, which the kernel releases when this process ends."""
    database = Path(store.uri.removeprefix(SQLITE_PREFIX))
    path = database.with_name(f"{database.name}.serve-{server}.lock")
    try:
        lock = FileLock(path, 0o600)
    except OSError as error:
        raise InputError(str(path), f"cannot be locked: {error.strerror}", remedy="correct its permissions") from None
    try:
        if not lock.acquire(wait=False):
            raise _name_in_use(store, server)
        yield
    finally:
        lock.close()


def _name_in_use(store: MlflowStore, server: str, by: str = "") -> InputError:
    return InputError(
        "serve",
        f"already runs under the name {server} on {store.where}{by}",
        remedy="stop that server, or give this one another --name",
    )
