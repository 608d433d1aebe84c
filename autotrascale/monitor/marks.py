"""Marks: how a query says in its plan which operator is which, and what Spark then reports of each batch.

Jobs that are built for us have a counting mark for each operator: it counts what the operator gives. It is a filter
that every record passes, because Spark counts the rows that each of its filters lets through, and says of each stage
that ends what the counters in it have come to:

    Filter ((SPARK_PARTITION_ID() >= 0) OR (cast(SPARK_PARTITION_ID() as string) = count:NAME))

A source's mark also has the first, the mean and the last arrival time, in microseconds of Unix time. No filter can say
that, so it is an observation (`DataFrame.observe`) called `op:NAME`. Operators may be marked by one too.

A naming mark is the same filter with `op:NAME` in it. It says who a stage is, and nobody counts by it. One that begins
a stage of its own asks for `begins:NAME` too, and stands right above the exchange that it came with.

Spark cannot know that such a filter is of no use, nor move it past a shuffle, as what it asks is not deterministic. It
is compiled with its neighbours, and costs a comparison for each record. Only of joins that stand upon each other Spark
makes one, and puts the filters between them on top. So behind a join the filter asks for a column of its own,
`PARTITION`, that is made right below it and dropped above: no join is seen through that.
"""

from __future__ import annotations

import re

MARK, COUNTING, BEGINS = "op:", "count:", "begins:"
COUNT, FIRST, MEAN, LAST = "n", "first", "mean", "last"
NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,59}"
"""What a naming mark may be called."""
PARTITION = "__autotrascale_mark"
PASSED = "number of output rows"
"""What Spark calls the counter of a filter."""

_COLUMN = re.compile(rf"{PARTITION}#\d+")
_ASKED = r"SPARK_PARTITION_ID\(\) as string\) = "
_OBSERVED = re.compile(rf"CollectMetrics {MARK}([^,\s]+)")
# The whole of it: a filter that Spark made of several lets fewer through than came to the mark.
_COUNTED = re.compile(rf"Filter \(\(SPARK_PARTITION_ID\(\) >= 0\) OR \(cast\({_ASKED}{COUNTING}([^,\s]+)\)\)")
_NAMING = re.compile(rf"{_ASKED}{MARK}({NAME})\)")
_BEGINS = re.compile(rf"{_ASKED}{BEGINS}({NAME})\)")


def find_counting_name(text: str) -> str | None:
    """Of the counting mark that this node of a plan is."""
    found = _OBSERVED.match(text)
    return found[1] if found else find_filter_name(text)


def find_filter_name(text: str) -> str | None:
    """The same, only of a filter: one whose count stands in its own counter."""
    found = _COUNTED.fullmatch(_without_column(text))
    return found[1] if found else None


def extract_counting_mark(text: str) -> str:
    """What is to be kept of such a filter to know the name again; empty of anything else."""
    text = _without_column(text)
    return text if _COUNTED.fullmatch(text) else ""


def find_beginning_name(text: str) -> str | None:
    """Of the mark that begins a stage of its own."""
    found = _BEGINS.search(text)
    return found[1] if found else None


def find_naming_names(text: str) -> list[str]:
    """Of the naming marks in this node of a plan: Spark may make one filter of several."""
    return _NAMING.findall(_without_column(text))


def extract_naming_marks(text: str) -> str:
    """What is to be kept of such a node to know the names again; empty where there are none."""
    return " ".join(found[0] for found in _NAMING.finditer(_without_column(text)))


def _without_column(text: str) -> str:
    """Its number is another one in each batch."""
    return _COLUMN.sub("SPARK_PARTITION_ID()", text) if PARTITION in text else text
