"""Records that operators gave in a batch, from the filters that mark them (`monitor/marks.py` has their form).

A plan holds the number of each filter's counter. A stage that completes reports the values of its counters over all
successful tasks. A counter that a stage does not report let no record through.

A name may stand several times in a plan: where two branches read the same operator, Spark computes it for each. Each
copy gets the same records, so the greatest count is the operator's output.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from autotrascale.analyze.facts import MarkFact
from autotrascale.monitor.eventlog.events import Accumulable, Node
from autotrascale.monitor.marks import PASSED, find_filter_name

_MOST = 1 << 48


def find_counters(plan: Node) -> dict[int, str]:
    """Return the mark that each counter counts for, by the counter's number."""
    found: dict[int, str] = {}
    todo = [plan]
    while todo:
        node = todo.pop()
        todo += node.children
        if name := find_filter_name(node.simpleString):
            found |= {metric.accumulator: name for metric in node.metrics if metric.name == PASSED}
    return found


def read_passed_rows(accumulables: Iterable[Accumulable]) -> Iterator[tuple[int, int]]:
    """Yield the number and the value of each counter of rows of a stage."""
    for each in accumulables:
        value = bytes(each.value).strip(b'"')
        if each.number is not None and each.name == PASSED and value.isdigit() and len(value) < 16:
            yield each.number, min(int(value), _MOST)


def count_marks(names: Mapping[int, str], counts: Mapping[int, int]) -> dict[str, MarkFact]:
    """Return the count of each mark, from the counters of a batch's plans (`names`) and their values (`counts`)."""
    found: dict[str, int] = {}
    for number, name in names.items():
        found[name] = max(counts.get(number, 0), found.get(name, 0))
    return {name: MarkFact(count) for name, count in found.items()}
