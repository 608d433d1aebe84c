"""The contents of a checkpoint as facts, and the next step that prepares it for a start of its query.

    symbol   meaning                                                                     file
    b        number of a batch. A move of state takes a number too and reads no input    offsets/b, once planned
    C        newest committed batch                                                      commits/C
    O        newest planned batch; it is open while O > C                                offsets/O
    n(b)     number of state partitions of b; a batch that changes it is a move          offsets/b
    i(b)     end of the input of b; a move leaves it unchanged                           offsets/b
    b + 1    version of the state after b, in each partition of each store               state/…/b+1.*

A driver may die between any two of these writes. Each decision is taken from the files that are found:

- An open batch runs again under its own number before state is moved. A sink that knows batch numbers then sees the
  same records under the same number. (Spark could skip the batch and read its input again under another number.)
- An open move is finished with its own number of partitions: Spark neither starts a query on it nor reverts it.
- Nothing is moved if the state has the wanted number of partitions already, or if there is no state.

All functions are pure. `driver_agent/checkpoint_folder.py` reads the facts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from autotrascale.domain.errors import EngineError
from autotrascale.domain.topology import Topology


@dataclass(frozen=True)
class PlannedBatch:
    """An entry of `offsets/`. `partitions` is 0 if the entry does not say it; `input` is the text of the offsets."""

    batch: int
    partitions: int
    input: str = ""


@dataclass(frozen=True)
class StateStoreFacts:
    """The state versions in one partition of a state store.

    `name` is the number of the operator, followed by the name of the store if the operator has several.
    """

    name: str
    partition: int
    versions: tuple[int, ...]


@dataclass(frozen=True)
class CheckpointFacts:
    """The newest entries of each folder of a checkpoint, in any order."""

    planned: tuple[PlannedBatch, ...] = ()
    committed: tuple[int, ...] = ()
    stores: tuple[StateStoreFacts, ...] = ()

    @cached_property
    def partitions(self) -> Mapping[int, int]:
        """Return n(b) by batch, in ascending order."""
        return {entry.batch: entry.partitions for entry in sorted(self.planned, key=lambda entry: entry.batch)}

    @cached_property
    def inputs(self) -> Mapping[int, str]:
        """Return i(b) by batch."""
        return {entry.batch: entry.input for entry in self.planned}

    def has_whole_state(self, batch: int) -> bool:
        """Return whether all n(b) partitions of each store have the state after `batch`.

        Partitions beyond n(b) are leftovers of earlier parallelisms and do not count.
        """
        stores = {(store.name, store.partition): store.versions for store in self.stores}
        count = self.partitions.get(batch, 0)
        names = {store.name for store in self.stores}
        return count > 0 and all(batch + 1 in stores.get((name, part), ()) for name in names for part in range(count))


@dataclass(frozen=True)
class RunOpenBatchStep:
    """Run the planned, uncommitted batch `batch` and no other batch."""

    batch: int


@dataclass(frozen=True)
class MoveStateStep:
    """Move all state to this number of partitions."""

    partitions: int


PreparationStep = RunOpenBatchStep | MoveStateStep

_MAX_STEPS = 4  # finish a move, run the open batch, move, and one to spare
_REMEDY = "restore the folder from a copy, or give the job a new, empty one"


def count_state_partitions(topology: Topology, k: Mapping[str, int]) -> int:
    """Return the number of state partitions of a query at parallelism `k`, or 0 for a query without state.

    Spark gives all state of a query one number of partitions.
    """
    return max((k[name] for name, operator in topology.operators.items() if operator.stateful), default=0)


def next_preparation_step(facts: CheckpointFacts, wanted: int, place: str = "checkpoint") -> PreparationStep | None:
    """Return the next step before a query may start with `wanted` partitions of state, or None when it may start.

    Args:
        facts: the contents of the checkpoint.
        wanted: number of state partitions; 0 keeps the present number.
        place: name of the checkpoint in error messages.

    Raises:
        EngineError: entries or state files are missing.
    """
    if not facts.stores or not facts.planned:
        return None
    if not facts.partitions[max(facts.partitions)]:
        return None  # written by a Spark version that does not record the number
    opened, committed = max(facts.partitions), max(facts.committed, default=-1)
    if not committed <= opened <= committed + 1:
        entries = f"the newest batch in offsets/ is {opened} and the newest in commits/ is {committed}"
        raise EngineError(f"{place}: entries are missing: {entries}; {_REMEDY}")
    if committed >= 0 and not facts.has_whole_state(committed):
        raise EngineError(f"{place}: batch {committed} is committed, but files of its state are missing; {_REMEDY}")
    if opened > committed and _is_move(facts, opened):
        return MoveStateStep(facts.partitions[opened])
    if wanted in (0, facts.partitions[opened]):
        return None
    return RunOpenBatchStep(opened) if opened > committed else MoveStateStep(wanted)


def preparation_steps(read: Callable[[], CheckpointFacts], wanted: int, place: str) -> Iterator[PreparationStep]:
    """Yield each step after reading the facts anew. The caller carries out a step before it asks for the next.

    The sequence may break off anywhere and be started again by another process.
    """
    for _ in range(_MAX_STEPS):
        step = next_preparation_step(read(), wanted, place)
        if step is None:
            return
        yield step
    raise EngineError(
        f"{place}: after {_MAX_STEPS} steps it still needs {next_preparation_step(read(), wanted, place)}"
    )


def find_open_batch_to_carry_over(facts: CheckpointFacts, wanted: int) -> int | None:
    """Return the open batch if it must run before state is moved, and reads input. Otherwise return None."""
    if next_preparation_step(facts, wanted) != RunOpenBatchStep(opened := max(facts.partitions, default=-1)):
        return None
    return opened if opened and facts.inputs[opened] != facts.inputs.get(opened - 1) else None


def is_first_after_move(facts: CheckpointFacts, batch: int) -> bool:
    """Return whether `batch` follows a move: the new number of partitions may then be the cause of its failure."""
    return batch - 1 in facts.partitions and _is_move(facts, batch - 1)


def _is_move(facts: CheckpointFacts, batch: int) -> bool:
    before = facts.partitions.get(batch - 1)
    return before is not None and before != facts.partitions[batch]
