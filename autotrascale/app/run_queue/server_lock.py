"""One server at a time works for one name in one store: two would both carry on the same runs.

Beside an embedded store that is a lock of the kernel's. A served store is shared by machines: there it is a lease.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from autotrascale.atomic_files import FileLock
from autotrascale.domain.errors import InputError
from autotrascale.knowledge import lease
from autotrascale.knowledge.lease import LeaseHolder, ShowMessage
from autotrascale.knowledge.mlflow_store import MlflowStore

_SQLITE = "sqlite:///"


@contextmanager
def hold_server_name(store: MlflowStore, server: str, watch: ShowMessage | None = None) -> Iterator[MlflowStore]:
    """The store as this server may write to it. `watch`: see `lease.take`."""
    if store.uri.startswith(_SQLITE):
        with _locked(store, server):
            yield store
        return
    taken = lease.take_lease(store, f"server {server}", "served", watch=watch)
    if isinstance(taken, LeaseHolder):
        raise _taken(store, server, f", by {taken}")
    with taken:
        yield taken.guarded(store)


@contextmanager
def _locked(store: MlflowStore, server: str) -> Iterator[None]:
    """The kernel lets go of the lock however this process ends."""
    database = Path(store.uri.removeprefix(_SQLITE))
    path = database.with_name(f"{database.name}.serve-{server}.lock")
    try:
        lock = FileLock(path, 0o600)
    except OSError as error:
        raise InputError(str(path), f"cannot be locked: {error.strerror}", remedy="correct its rights") from None
    try:
        if not lock.acquire(wait=False):
            raise _taken(store, server)
        yield
    finally:
        lock.close()


def _taken(store: MlflowStore, server: str, by: str = "") -> InputError:
    return InputError(
        "serve",
        f"is running already, under the name {server} on {store.where}{by}",
        remedy="end it, or give this one another --name",
    )
