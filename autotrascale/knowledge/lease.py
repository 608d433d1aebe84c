"""Leases with fencing tokens: of all processes that share a store, one at a time holds the lease of a name.

MLflow has no compare-and-set, but its database accepts a model name only once. A lease is an empty registered model
`autotrascale-lease.<name>.<n>`. A process takes it over from holder n by making n + 1; of several processes, one
succeeds. n is the fencing token: it only grows, because the newest model is never removed. `FencedStore` reads the
newest holder before each write, so a process that was replaced while it slept stops before it writes.

A holder writes a heartbeat tag. When its process is gone, seen from the same machine, it is replaced at once. A holder
on another machine is replaced after it was silent for a whole lease, by the clock of the watching process. The time in
a heartbeat is a hint only, as two machines may have different clocks: a fresh heartbeat spares the watching.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, ParamSpec, Self, TypeVar

from autotrascale.domain.errors import RunLostError, RunStoreError
from autotrascale.knowledge import tags
from autotrascale.knowledge.mlflow_store import PAGE, MlflowStore, quote_name
from autotrascale.knowledge.process_identity import HEARTBEAT_SECONDS, LEASE_SECONDS, ProcessIdentity
from autotrascale.knowledge.store_retry import ShowMessage

if TYPE_CHECKING:
    from mlflow.entities.model_registry import RegisteredModel

P = ParamSpec("P")
T = TypeVar("T")

PREFIX = "autotrascale-lease."
POLL_SECONDS = 1.0  # between two looks at a holder that is watched
_LAST_BEAT_SECONDS = 5.0  # `release` waits no longer for a heartbeat under way, which retries for minutes
_DESCRIPTION = "The lease of a process. It is not a model; autotrascale makes and removes it."
_READS = ("get_", "search_", "download_")


@dataclass(frozen=True)
class LeaseHolder:
    """The last process that took a lease, as the store has it.

    Args:
        number: fencing token.
        owner: the process; None when its tag is missing or damaged.
        doing: the holder's activity, such as "tuned".
        what: the object of its work, such as a run.
        heartbeat: time of its last heartbeat by its own clock, in seconds since 1970.
        released: whether it has let go.
    """

    number: int
    owner: ProcessIdentity | None = None
    doing: str = ""
    what: str = ""
    heartbeat: str = ""
    released: bool = False

    @property
    def seems_alive(self) -> bool:
        """A hint: the heartbeat of another machine is compared with this machine's clock."""
        return not self.is_gone and self.silent_seconds < LEASE_SECONDS

    @property
    def is_gone(self) -> bool:
        """Certain: the holder let go, or its process does not exist."""
        return self.released or self.owner is None or self.owner.is_gone

    @property
    def silent_seconds(self) -> float:
        try:
            return abs(time.time() - float(self.heartbeat))
        except ValueError:
            return float("inf")

    def __str__(self) -> str:
        return str(self.owner or "an unknown process")


def read_holder(store: MlflowStore, thing: str) -> LeaseHolder | None:
    """Return the last process that took the lease, even if it has let go. None when the lease was never taken."""
    models = _lease_models(store, thing)
    return _parse_holder(*max(models.items())) if models else None


def take_lease(
    store: MlflowStore, thing: str, doing: str, *, what: str = "", watch: ShowMessage | None = None
) -> Lease | LeaseHolder:
    """Take the lease of `thing`, or return its holder.

    Args:
        thing: name of the leased object, such as "job orders".
        doing: activity that other processes read, such as "tuned".
        what: object of the work, such as "run 7".
        watch: receives a message before a silent holder is watched for `LEASE_SECONDS`. Without it a silent holder
            keeps its lease.
    """
    holder = read_holder(store, thing)
    if holder is not None and not holder.is_gone:
        if watch is None or holder.seems_alive:
            return holder
        watch(f"{holder} is silent; its lease is taken over after {LEASE_SECONDS:.0f} s without a heartbeat")
        if not _stays_silent(store, thing, holder):
            return read_holder(store, thing) or holder
    owner, number = ProcessIdentity.current(), 1 if holder is None else holder.number + 1
    if not _make_lease(store, _model_name(thing, number), owner, doing, what):
        return read_holder(store, thing) or LeaseHolder(number)  # another process was faster
    return _confirm(store, thing, owner, number)


def _confirm(store: MlflowStore, thing: str, owner: ProcessIdentity, number: int) -> Lease | LeaseHolder:
    """Return the lease, unless this process slept after its look and the numbers have gone on without it."""
    models = _lease_models(store, thing)
    newest = max(models)
    if newest != number:
        _remove(store, _model_name(thing, number))
        return _parse_holder(newest, models[newest])
    for older in sorted(models)[:-1]:
        _remove(store, _model_name(thing, older))
    return Lease(store, thing, owner, number)


