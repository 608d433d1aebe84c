"""Which stage ran which operator, for all stages of one batch (or, without a stream, of one query). Pure Python.

With marks (`op:NAME`) the plan says it, as `execute.spark.plan` reads it. Without marks every stage is an operator of
its own, named by the most telling node of its part of the plan; a stage that Spark lists again for a later job of the
same query ends in the same RDD, and so gets the same name.

This is asked once for each form that batches have, so it may be Python.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from autotrascale.analyze.plan_tree import Plan
from autotrascale.domain.errors import EngineError

_CODEGEN = "WholeStageCodegen"
_SCAN = re.compile(r"Scan|^LocalTable|^Range|^Rate")
# The first group that a stage has a node of names it; a stage that reads from no other is named by what it scans.
_TELLING = (
    re.compile(r"State|^Streaming|^TransformWith"),
    re.compile(r"Join$|^CartesianProduct"),
    re.compile(r"Aggregate$|^Window"),
    re.compile(r"Python|Arrow|Pandas|Generate$|^MapPartitions"),
    _SCAN,
    re.compile(r"^(?!Exchange|InputAdapter|CollectMetrics|AQEShuffleRead|ShuffleQueryStage|AdaptiveSparkPlan|Write).+"),
)
_STATE = re.compile(r"^State(?:ful)?Store|StateStoreRDD|StateStoreSave")


@dataclass(frozen=True)
class StageRole:
    """`upstream` are the operators whose output this stage reads; `rank` orders operators as the data flows."""

    stage: int
    operator: str
    rank: int
    entry: bool = True
    exit: bool = True
    stateful: bool = False
    marked: bool = False
    upstream: tuple[str, ...] = ()


@dataclass(frozen=True)
class Job:
    """A job of the unit: its stages as the event log has them, and the plan it ran, where there was one."""

    stages: Sequence[Mapping[str, Any]]
    plan: Mapping[str, Any] | None

    @classmethod
    def of(cls, stages: str, plan: str | None, start: tuple[int, int, int] = (0, 0, 0)) -> Job:
        """From patterns, as `rows` makes them: the job's stages and RDDs count from `start`, and its shuffles, by the
        numbers of its plan."""
        first_stage, first_rdd, first_shuffle = start
        listed = [
            {
                "Stage ID": first_stage + number,
                "Stage Name": name,
                "Parent IDs": [first_stage + parent for parent in parents],
                "RDD Info": [_rdd(first_rdd + rdd, told, scope, at, first_shuffle) for rdd, told, scope, at in rdds],
            }
            for number, name, parents, rdds in json.loads(stages)
        ]
        return cls(listed, json.loads(plan) if plan else None)


def _rdd(number: int, name: str, scope: str, shuffle: int | None, first_shuffle: int) -> Mapping[str, Any]:
    node = "" if shuffle is None else f"spark_plan_{first_shuffle + shuffle}"
    return {"RDD ID": number, "Name": name, "Scope": json.dumps({"id": node, "name": scope})}


def roles(jobs: Sequence[Job]) -> list[StageRole]:
    """Of all stages of one batch or query. Marked plans win: their unmarked jobs belong to nobody."""
    marked = [role for job in jobs for role in _marked(job)]
    found = marked or _unmarked(jobs)
    return [replace(role, rank=rank) for rank, role in enumerate(sorted(found, key=lambda role: role.stage))]


def shape(found: Iterable[StageRole]) -> str:
    """Queries of one shape are one recurring job."""
    graph = sorted({(role.operator, role.upstream) for role in found})
    return "shape-" + hashlib.sha256(json.dumps(graph).encode()).hexdigest()[:12]


def _marked(job: Job) -> Iterator[StageRole]:
    """Nothing when the plan has no marks, or has two in one stage, whose times cannot be told apart."""
    try:
        plan = Plan(job.plan) if job.plan else None
    except EngineError:
        return
    if plan is None or not plan.operators:
        return
    owners = {stage["Stage ID"]: plan.role(stage) for stage in job.stages}
    for stage in job.stages:
        role = owners[stage["Stage ID"]]
        if role is None:
            continue
        above = (owners.get(parent) for parent in stage["Parent IDs"])
        upstream = (parent.operator for parent in above if parent and parent.operator != role.operator)
        yield StageRole(
            stage=stage["Stage ID"],
            operator=role.operator,
            rank=0,
            entry=role.entry,
            exit=role.exit,
            stateful=_keeps_state(stage),
            marked=True,
            upstream=tuple(dict.fromkeys(upstream)),
        )


def _unmarked(jobs: Sequence[Job]) -> list[StageRole]:
    """Names made unique by counting on: HashAggregate, HashAggregate-2."""
    names: dict[int, str] = {}  # by the stage's last RDD
    given: dict[str, int] = {}
    by_stage: dict[int, str] = {}
    listed = sorted(((stage, job) for job in jobs for stage in job.stages), key=lambda pair: int(pair[0]["Stage ID"]))
    for stage, job in listed:
        last = max((rdd["RDD ID"] for rdd in stage["RDD Info"]), default=-1 - stage["Stage ID"])
        if last not in names:
            plain = _name(stage, job.plan)
            given[plain] = given.get(plain, 0) + 1
            names[last] = plain if given[plain] == 1 else f"{plain}-{given[plain]}"
        by_stage[stage["Stage ID"]] = names[last]
    return [
        StageRole(
            stage=stage["Stage ID"],
            operator=by_stage[stage["Stage ID"]],
            rank=0,
            stateful=_keeps_state(stage),
            upstream=tuple(dict.fromkeys(by_stage[parent] for parent in stage["Parent IDs"] if parent in by_stage)),
        )
        for stage, _ in listed
    ]


def _name(stage: Mapping[str, Any], plan: Mapping[str, Any] | None) -> str:
    nodes = list(_nodes(stage, plan))
    for telling in _TELLING if stage["Parent IDs"] else (_SCAN, *_TELLING):
        if found := next((node for node in nodes if telling.search(node)), None):
            return _plain(found)
    return _plain(stage.get("Stage Name") or "stage")


def _nodes(stage: Mapping[str, Any], plan: Mapping[str, Any] | None) -> Iterator[str]:
    """The plan's nodes that made the stage's RDDs, from its end to its beginning, compiled pieces taken apart."""
    for rdd in sorted(stage["RDD Info"], key=lambda rdd: -int(rdd["RDD ID"])):
        name = json.loads(rdd.get("Scope") or "{}").get("name", "")
        inner = list(_compiled(plan, name)) if plan and name.startswith(_CODEGEN) else []
        yield from inner or ([name] if name else [])


def _compiled(node: Mapping[str, Any], name: str, inside: bool = False) -> Iterator[str]:
    """The nodes inside `WholeStageCodegen (n)`, down to where its input comes in."""
    if inside:
        if node["nodeName"] == "InputAdapter" or node["nodeName"].startswith(_CODEGEN):
            return
        yield node["nodeName"]
    for child in node["children"]:
        yield from _compiled(child, name, inside or node["nodeName"] == name)


def _keeps_state(stage: Mapping[str, Any]) -> bool:
    return any(_STATE.search(rdd["Name"]) for rdd in stage["RDD Info"])


def _plain(name: str) -> str:
    """A name that is easy to type: Scan parquet a.b → Scan-parquet-a.b."""
    return re.sub(r"[^\w.]+", "-", name.split("(")[0].split(" at ")[0]).strip("-")[:40] or "stage"
