from __future__ import annotations

import pytest

from autotrascale.analyze.plan_tree import MarkedPlan, MarkedRole, Stage, StageRdd, parse_scope
from autotrascale.domain.errors import EngineError
from autotrascale.monitor.eventlog.events import Node


def node(name: str, *children: Node, text: str = "") -> Node:
    return Node(name, text or name, list(children))


def mark(name: str, *children: Node) -> Node:
    return node("CollectMetrics", *children, text=f"CollectMetrics op:{name}, [count(1) AS n#1L]")


def exchange(number: int, *children: Node) -> Node:
    return node("Exchange", *children, text=f"Exchange hashpartitioning(x#1, 4), REPARTITION, [plan_id={number}]")


def role(plan: MarkedPlan, stage: Stage) -> MarkedRole | None:
    return plan.roles([stage]).get(stage.number)


def stage(writes: int | None, *reads: int) -> Stage:
    rdds = [StageRdd(at, "ShuffledRowRDD", "Exchange", number) for at, number in enumerate(reads)]
    if writes is not None:
        rdds.append(StageRdd(len(rdds), "MapPartitionsRDD", "Exchange", writes))
    return Stage(0, "", tuple(rdds))


def test_a_shuffle_inside_an_operator_leaves_it_one_operator() -> None:
    plan = MarkedPlan(node("Write", mark("count", exchange(2, node("Agg", exchange(1, mark("source", node("Scan"))))))))
    first, inner, last = role(plan, stage(1)), role(plan, stage(2, 1)), role(plan, stage(None, 2))
    assert first is not None
    assert inner is not None
    assert last is not None
    assert (first.operator, inner.operator, last.operator) == ("source", "count", "count")
    assert (inner.entry, inner.exit) == (True, False)
    assert (last.entry, last.exit) == (False, True)


def test_the_part_behind_the_last_mark_belongs_to_the_sink() -> None:
    plan = MarkedPlan(node("Write", exchange(2, mark("sink", exchange(1, mark("source", node("Scan")))))))
    found = role(plan, stage(None, 2))
    assert found is not None
    assert found.operator == "sink"


def test_a_join_has_two_ways_in() -> None:
    left, right = exchange(1, mark("bids", node("Scan"))), exchange(2, mark("asks", node("Scan")))
    plan = MarkedPlan(node("Write", mark("join", node("Join", left, right))))
    roles = [role(plan, stage(1)), role(plan, stage(2)), role(plan, stage(None, 2, 1))]
    assert [role.operator for role in roles if role] == ["bids", "asks", "join"]


def test_the_stage_of_a_broadcast_has_no_role() -> None:
    plan = MarkedPlan(node("Write", mark("join", node("Join", exchange(1, mark("source", node("Scan")))))))
    assert role(plan, stage(None)) is None


def test_two_operators_in_one_stage_are_refused_with_a_remedy() -> None:
    with pytest.raises(EngineError, match=r"clean, count run in one stage.*by="):
        MarkedPlan(node("Write", mark("count", mark("clean", exchange(1, mark("source", node("Scan")))))))


def test_scopes_that_are_not_numbered_as_the_plan_is_name_no_shuffle() -> None:
    assert parse_scope('{"id":"spark_plan_7","name":"Exchange"}') == ("Exchange", 7)
    assert parse_scope('{"id":"7","name":"Exchange"}') == ("Exchange", None)
    assert parse_scope('{"id":"spark_plan_7","name":"Project"}') == ("Project", None)
    assert parse_scope(None) == ("", None)
    for broken in ('{"id":"spark_plan_x","name":"Exchange"}', '{"id":', '{"id":"spark_plan_-1","name":"Exchange"}'):
        with pytest.raises(ValueError):
            parse_scope(broken)


def unnumbered(number: int, *parents: int) -> Stage:
    return Stage(number, "", (), parents)


def test_without_numbers_stages_get_their_roles_by_the_shape_of_the_graph() -> None:
    plan = MarkedPlan(node("Write", mark("sink", exchange(9, node("Agg", exchange(8, mark("source", node("Scan"))))))))
    found = plan.roles([unnumbered(4), unnumbered(5, 4), unnumbered(6, 5)])
    assert [(at, role.operator, role.entry, role.exit) for at, role in sorted(found.items())] == [
        (4, "source", True, True),
        (5, "sink", True, False),
        (6, "sink", False, True),
    ]


def test_where_their_shape_leaves_a_doubt_no_stage_has_a_role() -> None:
    left, right = exchange(1, mark("bids", node("Scan"))), exchange(2, mark("asks", node("Scan")))
    twins = MarkedPlan(node("Write", mark("join", node("Join", left, right))))
    assert twins.roles([unnumbered(1), unnumbered(2), unnumbered(3, 1, 2)]) == {}
    longer = exchange(3, node("Agg", exchange(2, mark("asks", node("Scan")))))
    apart = MarkedPlan(node("Write", mark("join", node("Join", left, longer))))
    found = apart.roles([unnumbered(1), unnumbered(2), unnumbered(3, 1), unnumbered(4, 2, 3)])
    assert {at: role.operator for at, role in found.items()} == {1: "asks", 2: "bids", 3: "join", 4: "join"}
    for stages in ([unnumbered(4, 2, 3)], [unnumbered(1), unnumbered(2)], [Stage(1, "", ())], []):
        assert apart.roles(stages) == {}
