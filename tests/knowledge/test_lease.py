"""The promises of a lease, for an embedded store and for a served one."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from autotrascale.app.run_queue import server_lock
from autotrascale.domain.errors import InputError, RunLostError, RunStoreError
from autotrascale.knowledge import lease, tags
from autotrascale.knowledge.lease import FencedStore, Lease, LeaseHolder
from autotrascale.knowledge.mlflow_store import MlflowStore
from autotrascale.knowledge.process_identity import ProcessIdentity
from tests.knowledge import takers

ELSEWHERE = {"machine": "elsewhere", "host": "elsewhere"}
NO_SUCH_PROCESS = {"pid": 2**22 + 1, "started": "1"}
HOUR = 3600.0


def taken(store: MlflowStore, thing: str, **given: Any) -> Lease:
    found = lease.take_lease(store, thing, "held", **given)
    assert isinstance(found, Lease), found
    return found


def abandoned(store: MlflowStore, thing: str, *, clock: float = 0.0, **owner: Any) -> LeaseHolder:
    """Leave a lease behind like a process of this owner, whose clock is wrong by `clock` seconds."""
    held = taken(store, thing)
    held._released.set()
    held._thread.join()
    as_dict = replace(held.owner, **owner).as_dict()
    for tag, value in lease_tags(as_dict, clock).items():
        store.client.set_registered_model_tag(held._name, tag, value)
    return held_by(store, thing)


def lease_tags(owner: dict[str, Any], clock: float) -> dict[str, str]:
    return {tags.OWNER: json.dumps(owner), tags.HEARTBEAT: f"{time.time() + clock:.3f}"}


def held_by(store: MlflowStore, thing: str) -> LeaseHolder:
    found = lease.read_holder(store, thing)
    assert found is not None
    return found


def names(store: MlflowStore) -> list[str]:
    return [model.name for model in store.client.search_registered_models(max_results=1000)]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "LEASE_SECONDS", 0.5)
    monkeypatch.setattr(lease, "POLL_SECONDS", 0.05)


def test_one_holds_it_and_the_next_may_when_it_lets_go(store: MlflowStore, name: str) -> None:
    with taken(store, name, what="run 7") as first:
        holder = lease.take_lease(store, name, "held")
        assert isinstance(holder, LeaseHolder)
        assert (holder.number, holder.doing, holder.what, holder.seems_alive) == (1, "held", "run 7", True)
        assert str(holder) == f"process {os.getpid()} on {ProcessIdentity.current().host}"
        first.check()
        with taken(store, f"{name} too"):
            pass
    assert held_by(store, name).is_gone
    with taken(store, name) as second:
        assert second.number == 2
        second.check()
        with pytest.raises(RunLostError, match=f"{name} was taken over by process"):
            first.check()
    assert [each for each in names(store) if each.startswith(f"{lease.PREFIX}{name}.")] == [f"{lease.PREFIX}{name}.2"]


@pytest.mark.parametrize("round_", range(3))
def test_of_many_processes_that_take_at_once_one_does(store: MlflowStore, name: str, round_: int) -> None:
    """Real processes take a lease that was never held, one that was released, and one whose holder died."""
    thing = f"{name}-{round_}"
    if round_ == 1:
        taken(store, thing).release()
    elif round_ == 2:
        abandoned(store, thing, **NO_SUCH_PROCESS)
    answers = takers.take_at_once(store.uri, thing, count=4)
    assert sorted(answers) == ["held", "held", "held", "taken"]
    assert held_by(store, thing).number == 1 + (round_ > 0)


def test_a_process_that_is_gone_is_replaced_at_once(store: MlflowStore, name: str) -> None:
    abandoned(store, name, **NO_SUCH_PROCESS)
    with taken(store, name) as second:
        assert second.number == 2


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("clock", [-HOUR, -10.0, 10.0, HOUR])
def test_silence_counts_by_the_watchers_clock_alone(embedded: MlflowStore, name: str, clock: float) -> None:
    """The other machine's clock may be wrong by any amount."""
    abandoned(embedded, name, clock=clock, **ELSEWHERE)
    assert isinstance(
        lease.take_lease(embedded, name, "held"), LeaseHolder
    )  # without `watch` the holder keeps its lease
    said: list[str] = []
    began = time.monotonic()
    with taken(embedded, name, watch=said.append):
        assert time.monotonic() - began >= 0.5
    assert len(said) == 1
    assert said[0].startswith(f"process {os.getpid()} on elsewhere is silent")


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("clock", [-HOUR, HOUR])
def test_one_that_beats_while_it_is_watched_keeps_it(
    embedded: MlflowStore, name: str, clock: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = abandoned(embedded, name, clock=clock, **ELSEWHERE)
    full_name, looks = lease._model_name(name, holder.number), []
    look: Callable[..., Any] = lease.read_holder

    def beating(*given: Any) -> Any:
        looks.append(given)
        if len(looks) == 4:
            embedded.client.set_registered_model_tag(full_name, tags.HEARTBEAT, f"{time.time() + clock + 1:.3f}")
        return look(*given)

    monkeypatch.setattr(lease, "read_holder", beating)
    found = lease.take_lease(embedded, name, "held", watch=lambda _: None)
    assert isinstance(found, LeaseHolder)
    assert found.number == 1


def test_one_that_looks_fresh_is_not_worth_watching(embedded: MlflowStore, name: str) -> None:
    abandoned(embedded, name, **ELSEWHERE)
    said: list[str] = []
    assert isinstance(lease.take_lease(embedded, name, "held", watch=said.append), LeaseHolder)
    assert said == []


def test_a_taker_that_wakes_late_finds_that_numbers_went_on(
    embedded: MlflowStore, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks, sleeps, and then makes a number that other processes have had and released meanwhile."""
    taken(embedded, name).release()
    make = lease._make_lease

    def late(*given: Any) -> bool:
        monkeypatch.setattr(lease, "_make_lease", make)
        taken(embedded, name).release()
        others.append(taken(embedded, name))
        return make(*given)

    others: list[Lease] = []
    monkeypatch.setattr(lease, "_make_lease", late)
    found = lease.take_lease(embedded, name, "held")
    assert isinstance(found, LeaseHolder)
    assert found.number == 3
    others[0].check()
    assert lease._lease_models(embedded, name).keys() == {3}
    others[0].release()


def test_an_answer_that_was_lost_on_the_way_is_no_loss(
    embedded: MlflowStore, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = embedded.client.create_registered_model

    def lost(*given: Any, **named: Any) -> Any:
        make(*given, **named)
        return make(*given, **named)  # the client repeats a request after a broken connection

    monkeypatch.setattr(embedded.client, "create_registered_model", lost)
    with taken(embedded, name) as held:
        held.check()


def test_a_store_that_refuses_is_no_holder(embedded: MlflowStore, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(embedded.client, "create_registered_model", refuse)
    with pytest.raises(RunStoreError, match="disk full"):
        lease.take_lease(embedded, name, "held")


def test_who_lost_it_reads_and_does_not_write(store: MlflowStore, name: str) -> None:
    first = taken(store, name)
    fenced = first.fence(store)
    experiment = fenced.experiment(name)
    run = fenced.call(fenced.client.create_run, experiment)
    first.owner.mark_inactive()
    with taken(store, name):
        assert fenced.call(fenced.client.get_run, run.info.run_id).info.status == "RUNNING"
        for write in (
            lambda: fenced.call(fenced.client.set_tag, run.info.run_id, "a", "b"),
            lambda: fenced.write_json(run.info.run_id, "a.json", {}),
            lambda: first.fence(fenced).call(fenced.client.delete_run, run.info.run_id),
        ):
            with pytest.raises(RunLostError, match="was taken over"):
                write()
    first.release()
    assert store.client.get_run(run.info.run_id).data.tags.get("a") is None


def test_things_of_similar_and_awkward_names_are_not_mixed_up(embedded: MlflowStore, name: str) -> None:
    things = [f"{name} a_b", f"{name} axb", f"{name} a%b", f"{name} a.b", f"{name} a", f"{name} 'q' \"r\" / : @ 漢"]
    held = [taken(embedded, thing) for thing in things]
    for each in held:
        each.check()
        assert each.number == 1
        each.release()


def test_one_server_at_a_time_has_a_name(store: MlflowStore, name: str) -> None:
    """A kernel lock protects an embedded store. A lease protects a store that machines share."""
    with server_lock.hold_server_name(store, name) as ours:
        with pytest.raises(InputError, match=f"under the name {name} on "), server_lock.hold_server_name(store, name):
            raise AssertionError("two servers of one name")
        with server_lock.hold_server_name(store, f"{name}-too"):
            pass
        experiment = ours.experiment(name)
        assert ours.call(ours.client.create_run, experiment).info.status == "RUNNING"
    with server_lock.hold_server_name(store, name):
        pass


def test_a_server_that_was_replaced_writes_nothing_more(server: str, name: str) -> None:
    store = MlflowStore(server)
    with server_lock.hold_server_name(store, name) as ours:
        assert isinstance(ours, FencedStore)
        ours._lease.owner.mark_inactive()
        with (
            server_lock.hold_server_name(MlflowStore(server), name),
            pytest.raises(RunLostError, match=f"server {name} was taken over"),
        ):
            ours.call(ours.client.create_run, "0")


def test_leases_are_no_models(embedded: MlflowStore, name: str) -> None:
    from autotrascale.knowledge.model_library import ModelLibrary

    with taken(embedded, f"job {name}"):
        assert all(lease.PREFIX not in stored.name for stored in ModelLibrary(embedded).versions())
