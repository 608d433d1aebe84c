"""What stands in a checkpoint, and the next thing to do before a query goes on from it. Pure: who reads and who does is
elsewhere (`host/checkpoints.py`, `rescaling.py`).

    symbol   meaning                                                                     where it stands
    b        number of a batch. A move of state takes a number too, and reads no input   offsets/b, once it is planned
    C        newest batch that is committed                                              commits/C
    O        newest batch that is planned; open while O > C                              offsets/O
    n(b)     number of partitions that b has its state in; a move is where it changes    offsets/b
    i(b)     how far the input is once b is done; a move leaves it where it was          offsets/b
    b + 1    version of the state that b leaves behind, in each partition of each store  state/…/b+1.*

A host may die between any two of these writes, and everything is decided from what is found:

- An open batch runs again under its own number before state is moved. A sink that goes by batch numbers then sees the
  same records under the same number. (Spark can also skip such a batch, and reads its input once more under another.)
- An open move is finished, to where it was going: Spark neither starts a query on it nor takes it back.
- Where state is already where it should be nothing is moved, and without state there is nothing to move.
- Commits without state behind them were written by earlier versions of this program, which had Spark skip batches that
  it then did not move past. They are forgotten, with what was planned behind the first of them: that one is open again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from autotrascale.domain.errors import EngineError


@dataclass(frozen=True)
class PlannedBatch:
    """One entry of `offsets/`."""

    batch: int
    partitions: int  # 0: not said
    input: str = ""  # as it stands there


@dataclass(frozen=True)
class StateStoreFacts:
    """One partition of one state store. `name` is the operator's number, and the store's where it has several."""

    name: str
    partition: int
    versions: tuple[int, ...]


@dataclass(frozen=True)
class CheckpointFacts:
    """The newest entries of each folder, in any order."""

    planned: tuple[PlannedBatch, ...] = ()
    committed: tuple[int, ...] = ()
    stores: tuple[StateStoreFacts, ...] = ()

    @cached_property
    def partitions(self) -> Mapping[int, int]:
        """n(b)."""
        return {entry.batch: entry.partitions for entry in sorted(self.planned, key=lambda entry: entry.batch)}

    @cached_property
    def inputs(self) -> Mapping[int, str]:
        """i(b)."""
        return {entry.batch: entry.input for entry in self.planned}

    def came_to_its_end(self, batch: int) -> bool:
        """Whether each store has the version that this batch leaves behind, be it in one partition: then files may be
        missing. Of a batch that failed on the way some store has none."""
        names = {store.name for store in self.stores}
        return names == {store.name for store in self.stores if batch + 1 in store.versions}

    def is_whole(self, batch: int) -> bool:
        """Whether every partition of each of them has it: partitions beyond n(b) are left over from another time."""
        stores = {(store.name, store.partition): store.versions for store in self.stores}
        count = self.partitions.get(batch, 0)
        names = {store.name for store in self.stores}
        return count > 0 and all(batch + 1 in stores.get((name, part), ()) for name in names for part in range(count))


@dataclass(frozen=True)
class RunOpenBatchStep:
    """This one, which is planned and not committed, and no other."""

    batch: int


@dataclass(frozen=True)
class MoveStateStep:
    """All of it, to this number of partitions."""

    partitions: int


@dataclass(frozen=True)
class LogEntry:
    """A file of the checkpoint."""

    folder: Literal["commits", "offsets"]
    batch: int


@dataclass(frozen=True)
class ForgetEntriesStep:
    """These, in this order: whoever dies in between leaves behind what is known here as well."""

    entries: tuple[LogEntry, ...]


PreparationStep = RunOpenBatchStep | MoveStateStep | ForgetEntriesStep


def next_preparation_step(found: CheckpointFacts, wanted: int, place: str = "checkpoint") -> PreparationStep | None:
    """None where a query can be started with `wanted` partitions of state; 0 wants them as they are. Raises where
    nothing that is known here would mend it."""
    if not found.stores or not found.planned:
        return None
    if not found.partitions[max(found.partitions)]:
        return None  # written by a Spark that did not say
    opened, committed = max(found.partitions), max(found.committed, default=-1)
    if opened < committed:
        raise _missing(place, opened, committed)
    if committed >= 0 and not found.is_whole(committed):
        return _forgotten(found, committed, place)
    if opened > committed and _is_move(found, opened) and found.inputs[opened] != found.inputs[opened - 1]:
        return ForgetEntriesStep(
            (*((LogEntry("commits", committed),) if committed == opened - 1 else ()), LogEntry("offsets", opened))
        )
    if opened > committed + 1:
        raise _missing(place, opened, committed)
    if opened > committed and _is_move(found, opened):
        return MoveStateStep(found.partitions[opened])
    if wanted in (0, found.partitions[opened]):
        return None
    return RunOpenBatchStep(opened) if opened > committed else MoveStateStep(wanted)


def preparation_steps(read: Callable[[], CheckpointFacts], wanted: int, place: str) -> Iterator[PreparationStep]:
    """One step after the other, each decided from what is then found. Whoever asks for the next one has done the one
    before, or dies; it can be begun again from anywhere, by anybody."""
    for _ in range(_MOST_STEPS):
        step = next_preparation_step(read(), wanted, place)
        if step is None:
            return
        yield step
    raise EngineError(
        f"{place}: after {_MOST_STEPS} steps it still needs {next_preparation_step(read(), wanted, place)}"
    )


def find_open_batch_to_carry_over(found: CheckpointFacts, wanted: int) -> int | None:
    """The open batch, where state is to be moved and nothing is to be mended. Of one without input nobody knows which
    records it is about."""
    if next_preparation_step(found, wanted) != RunOpenBatchStep(opened := max(found.partitions, default=-1)):
        return None
    return opened if opened and found.inputs[opened] != found.inputs.get(opened - 1) else None


def is_first_after_move(found: CheckpointFacts, batch: int) -> bool:
    """The one behind a move: nothing has run with so many partitions since, so they may be what it fails with."""
    return batch - 1 in found.partitions and _is_move(found, batch - 1)


_MOST_STEPS = 5  # forget, run the open batch, finish a move, move
_REMEDY = "restore the folder from a copy, or give the job a new, empty one"


def _is_move(found: CheckpointFacts, batch: int) -> bool:
    """As Spark tells it: no other batch changes the number."""
    before = found.partitions.get(batch - 1)
    return before is not None and before != found.partitions[batch]


def _forgotten(found: CheckpointFacts, committed: int, place: str) -> ForgetEntriesStep:
    """The commits past the newest whole state. The batch of the first of them may have begun to write its state, as any
    open batch; those behind it never came so far."""
    good = max((batch for batch in found.committed if found.is_whole(batch)), default=None)
    if good is None or any(found.came_to_its_end(batch) for batch in range(good + 2, committed + 1)):
        raise EngineError(f"{place}: batch {committed} is committed, but files of its state are missing; {_REMEDY}")
    entries: list[LogEntry] = []
    for batch in range(max(found.partitions), good, -1):
        if batch in found.committed:
            entries.append(LogEntry("commits", batch))
        if batch > good + 1 and batch in found.partitions:
            entries.append(LogEntry("offsets", batch))
    return ForgetEntriesStep(tuple(entries))


def _missing(place: str, opened: int, committed: int) -> EngineError:
    there = f"the newest batch in offsets/ is {opened} and the newest in commits/ is {committed}"
    return EngineError(f"{place}: {there}: entries are missing; {_REMEDY}")
