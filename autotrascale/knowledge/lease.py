"""A lease: of all processes that share a store, on whatever machines, one at a time holds the thing of a name.

MLflow offers no compare-and-set, but its database takes no two registered models of one name. So a lease is an empty
registered model, `autotrascale-lease.<thing>.<n>`, and taking it from holder n is making n + 1: of several that try,
one succeeds. n only grows, because the newest is never removed, and who made the newest is the holder. That is asked
before each write (`FencedStore`), so a process that slept through its own replacement finds out before it writes.

A holder beats: it writes the time, every so often. One whose process is gone, seen from its own machine, may be
replaced at once. One that falls silent may be once it has been watched for a whole lease by the watcher's own clock
and has not beaten: clocks of two machines may differ by any amount, so what a beat says of the time proves nothing.
It is a hint only: a beat that looks fresh is not worth watching.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

from autotrascale.domain.errors import RunLostError, RunStoreError
from autotrascale.knowledge import tags
from autotrascale.knowledge.mlflow_store import PAGE, MlflowStore, quote_name
from autotrascale.knowledge.process_identity import HEARTBEAT_SECONDS, LEASE_SECONDS, ProcessIdentity

if TYPE_CHECKING:
    from mlflow.entities.model_registry import RegisteredModel

P = ParamSpec("P")
T = TypeVar("T")

PREFIX = "autotrascale-lease."
POLL_SECONDS = 1.0  # between looks at one that is watched
_LAST_BEAT_SECONDS = 5.0  # a beat to a store that is away may be tried for minutes; nobody waits for it
_DESCRIPTION = "Says which process works on this. It is no model; autotrascale makes and removes it."
_READS = ("get_", "search_", "download_")

ShowMessage = Callable[[str], object]


@dataclass(frozen=True)
class LeaseHolder:
    """What stands in the store of the last one to take a lease. `doing` is its own word for what it does."""

    number: int
    owner: ProcessIdentity | None
    doing: str
    what: str
    beat: str
    released: bool

    @property
    def lives(self) -> bool:
        """As far as one look can tell. From another machine that is by its clock, and so no more than a hint."""
        return not self.is_gone and self.silent < LEASE_SECONDS

    @property
    def is_gone(self) -> bool:
        """Known for sure: it let go, or its process does not exist."""
        return self.released or self.owner is None or self.owner.is_gone

    @property
    def silent(self) -> float:
        """Seconds since it last beat, if its clock were ours."""
        try:
            return abs(time.time() - float(self.beat))
        except ValueError:
            return float("inf")

    def __str__(self) -> str:
        return str(self.owner or "a process that left no name")


def read_holder(store: MlflowStore, thing: str) -> LeaseHolder | None:
    """The last one to take it, whether or not it still holds it; None where nobody ever did."""
    models = _models(store, thing)
    return _holder(*max(models.items())) if models else None


def take_lease(
    store: MlflowStore, thing: str, doing: str, *, what: str = "", watch: ShowMessage | None = None
) -> Lease | LeaseHolder:
    """The lease, or who holds it. `watch`: whoever seems to be silent is watched for a lease, and this is told so; else
    it counts as the holder."""
    found = read_holder(store, thing)
    if found is not None and not found.is_gone:
        if watch is None or found.lives:
            return found
        watch(f"{found} has been silent; it is watched for {LEASE_SECONDS:.0f} s before anything is taken from it")
        if not _keeps_silent(store, thing, found):
            return read_holder(store, thing) or found
    owner, number = ProcessIdentity.me(), 1 if found is None else found.number + 1
    if not _make(store, _name(thing, number), owner, doing, what):
        return read_holder(store, thing) or _nobody(number)  # somebody was faster
    return _settle(store, thing, owner, number)


def _settle(store: MlflowStore, thing: str, owner: ProcessIdentity, number: int) -> Lease | LeaseHolder:
    """Ours, unless a process that looked earlier and woke later finds that numbers have gone on without it."""
    models = _models(store, thing)
    if max(models) != number:
        _remove(store, _name(thing, number))
        return _holder(max(models), models[max(models)])
    for older in sorted(models)[:-1]:
        _remove(store, _name(thing, older))
    return Lease(store, thing, owner, number)


class Lease:
    """Held until `release`. It beats by itself from the moment it is taken."""

    def __init__(self, store: MlflowStore, thing: str, owner: ProcessIdentity, number: int) -> None:
        self.store, self.thing, self.owner, self.number = store, thing, owner, number
        self._name = _name(thing, number)
        self._released = threading.Event()
        self._also: list[Callable[[], object]] = []
        owner.take()
        self._thread = threading.Thread(target=self._beat, name=f"heartbeat {thing}", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raises when it is somebody else's by now."""
        now = read_holder(self.store, self.thing)
        if now is None or now.owner is None or now.owner.token != self.owner.token:
            taker = "nobody that left a name" if now is None else f"{now}"
            raise RunLostError(f"{self.thing} was taken over from this process by {taker}: it stops here")

    def set_work(self, what: str) -> None:
        """What the holder works on, for others to read."""
        self.store.call(self.store.client.set_registered_model_tag, self._name, tags.WHAT, what)

    def add_beat_action(self, action: Callable[[], object]) -> None:
        """With each beat from now on."""
        self._also.append(action)

    def guarded(self, store: MlflowStore) -> FencedStore:
        return FencedStore(store, self)

    def release(self) -> None:
        """Calling it twice is fine. A lease that was lost, or a store that is away, is no matter: the process ends."""
        if self._released.is_set():
            return
        self._released.set()
        self._thread.join(_LAST_BEAT_SECONDS)
        self.owner.leave()
        try:
            self.store.call(self.store.client.set_registered_model_tag, self._name, tags.RELEASED, "yes")
        except RunStoreError:
            return  # it has been removed by who took it, or will be taken for dead

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _beat(self) -> None:
        while not self._released.wait(HEARTBEAT_SECONDS):
            for action in (self._write_time, *self._also):
                try:
                    action()
                except (RunStoreError, RunLostError):
                    break  # a store that is away for a while, or a lease that is lost, is the next write's affair

    def _write_time(self) -> None:
        self.store.call(self.store.client.set_registered_model_tag, self._name, tags.HEARTBEAT, f"{time.time():.3f}")


