"""Which stage runs which operator: Spark's plan tree, cut at its shuffles, joined with the stages of the job.

Every shuffle (`Exchange`) of a plan has a number, `plan_id`. A stage's RDDs carry the number of the plan node that made
them, so a stage says which shuffles it reads and which it writes; the piece of the plan between them holds its mark.

A piece without a mark belongs to the operator whose mark comes next downstream (a shuffle inside an operator), and
behind the last mark, to the one before (the sink).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from autotrascale.domain.errors import EngineError

_MARK = re.compile(r"CollectMetrics op:([^,\s]+)")
_PLAN_ID = re.compile(r"\[plan_id=(\d+)\]")
_FINAL = -1  # the piece that writes no shuffle


@dataclass(frozen=True, slots=True)
class Role:
    """What a stage is to its operator: does it take the operator's input, and does it give its output?"""

    operator: str
    entry: bool
    exit: bool


@dataclass
class Piece:
    """A part of the plan between shuffles. `writes` is its shuffle's number, `reads` those of the pieces below."""

    writes: int
    marks: list[str] = field(default_factory=list)
    reads: list[int] = field(default_factory=list)


class Plan:
    """One query's plan, as `sparkPlanInfo` in the event log tells it."""

    def __init__(self, tree: Mapping[str, Any]) -> None:
        self._pieces = {piece.writes: piece for piece in _cut(tree)}
        self._readers = {below: piece.writes for piece in self._pieces.values() for below in piece.reads}
        self._owners = {writes: self._owner(writes) for writes in self._pieces}

    @property
    def operators(self) -> set[str]:
        return {owner for owner in self._owners.values() if owner}

    def role(self, stage: Mapping[str, Any]) -> Role | None:
        """The role of a stage (`Stage Info` in the event log); None for one of another job, as a broadcast makes."""
        writes, reads = _shuffles(stage)
        piece = self._pieces.get(writes)
        if piece is None or (writes == _FINAL and reads != set(piece.reads)):
            return None
        operator = self._owners[writes]
        if not operator:
            return None
        above = self._readers.get(writes)
        return Role(
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


def _cut(tree: Mapping[str, Any]) -> list[Piece]:
    """Walks the tree down from the end: each mark and shuffle belongs to the piece opened last on its path."""
    pieces = [Piece(_FINAL)]
    todo = [(tree, pieces[0])]
    while todo:
        node, piece = todo.pop()
        if mark := _MARK.match(node["simpleString"]):
            piece.marks.append(mark.group(1))
        if node["nodeName"] == "Exchange" and (number := _PLAN_ID.search(node["simpleString"])):
            below = Piece(int(number.group(1)))
            piece.reads.append(below.writes)
            pieces.append(below)
            piece = below
        todo += [(child, piece) for child in node["children"]]
    return pieces


def _shuffles(stage: Mapping[str, Any]) -> tuple[int, set[int]]:
    """The number of the shuffle that a stage writes, and of those that it reads."""
    writes, reads = _FINAL, set()
    for rdd in stage["RDD Info"]:
        scope = json.loads(rdd.get("Scope") or "{}")
        if scope.get("name") != "Exchange":
            continue
        number = int(scope["id"].removeprefix("spark_plan_"))
        if rdd["Name"] == "ShuffledRowRDD":
            reads.add(number)
        else:
            writes = number
    return writes, reads


def _only(marks: list[str]) -> str:
    if len(marks) > 1:
        raise EngineError(
            f"the operators {', '.join(reversed(marks))} run in one stage, so their times cannot be told apart: "
            "declare them as one operator, or give the later one a shuffle of its own with by="
        )
    return marks[0] if marks else ""
