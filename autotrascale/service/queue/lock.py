"""One server at a time works for one name in one store: two would both carry on the same runs.

Beside an embedded store that is a lock of the kernel's. A served store is shared by machines: there it is a lease.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from autotrascale.domain.errors import InputError
from autotrascale.files import FileLock
from autotrascale.knowledge import lease
from autotrascale.knowledge.lease import Holder, Say
from autotrascale.knowledge.store import Store

_SQLITE = "sqlite:///"


@contextmanager
def alone(store: Store, server: str, watch: Say | None = None) -> Iterator[Store]:
    """The store as this server may write to it. `watch`: see `lease.take`."""
    if store.uri.startswith(_SQLITE):
        with _locked(store, server):
            yield store
        return
    taken = lease.take(store, f"server {server}", "served", watch=watch)
    if isinstance(taken, Holder):
        raise _taken(store, server, f", by {taken}")
    with taken:
        yield taken.guarded(store)


@contextmanager
def _locked(store: Store, server: str) -> Iterator[None]:
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


def _taken(store: Store, server: str, by: str = "") -> InputError:
    return InputError(
        "serve",
        f"is running already, under the name {server} on {store.where}{by}",
        remedy="end it, or give this one another --name",
    )
