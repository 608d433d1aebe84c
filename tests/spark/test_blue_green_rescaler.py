"""The order in which a query takes over from another, with a failure at each step."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from autotrascale.analyze.facts import BatchFact
from autotrascale.domain.topology import Operator, Topology
from autotrascale.execute.spark.common import checkpoint_generations
from autotrascale.execute.spark.common.checkpoint_facts import CheckpointFacts, PlannedBatch, StateStoreFacts
from autotrascale.execute.spark.common.checkpoint_generations import Generation, VisibleBatches
from autotrascale.execute.spark.common.spark_settings import SparkSettings
from autotrascale.execute.spark.controller.blue_green_rescaler import (
    BlueGreenRescaler,
    CatchUpFailedError,
    HandOverFailedError,
)
from autotrascale.execute.spark.controller.carry_over_open_batch import carry_over_open_batch
from autotrascale.execute.spark.controller.driver_connection import DriverConnection, DriverLostError, QueryFailedError
from autotrascale.execute.spark.controller.own_query import OwnQuery
from autotrascale.execute.spark.controller.query_rescaler import NotBuiltError, QueryRescaler
from autotrascale.execute.spark.protocol.own_job_messages import (
    BatchPlanned,
    CatchUp,
    CaughtUp,
    CheckpointCopied,
    CheckpointRead,
    CopyCheckpoint,
    DescribeQuery,
    Done,
    HandedOver,
    HandOver,
    Message,
    PlanBatch,
    QueryDescription,
    ReadCheckpoint,
    Repartition,
)

SETTINGS = SparkSettings("m:a", rescale="overlap")
BEFORE, AFTER = {"source": 1, "count": 2}, {"source": 1, "count": 3}
ROUNDS = [CaughtUp(4.0, 3, 5, 5), CaughtUp(2.0, 5, 1, 1)]  # batch by batch, and it comes up
TOO_SLOW = [CaughtUp(4.0, 3, 5, 5), CaughtUp(5.0, 5, 9, 9)]
STEPS = ["CopyCheckpoint", "Repartition", "CatchUp", "HandOver", "LetWrite"]
ALONG = ["CopyCheckpoint", "Repartition", "PlanBatch"]
HANDED_OVER = HandedOver("B", VisibleBatches(9, 4), 100.0, 0.5)


@dataclass
class FakeDriver:
    """Answers like a driver whose copy needs its state moved. Fails at the step `breaks`, if one is given."""

    query: OwnQuery
    breaks: tuple[str, type[Exception]] | None = None
    rounds: list[CaughtUp] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    live: dict[str, Generation] = field(default_factory=dict)  # at each step
    ready: Any = field(default_factory=lambda: SimpleNamespace(slots=8, job="j"))
    topology: Topology = field(
        default_factory=lambda: Topology({"source": Operator(), "count": Operator(("source",), stateful=True)})
    )

    def __post_init__(self) -> None:
        self.watch = SimpleNamespace(batches=[BatchFact(10, "B", 100_400, 0.3, 5)], follow=self.follow)
        self.partitions, self.followed = 2, ""

    def follow(self, run: str) -> None:
        self.followed = run

    def poll(self) -> None:
        pass

    def ask(self, message: Message, seconds: float) -> Message:
        assert seconds > 0
        name = type(message).__name__
        if name in (*STEPS, *ALONG, "DropCopy"):
            self.asked.append(name)
            self.live[name] = checkpoint_generations.read_generation(self.query.folder)
        if self.breaks and name == self.breaks[0]:
            raise self.breaks[1]("planted")
        match message:
            case Repartition():
                self.partitions = message.partitions
            case ReadCheckpoint(place) if place == self.query.checkpoint:  # with an open batch
                stores = tuple(StateStoreFacts("0", part, (1, 2)) for part in range(2))
                return CheckpointRead(CheckpointFacts((PlannedBatch(1, 2, "7"), PlannedBatch(2, 2, "9")), (1,), stores))
            case ReadCheckpoint():
                store = StateStoreFacts("0", 0, (1, 2, 3))
                stores = tuple(StateStoreFacts("0", part, store.versions) for part in range(3))
                return CheckpointRead(CheckpointFacts((PlannedBatch(1, self.partitions),), (1,), stores))
            case CopyCheckpoint():
                return CheckpointCopied(1)
            case CatchUp(since=since):
                assert (since == 1) == bool(self.rounds)
                return self.rounds.pop(0) if self.rounds else CaughtUp(0.2, 1)
            case PlanBatch():
                return BatchPlanned(3)  # behind the move
            case HandOver():
                return HANDED_OVER
            case DescribeQuery():
                return QueryDescription("foreachbatch", True, "", False, True, 1e5)
            case _:
                pass
        return Done()


@pytest.fixture
def query(tmp_path: Path) -> OwnQuery:
    made = OwnQuery.new(SETTINGS, tmp_path / "query", BEFORE, {"source": 10.0})
    Path(made.checkpoint).mkdir()
    return made


def overlap(host: FakeDriver) -> BlueGreenRescaler:
    return BlueGreenRescaler(QueryRescaler(cast(DriverConnection, host), SETTINGS))


def test_the_second_is_live_before_it_writes(query: OwnQuery) -> None:
    host = FakeDriver(query)
    change = overlap(host).rescale(query, AFTER)
    assert host.asked == STEPS
    second = Generation(1, VisibleBatches(9, 4))
    assert [host.live[step] for step in STEPS] == [Generation()] * 4 + [second]
    assert (query.generation, query.parallelism, host.followed) == (second, AFTER, "B")
    assert query.checkpoint == str(query.folder / "checkpoint-1")
    assert not (query.folder / "checkpoint").exists()
    assert change.standstill_seconds == pytest.approx(0.7)  # from its last write to the second's first
    again = OwnQuery.reopen(SETTINGS, query.folder, AFTER, {"source": 10.0})
    assert (again.generation, again.checkpoint) == (second, query.checkpoint)


def test_one_that_is_led_through_the_batches_takes_over_once_it_is_near(query: OwnQuery) -> None:
    host = FakeDriver(query, rounds=list(ROUNDS))
    change = overlap(host).rescale(query, AFTER, one_by_one=True)
    assert host.asked == [*STEPS[:2], "CatchUp", *STEPS[2:]]
    assert change.phases["catch_up"] == 6.0
    assert query.generation == Generation(1, VisibleBatches(9, 4))


def test_one_that_does_not_keep_up_is_left_behind_and_nothing_else_changes(query: OwnQuery) -> None:
    host = FakeDriver(query, rounds=list(TOO_SLOW))
    query.next_checkpoint.mkdir()
    with pytest.raises(CatchUpFailedError, match="never catches up"):
        overlap(host).rescale(query, AFTER, one_by_one=True)
    assert host.asked == [*STEPS[:2], "CatchUp", "CatchUp", "DropCopy"]
    assert (query.generation, query.parallelism) == (Generation(), BEFORE)
    assert Path(query.checkpoint).exists()
    assert not query.next_checkpoint.exists()


@pytest.mark.parametrize("step", STEPS[:-1])
def test_what_breaks_while_it_is_led_leaves_nothing_behind(query: OwnQuery, step: str) -> None:
    host = FakeDriver(query, (step, QueryFailedError), list(ROUNDS))
    query.next_checkpoint.mkdir()
    with pytest.raises(HandOverFailedError, match="planted"):
        overlap(host).rescale(query, AFTER, one_by_one=True)
    assert host.asked[-2:] == [step, "DropCopy"]
    assert checkpoint_generations.read_generation(query.folder) == Generation()
    assert not query.next_checkpoint.exists()


@pytest.mark.parametrize("step", STEPS[:-1])
def test_what_breaks_before_the_hand_over_costs_nothing_but_the_copy(query: OwnQuery, step: str) -> None:
    host = FakeDriver(query, (step, QueryFailedError))
    query.next_checkpoint.mkdir()
    with pytest.raises(HandOverFailedError, match="planted"):
        overlap(host).rescale(query, AFTER)
    assert host.asked[-1] == step
    assert (query.generation, query.parallelism) == (Generation(), BEFORE)
    assert checkpoint_generations.read_generation(query.folder) == Generation()
    assert Path(query.checkpoint).exists()
    assert not query.next_checkpoint.exists()


@pytest.mark.parametrize("step", STEPS)
def test_a_host_that_dies_leaves_one_of_them_whole(query: OwnQuery, step: str) -> None:
    host = FakeDriver(query, (step, DriverLostError))
    query.next_checkpoint.mkdir()
    with pytest.raises(DriverLostError):
        overlap(host).rescale(query, AFTER)
    again = OwnQuery.reopen(SETTINGS, query.folder, BEFORE, {"source": 10.0})
    live = "checkpoint-1" if step == "LetWrite" else "checkpoint"
    assert again.checkpoint == str(query.folder / live)
    assert [path.name for path in query.folder.glob("checkpoint*")] == [live]


def test_why_it_is_overlapped_or_not(query: OwnQuery) -> None:
    host = FakeDriver(query)
    assert overlap(host).choose_mode(query, AFTER).why.startswith("overlap: ")
    host.ready.slots = 4
    too_few_slots = overlap(host).choose_mode(query, AFTER).why
    assert too_few_slots.startswith("in place: ")
    assert {"4", "5"} <= set(re.findall(r"\d+", too_few_slots))
    query.once_only = ("socket",)
    assert "socket" in overlap(host).choose_mode(query, AFTER).why


def test_what_cannot_be_built_is_refused_before_anything_stops(query: OwnQuery) -> None:
    host, query.running = FakeDriver(query, ("BuildQuery", QueryFailedError)), True
    with pytest.raises(NotBuiltError, match="planted"):
        overlap(host).rescaler.rescale(query, AFTER, {"source": 10.0})
    assert host.asked == []
    assert query.running
    assert query.parallelism == BEFORE


def taken_along(host: FakeDriver, query: OwnQuery) -> bool:
    rescaler = overlap(host).rescaler
    return carry_over_open_batch(rescaler.connection, SETTINGS, rescaler.read, query, AFTER, wanted=3)


def test_a_batch_that_was_cut_short_keeps_its_number(query: OwnQuery) -> None:
    host = FakeDriver(query)
    before = query.checkpoint
    assert taken_along(host, query)
    assert host.asked == ALONG
    assert [host.live[step] for step in ALONG] == [Generation()] * 3
    assert (
        query.generation
        == checkpoint_generations.read_generation(query.folder)
        == Generation(1, VisibleBatches(after=2, raised=-1))
    )
    assert 3 + query.generation.visible.raised == 2  # what the sink may have seen of it
    assert query.parallelism == AFTER
    assert Path(before).exists()  # to remove it takes a while
    query.remove_copies()
    assert not Path(before).exists()


@pytest.mark.parametrize("step", ALONG)
def test_what_cannot_be_taken_along_runs_where_it_was_planned(query: OwnQuery, step: str) -> None:
    query.next_checkpoint.mkdir()
    assert not taken_along(FakeDriver(query, (step, QueryFailedError)), query)
    assert (query.generation, query.parallelism) == (Generation(), BEFORE)
    assert not query.next_checkpoint.exists()
    with pytest.raises(DriverLostError):
        taken_along(FakeDriver(query, (step, DriverLostError)), query)
    assert OwnQuery.reopen(SETTINGS, query.folder, BEFORE, {"source": 10.0}).checkpoint == query.checkpoint
