"""Read and replace the partitions of marked stages in the plan of a user's query.

A mark with `parallelism` is a filter directly above an exchange (`jobs/marking.py`). A data frame is fixed once built,
but Spark can make another plan tree with some nodes replaced. The new data frame is the same query to Spark: columns
keep their ids and stateful operators their numbers, so checkpoint and state still fit. The exchange in front of a
stateful operator is Spark's own and is not touched here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from autotrascale.monitor.marks import find_beginning_name

_MAX_FIELDS = 1000  # of a node that `simpleString` writes out


def read_stage_partitions(jdf: Any) -> dict[str, int]:
    """Return the partitions of each marked stage by the name of its mark.

    If a mark stands in several branches, the first branch counts.
    """
    found: dict[str, int] = {}
    todo = [jdf.queryExecution().analyzed()]
    while todo:
        node = todo.pop()
        below = _children(node)
        name = _mark_name(node)
        if name and (partitions := _exchange_partitions(below[0])):
            found.setdefault(name, partitions)
        todo += reversed(below)
    return found


def replace_stage_partitions(spark: SparkSession, jdf: Any, wanted: Mapping[str, int]) -> Any:
    """Return the data frame with the wanted partitions by mark. Stages that are not named keep theirs."""
    plan = jdf.queryExecution().analyzed()
    changed = _replace(spark._jvm, plan, wanted)
    if changed is plan:
        return jdf
    jvm: Any = spark._jvm
    return jvm.org.apache.spark.sql.classic.Dataset.ofRows(jdf.sparkSession(), changed)


def _replace(jvm: Any, node: Any, wanted: Mapping[str, int]) -> Any:
    before = _children(node)
    after = [_replace(jvm, child, wanted) for child in before]
    name = _mark_name(node)
    if name in wanted and _exchange_partitions(after[0]) not in (0, wanted[name]):
        after[0] = _copy_exchange(jvm, after[0], wanted[name])
    if all(new is old for new, old in zip(after, before, strict=True)):
        return node
    return node.withNewChildren(jvm.PythonUtils.toSeq(after))


def _children(node: Any) -> list[Any]:
    children = node.children()
    return [children.apply(at) for at in range(children.size())]


def _mark_name(node: Any) -> str:
    """Return the name of the mark that begins a stage at this node, or an empty string."""
    return (find_beginning_name(str(node.simpleString(_MAX_FIELDS))) or "") if _kind(node) == "Filter" else ""


def _exchange_partitions(node: Any) -> int:
    """Return the partitions of an exchange that has a number of its own; 0 for any other node."""
    if _kind(node) == "Repartition":
        return int(node.numPartitions())
    if _kind(node) == "RepartitionByExpression" and node.optNumPartitions().isDefined():
        return int(node.optNumPartitions().get())
    return 0


def _copy_exchange(jvm: Any, node: Any, partitions: int) -> Any:
    if _kind(node) == "Repartition":
        return node.copy(partitions, node.shuffle(), node.child())
    some = jvm.scala.Option.apply(partitions)
    return node.copy(node.partitionExpressions(), node.child(), some, node.optAdvisoryPartitionSize())


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())
