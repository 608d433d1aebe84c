"""Files on the disk during a take-over: batch numbers and the checkpoint link, with power cuts at any moment."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from checkpoint_model import Disk, PowerCutError
from hypothesis import given, settings
from hypothesis import strategies as st
from test_handover import Home, checkpoint, meanwhile

from autotrascale.domain.errors import EngineError, InputError
from autotrascale.execute.spark.common.checkpoint_facts import MoveStateStep, next_preparation_step
from autotrascale.execute.spark.common.checkpoint_generations import VisibleBatches
from autotrascale.execute.spark.common.program_environment import ProgramOptions, parse_rescale_mode
from autotrascale.execute.spark.driver_agent import checkpoint_link as places
from autotrascale.execute.spark.driver_agent import copy_checkpoint
from autotrascale.execute.spark.driver_agent.checkpoint_link import CheckpointLink
from autotrascale.execute.spark.driver_agent.rewrite_batch_ids import rewrite_batch_ids

# -- the order of it -------------------------------------------------------------------------------------------------


def with_numbers(disk: Disk, by: int) -> Disk:
    """Return a copy like `rewrite_batch_ids`."""
    copy = disk.copied(disk.newest()[1])
    copy.offsets = {number + by: entry for number, entry in copy.offsets.items() if number + by >= 0}
    copy.commits = {number + by: True for number in copy.commits if number + by >= 0}
    copy.state = {(name, part, at + by): end for (name, part, at), end in copy.state.items() if at + by > 0}
    return copy


class Program(Home):
    def overlap(self, wanted: int, meanwhile: list[int]) -> None:
        """Rescale like `rescale_blue_green.py`, with batches of the first query in between."""
        first, (after_copy, after_move, after_catching_up) = self.live, meanwhile
        copy = first.copied(first.newest()[1])
        self.runs(after_copy)
        while (step := next_preparation_step(copy.found(), wanted)) is not None:
            assert isinstance(step, MoveStateStep)
            copy.move(step.partitions)
        self.runs(after_move)
        self._given(copy, first)
        self.runs(after_catching_up)
        last = first.newest()[1]
        second = with_numbers(copy, last - copy.give(first, last))
        assert self._given(second, first) == last
        first._cut_off()
        self.live, second.visible = second, VisibleBatches()  # only the link knows the live generation

    def prepare(self, wanted: int) -> None:
        self.live.prepare(wanted)


@given(
    st.integers(1, 3),
    st.lists(st.tuples(st.integers(1, 4), st.one_of(meanwhile, st.none())), min_size=1, max_size=5),
    st.integers(0, 400),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 60)), max_size=3),
    st.integers(0, 4),
)
def test_every_record_is_written_once_under_a_growing_number_despite_power_cuts(
    first: int, rescales: list[tuple[int, list[int] | None]], writes: int, again: list[tuple[int, int]], then: int
) -> None:
    program = Program(Disk(first))
    program.runs(1)
    fuse = program.live
    fuse.writes_left = writes
    with suppress(PowerCutError):
        for wanted, how in rescales:
            if how is None:
                program.prepare(wanted)
            else:
                program.overlap(wanted, how)
            program.runs(1)
    for wanted, more in again:  # the next driver continues from the link, or dies too
        fuse.writes_left = more
        with suppress(PowerCutError):
            program.prepare(wanted)
    fuse.writes_left = None
    program.prepare(then)
    program.end = max(program.end, max(end for end, _ in program.live.offsets.values()))
    program.runs(2)
    taken = program.live.taken()  # with growing numbers: a sink refuses a number that it has with other records
    assert taken[0][0] == 0
    assert taken[-1][1] == program.end
    assert all(before[1] == after[0] for before, after in pairwise(taken)), taken


# -- the numbers in its files ----------------------------------------------------------------------------------------


@settings(max_examples=20)  # each writes a hundred files
@given(st.integers(2, 30), st.sets(st.integers(1, 30)), st.integers(-1, 12))
def test_a_copy_with_other_batch_ids_has_the_same_content(
    tmp_path_factory: pytest.TempPathFactory, batches: int, snapshots: set[int], by: int
) -> None:
    folder = tmp_path_factory.mktemp("numbers")
    original = checkpoint(folder / "original", batches, snapshots)
    copy_checkpoint.copy_checkpoint(original, folder / "copy")
    rewrite_batch_ids(original, folder / "other", by)
    plain, other = files(folder / "copy"), files(folder / "other")
    least = {"offsets": 0, "commits": 0, "state": 1}
    expected = {}
    for (place, name), text in plain.items():
        number, dot, rest = name.partition(".")
        if not number.isdecimal() or place.endswith(("sources/0", "SSTs")):
            expected[place, name] = text
        elif int(number) + by >= least[place.split("/")[0]]:
            expected[place, f"{int(number) + by}{dot}{rest}"] = text
    assert other == expected
    assert copy_checkpoint.newest_entry(folder / "other", "commits") == batches - 2 + by


def files(folder: Path) -> dict[tuple[str, str], str]:
    found = [path for path in folder.rglob("*") if path.is_file() and path.name != "metadata"]
    return {(str(path.parent.relative_to(folder)), path.name): path.read_text() for path in found}


def test_a_checksum_is_renamed_with_its_file_and_an_id_in_the_name_is_refused(tmp_path: Path) -> None:
    original = checkpoint(tmp_path / "original", 4, set())
    for number in range(1, 5):
        (original / f"state/0/0/.{number}.changelog.crc").write_text(f"of {number}")
    rewrite_batch_ids(original, tmp_path / "other", 5)
    found = sorted(path.name for path in (tmp_path / "other/state/0/0").iterdir() if path.name.startswith("."))
    assert found == [".6.changelog.crc", ".7.changelog.crc", ".8.changelog.crc"]
    assert (tmp_path / "other/state/0/0/.8.changelog.crc").read_text() == "of 3"
    (original / "state/0/0/2_ab-cd.changelog").write_text("1")
    with pytest.raises(EngineError, match=r"2_ab-cd\.changelog: "):
        rewrite_batch_ids(original, tmp_path / "another", 5)


# -- the name --------------------------------------------------------------------------------------------------------


class Fuse:
    """The power goes before one of the steps that change something on the disk."""

    def __init__(self, left: int) -> None:
        self.left = left

    def of(self, do: Callable[..., Any]) -> Callable[..., Any]:
        def step(*told: Any, **more: Any) -> Any:
            if self.left == 0:
                raise PowerCutError
            self.left -= 1
            return do(*told, **more)

        return step


@settings(max_examples=150)
@given(st.lists(st.sampled_from(["open", "hand over", "close"]), min_size=1, max_size=6), st.integers(0, 25))
def test_the_link_leads_to_the_last_hand_over(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str], left: int
) -> None:
    folder = tmp_path_factory.mktemp("place")
    name, number = folder / "checkpoint", 0
    name.mkdir()
    (name / "number").write_text("0")
    fuse = Fuse(left)
    with pytest.MonkeyPatch.context() as patched, suppress(PowerCutError):
        patched.setattr(places, "exchange_paths", fuse.of(places.exchange_paths))
        patched.setattr(shutil, "rmtree", fuse.of(shutil.rmtree))
        for step in ("symlink_to", "mkdir", "replace", "unlink"):
            patched.setattr(Path, step, fuse.of(getattr(Path, step)))
        for step in steps:
            place = CheckpointLink(name)
            if step == "open":
                live = place.open()
                assert (live / "number").read_text() == str(number)
                assert name.is_symlink()
            elif step == "hand over" and name.is_symlink():
                fresh = place.new_generation()
                os.mkdir(fresh)
                Path(fresh, "number").write_text(str(number + 1))
                place.make_live(fresh)
                number += 1
                place.remove_others()
            elif step == "close":
                places._opened.clear()  # as in a process that comes later
                place.close()
                assert not name.is_symlink()
    found = int((name / "number").read_text())  # as a script without us would
    assert found in (number, number + 1)
    places._opened.clear()
    last = CheckpointLink(name)
    last.open()
    last.close()
    assert sorted(os.listdir(folder)) == ["checkpoint"]
    assert int((name / "number").read_text()) == found


def test_a_link_is_closed_by_its_last_opener_and_follows_links_of_the_author(tmp_path: Path) -> None:
    (tmp_path / "big").mkdir()
    (tmp_path / "mine").symlink_to("big/checkpoint")
    first = CheckpointLink(tmp_path / "mine")
    assert first.name == tmp_path / "big" / "checkpoint"
    live = first.open()
    again = CheckpointLink(tmp_path / "big" / "checkpoint")
    assert again.open() == live
    first.close()
    assert again.name.is_symlink()
    again.close()
    assert os.listdir(tmp_path / "big") == ["checkpoint"]
    assert os.readlink(tmp_path / "mine") == "big/checkpoint"
    (tmp_path / "one").symlink_to("other")
    (tmp_path / "other").symlink_to("one")
    with pytest.raises(EngineError, match="a link that leads in a circle"):
        CheckpointLink(tmp_path / "one")


def test_a_disk_that_cannot_exchange_names_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Path) -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(places, "exchange_paths", refused)
    with pytest.raises(EngineError, match=r"checkpoint: cannot be made a link \(Invalid argument\)"):
        CheckpointLink(tmp_path / "checkpoint").open()
    assert (tmp_path / "checkpoint").is_dir()
    assert not (tmp_path / "checkpoint").is_symlink()


def test_rescale_modes_are_parsed() -> None:
    assert parse_rescale_mode("auto") == "auto"
    with pytest.raises(InputError, match=r"rescale: .*\(seen: 'fast'\)"):
        parse_rescale_mode("fast")


@given(st.booleans(), st.one_of(st.none(), st.tuples(st.integers(1, 9), st.integers(9, 99))), st.booleans())
def test_a_driver_reads_the_options_that_its_controller_wrote(
    apply: bool, executors: tuple[int, int] | None, memory_metrics: bool
) -> None:
    options = ProgramOptions(apply, executors, "overlap", memory_metrics)
    assert ProgramOptions.from_environment(options.to_environment()) == options
    assert ProgramOptions.from_environment({}) == ProgramOptions()
