"""What operators gave in a batch, as the filters that mark them counted it (`monitor/marks.py` has their form).

A plan says the number of each filter's counter. A stage that ends says what its counters have come to: what tasks that
did their work let through, whatever was tried before. One that says nothing of a counter let nothing through.

A name may stand in a plan several times: where two branches read the same operator, Spark works it out for each. The
same records came to every one of them, so the most that one counted is what the operator gave.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from autotrascale.analyze.facts import MarkFact
from autotrascale.monitor.eventlog.events import Accumulable, Node
from autotrascale.monitor.marks import PASSED, find_filter_name

_MOST = 1 << 48


def find_counters(plan: Node) -> dict[int, str]:
    """Of a plan as Spark tells it: the number of each counter → the mark that it counts for."""
    found: dict[int, str] = {}
    todo = [plan]
    while todo:
        node = todo.pop()
        todo += node.children
        if name := find_filter_name(node.simpleString):
            found |= {metric.accumulator: name for metric in node.metrics if metric.name == PASSED}
    return found


def read_passed_rows(accumulables: Iterable[Accumulable]) -> Iterator[tuple[int, int]]:
    """Of a stage: the number of each counter of rows, and what it has come to."""
    for each in accumulables:
        value = bytes(each.value).strip(b'"')
        if each.number is not None and each.name == PASSED and value.isdigit() and len(value) < 16:
            yield each.number, min(int(value), _MOST)


def count_marks(names: Mapping[int, str], counts: Mapping[int, int]) -> dict[str, MarkFact]:
    """By mark, from the counters of a batch's plans and what its stages said of them."""
    found: dict[str, int] = {}
    for number, name in names.items():
        found[name] = max(counts.get(number, 0), found.get(name, 0))
    return {name: MarkFact(count) for name, count in found.items()}
