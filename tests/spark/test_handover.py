"""A hand-over between two queries: the files after a power cut at any moment, and the batches that each query may
write.
"""

from __future__ import annotations

import json
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from checkpoint_model import Disk, PowerCutError
from hypothesis import given, settings
from hypothesis import strategies as st

from autotrascale.domain.errors import EngineError
from autotrascale.execute.spark.common import checkpoint_generations
from autotrascale.execute.spark.common.checkpoint_facts import (
    MoveStateStep,
    find_open_batch_to_carry_over,
    next_preparation_step,
)
from autotrascale.execute.spark.common.checkpoint_generations import Generation, VisibleBatches
from autotrascale.execute.spark.driver_agent import copy_checkpoint
from autotrascale.execute.spark.driver_agent.fence import Fence
from autotrascale.execute.spark.driver_agent.follow_batches import BatchFollower

# -- the disk, whenever the power goes -------------------------------------------------------------------------------


@dataclass
class Home:
    """The live checkpoint, and the sink of all generations. `end` is the end of the available input."""

    live: Disk
    end: int = 0
    handed_over: int = 0
    steps: list[str] = field(default_factory=list)

    def runs(self, batches: int) -> None:
        for _ in range(batches):
            self.end += 10
            self.live.batch(self.end)

    def overlap(self, wanted: int, meanwhile: list[int]) -> None:
        """Do the same as `BlueGreenRescaler.rescale` and `RunningQuery.hand_over`, with batches of A in between."""
        first, (after_copy, after_move, after_catching_up) = self.live, meanwhile
        second = first.copied(first.newest()[1])
        self.runs(after_copy)
        while (step := next_preparation_step(second.found(), wanted)) is not None:
            assert isinstance(step, MoveStateStep)
            second.move(step.partitions)
        self.runs(after_move)
        self._given(second, first)
        self.runs(after_catching_up)
        muted = self._given(second, first)
        first._cut_off()
        second.visible = first.visible.handed_over(first.newest()[1], muted)
        self.live = second  # generation.json is replaced
        self.handed_over += 1

    def follow(self, wanted: int, meanwhile: tuple[int, ...]) -> None:
        """Do the same as `BatchFollower`: repeat each batch of A, also those without records."""
        first, copied = self.live, self.live.newest()[1]
        second = first.copied(copied)
        self._with_quiet_ones(meanwhile[0])
        while (step := next_preparation_step(second.found(), wanted)) is not None:
            assert isinstance(step, MoveStateStep)
            second.move(step.partitions)
        raised = second.newest()[1] - copied
        for more in meanwhile[1:]:
            self._repeated(second, first, raised)
            self._with_quiet_ones(more)
        self._repeated(second, first, raised)
        first._cut_off()
        last = first.newest()[1]
        assert second.newest() == (last + raised, last + raised)
        for batch in range(copied, last + 1):
            assert second.offsets[batch + raised][0] == first.offsets[batch][0]
        second.visible = first.visible.handed_over(last, last + raised)
        self.live = second
        self.handed_over += 1

    def cut_short(self, wanted: int, writes: int) -> None:
        """Do the same as `QueryRescaler.rescale` with a batch that is stopped after so many writes."""
        self.end += 10
        if self.live.begun(self.end, writes):
            return
        self.take_along(wanted)
        self.prepare(wanted)

    def take_along(self, wanted: int) -> None:
        first = self.live
        if (batch := find_open_batch_to_carry_over(first.found(), wanted)) is None:
            return
        second = first.copied(first.newest()[1])
        while (step := next_preparation_step(second.found(), wanted)) is not None:
            assert isinstance(step, MoveStateStep)
            second.move(step.partitions)
        given = second.give(first, batch)
        first._cut_off()
        second.visible = first.visible.handed_over(batch - 1, given - 1)
        self.live = second
        self.handed_over += 1

    def prepare(self, wanted: int) -> None:
        """Do the same as `QueryRescaler.prepare`, which may find a carry-over that an earlier process began."""
        if self.handed_over:
            self.take_along(wanted)
        self.live.prepare(wanted)

    def _with_quiet_ones(self, batches: int) -> None:
        """Add a batch without records, which only moves the watermark, after each batch."""
        for _ in range(batches):
            self.runs(1)
            self.live.batch(self.end)

    def _repeated(self, second: Disk, first: Disk, raised: int) -> None:
        for batch in range(second.newest()[1] - raised + 1, first.newest()[1] + 1):
            second.repeat(first, batch, batch + raised)
            second.visible = VisibleBatches(batch + raised)
            second.batch(-1)

    def _given(self, second: Disk, first: Disk) -> int:
        muted = second.give(first, first.newest()[1])
        second.visible = VisibleBatches(muted)
        if second.newest()[1] < muted:
            second.batch(-1)
        return muted


