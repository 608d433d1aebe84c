from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from autotrascale.analyze.naming import shorten_plan
from autotrascale.analyze.plan_tree import Stage, StageRdd
from autotrascale.analyze.stage_to_operator import SparkJob, assign_roles, hash_shape
from autotrascale.monitor.eventlog.events import Node
from autotrascale.monitor.marks import NAME


def node(name: str, *children: Node, text: str = "") -> Node:
    return Node(name, text or name, list(children))


def mark(name: str, *children: Node) -> Node:
    return node("CollectMetrics", *children, text=f"CollectMetrics op:{name}, [count(1) AS n#1L]")


def exchange(number: int, *children: Node) -> Node:
    return node("Exchange", *children, text=f"Exchange hashpartitioning(x#1, 4), [plan_id={number}]")


def rdd(number: int, scope: str, name: str = "MapPartitionsRDD", shuffle: int | None = None) -> StageRdd:
    return StageRdd(number, name, scope, shuffle)


def stage(number: int, *rdds: StageRdd, parents: tuple[int, ...] | None = (), name: str = "") -> Stage:
    return Stage(number, name, rdds, parents)


def reads(plan_id: int) -> StageRdd:
    return rdd(plan_id * 10 + 5, "Exchange", "ShuffledRowRDD", plan_id)


def writes(plan_id: int) -> StageRdd:
    return rdd(plan_id * 10, "Exchange", shuffle=plan_id)


MARKED = SparkJob(
    [
        stage(7, writes(1), rdd(3, "CollectMetrics")),
        stage(8, writes(2), reads(1), rdd(4, "StateStoreSave", "StateStoreRDD"), parents=(7,)),
        stage(9, reads(2), parents=(8,)),
    ],
    node("Write", mark("sink", exchange(2, mark("count", exchange(1, mark("source", node("Scan"))))))),
)


def test_marks_name_the_stages_and_their_upstream() -> None:
    found = assign_roles([MARKED])
    assert [(role.operator, role.upstream, role.stateful) for role in found] == [
        ("source", (), False),
        ("count", ("source",), True),
        ("sink", ("count",), False),
    ]
    assert all(role.marked and role.entry and role.exit for role in found)


def test_unmarked_jobs_beside_marked_jobs_have_no_role() -> None:
    broadcast = SparkJob([stage(6, rdd(1, "Scan"))], node("Project", node("Scan")))
    assert {role.stage for role in assign_roles([broadcast, MARKED])} == {7, 8, 9}


def test_without_marks_stages_are_named_by_their_most_telling_node() -> None:
    plan = node("Write", node("WholeStageCodegen (2)", node("HashAggregate", node("InputAdapter", node("Exchange")))))
    shorten_plan(plan)
    job = SparkJob(
        [
            stage(0, rdd(1, "Scan parquet a.b"), rdd(2, "HashAggregate"), rdd(3, "Exchange")),
            stage(1, rdd(4, "Exchange"), rdd(5, "WholeStageCodegen (2)"), parents=(0,)),
            stage(2, rdd(6, "AQEShuffleRead"), rdd(7, "StateStoreSave"), parents=(0,)),
            stage(3, name="collect at here.py:7", parents=(1, 2)),
        ],
        plan,
    )
    found = assign_roles([job])
    assert [role.operator for role in found] == ["read parquet a.b", "group", "keep state", "collect at here.py:7"]
    assert found[3].upstream == ("group", "keep state")
    assert not any(role.marked for role in found)


def named(name: str, *children: Node) -> Node:
    text = f"Filter ((SPARK_PARTITION_ID() >= 0) OR (cast(SPARK_PARTITION_ID() as string) = op:{name}))"
    return node("Filter", *children, text=text)


def names_of(*parts: Node) -> list[str]:
    """Return a job of a chain of stages, one for each part, each below the shuffle of the next one."""
    plan, stages = Node("Scan", "Scan", []), []
    for at, part in enumerate(parts):
        bottom = part
        while bottom.children:
            bottom = bottom.children[0]
        bottom.children = [exchange(at, plan)] if at else [plan]
        plan, last = part, at == len(parts) - 1
        rdds = ([reads(at)] if at else []) + ([] if last else [writes(at + 1)])
        stages.append(stage(at, *rdds, parents=(at - 1,) if at else ()))
    shorten_plan(plan)
    shorten_plan(plan)
    return [role.operator for role in assign_roles([SparkJob(stages, plan)])]


