"""The operator of each stage of one batch, or of one query that is no stream.

With counting marks (`op:NAME`) the plan says it (`plan_tree`). Without them every stage is an operator of its own. Its
name comes from a naming mark in its part of the plan, else from the most telling node there (`naming`). Spark lists a
stage again for a later job of the same query. Both listings end in the same RDD, and so they get the same name. A stage
that does not say which stages it reads has no upstream.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from autotrascale.analyze.naming import describe_node, find_marked_name, find_part, nodes_by_name
from autotrascale.analyze.plan_tree import MarkedPlan, Stage
from autotrascale.domain.errors import EngineError
from autotrascale.monitor.eventlog.events import Node
from autotrascale.monitor.marks import find_counting_name, find_naming_names

_CODEGEN = "WholeStageCodegen"
_SCAN = re.compile(r"Scan|^LocalTable|^Range|^Rate")
# A stage is named after the first group that it has a node of. A stage without parents is named after its scan. A
# partial aggregation comes last, because a later stage completes it.
_PARTIAL = "partial "
_TELLING = (
    re.compile(r"Join$|^CartesianProduct"),
    re.compile(r"GroupsWithState|GroupsIn|CoGroup|^TransformWith"),
    re.compile(r"Aggregate$|^Window"),
    re.compile(r"State|^Streaming"),
    re.compile(r"Python|Arrow|Pandas|Generate$|^MapPartitions"),
    _SCAN,
    re.compile(
        r"^(?!Exchange|InputAdapter|CollectMetrics|AQEShuffleRead|ShuffleQueryStage|AdaptiveSparkPlan|Write|Whole|Execute).+"
    ),
    re.compile(r"^WriteTo|^Execute"),
)
_STATE = re.compile(r"^State(?:ful)?Store|StateStoreRDD|StateStoreSave")


@dataclass(frozen=True)
class StageRole:
    """The operator of a stage. `upstream` names the operators that it reads; `rank` orders operators by data flow."""

    stage: int
    operator: str
    rank: int
    entry: bool = True
    exit: bool = True
    stateful: bool = False
    marked: bool = False
    upstream: tuple[str, ...] = ()


@dataclass(frozen=True)
class SparkJob:
    """A job of the batch: its stages, and its plan if it has one."""

    stages: Sequence[Stage]
    plan: Node | None


def assign_roles(jobs: Sequence[SparkJob]) -> list[StageRole]:
    """Return the roles of all stages of a batch. In a batch with marks, jobs without marks have no role."""
    marked = assign_marked_roles(jobs)
    found = marked or _unmarked(jobs)
    return [replace(role, rank=rank) for rank, role in enumerate(sorted(found, key=lambda role: role.stage))]


def assign_marked_roles(jobs: Sequence[SparkJob], *, refuse: bool = False) -> list[StageRole]:
    """Return the roles of the stages that marks name. A stage in the lists of several jobs counts once.

    A plan with two marks in one stage has no roles, because their times cannot be separated. `refuse` raises
    `EngineError` for such a plan.
    """
    found = {role.stage: role for job in reversed(jobs) for role in _marked(job, refuse)}
    return list(found.values())


def hash_shape(found: Iterable[StageRole]) -> str:
    """Return a name for queries of the same operators: they are one recurring job."""
    graph = sorted({(role.operator, role.upstream) for role in found})
    return "shape-" + hashlib.sha256(json.dumps(graph).encode()).hexdigest()[:12]


def _marked(job: SparkJob, refuse: bool) -> Iterator[StageRole]:
    try:
        plan = MarkedPlan(job.plan) if job.plan else None
    except EngineError:
        if refuse:
            raise
        return
    if plan is None or not plan.operators:
        return
    owners = plan.roles(job.stages)
    for stage in job.stages:
        if (role := owners.get(stage.number)) is None:
            continue
        above = (owners.get(parent) for parent in stage.parents or ())
        upstream = (parent.operator for parent in above if parent and parent.operator != role.operator)
        yield StageRole(
            stage=stage.number,
            operator=role.operator,
            rank=0,
            entry=role.entry,
            exit=role.exit,
            stateful=_keeps_state(stage),
            marked=True,
            upstream=tuple(dict.fromkeys(upstream)),
        )


def _unmarked(jobs: Sequence[SparkJob]) -> list[StageRole]:
    """Return roles with unique names: count by word, count by word (2)."""
    names: dict[int, str] = {}  # by the stage's last RDD
    given: dict[str, int] = {}
    by_stage: dict[int, str] = {}
    for stage, job in _listed(jobs):
        last = max((rdd.number for rdd in stage.rdds), default=-1 - stage.number)
        if last not in names:
            plain = _name(stage, {each.number: each for each in job.stages}, job.plan)
            given[plain] = given.get(plain, 0) + 1
            names[last] = plain if given[plain] == 1 else f"{plain} ({given[plain]})"
        by_stage[stage.number] = names[last]
    return [
        StageRole(
            stage=stage.number,
            operator=by_stage[stage.number],
            rank=0,
            stateful=_keeps_state(stage),
            upstream=tuple(dict.fromkeys(by_stage[parent] for parent in stage.parents or () if parent in by_stage)),
        )
        for stage, _ in _listed(jobs)
    ]


def _listed(jobs: Sequence[SparkJob]) -> list[tuple[Stage, SparkJob]]:
    """Return each stage once, with the first job that lists it, by number."""
    first = {stage.number: (stage, job) for job in reversed(jobs) for stage in job.stages}
    return [first[number] for number in sorted(first)]


def _name(stage: Stage, stages: Mapping[int, Stage], plan: Node | None) -> str:
    """Return the name of a stage: by mark, by its part of the plan, by the nodes of its RDDs, or by Spark."""
    part = find_part(stage, stages, plan) if plan else []
    if named := find_marked_name(part):
        return named
    there = {node.nodeName for node in part}
    nodes = [*part, *(node for node in _nodes(stage, plan) if node.nodeName not in there)]
    for partial in (False, True):
        for telling in _TELLING if stage.parents != () else (_SCAN, *_TELLING):
            for node in nodes:
                marks = find_counting_name(node.simpleString) or find_naming_names(node.simpleString)
                name = "" if marks else node.simpleString  # a mark here names another stage
                if name and name.startswith(_PARTIAL) == partial and telling.search(node.nodeName):
                    return name
    return _plain(stage.name or "stage")


def _nodes(stage: Stage, plan: Node | None) -> Iterator[Node]:
    """Yield the plan's nodes that made the stage's RDDs, from end to beginning, with compiled nodes taken apart."""
    known = nodes_by_name(plan) if plan else {}
    for rdd in sorted(stage.rdds, key=lambda rdd: -rdd.number):
        inner = list(_compiled(plan, rdd.node)) if plan and rdd.node.startswith(_CODEGEN) else []
        yield from inner or (
            [known.get(rdd.node) or Node(rdd.node, describe_node(rdd.node, ""), [])] if rdd.node else []
        )


def _compiled(node: Node, name: str, inside: bool = False) -> Iterator[Node]:
    """Yield the nodes inside `WholeStageCodegen (n)`, down to its input."""
    if inside:
        if node.nodeName == "InputAdapter" or node.nodeName.startswith(_CODEGEN):
            return
        yield node
    for child in node.children:
        yield from _compiled(child, name, inside or node.nodeName == name)


def _keeps_state(stage: Stage) -> bool:
    return any(_STATE.search(rdd.name) for rdd in stage.rdds)


def _plain(name: str) -> str:
    """Return a short form of Spark's name of a stage: the call, and the line of the script."""
    call, _, where = name.partition(" at ")
    call = " ".join(re.sub(r"[^\w.]+", " ", call.split("(")[0]).split())[:40] or "stage"
    line = re.search(r"([\w.-]{1,40}\.py:\d{1,7})$", where)
    return f"{call} at {line[1]}" if line else call