meanwhile = st.lists(st.integers(0, 3), min_size=3, max_size=3)  # batches of the first query, in an overlap
followed = meanwhile.map(tuple)  # the same, where the second query is led through them
cut_after = st.integers(0, 12)  # writes of the batch in flight, in place


@given(
    st.integers(1, 3),
    st.lists(st.tuples(st.integers(1, 4), st.one_of(meanwhile, followed, cut_after)), min_size=1, max_size=4),
    st.integers(0, 400),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 60)), max_size=3),
    st.integers(0, 4),
)
def test_whenever_the_power_goes_every_record_is_written_once(
    first: int,
    rescales: list[tuple[int, list[int] | tuple[int, ...] | int]],
    writes: int,
    again: list[tuple[int, int]],
    then: int,
) -> None:
    home = Home(Disk(first))
    home.runs(2)
    home.live.writes_left = writes
    fuse = home.live
    try:
        for wanted, how in rescales:
            if isinstance(how, int):
                home.cut_short(wanted, how)
            elif isinstance(how, tuple):
                home.follow(wanted, how)
            else:
                home.overlap(wanted, how)
            home.runs(1)
    except PowerCutError:
        pass
    # Whoever comes next reads which one is live, and goes on from there, perhaps at another parallelism; or dies.
    for wanted, more in again:
        fuse.writes_left = more
        with suppress(PowerCutError):
            home.prepare(wanted)
    fuse.writes_left = None
    home.prepare(then)
    home.end = max(home.end, max(end for end, _ in home.live.offsets.values()))
    home.runs(2)
    taken = home.live.taken()
    assert taken[0][0] == 0
    assert taken[-1][1] == home.end
    assert all(before[1] == after[0] for before, after in pairwise(taken)), taken


# -- the files -------------------------------------------------------------------------------------------------------


def test_a_hand_over_is_one_rename_and_the_rest_is_rubbish(tmp_path: Path) -> None:
    for name in ("checkpoint", "checkpoint-1", "checkpoint-2", "checkpoint-old", "other"):
        (tmp_path / name).mkdir()
    assert checkpoint_generations.read_generation(tmp_path) == Generation()
    first = Generation().next(VisibleBatches().handed_over(last=40, muted=12))
    checkpoint_generations.make_live(tmp_path, first)
    assert checkpoint_generations.read_generation(tmp_path) == first == Generation(1, VisibleBatches(12, 28))
    assert first.next().name == "checkpoint-2"
    checkpoint_generations.remove_other_generations(tmp_path, first)
    assert {path.name for path in tmp_path.iterdir()} == {"checkpoint-1", "checkpoint-old", "other", "generation.json"}


def checkpoint(folder: Path, batches: int, snapshots: set[int]) -> Path:
    for part in ("offsets", "commits", "sources/0", "state/0/0/SSTs", "state/0/_metadata"):
        (folder / part).mkdir(parents=True)
    (folder / "metadata").write_text('{"id":"a"}')
    (folder / "state/0/_metadata/metadata").write_text("v1")
    for batch in range(batches):
        conf = {"batchWatermarkMs": 0, "batchTimestampMs": batch, "conf": {"spark.sql.shuffle.partitions": "2"}}
        (folder / f"offsets/{batch}").write_text(f'v1\n{json.dumps(conf)}\n{{"logOffset":{batch}}}')
        (folder / f"sources/0/{batch}").write_text("v1")
        (folder / f"state/0/0/{batch + 1}.changelog").write_text(f"{batch}")
        if batch + 1 in snapshots:
            (folder / f"state/0/0/{batch + 1}.zip").write_text(f"{batch}")
            (folder / f"state/0/0/SSTs/{batch}.sst").write_text(f"{batch}")
    for batch in range(batches - 1):
        (folder / f"commits/{batch}").write_text("v1")
    (folder / "state/0/0/.99.changelog.tmp").write_text("half")
    return folder


