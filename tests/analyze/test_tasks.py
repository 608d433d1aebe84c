"""What a task did, against plain Python, number by number."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from autotrascale.analyze.task_facts import NUMBERS, SQUARE, measure_tasks, none_if_unknown
from autotrascale.monitor.eventlog.events import UNKNOWN

times = st.one_of(st.integers(0, 10**7), st.just(UNKNOWN))
counts = st.one_of(st.integers(0, 10**9), st.just(UNKNOWN))
rows = st.lists(st.tuples(*[times] * 5, *[counts] * 4), min_size=1, max_size=30)


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
    }


@given(rows)
def test_what_is_not_known_makes_unknown_what_it_is_a_part_of_and_nothing_else(table: list[tuple[int, ...]]) -> None:
    columns = measure_tasks(dict(zip(NUMBERS, np.array(table, dtype=np.int64).T, strict=True)))
    found = [
        {name: none_if_unknown(int(number)) for name, number in zip(columns, row, strict=True)}
        for row in zip(*columns.values(), strict=True)
    ]
    assert found == [plain(row) for row in table]