class Lease:
    """A lease that this process holds until `release`. A thread writes its heartbeats."""

    def __init__(self, store: MlflowStore, thing: str, owner: ProcessIdentity, number: int) -> None:
        self.store, self.thing, self.owner, self.number = store, thing, owner, number
        self._name = _model_name(thing, number)
        self._released = threading.Event()
        self._beat_actions: list[Callable[[], object]] = [self._write_heartbeat]
        owner.mark_active()
        self._thread = threading.Thread(target=self._beat, name=f"heartbeat {thing}", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise `RunLostError` if another process has taken the lease over."""
        holder = read_holder(self.store, self.thing)
        if holder is None or holder.owner is None or holder.owner.token != self.owner.token:
            taker = holder or "an unknown process"
            raise RunLostError(f"{self.thing} was taken over by {taker}; this process stops")

    def set_work(self, what: str) -> None:
        """Store the object of the work, for other processes to read."""
        self.store.call(self.store.client.set_registered_model_tag, self._name, tags.WHAT, what)

    def add_beat_action(self, action: Callable[[], object]) -> None:
        """Call `action` with each heartbeat from now on."""
        self._beat_actions.append(action)

    def fence(self, store: MlflowStore) -> FencedStore:
        """Return `store` with a check of this lease before each write."""
        return FencedStore(store, self)

    def release(self) -> None:
        """Let go. A second call, a lost lease and an unreachable store do no harm."""
        if self._released.is_set():
            return
        self._released.set()
        self._thread.join(_LAST_BEAT_SECONDS)
        self.owner.mark_inactive()
        try:
            self.store.call(self.store.client.set_registered_model_tag, self._name, tags.RELEASED, "yes")
        except RunStoreError:
            return  # the next holder has removed it, or will find this process gone

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _beat(self) -> None:
        while not self._released.wait(HEARTBEAT_SECONDS):
            for action in self._beat_actions:
                try:
                    action()
                except (RunStoreError, RunLostError):
                    break  # the next write of the work itself reports it

    def _write_heartbeat(self) -> None:
        client = self.store.client
        self.store.call(client.set_registered_model_tag, self._name, tags.HEARTBEAT, f"{time.time():.3f}")


class FencedStore(MlflowStore):
    """A store for the holder of a lease: each write first checks that the lease is still held."""

    def __init__(self, store: MlflowStore, lease: Lease) -> None:
        super().__init__(store.uri)
        self.__dict__["client"] = store.client  # the same connection
        self._experiments = store._experiments
        self._store, self._lease = store, lease

    def call(self, action: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        if getattr(action, "__name__", "").startswith(_READS):
            return self._store.call(action, *args, **kwargs)
        self._lease.check()
        try:
            return self._store.call(action, *args, **kwargs)
        except RunStoreError:
            self._lease.check()  # a new holder deletes what was under way: then the lost lease is the cause
            raise


def _model_name(thing: str, number: int) -> str:
    return f"{PREFIX}{quote_name(thing)}.{number}"


def _lease_models(store: MlflowStore, thing: str) -> dict[int, RegisteredModel]:
    """Return the lease's models by number. A name may contain MLflow's wildcards, so each prefix is compared again."""
    prefix = _model_name(thing, 0).removesuffix("0")
    wanted = f"name LIKE '{prefix}%'"
    models = store.pages(store.client.search_registered_models, filter_string=wanted, max_results=PAGE)
    numbers = {model.name.removeprefix(prefix): model for model in models if model.name.startswith(prefix)}
    return {int(number): model for number, model in numbers.items() if number.isdecimal()}


def _parse_holder(number: int, model: RegisteredModel) -> LeaseHolder:
    try:
        owner = ProcessIdentity.parse(json.loads(model.tags.get(tags.OWNER, "")))
    except ValueError:
        owner = None
    doing, what, heartbeat = (model.tags.get(name, "") for name in (tags.DOING, tags.WHAT, tags.HEARTBEAT))
    return LeaseHolder(number, owner, doing, what, heartbeat, tags.RELEASED in model.tags)


def _make_lease(store: MlflowStore, name: str, owner: ProcessIdentity, doing: str, what: str) -> bool:
    """Return whether this call made the model.

    MLflow repeats a request whose answer was lost, and then reports that the name exists. The token in the model shows
    which process made it.
    """
    lease_tags = {
        tags.OWNER: json.dumps(owner.as_dict()),
        tags.DOING: doing,
        tags.WHAT: what,
        tags.HEARTBEAT: f"{time.time():.3f}",
    }
    try:
        store.call(store.client.create_registered_model, name, tags=lease_tags, description=_DESCRIPTION)
    except RunStoreError:
        existing = _find_model(store, name)
        if existing is None:
            raise
        maker = _parse_holder(0, existing).owner
        return maker is not None and maker.token == owner.token
    return True


def _find_model(store: MlflowStore, name: str) -> RegisteredModel | None:
    models = store.pages(store.client.search_registered_models, filter_string=f"name = '{name}'")
    return next(models, None)


def _remove(store: MlflowStore, name: str) -> None:
    try:
        store.call(store.client.delete_registered_model, name)
    except RunStoreError:
        if _find_model(store, name) is not None:  # else another process has removed it
            raise


def _stays_silent(store: MlflowStore, thing: str, seen: LeaseHolder) -> bool:
    """Watch a holder for a whole lease. Time during which this process slept does not count."""
    watched_seconds = 0.0
    while watched_seconds < LEASE_SECONDS:
        began = time.monotonic()
        time.sleep(POLL_SECONDS)
        if read_holder(store, thing) != seen:
            return False
        watched_seconds += min(time.monotonic() - began, 2 * POLL_SECONDS)
    return True
