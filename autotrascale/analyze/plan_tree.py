"""Which stage runs which operator: Spark's plan tree, cut at its shuffles, joined with the stages of the job.

Every shuffle (`Exchange`) of a plan has a number, `plan_id`. A stage's RDDs carry the number of the plan node that made
them, so a stage says which shuffles it reads and which it writes; the piece of the plan between them holds its mark.
Before 4.0 Spark does not write these numbers with the stages. Then stages are laid beside the pieces by the shape of
both: which feeds which. Where that leaves a doubt, as of two sources before one join, no stage has a role.

A piece without a mark belongs to the operator whose mark comes next downstream (a shuffle inside an operator), and
behind the last mark, to the one before (the sink).
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
_FINAL = -1  # the piece that writes no shuffle
_NUMBERED = "spark_plan_"
_scope = msgspec.json.Decoder(Scope).decode


class StageRdd(Struct, frozen=True):
    """`node` is the node of the plan that made it, and `shuffle` the number of that node if it is a shuffle."""

    number: int
    name: str
    node: str = ""
    shuffle: int | None = None


class Stage(Struct, frozen=True):
    """As a job lists it when it starts. `parents` is None where they are not known."""

    number: int
    name: str
    rdds: tuple[StageRdd, ...]
    parents: tuple[int, ...] | None = None

    @classmethod
    def listed(cls, stage: JobStage) -> Stage:
        """Spark lists RDDs as they come out of a set; here by number."""
        rdds = tuple(sorted((StageRdd(rdd.rdd, rdd.name, *parse_scope(rdd.scope)) for rdd in stage.rdds), key=_number))
        return cls(stage.stage, stage.name, rdds, None if stage.parents is None else tuple(stage.parents))


@dataclass(frozen=True, slots=True)
class MarkedRole:
    """What a stage is to its operator: does it take the operator's input, and does it give its output?"""

    operator: str
    entry: bool
    exit: bool


@dataclass
class MarkedPart:
    """A part of the plan between shuffles. `writes` is its shuffle's number, `reads` those of the pieces below."""

    writes: int
    marks: list[str] = field(default_factory=list)
    reads: list[int] = field(default_factory=list)


class MarkedPlan:
    """One query's plan, as `sparkPlanInfo` in the event log tells it."""

    def __init__(self, tree: Node) -> None:
        self._pieces = {piece.writes: piece for piece in _cut(tree)}
        self._readers = {below: piece.writes for piece in self._pieces.values() for below in piece.reads}
        self._owners = {writes: self._owner(writes) for writes in self._pieces}

    @property
    def operators(self) -> set[str]:
        return {owner for owner in self._owners.values() if owner}

    def roles(self, stages: Sequence[Stage]) -> dict[int, MarkedRole]:
        """Of the stages of one job, by number. Those of another job, as a broadcast makes, have none."""
        if any(rdd.shuffle is not None for stage in stages for rdd in stage.rdds):
            pieces = {stage.number: self._piece(stage) for stage in stages}
        else:
            pieces = self._laid_beside({stage.number: stage for stage in stages})
        found = {stage: self._role(writes) for stage, writes in pieces.items() if writes is not None}
        return {stage: role for stage, role in found.items() if role is not None}

    def _piece(self, stage: Stage) -> int | None:
        """By the shuffles that it writes and reads."""
        writes, reads = find_shuffles(stage)
        piece = self._pieces.get(writes)
        return None if piece is None or (writes == _FINAL and reads != set(piece.reads)) else writes

    def _laid_beside(self, stages: Mapping[int, Stage]) -> dict[int, int | None]:
        """All of them, or none."""
        feeding = {parent for stage in stages.values() for parent in stage.parents or ()}
        last = stages.keys() - feeding
        if len(last) != 1 or not feeding <= stages.keys() or any(stage.parents is None for stage in stages.values()):
            return {}
        found: dict[int, int | None] = {}
        todo = [(last.pop(), _FINAL)]
        while todo:
            stage, piece = todo.pop()
            found[stage] = piece
            above = {
                describe_shape(parent, lambda at: stages[at].parents or ()): parent
                for parent in stages[stage].parents or ()
            }
            below = {
                describe_shape(read, lambda at: self._pieces[at].reads): read for read in self._pieces[piece].reads
            }
            apart = len(above) == len(stages[stage].parents or ()) and len(below) == len(self._pieces[piece].reads)
            if not apart or above.keys() != below.keys():
                return {}
            todo += [(above[shape], below[shape]) for shape in above]
        return found

    def _role(self, writes: int) -> MarkedRole | None:
        piece = self._pieces[writes]
        operator = self._owners[writes]
        if not operator:
            return None
        above = self._readers.get(writes)
        return MarkedRole(
            operator,
            entry=all(self._owners[below] != operator for below in piece.reads),
            exit=above is None or self._owners[above] != operator,
        )

    def _owner(self, writes: int) -> str:
        """The mark in the piece, else the next one downstream, else the nearest upstream; empty when there is none."""
        at: int | None = writes
        while at is not None:
            if found := _only(self._pieces[at].marks):
                return found
            at = self._readers.get(at)
        below = (_only(self._pieces[number].marks) for number in self._pieces[writes].reads)
        return next(filter(None, below), "")


@lru_cache(maxsize=1024)  # the RDDs of one node share its scope
def parse_scope(scope: str | None) -> tuple[str, int | None]:
    """The node that an RDD's scope names, and its number if it is a shuffle and numbered as the plan is: earlier
    versions of Spark count scopes on their own."""
    if not scope:
        return "", None
    made = _scope(scope)
    if made.name != "Exchange" or not made.id.startswith(_NUMBERED):
        return made.name, None
    number = int(made.id.removeprefix(_NUMBERED))
    if not 0 <= number < 1 << 31:
        raise ValueError("no number of Spark's")
    return made.name, number


def find_shuffle(node: Node) -> int | None:
    """The number of a shuffle in the plan."""
    found = _PLAN_ID.search(node.simpleString) if node.nodeName == "Exchange" else None
    return int(found[1]) if found else None


def _cut(tree: Node) -> list[MarkedPart]:
    """Walks the tree down from the end: each mark and shuffle belongs to the piece opened last on its path. A shuffle
    without a number parts pieces too, and no stage will say that it writes it."""
    pieces = [MarkedPart(_FINAL)]
    todo = [(tree, pieces[0])]
    while todo:
        node, piece = todo.pop()
        if mark := find_counting_name(node.simpleString):
            piece.marks.append(mark)
        if node.nodeName == "Exchange":
            number = find_shuffle(node)
            below = MarkedPart(_FINAL - len(pieces) if number is None else number)
            piece.reads.append(below.writes)
            pieces.append(below)
            piece = below
        todo += [(child, piece) for child in node.children]
    return pieces


def find_shuffles(stage: Stage) -> tuple[int, set[int]]:
    """The number of the shuffle that a stage writes, and of those that it reads."""
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
    """Of a tree, whatever its parts are called: brackets in brackets."""
    return "(" + "".join(sorted(describe_shape(each, below) for each in below(top))) + ")"


def _number(rdd: StageRdd) -> int:
    return rdd.number


def _only(marks: list[str]) -> str:
    if len(marks) > 1:
        raise EngineError(
            f"the operators {', '.join(reversed(marks))} run in one stage, so their times cannot be told apart: "
            "declare them as one operator, or give the later one a shuffle of its own with by="
        )
    return marks[0] if marks else ""
