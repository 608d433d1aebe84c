"""Operators of stages from counting marks: Spark's plan tree, cut at its shuffles, matched with the stages of a job.

Every shuffle (`Exchange`) of a plan has a number, `plan_id`. A stage's RDDs carry the number of the plan node that made
them. So a stage tells which shuffles it reads and writes, and the part of the plan between them holds its mark. Before
Spark 4.0 stages do not carry these numbers. Then stages are matched with parts by the shape of the graph: which feeds
which. Where the match is ambiguous, as with two sources before one join, no stage has a role.

A part without a mark belongs to the operator whose mark comes next downstream (a shuffle inside an operator). Behind
the last mark, a part belongs to the operator before it (the sink).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import msgspec
from msgspec import Struct

from autotrascale.domain.errors import EngineError
from autotrascale.monitor.eventlog.events import JobStage, Node, Scope
from autotrascale.monitor.marks import find_counting_name

_PLAN_ID = re.compile(r"\[plan_id=(\d{1,9})\]")
_FINAL = -1  # the part that writes no shuffle
_NUMBERED = "spark_plan_"
_scope = msgspec.json.Decoder(Scope).decode


class StageRdd(Struct, frozen=True):
    """An RDD of a stage. `node` names the plan node that made it, `shuffle` is the node's number if it is a shuffle."""

    number: int
    name: str
    node: str = ""
    shuffle: int | None = None


class Stage(Struct, frozen=True):
    """A stage in the list of a job that starts. `parents` is None where they are unknown."""

    number: int
    name: str
    rdds: tuple[StageRdd, ...]
    parents: tuple[int, ...] | None = None

    @classmethod
    def listed(cls, stage: JobStage) -> Stage:
        """Return the stage of an event. Spark lists RDDs in random order, so they are sorted by number."""
        rdds = tuple(sorted((StageRdd(rdd.rdd, rdd.name, *parse_scope(rdd.scope)) for rdd in stage.rdds), key=_number))
        return cls(stage.stage, stage.name, rdds, None if stage.parents is None else tuple(stage.parents))


@dataclass(frozen=True, slots=True)
class MarkedRole:
    """The role of a stage in its operator: `entry` takes the operator's input, `exit` gives its output."""

    operator: str
    entry: bool
    exit: bool


@dataclass
class MarkedPart:
    """A part of the plan between shuffles. `writes` numbers its own shuffle, `reads` the shuffles below."""

    writes: int
    marks: list[str] = field(default_factory=list)
    reads: list[int] = field(default_factory=list)


class MarkedPlan:
    """The plan of one query, from `sparkPlanInfo` in the event log."""

    def __init__(self, tree: Node) -> None:
        self._parts = {part.writes: part for part in _cut(tree)}
        self._readers = {below: part.writes for part in self._parts.values() for below in part.reads}
        self._owners = {writes: self._owner(writes) for writes in self._parts}

    @property
    def operators(self) -> set[str]:
        """The operators that marks name."""
        return {owner for owner in self._owners.values() if owner}

    def roles(self, stages: Sequence[Stage]) -> dict[int, MarkedRole]:
        """Return the roles of the stages of one job, by number. Stages of other jobs, as of a broadcast, have none."""
        if any(rdd.shuffle is not None for stage in stages for rdd in stage.rdds):
            parts = {stage.number: self._find_part(stage) for stage in stages}
        else:
            parts = self._match_by_shape({stage.number: stage for stage in stages})
        found = {stage: self._role(writes) for stage, writes in parts.items() if writes is not None}
        return {stage: role for stage, role in found.items() if role is not None}

    def _find_part(self, stage: Stage) -> int | None:
        """Return the part that the stage ran, by the shuffles that it writes and reads."""
        writes, reads = find_shuffles(stage)
        part = self._parts.get(writes)
        return None if part is None or (writes == _FINAL and reads != set(part.reads)) else writes

    def _match_by_shape(self, stages: Mapping[int, Stage]) -> dict[int, int | None]:
        """Return the part of each stage by the shape of the graph; empty where any stage is ambiguous."""
        feeding = {parent for stage in stages.values() for parent in stage.parents or ()}
        last = stages.keys() - feeding
        if len(last) != 1 or not feeding <= stages.keys() or any(stage.parents is None for stage in stages.values()):
            return {}
        found: dict[int, int | None] = {}
        todo = [(last.pop(), _FINAL)]
        while todo:
            stage, part = todo.pop()
            found[stage] = part
            above = {
                describe_shape(parent, lambda at: stages[at].parents or ()): parent
                for parent in stages[stage].parents or ()
            }
            below = {describe_shape(read, lambda at: self._parts[at].reads): read for read in self._parts[part].reads}
            apart = len(above) == len(stages[stage].parents or ()) and len(below) == len(self._parts[part].reads)
            if not apart or above.keys() != below.keys():
                return {}
            todo += [(above[shape], below[shape]) for shape in above]
        return found

    def _role(self, writes: int) -> MarkedRole | None:
        part = self._parts[writes]
        operator = self._owners[writes]
        if not operator:
            return None
        above = self._readers.get(writes)
        return MarkedRole(
            operator,
            entry=all(self._owners[below] != operator for below in part.reads),
            exit=above is None or self._owners[above] != operator,
        )

    def _owner(self, writes: int) -> str:
        """Return the mark in the part, else the next mark downstream, else the nearest upstream; empty without any."""
        at: int | None = writes
        while at is not None:
            if found := _single_mark(self._parts[at].marks):
                return found
            at = self._readers.get(at)
        below = (_single_mark(self._parts[number].marks) for number in self._parts[writes].reads)
        return next(filter(None, below), "")


