"""The stages of an adopted query that have a number of partitions of their own, and the same query with other numbers.

A mark with `parallelism` is a filter right above an exchange (`query/marking.py`). A data frame is fixed when it is
built, but its plan is a tree of which Spark makes another with some nodes replaced. A data frame of that tree is the
same query to Spark: its columns have the same ids, its stateful operators the same numbers, so checkpoint and state fit
it. What stands in front of a stateful operator is another exchange, Spark's own, whose number these do not touch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from autotrascale.monitor.marks import find_beginning_name

_LONG = 1000  # fields of a node that are written out


def read_stage_partitions(jdf: Any) -> dict[str, int]:
    """By the name of the mark; of one that stands in several branches, as the first of them has it."""
    found: dict[str, int] = {}
    todo = [jdf.queryExecution().analyzed()]
    while todo:
        node = todo.pop()
        below = _children(node)
        name = _begins(node)
        if name and (number := _number(below[0])):
            found.setdefault(name, number)
        todo += reversed(below)
    return found


def replace_stage_partitions(spark: SparkSession, jdf: Any, wanted: Mapping[str, int]) -> Any:
    """The data frame with these numbers in place of its own; stages that are not named keep theirs."""
    plan = jdf.queryExecution().analyzed()
    changed = _with(spark._jvm, plan, wanted)
    if changed is plan:
        return jdf
    jvm: Any = spark._jvm
    return jvm.org.apache.spark.sql.classic.Dataset.ofRows(jdf.sparkSession(), changed)


def _with(jvm: Any, node: Any, wanted: Mapping[str, int]) -> Any:
    before = _children(node)
    after = [_with(jvm, child, wanted) for child in before]
    name = _begins(node)
    if name in wanted and _number(after[0]) not in (0, wanted[name]):
        after[0] = _numbered(jvm, after[0], wanted[name])
    if all(new is old for new, old in zip(after, before, strict=True)):
        return node
    return node.withNewChildren(jvm.PythonUtils.toSeq(after))


def _children(node: Any) -> list[Any]:
    children = node.children()
    return [children.apply(at) for at in range(children.size())]


def _begins(node: Any) -> str:
    return (find_beginning_name(str(node.simpleString(_LONG))) or "") if _kind(node) == "Filter" else ""


def _number(node: Any) -> int:
    """Of an exchange with a number; 0 of anything else."""
    if _kind(node) == "Repartition":
        return int(node.numPartitions())
    if _kind(node) == "RepartitionByExpression" and node.optNumPartitions().isDefined():
        return int(node.optNumPartitions().get())
    return 0


def _numbered(jvm: Any, node: Any, number: int) -> Any:
    if _kind(node) == "Repartition":
        return node.copy(number, node.shuffle(), node.child())
    some = jvm.scala.Option.apply(number)
    return node.copy(node.partitionExpressions(), node.child(), some, node.optAdvisoryPartitionSize())


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())
