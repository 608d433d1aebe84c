"""A model of a checkpoint as Spark writes it, one write after the other, with a power cut before any write.

The state of the model is the end of the input that is in it. The sink of the model goes by batch numbers, like Spark's
file sink: it takes a batch once and skips repetitions. Each read checks that the entry exists and fits.
"""

from __future__ import annotations

from typing import Any

from autotrascale.execute.spark.common.checkpoint_facts import (
    CheckpointFacts,
    MoveStateStep,
    PlannedBatch,
    PreparationStep,
    RunOpenBatchStep,
    StateStoreFacts,
    next_preparation_step,
)
from autotrascale.execute.spark.common.checkpoint_generations import VisibleBatches

NAMES = ("0", "1")  # two stateful operators


class PowerCutError(Exception):
    pass


class SparkRefusesError(Exception):
    pass


class Disk:
    def __init__(self, partitions: int) -> None:
        self.first = partitions
        self.offsets: dict[int, tuple[int, int]] = {}  # batch → the end of its input, n
        self.commits: dict[int, bool] = {}
        self.state: dict[tuple[str, int, int], int] = {}  # store, partition, version → the end of the input in it
        self.sink: dict[int, tuple[int, int]] = {}
        self.visible = VisibleBatches()
        self.writes_left: int | None = None
        self.power = self  # the disk that counts the writes left

    # -- Spark -------------------------------------------------------------------------------------------------------

    def batch(self, end: int) -> None:
        """Run the open batch, or else a new batch with the input up to `end`."""
        opened, committed = self.newest()
        if opened == committed:
            opened += 1
            self._put(self.offsets, opened, (end, self.partitions()))
        elif self._is_move(opened):
            raise SparkRefusesError("an unfinished move")
        start, (end, partitions) = self.offsets.get(opened - 1, (0, 0))[0], self.offsets[opened]
        for name in NAMES:
            for part in range(partitions):
                if opened:
                    self._read(name, part, opened, start)
                self._put(self.state, (name, part, opened + 1), end)
        if opened > self.visible.after:
            number = opened + self.visible.raised
            if number in self.sink:
                assert self.sink[number] == (start, end), "a sink that goes by batch numbers has other records in it"
            self._put(self.sink, number, (start, end))
        self._put(self.commits, opened, True)

    def begun(self, end: int, writes: int) -> bool:
        """Run a batch that is stopped after so many writes. Return whether it ended before."""
        power, left = self.power, self.power.writes_left
        if left is not None and left <= writes:
            self.batch(end)  # the power goes first, or the batch is at its end
            return True
        power.writes_left = writes
        try:
            self.batch(end)
        except PowerCutError:
            return False
        else:
            return True
        finally:
            done = writes - (power.writes_left or 0)
            power.writes_left = None if left is None else left - done

    def move(self, partitions: int) -> None:
        opened, committed = self.newest()
        if committed < 0:
            raise SparkRefusesError("no batch is committed")
        if opened == committed or not self._is_move(opened):
            if opened > committed:
                raise SparkRefusesError("a batch is open")
            end, before = self.offsets[committed]
            if before == partitions:
                raise SparkRefusesError("it is there already")
            opened += 1
            self._put(self.offsets, opened, (end, partitions))
        elif self.offsets[opened][1] != partitions:
            raise SparkRefusesError("another move is unfinished")
        end, before = self.offsets[opened][0], self.offsets[committed][1]
        for name in NAMES:
            for part in range(before):
                self._read(name, part, committed + 1, end)
            for part in range(partitions):
                self._put(self.state, (name, part, opened + 1), end)
        self._put(self.commits, opened, True)

    # -- AuTraScale ---------------------------------------------------------------------------------------------------

    def found(self) -> CheckpointFacts:
        versions: dict[tuple[str, int], list[int]] = {}
        for name, part, version in self.state:
            versions.setdefault((name, part), []).append(version)
        return CheckpointFacts(
            tuple(PlannedBatch(batch, partitions, str(end)) for batch, (end, partitions) in self.offsets.items()),
            tuple(self.commits),
            tuple(StateStoreFacts(name, part, tuple(found)) for (name, part), found in versions.items()),
        )

    def prepare(self, wanted: int) -> list[PreparationStep]:
        """Carry out all steps, as `QueryRescaler.prepare` does."""
        steps: list[PreparationStep] = []
        while (step := next_preparation_step(self.found(), wanted)) is not None:
            steps.append(step)
            assert len(steps) <= 5, steps
            match step:
                case RunOpenBatchStep(batch):
                    assert self.newest()[0] == batch
                    self.batch(-1)
                case MoveStateStep(partitions):
                    self.move(partitions)
        return steps

    def copied(self, batch: int) -> Disk:
        """Return a copy as of this commit. The copy writes to the same sink and has the same power."""
        copy = Disk(self.first)
        copy.power = self.power
        copy.sink = self.sink
        for folder, other in ((self.offsets, copy.offsets), (self.commits, copy.commits)):
            for number in folder:
                if number <= batch:
                    self._put(other, number, folder[number])
        for place, end in list(self.state.items()):
            if place[2] <= batch + 1:
                self._put(copy.state, place, end)
        return copy

    def give(self, original: Disk, batch: int) -> int:
        """Do the same as `copy_checkpoint.plan_to_same_input`."""
        own, end = max(self.offsets), original.offsets[batch][0]
        if self.offsets[own][0] == end:
            return own
        self._put(self.offsets, own + 1, (end, self.partitions()))
        return own + 1

    def repeat(self, original: Disk, batch: int, number: int) -> None:
        """Do the same as `copy_checkpoint.plan_same_batch`."""
        self._put(self.offsets, number, (original.offsets[batch][0], self.partitions()))

    # -- facts --------------------------------------------------------------------------------------------------------

    def newest(self) -> tuple[int, int]:
        return max(self.offsets, default=-1), max(self.commits, default=-1)

    def partitions(self) -> int:
        return self.offsets[max(self.offsets)][1] if self.offsets else self.first

    def taken(self) -> list[tuple[int, int]]:
        """Return the records in the sink, batch after batch."""
        return [self.sink[batch] for batch in sorted(self.sink) if self.sink[batch][1] > self.sink[batch][0]]

    def _is_move(self, batch: int) -> bool:
        return batch > 0 and self.offsets[batch][1] != self.offsets[batch - 1][1]

    def _read(self, name: str, part: int, version: int, end: int) -> None:
        found = self.state.get((name, part, version))
        if found is None:
            raise SparkRefusesError(f"state of version {version} is not there")
        assert found == end, "the state has other records in it"

    def _put(self, folder: dict[Any, Any], key: object, value: object) -> None:
        self._cut_off()
        folder[key] = value

    def _cut_off(self) -> None:
        if self.power.writes_left == 0:
            raise PowerCutError
        if self.power.writes_left is not None:
            self.power.writes_left -= 1
