"""The fact of a task against the formulas, number by number."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from autotrascale.analyze.sums import none_if_unknown
from autotrascale.analyze.task_facts import SQUARE, make_task_fact
from autotrascale.monitor.eventlog.events import (
    UNKNOWN,
    InputMetrics,
    OutputMetrics,
    ShuffleRead,
    ShuffleWrite,
    TaskEnd,
    TaskEndReason,
    TaskInfo,
    TaskMetrics,
)

times = st.one_of(st.integers(0, 10**7), st.just(UNKNOWN))
counts = st.one_of(st.integers(0, 10**9), st.just(UNKNOWN))
rows = st.tuples(*[times] * 5, *[counts] * 4)


def total(*numbers: int | None) -> int | None:
    return None if None in numbers else sum(number or 0 for number in numbers)


def plain(row: tuple[int, ...]) -> dict[str, int | None]:
    run, deserialise, serialise, wait, gc, shuffled, taken, sent, written = map(none_if_unknown, row)
    busy, read = total(run, deserialise, serialise), total(shuffled, taken)
    useful = None if busy is None or wait is None else max(0, busy - wait)
    squares: int | None = None
    if read == 0 and useful is not None:
        squares = 0
    elif useful is not None and read is not None and useful <= 2**21 and useful**2 * SQUARE // read <= 2**46:
        squares = useful**2 * SQUARE // read
    served = None if useful is None or read is None else useful if read else 0
    return {
        "useful_ms": useful,
        "deserialise_ms": deserialise,
        "wait_ms": wait,
        "gc_ms": gc,
        "read": read,
        "sent": sent,
        "written": written,
        "served_ms": served,
        "served_squares": squares,
        "slot_ms": busy,
    }


@given(rows)
def test_an_unknown_number_makes_exactly_the_results_that_contain_it_unknown(row: tuple[int, ...]) -> None:
    fact = make_task_fact(TaskEnd(1, TaskEndReason("Success"), TaskInfo(2)), metrics_of(row))
    assert (fact.stage, fact.index) == (1, 2)
    assert {name: getattr(fact, name) for name in plain(row)} == plain(row)


def metrics_of(row: tuple[int, ...]) -> TaskMetrics:
    run, deserialise, serialise, wait, gc, shuffled, taken, sent, written = row
    blocks = ShuffleRead(wait, shuffled), ShuffleWrite(sent), InputMetrics(taken), OutputMetrics(written)
    return TaskMetrics(run, deserialise, serialise, gc, *blocks)