@settings(max_examples=20)  # each writes a hundred files
@given(st.integers(2, 30), st.sets(st.integers(1, 30)))
def test_a_copy_has_what_its_version_of_the_state_is_made_of(
    tmp_path_factory: pytest.TempPathFactory, batches: int, snapshots: set[int]
) -> None:
    folder = tmp_path_factory.mktemp("copy")
    original, copy = checkpoint(folder / "checkpoint", batches, snapshots), folder / "checkpoint-1"
    batch = copy_checkpoint.copy_checkpoint(original, copy)
    assert batch == batches - 2  # the newest one is open
    version = batch + 1
    since = max((each for each in snapshots if each <= version), default=0)
    files = {path.name for path in (copy / "state/0/0").iterdir() if path.is_file()}
    assert {f"{each}.changelog" for each in range(max(since, 1), version + 1)} <= files
    assert (f"{since}.zip" in files) == (since > 0)
    assert not [name for name in files if name.startswith(".") or int(name.split(".")[0]) > version]
    assert copy_checkpoint.newest_entry(copy, "offsets") == copy_checkpoint.newest_entry(copy, "commits") == batch
    assert json.loads((copy / "metadata").read_text())["id"] != "a"
    assert (copy / "state/0/_metadata/metadata").exists()
    # The open batch is given to it as the next; given once more, it is there.
    assert copy_checkpoint.plan_to_same_input(original, copy, batch + 1) == batch + 1
    assert json.loads((copy / f"offsets/{batch + 1}").read_text().splitlines()[2]) == {"logOffset": batch + 1}
    assert copy_checkpoint.plan_to_same_input(original, copy, batch + 1) == batch + 1
    # What no input tells apart from the one before is another batch all the same.
    copy_checkpoint.plan_same_batch(original, copy, batch + 1, batch + 2)
    planned = (copy / f"offsets/{batch + 2}").read_text().splitlines()
    assert json.loads(planned[1])["batchTimestampMs"] == batch + 1
    assert json.loads(planned[2]) == {"logOffset": batch + 1}
    with pytest.raises(EngineError, match="not in its offset log"):
        copy_checkpoint.plan_same_batch(original, copy, batches, batch + 3)


def test_without_a_commit_there_is_nothing_to_copy(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="has no committed batch"):
        copy_checkpoint.copy_checkpoint(checkpoint(tmp_path / "checkpoint", 1, set()), tmp_path / "checkpoint-1")


class Led(BatchFollower):
    """A follower whose query does each batch at once."""

    def _start(self) -> None:
        self._query = SimpleNamespace(exception=lambda: None, stop=lambda: None)  # type: ignore[assignment]
        self._run_next(self.done + self._shift)

    def _run_next(self, number: int) -> None:
        (self._copy / "commits" / str(number)).write_text("v1")


@given(st.integers(0, 3), st.integers(0, 6), st.booleans())
def test_each_batch_is_planned_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, before: int, more: int, moved: bool
) -> None:
    folder = tmp_path_factory.mktemp("led")
    original, copy = checkpoint(folder / "checkpoint", before + more + 2, set()), folder / "checkpoint-1"
    for later in range(before + 1, before + more + 1):
        (original / f"commits/{later}").unlink()
    since = copy_checkpoint.copy_checkpoint(original, copy)
    if moved:
        copy_checkpoint.plan_same_batch(original, copy, since, since + 1)
        (copy / f"commits/{since + 1}").write_text("v1")
    replay = Led(original, copy, since, lambda _: pytest.fail("nobody builds here"))
    for later in range(since + 1, since + more + 1):
        (original / f"commits/{later}").write_text("v1")
    assert (replay.newest, replay.behind) == (since + more, more)
    replay.follow(replay.newest, time.monotonic() + 60)
    assert (replay.done, replay.behind) == (since + more, 0)
    last = since + more + 1  # which is open
    muted = replay.come_to(last, time.monotonic() + 60)
    assert muted == last + moved == copy_checkpoint.newest_entry(copy, "offsets")
    assert copy_checkpoint.newest_entry(copy, "commits") == muted - 1
    for batch in range(since, last + 1):
        theirs, ours = (
            (each / f"offsets/{number}").read_text() for each, number in ((original, batch), (copy, batch + moved))
        )
        assert ours == theirs
    assert replay.come_to(last, 0) == muted  # once it was given


