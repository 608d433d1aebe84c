"""The preparation of a checkpoint for a start, for every way in which a crash may have left it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from checkpoint_model import Disk, PowerCutError
from hypothesis import example, given, settings
from hypothesis import strategies as st

from autotrascale.domain.errors import EngineError
from autotrascale.execute.spark.common.checkpoint_facts import (
    CheckpointFacts,
    MoveStateStep,
    PlannedBatch,
    RunOpenBatchStep,
    StateStoreFacts,
    is_first_after_move,
    next_preparation_step,
)
from autotrascale.execute.spark.driver_agent.checkpoint_folder import parse_planned_batch

counts = st.integers(1, 4)
cuts = st.one_of(st.none(), st.integers(0, 25))  # the writes before the power is cut


def until_cut(disk: Disk, writes: int | None, action: Callable[[], object]) -> bool:
    """Return whether the action ended before the power cut."""
    disk.writes_left = writes
    try:
        action()
    except PowerCutError:
        return False
    finally:
        disk.writes_left = None
    return True


def goes_on(disk: Disk, wanted: int, end: int) -> None:
    """Check that the query runs with `wanted` partitions of state and that no step is left.

    A first batch that was cut off before it had state leaves nothing to move, hence the second preparation.
    """
    disk.prepare(wanted)
    disk.batch(end)
    disk.prepare(wanted)
    disk.batch(end + 1)
    assert disk.newest()[0] == disk.newest()[1]
    assert disk.partitions() == wanted
    assert disk.prepare(wanted) == []


@settings(max_examples=300, deadline=None)
@given(first=counts, life=st.lists(st.tuples(st.booleans(), counts, cuts), max_size=12), last=counts)
@example(first=2, life=[(False, 1, None), (False, 1, 1), (True, 2, None)], last=2)
@example(first=2, life=[(False, 1, None), (True, 4, 1), (True, 1, 3)], last=2)
@example(first=2, life=[(False, 1, 2)], last=3)
def test_nothing_is_lost_or_doubled_wherever_it_is_cut_off(
    first: int, life: list[tuple[bool, int, int | None]], last: int
) -> None:
    """Run batches and rescales, each cut off before any of its writes, and so is the recovery."""
    disk, end = Disk(first), 0
    for rescales, number, writes in life:
        end += number
        if rescales:
            until_cut(disk, writes, lambda number=number: disk.prepare(number))  # type: ignore[misc]
        elif disk.prepare(0) is not None:
            until_cut(disk, writes, lambda end=end: disk.batch(end))  # type: ignore[misc]
    goes_on(disk, last if disk.commits or disk.offsets else first, end + 1)
    assert all(before[1] == after[0] for before, after in pairwise([(0, 0), *disk.taken()]))


WHOLE = (StateStoreFacts("0", 0, (1, 2, 3)), StateStoreFacts("0", 1, (1, 2, 3)))


def at(*planned: tuple[int, int]) -> tuple[PlannedBatch, ...]:
    return tuple(PlannedBatch(*entry) for entry in planned)


@pytest.mark.parametrize(
    ("found", "wanted", "step"),
    [
        (CheckpointFacts(), 3, None),
        (CheckpointFacts(at((0, 2), (1, 2)), (0,)), 3, None),  # without state
        (CheckpointFacts(at((0, 2), (1, 2), (2, 2)), (0, 1, 2), WHOLE), 2, None),
        (CheckpointFacts(at((0, 2), (1, 2), (2, 2)), (0, 1, 2), WHOLE), 0, None),
        (CheckpointFacts(at((0, 2), (1, 2), (2, 2)), (0, 1, 2), WHOLE), 3, MoveStateStep(3)),
        (CheckpointFacts(at((1, 2), (2, 2), (3, 2)), (1, 2), WHOLE), 2, None),
        (CheckpointFacts(at((1, 2), (2, 2), (3, 2)), (1, 2), WHOLE), 3, RunOpenBatchStep(3)),
        (CheckpointFacts(at((1, 2), (2, 2), (3, 5)), (1, 2), WHOLE), 2, MoveStateStep(5)),
        (CheckpointFacts(at((1, 2), (2, 2), (3, 5)), (1, 2), WHOLE), 0, MoveStateStep(5)),
        (CheckpointFacts(at((0, 2)), (), (StateStoreFacts("0", 0, (1,)),)), 2, None),  # the first batch is open
        (CheckpointFacts(at((0, 2)), (), (StateStoreFacts("0", 0, (1,)),)), 3, RunOpenBatchStep(0)),
        (CheckpointFacts(at((1, 0), (2, 0)), (1,), WHOLE), 3, None),  # Spark did not record the number
    ],
)
def test_the_next_step_for_each_way_to_be_left(found: CheckpointFacts, wanted: int, step: object) -> None:
    assert next_preparation_step(found, wanted) == step


@pytest.mark.parametrize(
    ("found", "numbers"),
    [
        (CheckpointFacts(at((1, 2), (2, 2)), (1, 2, 3), WHOLE), ("offsets/ is 2", "commits/ is 3")),
        (CheckpointFacts(at((2, 2), (4, 2)), (2,), WHOLE), ("offsets/ is 4", "commits/ is 2")),
        (CheckpointFacts(at((7, 2), (8, 2)), (7, 8), WHOLE), ("batch 8",)),
        # A batch that was committed before its state was written.
        (CheckpointFacts(at((2, 2), (3, 2)), (2, 3), WHOLE), ("batch 3",)),
        # Half of the newest state, and the one before is gone: a disk that lost files.
        (
            CheckpointFacts(
                at((2, 2), (3, 2), (4, 2)), (2, 3, 4), (StateStoreFacts("0", 0, (3, 5)), StateStoreFacts("0", 1, (3,)))
            ),
            ("batch 4",),
        ),
    ],
)
def test_a_checkpoint_with_missing_files_is_refused_in_one_line(
    found: CheckpointFacts, numbers: tuple[str, ...]
) -> None:
    with pytest.raises(EngineError) as refused:
        next_preparation_step(found, 2, "/data/checkpoint")
    line = str(refused.value)
    assert line.startswith("/data/checkpoint: ")
    assert all(number in line for number in numbers)
    assert "restore the folder from a copy" in line
    assert "\n" not in line


@pytest.mark.parametrize(
    ("text", "planned"),
    [
        (
            'v1\n{"batchWatermarkMs":0,"conf":{"spark.sql.shuffle.partitions":"7"}}\n{"n":1}\n-',
            PlannedBatch(3, 7, '{"n":1}\n-'),
        ),
        ('v1\n{"batchWatermarkMs":0,"conf":{}}\n{"n":1}', PlannedBatch(3, 0, '{"n":1}')),
        ("v1\n\n-", PlannedBatch(3, 0, "-")),
        ("", PlannedBatch(3, 0)),
    ],
)
def test_an_entry_of_the_offset_log_says_how_its_batch_ran_and_how_far_the_input_was(
    text: str, planned: PlannedBatch
) -> None:
    assert parse_planned_batch(3, text) == planned


@given(numbers=st.lists(counts, min_size=1, max_size=8))
def test_only_the_first_batch_behind_a_move_may_fail_because_of_its_number(numbers: list[int]) -> None:
    planned: list[PlannedBatch] = []
    first = set()
    for was, number in pairwise([numbers[0], *numbers]):
        if was != number:
            planned.append(PlannedBatch(len(planned), number))  # the move
            first.add(len(planned))
        planned += [PlannedBatch(len(planned), number), PlannedBatch(len(planned) + 1, number)]
    found = CheckpointFacts(tuple(planned))
    assert {each.batch for each in planned if is_first_after_move(found, each.batch)} == first
