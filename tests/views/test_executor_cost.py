"""The cost of executors as text: number, size, price, and the price before a change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrascale.plan.sizing.executor_plan import ExecutorSize
from autotrascale.views.executor_cost import ProgramCost, format_hourly_cost


@pytest.mark.parametrize(
    ("executors", "size", "instead_of", "text"),
    [
        (3, ExecutorSize(2, price=0.12), 7, "3 executors of 2 cores, 0.36 $/h instead of 0.84 $/h"),
        (3, ExecutorSize(2, price=0.12), 3, "3 executors of 2 cores, 0.36 $/h"),
        (1, ExecutorSize(1, "512m"), None, "1 executor of 1 core and 512m"),
        (3, ExecutorSize(2), 7, "3 executors of 2 cores instead of 7"),
        (2, ExecutorSize(2, price=0.0021), None, "2 executors of 2 cores, 0.0042 $/h"),
        (2000, ExecutorSize(8, price=1.5), None, "2000 executors of 8 cores, 3,000.00 $/h"),
        (0, ExecutorSize(2, price=1.5), None, "0 executors of 2 cores, 0.00 $/h"),
    ],
)
def test_hourly_cost(executors: int, size: ExecutorSize, instead_of: int | None, text: str) -> None:
    assert format_hourly_cost(executors, size, instead_of) == text


sizes = st.builds(ExecutorSize, st.integers(1, 8), st.sampled_from(["", "2g"]), st.sampled_from([None, 0.0, 0.05, 1.0]))


@given(st.integers(0, 50), sizes, st.integers(0, 50))
def test_hourly_cost_is_one_line_and_compares_only_a_change(executors: int, size: ExecutorSize, before: int) -> None:
    text = format_hourly_cost(executors, size, before)
    assert "\n" not in text
    assert text.startswith(f"{executors} executor")
    assert (" instead of " in text) == (executors != before)
    assert ("$/h" in text) == (size.price is not None)


NEEDS = {"orders": 2, "clicks": 1}


@pytest.mark.parametrize(
    ("cost", "text"),
    [
        (
            ProgramCost("shops", ExecutorSize(2, price=0.12), NEEDS, now=4),
            "shops: its 2 queries need 3 executors of 2 cores, 0.36 $/h instead of 0.48 $/h (orders 2, clicks 1)",
        ),
        (
            ProgramCost("shops", ExecutorSize(2, price=0.12), NEEDS, now=2, held=True),
            "shops: its 2 queries meet their targets on the present 2 executors of 2 cores, 0.24 $/h"
            " (each by itself: orders 2, clicks 1)",
        ),
        (
            ProgramCost("shops", ExecutorSize(1), NEEDS, now=3, held=True),
            "shops: its 2 queries need 3 executors of 1 core (orders 2, clicks 1)",
        ),
        (
            ProgramCost("shops", ExecutorSize(1, price=0.12), {**NEEDS, "views": None}, now=3),
            "shops: the executors for its 3 queries are unknown, because there is no advice for views",
        ),
        (
            ProgramCost("shops", ExecutorSize(2, price=0.12), NEEDS, 2, 7200.0, 3, 3600.0, advise=False),
            "shops: its 2 queries used 2 executor-hours instead of 3 with 3 executors all the time:"
            " saved 33%, 0.12 $ of 0.36 $",
        ),
    ],
)
def test_the_cost_of_a_program_is_one_sentence(cost: ProgramCost, text: str) -> None:
    assert cost.words() == text
    assert cost.as_data()["summary"] == text


@given(
    st.dictionaries(st.sampled_from("abcd"), st.integers(1, 9), min_size=2),
    st.integers(1, 9),
    st.floats(1, 1e6),
    st.floats(0, 1),
    st.one_of(st.none(), st.floats(0, 9)),
)
def test_paid_and_saved_add_up_to_the_cost_of_the_most_executors(
    needed: dict[str, int], most: int, seconds: float, share: float, price: float | None
) -> None:
    size = ExecutorSize(2, price=price)
    told = ProgramCost("p", size, needed, most, share * most * seconds, most, seconds, advise=False).as_data()
    assert told["executors_needed"] == sum(needed.values())
    assert (told["price"] is None) == (told["saved"] is None) == (price is None)
    if price is not None:
        assert told["price"] + told["saved"] == pytest.approx(most * seconds / 3600 * price)
        assert told["price"] == pytest.approx(told["executor_hours"] * price)
