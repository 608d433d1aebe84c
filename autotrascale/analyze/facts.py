"""Raw facts of micro-batches as small typed rows, without Spark: what a log, an API or a listener can all fill in.

    symbol   meaning                                                             unit
    T_u      useful time = run + deserialise + result serialisation − fetch wait s
    wait     time a task stood still for shuffled input                          s

One operator = one stage (or a few, when its own plan shuffles inside); one instance = one task index. Times of day are
Unix milliseconds, as Spark tells them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TaskFact:
    """One finished task. `records_in` comes from a source or a shuffle, `records_out` goes to the next shuffle."""

    stage: int
    index: int
    run_seconds: float
    deserialise_seconds: float = 0.0
    serialise_seconds: float = 0.0
    wait_seconds: float = 0.0
    gc_seconds: float = 0.0
    cpu_seconds: float = 0.0
    records_in: int = 0
    records_out: int = 0

    @property
    def useful_seconds(self) -> float:
        """T_u (DS2 §3.2): never below zero, since Spark's clocks are read one after another."""
        busy = self.run_seconds + self.deserialise_seconds + self.serialise_seconds
        return max(0.0, busy - self.wait_seconds)

    @property
    def slot_seconds(self) -> float:
        """How long it held its slot, working or not."""
        return self.run_seconds + self.deserialise_seconds + self.serialise_seconds


@dataclass(frozen=True, slots=True)
class StageFact:
    """One stage of one batch. `entry` says that it takes in the operator's input; a stage behind a shuffle that the
    operator's own plan makes does not, nor does `exit` hold for one before it."""

    stage: int
    operator: str
    tasks: int
    submitted_ms: int
    completed_ms: int
    entry: bool = True
    exit: bool = True


@dataclass(frozen=True, slots=True)
class Mark:
    """What a mark `op:NAME` counted in one batch; a source's mark knows the arrival times too, in Unix seconds."""

    count: int
    first: float | None = None
    mean: float | None = None
    last: float | None = None


@dataclass(frozen=True, slots=True)
class StateFact:
    """One stateful operator in the plan: keys kept, memory, time to commit."""

    keys: int
    bytes: int
    commit_seconds: float


@dataclass(frozen=True, slots=True)
class BatchFact:
    """One committed micro-batch: what Spark's progress says, and its stages and tasks."""

    batch: int
    run: str
    started_ms: int
    seconds: float
    input_records: int
    phases: Mapping[str, float] = field(default_factory=dict)  # seconds by Spark's names: addBatch, walCommit, …
    marks: Mapping[str, Mark] = field(default_factory=dict)
    stages: tuple[StageFact, ...] = ()
    tasks: tuple[TaskFact, ...] = ()
    states: tuple[StateFact, ...] = ()
    offsets: tuple[tuple[object, object], ...] = ()  # (start, end) for each source, as the source wrote them

    @property
    def committed_ms(self) -> float:
        return self.started_ms + self.seconds * 1000


@dataclass(frozen=True, slots=True)
class BatchStarted:
    """A batch whose tasks began to run: what is in flight counts too, when it takes too long."""

    batch: int
    run: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class QueryEnded:
    """A query run that is over; `error` is Spark's, empty when it was stopped."""

    run: str
    error: str = ""


Fact = BatchFact | BatchStarted | QueryEnded
