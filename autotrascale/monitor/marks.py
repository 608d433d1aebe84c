"""Marks: how a query says in its plan which operator is which, and what Spark then reports of each batch.

A counting mark is an observation (`DataFrame.observe`) called `op:NAME`. It counts what the operator gives; a source's
mark also has the first, the mean and the last arrival time, in microseconds of Unix time. Jobs that are built for us
have one for each operator.

A naming mark is a filter that every record passes. It says who a stage is, and counts nothing:

    Filter ((SPARK_PARTITION_ID() >= 0) OR (cast(SPARK_PARTITION_ID() as string) = op:NAME))

Spark cannot know that the filter is of no use, nor move it past a shuffle, as what it asks is not deterministic. It is
compiled with its neighbours, and costs a comparison for each record.
"""

from __future__ import annotations

import re

MARK = "op:"
COUNT, FIRST, MEAN, LAST = "n", "first", "mean", "last"
NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,59}"
"""What a naming mark may be called."""

_COUNTING = re.compile(rf"CollectMetrics {MARK}([^,\s]+)")
_NAMING = re.compile(rf"SPARK_PARTITION_ID\(\) as string\) = {MARK}({NAME})\)")


def counting_name(text: str) -> str | None:
    """Of the counting mark that this node of a plan is."""
    found = _COUNTING.match(text)
    return found[1] if found else None


def naming_names(text: str) -> list[str]:
    """Of the naming marks in this node of a plan: Spark may make one filter of several."""
    return _NAMING.findall(text)


def naming_marks(text: str) -> str:
    """What is to be kept of such a node to know the names again; empty where there are none."""
    return " ".join(found[0] for found in _NAMING.finditer(text))