def test_who_does_not_come_in_time_is_not_handed_over_to(tmp_path: Path) -> None:
    original, copy = checkpoint(tmp_path / "checkpoint", 4, set()), tmp_path / "checkpoint-1"
    (original / "commits/2").unlink()
    replay = Led(
        original, copy, copy_checkpoint.copy_checkpoint(original, copy), lambda _: pytest.fail("nobody builds here")
    )
    (original / "commits/2").write_text("v1")
    with pytest.raises(EngineError, match="batch 3 in time"):
        replay.come_to(3, 0)


# -- the fence -------------------------------------------------------------------------------------------------------


class Batch:
    """A minimal data frame for a fence, which records that it was computed."""

    def __init__(self) -> None:
        self.dropped = 0

    @property
    def write(self) -> Any:
        return self

    def format(self, name: str) -> Any:
        assert name == "noop"
        return self

    def mode(self, _: str) -> Any:
        return self

    def save(self) -> None:
        self.dropped += 1


def writing(fence: Fence, number: int, written: list[int], batch: Batch | None = None) -> None:
    fence.write(batch or Batch(), number, lambda _, seen: written.append(seen))  # type: ignore[arg-type]


def in_a_thread(fence: Fence, number: int, written: list[int]) -> tuple[threading.Thread, list[Exception]]:
    failed: list[Exception] = []

    def run() -> None:
        try:
            writing(fence, number, written)
        except EngineError as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, failed


def test_what_another_has_written_is_worked_out_and_dropped() -> None:
    fence, written, batch = Fence(VisibleBatches(5, 100), 5), list[int](), Batch()
    for number in (4, 5, 6, 7):
        writing(fence, number, written, batch)
    assert (written, batch.dropped) == ([106, 107], 2)


def test_nobody_writes_after_the_batch_that_is_the_last() -> None:
    fence, written = Fence(VisibleBatches(), -1), list[int]()
    writing(fence, 0, written)
    assert fence.end(0) == 0
    thread, failed = in_a_thread(fence, 1, written)
    thread.join(0.05)
    assert thread.is_alive()
    fence.give_up()
    thread.join()
    assert written == [0]
    assert "batch 1 was not written" in str(failed[0])  # so that nobody commits it


def test_a_query_that_is_not_handed_over_goes_on() -> None:
    fence, written = Fence(VisibleBatches(), 3), list[int]()
    assert fence.end(0) == 3
    thread, failed = in_a_thread(fence, 4, written)
    fence.open()
    thread.join()
    assert (written, failed) == ([4], [])


def test_a_generation_writes_once_it_is_live() -> None:
    fence, written = Fence(VisibleBatches(), -1, shut=True), list[int]()
    fence.mute(VisibleBatches(7, 2))
    thread, _ = in_a_thread(fence, 8, written)
    thread.join(0.05)
    assert (thread.is_alive(), written) == (True, [])
    fence.open()
    thread.join()
    assert written == [10]
    assert fence.end(0) == 8


def test_there_is_something_to_do_until_it_comes() -> None:
    fence, written, done = Fence(VisibleBatches(), 3), list[int](), list[int]()

    def meanwhile() -> None:
        done.append(fence.reached)
        if len(done) == 3:
            writing(fence, 4, written)

    assert fence.end(30, meanwhile) == 4
    assert done == [3, 3, 3]
    assert fence.end(0, meanwhile) == 4


def test_the_next_batch_is_the_last_where_one_comes() -> None:
    fence, written = Fence(VisibleBatches(), 3), list[int]()
    ended: list[int] = []
    ending = threading.Thread(target=lambda: ended.append(fence.end(30)))
    ending.start()
    ending.join(0.05)
    assert ending.is_alive()
    writing(fence, 4, written)
    ending.join()
    assert (ended, written) == ([4], [4])
    thread, failed = in_a_thread(fence, 5, written)
    fence.give_up()
    thread.join()
    assert (written, len(failed)) == ([4], 1)
