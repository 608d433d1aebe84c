"""Names of stages from nodes of Spark 4.3, and the part of a plan that a stage ran."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrascale.analyze.naming import describe_node, find_part, shorten_plan
from autotrascale.analyze.plan_tree import Stage, StageRdd
from autotrascale.monitor.eventlog.events import Node

STATE = ", state info [ checkpoint = file:/tmp/c/state, runId = 734a, opId = 0, ver = 1, numPartitions = 3]"
SAID = [
    (
        "MicroBatchScan",
        "MicroBatchScan[key#1, value#2] class org.apache.spark.sql.kafka010.KafkaSourceProvider$KafkaScan",
        "read kafka",
    ),
    (
        "MicroBatchScan",
        "MicroBatchScan[timestamp#0, value#1L] class "
        "org.apache.spark.sql.execution.streaming.sources.RatePerMicroBatchTable$$anon$1",
        "read rate per micro batch",
    ),
    ("MicroBatchScan", "MicroBatchScan[sentence#1] (Python)", "read python"),
    (
        "Scan json ",
        "FileScan json [user#642,n#643L] Batched: false, Location: InMemoryFileIndex(1 paths)[file:/in/1.json]",
        "read json",
    ),
    ("Scan parquet shop.orders", "FileScan parquet shop.orders[user#642] Batched: true", "read parquet shop.orders"),
    ("InMemoryTableScan", "InMemoryTableScan [word#2]", "read cached rows"),
    ("HashAggregate", "HashAggregate(keys=[word#2], functions=[count(1)])", "count by word"),
    (
        "HashAggregate",
        "HashAggregate(keys=[window#22-T1000ms, word#2], functions=[merge_count(1), merge_sum(value#1L)])",
        "count, sum by window, word",
    ),
    ("HashAggregate", "HashAggregate(keys=[word#2], functions=[partial_max(abs(n#3L))])", "partial max by word"),
    ("ObjectHashAggregate", "ObjectHashAggregate(keys=[], functions=[collect_list(x#1, 0, 0)])", "collect_list"),
    ("HashAggregate", "HashAggregate(keys=[window#2-T1000ms, word#2], functions=[])", "group by window, word"),
    ("HashAggregate", "HashAggregate(keys=[a#1, b#2, c#3, d#4], functions=[])", "group by a, b, c and 1 more"),
    (
        "StreamingSymmetricHashJoin",
        "StreamingSymmetricHashJoin [word#2, timestamp#0-T1000ms], [word#67, timestamp#68], Inner",
        "join by word, timestamp",
    ),
    ("BroadcastHashJoin", "BroadcastHashJoin [word#2], [word#127], Inner, BuildRight, false, false", "join by word"),
    ("CartesianProduct", "CartesianProduct", "join"),
    (
        "StreamingDeduplicate",
        "StreamingDeduplicate [word#2, timestamp#0-T1000ms]" + STATE,
        "drop duplicates by word, timestamp",
    ),
    ("StateStoreSave", "StateStoreSave [word#2]" + STATE, "keep state by word"),
    (
        "FlatMapGroupsInPandasWithState",
        "!FlatMapGroupsInPandasWithState f(timestamp#0, word#2)#672, [word#2], [word#673]" + STATE,
        "apply f by word",
    ),
    ("FlatMapGroupsInPandas", "FlatMapGroupsInPandas [k#1L], mean(k#1L, v#2)#5, [k#6L]", "apply mean by k"),
    (
        "ArrowEvalPython",
        "ArrowEvalPython [up(concat(w, cast(value#1L as string)))#780], [pythonUDF0#785], 101",
        "apply up",
    ),
    ("MapInArrow", "MapInArrow work(sentence#1)#3, [word#4], false", "apply work"),
    ("Generate", "Generate explode(split(line#1,  , -1)), false, [word#2]", "explode"),
    ("WriteToDataSourceV2", "WriteToDataSourceV2 MicroBatchWrite[epoch: 1, writer: NoopStreamingWrite]", "write noop"),
    (
        "WriteToDataSourceV2",
        "WriteToDataSourceV2 MicroBatchWrite[epoch: 1, writer: "
        "org.apache.spark.sql.execution.streaming.sources.MemoryStreamingWrite@266e9344]",
        "write memory",
    ),
    (
        "Execute InsertIntoHadoopFsRelationCommand",
        "Execute InsertIntoHadoopFsRelationCommand file:/tmp/up, false, Parquet, [path=/tmp/up], Append, [word, count]",
        "write parquet",
    ),
    ("MergingSessions", "MergingSessions List(word#2), true, 3", "merging sessions"),
]


@pytest.mark.parametrize(("name", "text", "expected"), SAID, ids=[said for *_, said in SAID])
def test_names_of_nodes(name: str, text: str, expected: str) -> None:
    assert describe_node(name, text) == expected
    node = Node(name, text, [])
    shorten_plan(node)
    shorten_plan(node)
    assert node.simpleString == expected, "twice is as once"


@given(st.sampled_from(SAID), st.integers(0, 10**6))
def test_names_are_the_same_from_batch_to_batch(said: tuple[str, str, str], number: int) -> None:
    """Spark counts its expressions on, and files and runs are others each time."""
    name, text, expected = said
    other = re.sub(r"#\d+", f"#{number}", text).replace("734a", f"{number:x}").replace("/1.json", f"/{number}.json")
    assert describe_node(name, other) == expected


@given(st.sampled_from([name for name, *_ in SAID]), st.text(max_size=300))
def test_a_name_is_one_short_line(name: str, text: str) -> None:
    found = describe_node(name, text)
    assert len(found) <= 60
    assert found.splitlines() in ([found], [])


def node(name: str, *children: Node, text: str = "") -> Node:
    return Node(name, text or name, list(children))


def exchange(number: int, *children: Node) -> Node:
    return node("Exchange", *children, text=f"Exchange hashpartitioning(x#1, 4), [plan_id={number}]")


def test_a_stage_runs_the_part_whose_shuffle_it_writes() -> None:
    plan = node("Write", node("Join", exchange(1, node("Left")), exchange(2, node("Right"))))
    stages = {
        0: Stage(0, "", (StageRdd(0, "", "Exchange", 1),), ()),
        1: Stage(1, "", (StageRdd(1, "", "Exchange", 2),), ()),
        2: Stage(
            2, "", (StageRdd(2, "ShuffledRowRDD", "Exchange", 1), StageRdd(3, "ShuffledRowRDD", "Exchange", 2)), (0, 1)
        ),
    }
    assert [[each.nodeName for each in find_part(stages[at], stages, plan)] for at in stages] == [
        ["Left"],
        ["Right"],
        ["Write", "Join"],
    ]


def test_a_part_that_adaptive_execution_renumbered_is_found_by_the_parts_below() -> None:
    plan = node("AdaptiveSparkPlan", node("Write", node("Aggregate", exchange(1, node("Scan json ")))))
    stages = {
        0: Stage(0, "", (StageRdd(0, "", "Exchange", 91), StageRdd(1, "", "Scan json ")), ()),
        1: Stage(1, "", (StageRdd(2, "", "AQEShuffleRead"), StageRdd(3, "", "WholeStageCodegen (2)")), (0,)),
    }
    names = [[each.nodeName for each in find_part(stages[at], stages, plan)] for at in stages]
    assert names == [["Scan json "], ["AdaptiveSparkPlan", "Write", "Aggregate"]]


def test_several_fitting_parts_are_separated_by_the_parts_that_they_read() -> None:
    plan = node("AdaptiveSparkPlan", node("Join", exchange(1, node("Scan a")), exchange(2, node("Scan b"))))
    dumb, tells = (
        Stage(0, "", (StageRdd(0, "", "Exchange", 91),), ()),
        Stage(0, "", (StageRdd(0, "", "Exchange", 91), StageRdd(1, "", "Scan b")), ()),
    )
    assert find_part(dumb, {0: dumb}, plan) == []
    assert [each.nodeName for each in find_part(tells, {0: tells}, plan)] == ["Scan b"]


def test_a_broadcast_is_a_part_of_its_own() -> None:
    plan = node("Join", node("Scan a"), node("BroadcastExchange", node("Scan b")))
    stage = Stage(0, "", (StageRdd(0, "", "Scan b"),), ())
    assert [each.nodeName for each in find_part(stage, {0: stage}, plan)] == ["Scan b"]


def test_stages_that_feed_each_other_in_a_circle_do_no_harm() -> None:
    plan = node("AdaptiveSparkPlan", node("Join", exchange(1, node("Scan a"))))
    stages = {at: Stage(at, "", (), (1 - at,)) for at in (0, 1)}
    assert [len(find_part(stages[at], stages, plan)) for at in stages] in ([0, 2], [2, 0], [0, 0], [2, 2])