class FencedStore(MlflowStore):
    """The store in the hands of a holder: whatever it writes, it first asks whether it still may."""

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
            self._lease.check()  # what a new holder has cleared away takes no writes: that is worth saying first
            raise


def _name(thing: str, number: int) -> str:
    return f"{PREFIX}{quote_name(thing)}.{number}"


def _models(store: MlflowStore, thing: str) -> dict[int, RegisteredModel]:
    """By their numbers. What MLflow takes for a wildcard, a name may hold."""
    prefix = _name(thing, 0).removesuffix("0")
    found = store.pages(store.client.search_registered_models, filter_string=f"name LIKE '{prefix}%'", max_results=PAGE)
    numbers = {model.name.removeprefix(prefix): model for model in found if model.name.startswith(prefix)}
    return {int(number): model for number, model in numbers.items() if number.isdecimal()}


def _holder(number: int, model: RegisteredModel) -> LeaseHolder:
    said: dict[str, Any] = model.tags
    try:
        owner = ProcessIdentity.read(json.loads(said.get(tags.OWNER, "")))
    except ValueError:
        owner = None
    return LeaseHolder(
        number,
        owner,
        said.get(tags.DOING, ""),
        said.get(tags.WHAT, ""),
        said.get(tags.HEARTBEAT, ""),
        tags.RELEASED in said,
    )


def _nobody(number: int) -> LeaseHolder:
    return LeaseHolder(number, None, "", "", "", released=False)


def _make(store: MlflowStore, name: str, owner: ProcessIdentity, doing: str, what: str) -> bool:
    """Whether it was this call that made it. A call that succeeded may still fail: when its answer was lost on the way,
    MLflow asks again by itself, and is told that the name is there."""
    said = {
        tags.OWNER: json.dumps(owner.as_dict()),
        tags.DOING: doing,
        tags.WHAT: what,
        tags.HEARTBEAT: f"{time.time():.3f}",
    }
    try:
        store.call(store.client.create_registered_model, name, tags=said, description=_DESCRIPTION)
    except RunStoreError:
        there = next((model for model in _named(store, name)), None)
        if there is None:
            raise
        found = _holder(0, there).owner
        return found is not None and found.token == owner.token
    return True


def _named(store: MlflowStore, name: str) -> list[RegisteredModel]:
    return list(store.pages(store.client.search_registered_models, filter_string=f"name = '{name}'"))


def _remove(store: MlflowStore, name: str) -> None:
    try:
        store.call(store.client.delete_registered_model, name)
    except RunStoreError:
        if _named(store, name):  # else somebody else has removed it
            raise


def _keeps_silent(store: MlflowStore, thing: str, seen: LeaseHolder) -> bool:
    """By this process' own clock, and by no more of it than was spent awake: a watcher that sleeps sees nothing."""
    watched = 0.0
    while watched < LEASE_SECONDS:
        began = time.monotonic()
        time.sleep(POLL_SECONDS)
        if read_holder(store, thing) != seen:
            return False
        watched += min(time.monotonic() - began, 2 * POLL_SECONDS)
    return True