def test_a_naming_mark_names_the_one_stage_that_it_stands_in() -> None:
    count = node("HashAggregate", text="HashAggregate(keys=[k#1], functions=[count(1)])")
    window = node("Window", text="Window [k#1]")
    write = node("Write", named("Filter"))
    assert names_of(named("clean", node("Project")), count, window, write) == [
        "clean",
        "count by k",
        "window",
        "Filter",
    ]


def test_several_naming_marks_in_one_stage_are_joined_in_the_order_of_the_data() -> None:
    both = node("Write", named("enrich", node("Project", named("clean", node("Project")))))
    joined = node("Filter", text=f"Filter ((x#1 > 1) AND {named('late').simpleString[7:]})")
    assert names_of(node("Project"), joined, both) == ["scan", "late", "clean + enrich"]
    assert names_of(*(named("same") for _ in range(3))) == ["same", "same (2)", "same (3)"]


def test_text_that_resembles_a_naming_mark_names_nothing() -> None:
    """A program may compare its columns with any text."""
    mine = node("Filter", text="Filter (isnotnull(kind#1) AND (kind#1 = op:refund))")
    counted = mark("own", node("Filter", text="Filter (cast(n#1 as string) = op:own)"))
    assert names_of(node("Project"), node("Write", mine)) == ["scan", "filter"]
    assert names_of(node("Project"), node("Write", counted)) == ["own", "own"]


@given(st.lists(st.lists(st.none() | st.from_regex(NAME, fullmatch=True), max_size=3), min_size=1, max_size=6))
def test_each_stage_has_the_names_of_its_own_marks_and_no_other(marks: list[list[str | None]]) -> None:
    """None: a filter of the program's own among them."""
    parts = []
    for inside in marks:
        part = node("Project")
        for name in inside:
            part = node("Filter", part, text="Filter (k#1 > 1)") if name is None else named(name, part)
        parts.append(part)
    found = names_of(*parts)
    assert len(set(found)) == len(found) == len(marks)
    for name, inside in zip(found, marks, strict=True):
        mine = " + ".join(dict.fromkeys(each for each in inside if each is not None))
        stripped = re.sub(r" \(\d+\)$", "", name)
        assert stripped == (mine if len(mine) <= 60 else f"{mine[:59].rstrip()}…") or not mine


def test_equal_names_are_counted_on() -> None:
    job = SparkJob([stage(0, rdd(1, "Sort")), stage(1, rdd(2, "Sort"), parents=(0,))], None)
    assert [role.operator for role in assign_roles([job])] == ["sort", "sort (2)"]


def test_a_stage_that_is_listed_again_for_a_later_job_keeps_its_name() -> None:
    """Adaptive execution runs each shuffle as a job of its own and lists it again, under a new number, as skipped."""
    first = SparkJob([stage(0, rdd(1, "Scan"), rdd(2, "Exchange"))], None)
    later = SparkJob([stage(1, rdd(1, "Scan"), rdd(2, "Exchange")), stage(2, rdd(9, "Sort"), parents=(1,))], None)
    found = assign_roles([first, later])
    assert [(role.operator, role.upstream) for role in found] == [("scan", ()), ("scan", ()), ("sort", ("scan",))]


def test_two_marks_in_one_stage_leave_the_stages_as_operators() -> None:
    plan = node("Write", mark("count", mark("clean", exchange(1, mark("source", node("Scan"))))))
    shorten_plan(plan)
    job = SparkJob([stage(0, rdd(1, "Scan"), writes(1)), stage(1, reads(1), parents=(0,), name="start at x")], plan)
    assert [(role.operator, role.marked) for role in assign_roles([job])] == [("scan", False), ("start", False)]


def test_a_stage_that_two_jobs_list_ran_once() -> None:
    (job,) = [MARKED]
    assert assign_roles([job, job]) == assign_roles([job])
    plain = SparkJob([stage(0, rdd(1, "Scan")), stage(1, rdd(2, "Sort"), parents=(0,))], None)
    assert assign_roles([plain, plain]) == assign_roles([plain])


def test_where_parents_are_not_known_no_upstream_is_made_up() -> None:
    job = SparkJob([stage(0, name="map at a:1", parents=None), stage(1, name="collect at a:2", parents=None)], None)
    assert [(role.operator, role.upstream) for role in assign_roles([job])] == [("map", ()), ("collect", ())]


def test_queries_of_one_shape_are_one_job() -> None:
    def job(first: int) -> SparkJob:
        return SparkJob(
            [stage(first, rdd(first, "Scan")), stage(first + 1, rdd(first + 1, "Sort"), parents=(first,))], None
        )

    assert hash_shape(assign_roles([job(0)])) == hash_shape(assign_roles([job(40)]))
    assert hash_shape(assign_roles([job(0)])) != hash_shape(assign_roles([MARKED]))