@lru_cache(maxsize=1024)  # the RDDs of one node share its scope
def parse_scope(scope: str | None) -> tuple[str, int | None]:
    """Return the node that an RDD's scope names, and its number if it is a shuffle.

    Early versions of Spark number scopes independently of the plan. Then the number is None.
    """
    if not scope:
        return "", None
    made = _scope(scope)
    if made.name != "Exchange" or not made.id.startswith(_NUMBERED):
        return made.name, None
    number = int(made.id.removeprefix(_NUMBERED))
    if not 0 <= number < 1 << 31:
        raise ValueError("the number of the scope is out of range")
    return made.name, number


def find_shuffle(node: Node) -> int | None:
    """Return the number of a shuffle in the plan, None for another node or a shuffle without a number."""
    found = _PLAN_ID.search(node.simpleString) if node.nodeName == "Exchange" else None
    return int(found[1]) if found else None


def _cut(tree: Node) -> list[MarkedPart]:
    """Cut the tree at its shuffles, from the end of the plan down.

    Each mark and each shuffle belongs to the part opened last on its path. A shuffle without a number separates parts
    too, and no stage refers to it.
    """
    parts = [MarkedPart(_FINAL)]
    todo = [(tree, parts[0])]
    while todo:
        node, part = todo.pop()
        if mark := find_counting_name(node.simpleString):
            part.marks.append(mark)
        if node.nodeName == "Exchange":
            number = find_shuffle(node)
            below = MarkedPart(_FINAL - len(parts) if number is None else number)
            part.reads.append(below.writes)
            parts.append(below)
            part = below
        todo += [(child, part) for child in node.children]
    return parts


def find_shuffles(stage: Stage) -> tuple[int, set[int]]:
    """Return the number of the shuffle that a stage writes, and the numbers of the shuffles that it reads."""
    writes, reads = _FINAL, set()
    for rdd in stage.rdds:
        if rdd.shuffle is None:
            continue
        if rdd.name == "ShuffledRowRDD":
            reads.add(rdd.shuffle)
        else:
            writes = rdd.shuffle
    return writes, reads


def describe_shape(top: int, below: Callable[[int], Sequence[int]]) -> str:
    """Return the shape of a tree as brackets in brackets, independent of the names of its nodes."""
    return "(" + "".join(sorted(describe_shape(each, below) for each in below(top))) + ")"


def _number(rdd: StageRdd) -> int:
    return rdd.number


def _single_mark(marks: list[str]) -> str:
    if len(marks) > 1:
        raise EngineError(
            f"operators {', '.join(reversed(marks))} run in one stage, so their times cannot be separated: "
            "declare them as one operator, or give the later operator its own shuffle with by="
        )
    return marks[0] if marks else ""
