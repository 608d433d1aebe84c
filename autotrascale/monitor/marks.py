"""Marks: the names of operators in a query's plan, and the counts that Spark reports for them.

A job of AuTraScale has a counting mark for each operator, which counts the operator's output. The mark is a filter that
every record passes. Spark counts the rows that a filter lets through, and each completed stage reports the counters of
its filters:

    Filter ((SPARK_PARTITION_ID() >= 0) OR (cast(SPARK_PARTITION_ID() as string) = count:NAME))

A source's mark also needs the first, the mean and the last arrival time, in microseconds of Unix time. A filter cannot
report times, so a source is marked by an observation (`DataFrame.observe`) called `op:NAME`. Other operators may be
marked by an observation too.

A naming mark is the same filter with `op:NAME` in it. It names a stage and counts nothing. A naming mark that begins a
stage of its own contains `begins:NAME` too, and stands directly above the exchange that it was inserted with.

Spark cannot remove such a filter or move it past a shuffle, because its condition is not deterministic. The filter is
compiled with its neighbours and costs one comparison for each record. Spark merges adjacent joins into one and puts the
filters between them on top. So behind a join the filter reads a column of its own, `PARTITION`, which is made directly
below the filter and dropped above it. Spark does not merge joins across this column.
"""

from __future__ import annotations

import re

MARK, COUNTING, BEGINS = "op:", "count:", "begins:"
COUNT, FIRST, MEAN, LAST = "n", "first", "mean", "last"
NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,59}"  # the form of a naming mark's name
PARTITION = "__autotrascale_mark"
PASSED = "number of output rows"  # Spark's name for the counter of a filter

_COLUMN = re.compile(rf"{PARTITION}#\d+")
_CONDITION = r"SPARK_PARTITION_ID\(\) as string\) = "
_OBSERVED = re.compile(rf"CollectMetrics {MARK}([^,\s]+)")
# The whole text must match: a filter that Spark merged from several lets fewer records through than reach the mark.
_COUNTED = re.compile(rf"Filter \(\(SPARK_PARTITION_ID\(\) >= 0\) OR \(cast\({_CONDITION}{COUNTING}([^,\s]+)\)\)")
_NAMING = re.compile(rf"{_CONDITION}{MARK}({NAME})\)")
_BEGINS = re.compile(rf"{_CONDITION}{BEGINS}({NAME})\)")


def find_counting_name(text: str) -> str | None:
    """Return the name of the counting mark in this node of a plan, None without one."""
    found = _OBSERVED.match(text)
    return found[1] if found else find_filter_name(text)


def find_filter_name(text: str) -> str | None:
    """Return the name of a counting mark that is a filter: its count stands in the filter's own counter."""
    found = _COUNTED.fullmatch(_without_column(text))
    return found[1] if found else None


def extract_counting_mark(text: str) -> str:
    """Return the part of a node's text that keeps the name of its counting filter; empty without one."""
    text = _without_column(text)
    return text if _COUNTED.fullmatch(text) else ""


def find_beginning_name(text: str) -> str | None:
    """Return the name of the mark that begins a stage of its own, None without one."""
    found = _BEGINS.search(text)
    return found[1] if found else None


def find_naming_names(text: str) -> list[str]:
    """Return the names of the naming marks in this node of a plan. Spark may merge several into one filter."""
    return _NAMING.findall(_without_column(text))


def extract_naming_marks(text: str) -> str:
    """Return the part of a node's text that keeps its naming marks; empty without any."""
    return " ".join(found[0] for found in _NAMING.finditer(_without_column(text)))


def _without_column(text: str) -> str:
    # The column has another number in each batch.
    return _COLUMN.sub("SPARK_PARTITION_ID()", text) if PARTITION in text else text
